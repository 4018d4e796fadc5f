// A consumer of a pull webhook: it fetches deliveries, hands them over, and says whether they were taken.

import { hostname } from "node:os";

import type { Client } from "../client.js";
import { withCauses } from "../errors.js";
import { type Attempt, kept } from "../worker/attempt.js";
import { Loop, type LoopOptions, settled } from "../worker/loop.js";
import { failed } from "../worker/outcome.js";
import type { Run } from "../worker/run.js";
import type { EventEnvelope, LeasedDelivery, Nack } from "./types.js";

/** How to consume. A lease lasts 60 s and a poll 20 s, unless told otherwise. */
export interface ConsumerOptions extends LoopOptions {
  /** The pull webhook's id. */
  webhookId: string;
  /** Who asks, for people; else the host's name. */
  name?: string;
}

/** Takes one delivery. When it returns, the delivery was taken. */
export type DeliveryHandler = (delivery: Delivery) => unknown;

/** A delivery, with the headers and the body that a push would have had. */
export class Delivery {
  readonly #run: Run;
  #event: EventEnvelope | undefined;

  /** The delivery as the server handed it over, under the API's own names. */
  readonly leased: LeasedDelivery;

  /** @internal */
  constructor(leased: LeasedDelivery, run: Run) {
    this.leased = leased;
    this.#run = run;
  }

  get id(): string {
    return this.leased.id;
  }

  /** Which try this is, from 1. */
  get attempt(): number {
    return this.leased.attempt;
  }

  get headers(): Record<string, string> {
    return this.leased.headers;
  }

  /** What was signed: `verify(delivery.headers, delivery.body, secret)` checks it. */
  get body(): string {
    const { body } = this.leased;
    return typeof body === "string" ? body : JSON.stringify(body);
  }

  /** The event's id, the same over all tries and replays: remember it to know a repeat. */
  get eventId(): string | undefined {
    return Object.entries(this.headers).find(([name]) => name.toLowerCase() === "webhook-id")?.[1];
  }

  /** The event. */
  get event(): EventEnvelope {
    this.#event ??= JSON.parse(this.body) as EventEnvelope;
    return this.#event;
  }

  /** Aborted when the handler should stop: the lease is lost, or the consumer's grace is over. */
  get signal(): AbortSignal {
    return this.#run.signal;
  }
}

/**
 * Fetches the deliveries of a pull webhook and hands each to a handler.
 *
 * A handler that returns has taken it. `RetryAfter` or any other error: it is offered again, by the webhook's own
 * schedule. `GiveUp`: it is a dead letter. A delivery may come more than once.
 */
export class Consumer {
  readonly #loop: Loop<LeasedDelivery>;

  constructor(client: Client, options: ConsumerOptions, handler: DeliveryHandler) {
    const { webhookId, name = hostname() || "consumer" } = options;
    const settings = settled(options, { leaseS: 60, waitS: 20 });
    const { leaseS, waitS, warn } = settings;
    this.#loop = new Loop<LeasedDelivery>(settings, {
      lease: (max) => {
        return client.leaseDeliveries(webhookId, { worker: name, max, wait_s: waitS, lease_s: leaseS });
      },
      begin: (leased) => begin(client, leased, leaseS, handler, warn),
    });
  }

  /**
   * Consumes until it is stopped, then lets handlers end within the grace period and hands back the rest. Waits out a
   * server that is away; rejects only when the server refuses the consumer as such.
   */
  run(): Promise<void> {
    return this.#loop.run();
  }

  /** Asks the consumer to stop; `run()` resolves when it has. */
  stop(): void {
    this.#loop.stop();
  }
}

function begin(
  client: Client,
  leased: LeasedDelivery,
  leaseS: number,
  handler: DeliveryHandler,
  warn: (text: string) => void,
): Attempt {
  return kept(
    leased.id,
    leaseS,
    (_run, options) => client.heartbeatDelivery(leased, { extend_s: leaseS }, options),
    (run) => hand(client, leased, run, handler, warn),
    warn,
  );
}

async function hand(
  client: Client,
  leased: LeasedDelivery,
  run: Run,
  handler: DeliveryHandler,
  warn: (text: string) => void,
): Promise<void> {
  const refused = await offer(new Delivery(leased, run), run, handler);
  if (run.lost.aborted) warn(`the lease of ${leased.id} is lost: nothing is said about it`);
  if (run.isOver) return;
  try {
    await run.insist((options) => {
      if (refused === undefined) return client.ackDelivery(leased, options);
      return client.nackDelivery(leased, refused, options);
    });
  } catch (error) {
    warn(`the outcome of ${leased.id} was not recorded: ${withCauses(error)}`);
  }
}

/** Why the handler did not take it; undefined: it did. */
async function offer(delivery: Delivery, run: Run, handler: DeliveryHandler): Promise<Nack | undefined> {
  try {
    await handler(delivery);
    return undefined;
  } catch (error) {
    return failed(error, run.isStopped).fail;
  }
}
