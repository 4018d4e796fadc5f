// What an agent can do with its job while it runs.

import type { Client } from "../client.js";
import { WakepostError } from "../errors.js";
import type { Envelope, LeasedJob, OnDoubt, Progress, Reply } from "../types.js";
import { type Act, Effects } from "./effects.js";
import type { Run } from "./run.js";

/** How an effect is described, and what becomes of it when nobody knows whether it happened. */
export interface EffectOptions {
  /** What it does, for people who approve it or decide about it. */
  description?: string;
  /** `hold` (the default): an operator decides. `execute`: do it again, the receiver knows the idempotency key. */
  onDoubt?: OnDoubt;
}

/** A leased job, and the calls about it. */
export class Job<Input = any> {
  readonly #client: Client;
  readonly #run: Run;
  readonly #effects: Effects;
  #replies = 0;
  #own: Client | undefined;

  /** The job as the server handed it over, under the API's own names. */
  readonly leased: LeasedJob<Input>;

  /** @internal */
  constructor(client: Client, leased: LeasedJob<Input>, run: Run) {
    this.#client = client;
    this.#run = run;
    this.#effects = new Effects(client, leased, run);
    this.leased = leased;
  }

  get id(): string {
    return this.leased.id;
  }

  /** This try's id. */
  get runId(): string {
    return this.leased.run_id;
  }

  /** Which try this is, from 1. */
  get attempt(): number {
    return this.leased.attempt;
  }

  get kind(): string {
    return this.leased.kind;
  }

  get tenant(): string {
    return this.leased.tenant;
  }

  /** The input, for a job made through the API. */
  get input(): Input {
    return this.leased.input;
  }

  /** The event, for a webhook's job. */
  get envelope(): Envelope | null {
    return this.leased.envelope;
  }

  /** All events that the job covers, in order. */
  get events(): Envelope[] {
    const { events, envelope } = this.leased;
    return events ?? (envelope === null ? [] : [envelope]);
  }

  /** What an earlier run saved; null if nothing. */
  get saved(): any {
    return this.leased.checkpoint ?? null;
  }

  /** The tick that made it, for a job of a schedule. */
  get scheduledFor(): string | null {
    return this.leased.scheduled_for ?? null;
  }

  /** Its place in the trace, to pass on. */
  get traceparent(): string {
    return this.leased.traceparent;
  }

  /** What to pass on, as the header `wakepost-chain`, with whatever leads to further work. */
  get chain(): string {
    return this.leased.chain;
  }

  /** A client for what the agent makes in the job's name: jobs that it creates know which job led to them. */
  get client(): Client {
    this.#own ??= this.#client.onBehalfOf(this.leased);
    return this.#own;
  }

  /** What the run has cost so far. Set it; heartbeats and the end of the run carry it. */
  get cost(): number | undefined {
    return this.#run.cost;
  }

  set cost(cost: number | undefined) {
    this.#run.cost = cost;
  }

  /**
   * Aborted when the run should stop: the job was cancelled, its lease is lost, or the worker stops. Pass it to what
   * you call, and let the error pass. The reason says why.
   */
  get signal(): AbortSignal {
    return this.#run.signal;
  }

  /**
   * Does an irreversible act once over all runs of the job, and returns what it returned, as JSON has it. The act
   * gets the idempotency key to pass on. If an earlier run did it, it is not called.
   *
   * An act that throws `NotDone` certainly did not happen. After any other error nobody knows: the effect is left in
   * doubt, and the next run is held or acts again, as `onDoubt` says.
   */
  effect<T>(key: string, act: Act<T>, options: EffectOptions = {}): Promise<T> {
    const { description, onDoubt } = options;
    return this.#effects.effect(
      {
        key,
        ...(description === undefined ? {} : { description }),
        ...(onDoubt === undefined ? {} : { on_doubt: onDoubt }),
      },
      act,
    );
  }

  /**
   * Saves the agent's own state, which the next run gets as `saved` if this one does not finish. A run that is to be
   * handed back ends here, with the state saved.
   */
  async checkpoint(state: unknown): Promise<void> {
    this.#run.checkLive();
    await this.#run.insist((options) => this.#client.checkpoint(this.leased, state, options));
    this.#run.check();
  }

  /** Tells how the work goes. A word that does not get through is dropped. */
  async progress(progress: string | Progress): Promise<void> {
    this.#run.check();
    const said = typeof progress === "string" ? { message: progress } : progress;
    try {
      await this.#run.insist((options) => this.#client.progress(this.leased, said, options));
    } catch (error) {
      const passing = error instanceof WakepostError && error.isTransient;
      if (!passing) throw error;
    }
  }

  /**
   * Says something on the thread of the job's event, before the job is done. The reply that it completes with takes
   * the message's place, unless `update` says that it stays.
   */
  async reply(reply: string | Reply): Promise<void> {
    this.#run.check();
    const said = typeof reply === "string" ? { text: reply } : reply;
    // An answer may get lost: the repeat is then known by its key.
    const idempotencyKey = `${this.runId}:${this.#replies++}`;
    await this.#run.insist((options) => {
      return this.#client.reply(this.leased, said, { ...options, idempotencyKey });
    });
  }
}
