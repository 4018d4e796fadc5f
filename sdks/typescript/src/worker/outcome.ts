// How a handler says what came of its run, and what each way of ending means for the server.

import { Cancelled, withCauses } from "../errors.js";
import type { Completion, Failure } from "../types.js";

/** The act of an effect certainly did not happen, so a later run may do it. */
export class NotDone extends Error {
  override name = "NotDone";
}

/** The run failed, and may be tried again after this many seconds. */
export class RetryAfter extends Error {
  override name = "RetryAfter";

  constructor(
    readonly seconds: number,
    message = "try again later",
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** The run failed for good: straight to the dead letters. */
export class GiveUp extends Error {
  override name = "GiveUp";
}

/** The run has ended on the server (held, or awaiting approval): let it pass, nothing is reported. */
export class RunEnded extends Error {
  override name = "RunEnded";
}

/** The worker stops and its grace is over: the job is handed back. */
export class WorkerStopped extends Error {
  override name = "WorkerStopped";

  constructor() {
    super("the worker stopped");
  }
}

/** An effect of this run may have happened, so it is not done a second time. */
export class EffectInDoubt extends Error {
  override name = "EffectInDoubt";
}

class Done {
  constructor(readonly completion: Completion) {}
}

/** What a handler returns to complete with a reply or a cost beside the result. */
export function done(completion: Completion): Done {
  return new Done(completion);
}

/** How a run went. */
export type Outcome = { complete: Completion } | { fail: Failure };

/** What a handler's return value means: a {@link done}, or the result itself. */
export function completed(value: unknown): Outcome {
  const completion = value instanceof Done ? value.completion : { result: value };
  try {
    JSON.stringify(completion);
  } catch (error) {
    return { fail: { error: `the result is not JSON: ${withCauses(error)}`, retryable: false } };
  }
  return { complete: completion };
}

/** What a handler's error means. Any that is none of ours may be retried. */
export function failed(error: unknown, stopped: boolean): { fail: Failure } {
  if (error instanceof GiveUp) return { fail: { error: withCauses(error), retryable: false } };
  if (error instanceof RetryAfter) {
    const seconds = Math.max(0, Math.ceil(error.seconds) || 0);
    return { fail: { error: withCauses(error), retryable: true, retry_after_s: seconds } };
  }
  if (stopped && !(error instanceof Cancelled)) {
    return { fail: { error: "the worker stopped", hand_back: true } };
  }
  return { fail: { error: withCauses(error) } };
}

/** An outcome that does not say what the run cost gets what the run said while it went on. */
export function withCost(outcome: Outcome, cost: number | undefined): Outcome {
  if (cost === undefined) return outcome;
  if ("fail" in outcome) return { fail: { cost, ...outcome.fail } };
  return { complete: { cost, ...outcome.complete } };
}
