// The loop: lease what fits, run it, and stop without losing anything.

import { Backoff, pause } from "../backoff.js";
import type { Client } from "../client.js";
import { WakepostError, withCauses } from "../errors.js";
import type { LeasedJob } from "../types.js";
import { type Attempt, begin, type Handler } from "./attempt.js";
import { onSignals } from "./signals.js";

/** How long handing jobs back may take. */
const HAND_BACK_MS = 5_000;
/** The longest grace: a day. */
const GRACE_S_MAX = 86_400;
/** At most this many jobs are asked for at once. */
const LEASE_MAX = 500;

/** How to work. */
export interface WorkerOptions {
  /** The worker's name, for people. */
  name: string;
  /** Only these kinds of job; else all. */
  kinds?: string[];
  /** Only from these sources; else all. */
  sources?: string[];
  /** How many jobs at once (1). */
  concurrency?: number;
  /** How long a lease lasts without a heartbeat (120; 1–3600). Heartbeats go out at a third of it. */
  leaseS?: number;
  /** How long one poll waits (5; 1–30). Stopping waits for the poll to end, so that no job is leased unseen. */
  waitS?: number;
  /** How long running jobs may still take when the worker stops, before they are handed back (20). */
  graceS?: number;
  /** Whether SIGTERM and SIGINT stop the worker (true). A second one ends the process at once. */
  signals?: boolean;
  /** Told what went wrong and is being dealt with; else it goes to standard error. */
  warn?: (text: string) => void;
}

/** Leases jobs, keeps their leases alive, runs them and reports how they went. */
export class Worker<Input = any> {
  readonly #client: Client;
  readonly #options: Required<WorkerOptions>;
  readonly #handler: Handler<Input>;
  readonly #stop = new AbortController();
  readonly #running = new Set<Attempt>();
  /** Rung when a run ends, or the worker is asked to stop. */
  #ring: () => void = () => {};
  #begun = false;

  constructor(client: Client, options: WorkerOptions, handler: Handler<Input>) {
    this.#client = client;
    this.#handler = handler;
    this.#options = {
      name: options.name,
      kinds: options.kinds ?? [],
      sources: options.sources ?? [],
      concurrency: within("concurrency", options.concurrency ?? 1, 1, 10_000),
      leaseS: within("leaseS", options.leaseS ?? 120, 1, 3600),
      waitS: within("waitS", options.waitS ?? 5, 1, 30),
      graceS: grace(options.graceS ?? 20),
      signals: options.signals ?? true,
      warn: options.warn ?? ((text) => console.warn(`wakepost: ${text}`)),
    };
  }

  /**
   * Works until it is stopped, then lets running jobs end within the grace period and hands back the rest. Waits
   * out a server that is away; rejects only when the server refuses the worker as such.
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

  /** Asks the worker to stop; `run()` resolves when it has. */
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
        const jobs = await this.#lease(free);
        for (const job of jobs) this.#begin(job);
        if (jobs.length > 0) backoff = new Backoff();
        // A server that does not wait must not be asked in a tight loop.
        else if (performance.now() - asked < waitS * 500) await pause(backoff.nextMs(), signal);
      } catch (error) {
        if (!(error instanceof WakepostError && error.isTransient)) throw error;
        warn(`no jobs can be leased now: ${withCauses(error)}`);
        await pause(backoff.nextMs(error.problem?.retryAfterS), signal);
      }
    }
  }

  /** Asks for jobs. A stop does not cut the poll short: jobs leased in it would be nobody's until they expire. */
  #lease(free: number): Promise<LeasedJob<Input>[]> {
    const { name, kinds, sources, leaseS, waitS } = this.#options;
    return this.#client.lease<Input>({
      worker: name,
      max: Math.min(free, LEASE_MAX),
      wait_s: waitS,
      lease_s: leaseS,
      ...(kinds.length > 0 ? { kinds } : {}),
      ...(sources.length > 0 ? { sources } : {}),
    });
  }

  #begin(job: LeasedJob<Input>): void {
    const { leaseS, warn } = this.#options;
    const attempt = begin(this.#client, job, leaseS, this.#handler, warn);
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
      // Not handed back: another worker would run it beside a handler that still works.
      this.#options.warn("a handler does not heed its signal: its job's lease is left to run out");
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
