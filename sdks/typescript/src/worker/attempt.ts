// One run of one job: the handler, its lease, and the report.

import type { Client } from "../client.js";
import { WakepostError, withCauses } from "../errors.js";
import type { LeasedJob } from "../types.js";
import { Job } from "./job.js";
import { type Beat, keep } from "./keep.js";
import { completed, failed, type Outcome, withCost } from "./outcome.js";
import { Run } from "./run.js";

/** Does one job. What it returns is the result, or a `done(…)`. */
export type Handler<Input = any> = (job: Job<Input>) => unknown;

/** A run under way. */
export interface Attempt {
  run: Run;
  /** Settled when the handler has ended and its outcome is recorded, or can no longer be. It never rejects. */
  ended: Promise<void>;
}

/** Begins to run a job. */
export function begin<Input>(
  client: Client,
  leased: LeasedJob<Input>,
  leaseS: number,
  handler: Handler<Input>,
  warn: (text: string) => void,
): Attempt {
  return kept(
    leased.id,
    leaseS,
    (run, options) => {
      const cost = run.cost === undefined ? {} : { cost: run.cost };
      return client.heartbeat(leased, { extend_s: leaseS, ...cost }, options);
    },
    (run) => work(client, leased, run, handler, warn),
    warn,
  );
}

/** Begins work on what was leased, and keeps the lease alive until it has ended. The work never rejects. */
export function kept(
  id: string,
  leaseS: number,
  beat: Beat,
  work: (run: Run) => Promise<void>,
  warn: (text: string) => void,
): Attempt {
  const run = new Run(Number.POSITIVE_INFINITY);
  const done = new AbortController();
  void keep(id, leaseS, run, beat, done.signal, warn);
  const ended = work(run).finally(() => done.abort());
  return { run, ended };
}

/** Heartbeats go on until the report is in, or it could come too late. */
async function work<Input>(
  client: Client,
  leased: LeasedJob<Input>,
  run: Run,
  handler: Handler<Input>,
  warn: (text: string) => void,
): Promise<void> {
  const outcome = await outcomeOf(new Job(client, leased, run), handler, run);
  if (run.lost.aborted) warn(`the lease of ${leased.id} is lost: the run is dropped`);
  if (run.isOver) return;
  try {
    await report(client, leased, run, withCost(outcome, run.cost));
  } catch (error) {
    warn(`the outcome of ${leased.id} was not recorded: ${withCauses(error)}`);
  }
}

async function outcomeOf<Input>(job: Job<Input>, handler: Handler<Input>, run: Run): Promise<Outcome> {
  try {
    return completed(await handler(job));
  } catch (error) {
    return failed(error, run.isStopped);
  }
}

/** Tells the server, again and again if need be: a repeat of the same report changes nothing. */
export async function report(
  client: Client,
  leased: LeasedJob,
  run: Run,
  outcome: Outcome,
): Promise<void> {
  await run.insist(async (options) => {
    if ("fail" in outcome) return client.fail(leased, outcome.fail, options);
    try {
      return await client.complete(leased, outcome.complete, options);
    } catch (error) {
      // The same result would be refused again: too large, or not allowed.
      const unacceptable = error instanceof WakepostError && [400, 413, 422].includes(error.status);
      if (!unacceptable) throw error;
      const why = `the result was refused: ${error.message}`;
      return client.fail(leased, { error: why, retryable: false }, options);
    }
  });
}
