// An irreversible act, done once: begin, act, commit, as one call.

import type { Client } from "../client.js";
import { WakepostError, withCauses } from "../errors.js";
import type { Lease, NewEffect } from "../types.js";
import { EffectInDoubt, NotDone, RunEnded } from "./outcome.js";
import type { Run } from "./run.js";

/** Does the act, passing on the idempotency key. */
export type Act<T> = (idempotencyKey: string) => T | Promise<T>;

/** The effects of one run. */
export class Effects {
  readonly #client: Client;
  readonly #lease: Lease;
  readonly #run: Run;
  /** Acts under way: to the server, a second begin in the same run is a repeat of the first. */
  readonly #acting = new Map<string, Promise<unknown>>();
  /** Acts of this run that may have happened, and of which the server was not told. */
  readonly #inDoubt = new Set<string>();

  constructor(client: Client, lease: Lease, run: Run) {
    this.#client = client;
    this.#lease = lease;
    this.#run = run;
  }

  /** Does an act, or joins the one of the same key that is under way. */
  effect<T>(effect: NewEffect, act: Act<T>): Promise<T> {
    const before = this.#acting.get(effect.key);
    if (before !== undefined) return before as Promise<T>;
    const acting = this.#once(effect, act).finally(() => this.#acting.delete(effect.key));
    this.#acting.set(effect.key, acting);
    return acting;
  }

  async #once<T>(effect: NewEffect, act: Act<T>): Promise<T> {
    const { key } = effect;
    this.#run.check();
    if (this.#inDoubt.has(key) && effect.on_doubt !== "execute") {
      // The server would say "execute" again, as it must to a repeat of a begin whose answer got lost.
      throw new EffectInDoubt(`effect ${key} may have happened in this run: it is not done again`);
    }
    const begun = await this.#run.insist((options) => {
      return this.#client.beginEffect(this.#lease, effect, options);
    });
    switch (begun.decision) {
      case "skip":
        return (begun.result ?? null) as T;
      case "execute":
        // The answer may have come after the lease was given up. Nothing else is asked: an act that was allowed and
        // not done would be in doubt for nothing.
        this.#run.lost.throwIfAborted();
        return this.#act(key, begun.idempotency_key, act);
      default:
        return this.#end(key, begun.decision);
    }
  }

  async #act<T>(key: string, idempotencyKey: string, act: Act<T>): Promise<T> {
    // Noted before anything happens, so that however this ends, it is not done again unless the server was told.
    this.#inDoubt.add(key);
    let result: string;
    try {
      result = asJson(await act(idempotencyKey));
    } catch (error) {
      if (!(error instanceof NotDone)) throw error;
      const why = withCauses(error);
      await this.#run.insist((options) => this.#client.abortEffect(this.#lease, key, why, options));
      this.#inDoubt.delete(key);
      throw error;
    }
    await this.#commit(key, result);
    return JSON.parse(result) as T;
  }

  /** It happened, so it is committed even if its result cannot be kept. */
  async #commit(key: string, result: string): Promise<void> {
    const commit = (kept: unknown) => {
      return this.#run.insist((options) => this.#client.commitEffect(this.#lease, key, kept, options));
    };
    try {
      await commit(JSON.parse(result));
    } catch (error) {
      if (!(error instanceof WakepostError && [400, 413, 422].includes(error.status))) throw error;
      await commit(null);
    }
    this.#inDoubt.delete(key);
  }

  /** The server released the lease, and counts no attempt. */
  #end(key: string, decision: "in_doubt" | "needs_approval"): never {
    const why = decision === "in_doubt" ? "is in doubt: the job is held" : "needs approval first";
    const ended = new RunEnded(`effect ${key} ${why}`);
    this.#run.end(ended);
    throw ended;
  }
}

/** What a later run will get, so that this one gets the same. */
function asJson(value: unknown): string {
  try {
    return JSON.stringify(value) ?? "null";
  } catch {
    return "null";
  }
}
