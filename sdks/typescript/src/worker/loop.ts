// The loop: lease what fits, run it, and stop without losing anything. What is leased, others say.

import { Backoff, pause } from "../backoff.js";
import { WakepostError, withCauses } from "../errors.js";
import type { Attempt } from "./attempt.js";
import { onSignals } from "./signals.js";

/** How long handing back may take. */
const HAND_BACK_MS = 5_000;
/** The longest grace: a day. */
const GRACE_S_MAX = 86_400;
/** At most this much is asked for at once. */
const LEASE_MAX = 500;

/** How to go about it. */
export interface LoopOptions {
  /** How many at once (1). */
  concurrency?: number;
  /** How long a lease lasts without a heartbeat (1–3600). Heartbeats go out at a third of it. */
  leaseS?: number;
  /** How long one poll waits (1–30). Stopping waits for the poll to end, so that nothing is leased unseen. */
  waitS?: number;
  /** How long what runs may still take when it is stopped, before it is handed back (20). */
  graceS?: number;
  /** Whether SIGTERM and SIGINT stop it (true). A second one ends the process at once. */
  signals?: boolean;
  /** Told what went wrong and is being dealt with; else it goes to standard error. */
  warn?: (text: string) => void;
}

/** The options with what was left out, and nothing that makes no sense. */
export function settled(
  options: LoopOptions,
  usual: { leaseS: number; waitS: number },
): Required<LoopOptions> {
  return {
    concurrency: within("concurrency", options.concurrency ?? 1, 1, 10_000),
    leaseS: within("leaseS", options.leaseS ?? usual.leaseS, 1, 3600),
    waitS: within("waitS", options.waitS ?? usual.waitS, 1, 30),
    graceS: grace(options.graceS ?? 20),
    signals: options.signals ?? true,
    warn: options.warn ?? ((text) => console.warn(`wakepost: ${text}`)),
  };
}

/** What is leased, and how it is run. */
export interface Work<Leased> {
  lease(max: number): Promise<Leased[]>;
  begin(leased: Leased): Attempt;
}

/** Leases, keeps places filled, and drains. */
export class Loop<Leased> {
  readonly #options: Required<LoopOptions>;
  readonly #work: Work<Leased>;
  readonly #stop = new AbortController();
  readonly #running = new Set<Attempt>();
  /** Rung when a run ends, or a stop is asked for. */
  #ring: () => void = () => {};
  #begun = false;

  constructor(options: Required<LoopOptions>, work: Work<Leased>) {
    this.#options = options;
    this.#work = work;
  }

  /**
   * Works until it is stopped, then lets what runs end within the grace period and hands back the rest. Waits out a
   * server that is away; rejects only when the server refuses the asker as such.
   */
  async run(): Promise<void> {
    if (this.#begun) throw new Error("a worker runs once: make another");
    this.#begun = true;
    const ignore = this.#options.signals ? onSignals(() => this.stop()) : () => {};
    try {
      await this.#loop();
    } finally {
      await this.#drain();
      ignore();
    }
  }

  /** Asks it to stop; `run()` resolves when it has. */
  stop(): void {
    this.#stop.abort();
    this.#ring();
  }

  async #loop(): Promise<void> {
    const { signal } = this.#stop;
    const { concurrency, waitS, warn } = this.#options;
    let backoff = new Backoff();
    while (!signal.aborted) {
      const free = concurrency - this.#running.size;
      if (free <= 0) {
        await this.#change();
        continue;
      }
      const asked = performance.now();
      try {
        // A stop does not cut the poll short: what was leased in it would be nobody's until it expires.
        const leased = await this.#work.lease(Math.min(free, LEASE_MAX));
        for (const one of leased) this.#begin(one);
        if (leased.length > 0) backoff = new Backoff();
        // A server that does not wait must not be asked in a tight loop.
        else if (performance.now() - asked < waitS * 500) await pause(backoff.nextMs(), signal);
      } catch (error) {
        if (!(error instanceof WakepostError && error.isTransient)) throw error;
        warn(`nothing can be leased now: ${withCauses(error)}`);
        await pause(backoff.nextMs(error.problem?.retryAfterS), signal);
      }
    }
  }

  #begin(leased: Leased): void {
    const attempt = this.#work.begin(leased);
    this.#running.add(attempt);
    // A slot is free when its handler has ended, also after its lease was lost: handlers are what is bounded.
    void attempt.ended.then(() => {
      this.#running.delete(attempt);
      this.#ring();
    });
  }

  /** Waits until a run ends or a stop is asked for. A fresh promise each time, so that none gathers listeners. */
  #change(): Promise<void> {
    return new Promise((resolve) => {
      this.#ring = resolve;
    });
  }

  async #drain(): Promise<void> {
    await this.#ended(this.#options.graceS * 1000);
    for (const attempt of this.#running) attempt.run.stop();
    await this.#ended(HAND_BACK_MS);
    for (const attempt of this.#running) {
      // Not handed back: another would run it beside a handler that still works.
      this.#options.warn("a handler does not heed its signal: its lease is left to run out");
      attempt.run.lose();
    }
  }

  /** Waits until all runs have ended, but not for longer than this. */
  async #ended(ms: number): Promise<void> {
    const late = new AbortController();
    const timer = setTimeout(() => {
      late.abort();
      this.#ring();
    }, ms);
    while (this.#running.size > 0 && !late.signal.aborted) await this.#change();
    clearTimeout(timer);
  }
}

function grace(seconds: number): number {
  if (seconds >= 0 && seconds <= GRACE_S_MAX) return seconds;
  throw new TypeError(`graceS must be from 0 to ${GRACE_S_MAX}`);
}

function within(name: string, value: number, min: number, max: number): number {
  if (Number.isInteger(value) && value >= min && value <= max) return value;
  throw new TypeError(`${name} must be a whole number from ${min} to ${max}`);
}
