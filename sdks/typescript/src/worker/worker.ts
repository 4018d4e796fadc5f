// A worker: it leases jobs, keeps their leases alive, runs them and reports how they went.

import type { Client } from "../client.js";
import type { LeasedJob } from "../types.js";
import { begin, type Handler } from "./attempt.js";
import { Loop, type LoopOptions, settled } from "./loop.js";

/** How to work. A lease lasts 120 s and a poll 5 s, unless told otherwise. */
export interface WorkerOptions extends LoopOptions {
  /** The worker's name, for people. */
  name: string;
  /** Only these kinds of job; else all. */
  kinds?: string[];
  /** Only from these sources; else all. */
  sources?: string[];
}

/** Leases jobs, keeps their leases alive, runs them and reports how they went. */
export class Worker<Input = any> {
  readonly #loop: Loop<LeasedJob<Input>>;

  constructor(client: Client, options: WorkerOptions, handler: Handler<Input>) {
    const { name, kinds = [], sources = [] } = options;
    const settings = settled(options, { leaseS: 120, waitS: 5 });
    const { leaseS, waitS, warn } = settings;
    this.#loop = new Loop<LeasedJob<Input>>(settings, {
      lease: (max) => {
        return client.lease<Input>({
          worker: name,
          max,
          wait_s: waitS,
          lease_s: leaseS,
          ...(kinds.length > 0 ? { kinds } : {}),
          ...(sources.length > 0 ? { sources } : {}),
        });
      },
      begin: (job) => begin(client, job, leaseS, handler, warn),
    });
  }

  /**
   * Works until it is stopped, then lets running jobs end within the grace period and hands back the rest. Waits
   * out a server that is away; rejects only when the server refuses the worker as such.
   */
  run(): Promise<void> {
    return this.#loop.run();
  }

  /** Asks the worker to stop; `run()` resolves when it has. */
  stop(): void {
    this.#loop.stop();
  }
}
