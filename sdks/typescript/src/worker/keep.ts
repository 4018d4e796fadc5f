// Keeping a lease alive while its run lasts.

import { Backoff, pause } from "../backoff.js";
import type { CallOptions } from "../call.js";
import { WakepostError, withCauses } from "../errors.js";
import type { Heartbeat } from "../types.js";
import type { Run } from "./run.js";

/** The shortest time that a heartbeat is given, however short the lease. */
const BEAT_MS_MIN = 200;

/** One heartbeat of a run. */
export type Beat = (run: Run, options: CallOptions) => Promise<Heartbeat>;

/**
 * Sends a heartbeat at every third of the lease until `done`. The run is told when someone asks for it to stop, and
 * when its lease is lost: the server says so, or no heartbeat got through for as long as a lease lasts.
 */
export async function keep(
  id: string,
  leaseS: number,
  run: Run,
  beat: Beat,
  done: AbortSignal,
  warn: (text: string) => void,
): Promise<void> {
  const leaseMs = leaseS * 1000;
  let goodUntil = performance.now() + leaseMs;
  let backoff = new Backoff();
  let waitMs = leaseMs / 3;
  for (;;) {
    await pause(waitMs, done);
    if (done.aborted || run.isOver) return;
    const sent = performance.now();
    const left = goodUntil - sent;
    if (left <= 0) return run.lose();
    // One that hangs is given up while there is time for another.
    const timeoutMs = Math.min(left, Math.max(leaseMs / 3, BEAT_MS_MIN));
    try {
      const options = { signal: done, timeoutMs, retries: 0 };
      const beaten = await beat(run, options);
      // From when it was sent: the server counts from no earlier than that.
      goodUntil = sent + leaseMs;
      backoff = new Backoff();
      waitMs = leaseMs / 3;
      if (beaten.cancel_requested) run.cancel();
    } catch (error) {
      if (done.aborted) return;
      if (error instanceof WakepostError && [404, 409].includes(error.status)) return run.lose();
      warn(`a heartbeat of ${id} did not get through: ${withCauses(error)}`);
      // Soon: of a short lease, one that hung has used up a third.
      waitMs = Math.min(backoff.nextMs(), leaseMs / 12);
      if (performance.now() + waitMs >= goodUntil) waitMs = Math.max(goodUntil - performance.now(), 0);
    }
  }
}
