// An agent that Wakepost posts its jobs to.

import { readBounded } from "./call.js";
import type { Client } from "./client.js";
import type { LeasedJob } from "./types.js";
import { type HeadersLike, SignatureError, verify, type VerifyOptions } from "./verify.js";
import { Job } from "./worker/job.js";
import { Run } from "./worker/run.js";

/** The largest job that is read. */
const JOB_BYTES_MAX = 64 * 1024 * 1024;
/** How often a call that must be answered is repeated: some minutes, if nobody answers. */
const RETRIES = 15;

/** A job as it was posted: a `Request` of fetch, or headers and the body's exact bytes. */
export type Posted = Request | { headers: HeadersLike; body: string | Uint8Array };

/** Who may post jobs, and who is told about them. */
export interface PushOptions extends VerifyOptions {
  /** The `executor_secret`, shown where the URL was registered; while it is rotated, the old and the new. */
  secrets: string | readonly string[];
  /** For what the agent says while it works: a client with a worker key. */
  client: Client;
}

/**
 * Checks that Wakepost posted a job, and returns it. Answer 2xx with `{result, reply, cost}` as JSON to complete it;
 * 503 to have it tried again; 422 to give it up. Wakepost keeps the lease alive while it waits for the answer.
 *
 * @throws {SignatureError} if Wakepost did not, or not now: answer 401.
 */
export async function verifyJob<Input = any>(posted: Posted, options: PushOptions): Promise<Job<Input>> {
  const whole = posted instanceof Request;
  const body = whole ? await readBounded(posted, JOB_BYTES_MAX) : posted.body;
  const { id } = verify(posted.headers, body, options.secrets, options);
  const text = typeof body === "string" ? body : Buffer.from(body).toString();
  const leased = JSON.parse(text) as LeasedJob<Input>;
  // The signature is over the id, so one that differs was put together from two requests.
  if (leased.id !== id) throw new SignatureError("the signed id is not the job's");
  const run = new Run(RETRIES);
  // Wakepost hangs up when the job should stop.
  if (whole) posted.signal.addEventListener("abort", () => run.cancel());
  return new Job(options.client, leased, run);
}
