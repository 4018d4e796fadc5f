// An agent that Wakepost runs as a command, once per job.

import { Client } from "./client.js";
import { Cancelled, withCauses } from "./errors.js";
import type { LeasedJob } from "./types.js";
import { type Handler, report } from "./worker/attempt.js";
import { Job } from "./worker/job.js";
import { completed, failed, type Outcome, withCost } from "./worker/outcome.js";
import { Run } from "./worker/run.js";

/** The largest job that is read. */
const JOB_BYTES_MAX = 64 * 1024 * 1024;
/** How often a call that must be answered is repeated: some minutes, if nobody answers. */
const RETRIES = 15;
/** What the exit code says, by sysexits.h: try again later (EX_TEMPFAIL), or give it up (EX_SOFTWARE). */
const EXIT_RETRY = 75;
const EXIT_GIVE_UP = 70;

/**
 * Runs the job on standard input with this handler, says how it went, and ends the process. Wakepost keeps the lease
 * alive meanwhile, and sends SIGTERM when the job should stop.
 *
 * Standard output is the answer's, so `console.log` goes to standard error, where each line becomes progress.
 */
export async function execJob<Input = any>(handler: Handler<Input>): Promise<never> {
  console.log = console.info = console.debug = console.error;
  const leased = JSON.parse(await readAll(process.stdin)) as LeasedJob<Input>;
  leased.lease_token = process.env["WAKEPOST_LEASE_TOKEN"] || leased.lease_token;
  const client = new Client();
  const run = new Run(RETRIES);
  // A handler that waits for its signal alone leaves Node nothing to wait for: it would end the process.
  setInterval(() => {}, 60_000);
  process.on("SIGTERM", () => run.cancel(new Cancelled("the command was asked to stop")));
  const outcome = withCost(await outcomeOf(new Job(client, leased, run), handler), run.cost);
  process.exit(run.isOver ? 0 : await tell(client, leased, run, outcome));
}

async function outcomeOf<Input>(job: Job<Input>, handler: Handler<Input>): Promise<Outcome> {
  try {
    return completed(await handler(job));
  } catch (error) {
    return failed(error, false);
  }
}

/**
 * Says how it went, and returns the exit code. A result goes the command's own way. An exit code alone would lose a
 * failure's text and its wait, so these go through the API first.
 */
async function tell(client: Client, leased: LeasedJob, run: Run, outcome: Outcome): Promise<number> {
  if ("complete" in outcome) {
    await write(JSON.stringify(outcome.complete));
    return 0;
  }
  try {
    await report(client, leased, run, outcome);
  } catch (error) {
    console.error(`${outcome.fail.error} (and it could not be reported: ${withCauses(error)})`);
  }
  return outcome.fail.retryable === false ? EXIT_GIVE_UP : EXIT_RETRY;
}

/** All of standard output is out before the process ends. */
function write(text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(text, (error) => (error ? reject(error) : resolve()));
  });
}

async function readAll(from: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of from) {
    length += chunk.byteLength;
    if (length > JOB_BYTES_MAX) throw new Error(`the job is longer than ${JOB_BYTES_MAX} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}
