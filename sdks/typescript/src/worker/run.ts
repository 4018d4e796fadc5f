// One run of a job as its own calls see it: whether it may go on, and why not.

import { setMaxListeners } from "node:events";

import type { CallOptions } from "../call.js";
import { Cancelled, LeaseLost } from "../errors.js";
import { WorkerStopped } from "./outcome.js";

/**
 * What a run knows of itself. A handler cannot be stopped from outside, so it is told by its signal, and every
 * further call about its job is refused.
 */
export class Run {
  readonly #told = new AbortController();
  readonly #lost = new AbortController();
  #stopped = false;
  #ended = false;
  /** What it has cost so far, which heartbeats and its end carry. */
  cost: number | undefined;

  /** @param retries how often a call that must be answered is repeated; the lease's end bounds it in any case. */
  constructor(readonly retries: number) {
    setMaxListeners(0, this.#told.signal, this.#lost.signal);
  }

  /** Aborted when the handler should stop; the reason says why. */
  get signal(): AbortSignal {
    return this.#told.signal;
  }

  /** Aborted when the lease is gone. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  /** Whether the job is no longer this run's, so that there is nothing to report. */
  get isOver(): boolean {
    return this.#ended || this.#lost.signal.aborted;
  }

  /** Whether the worker wants the job back. */
  get isStopped(): boolean {
    return this.#stopped;
  }

  /** Someone asked for the job to stop. */
  cancel(reason = new Cancelled()): void {
    this.#told.abort(reason);
  }

  /** The lease is gone. */
  lose(reason = new LeaseLost()): void {
    this.#lost.abort(reason);
    this.#told.abort(reason);
  }

  /** The worker's grace is over. What an effect did meanwhile can still be committed. */
  stop(): void {
    this.#stopped = true;
    this.#told.abort(new WorkerStopped());
  }

  /** The server ended the run: the job is held, or awaits approval. */
  end(reason: Error): void {
    this.#ended = true;
    this.#told.abort(reason);
  }

  /** Refuses a call once the job is no longer this run's. */
  checkLive(): void {
    this.#lost.signal.throwIfAborted();
    if (this.#ended) throw this.#told.signal.reason;
  }

  /** Refuses a call that would begin something, once the run should be over. */
  check(): void {
    this.checkLive();
    if (this.#stopped) throw this.#told.signal.reason;
  }

  /** Makes a call and insists on an answer. What a refusal says about the lease is heeded. */
  async insist<T>(call: (options: CallOptions) => Promise<T>): Promise<T> {
    try {
      return await call({ signal: this.#lost.signal, retries: this.retries });
    } catch (error) {
      if (error instanceof LeaseLost) this.lose(error);
      if (error instanceof Cancelled) this.cancel(error);
      throw error;
    }
  }
}
