// The calls about what is sent to subscribers: events, their catalogue, webhooks and deliveries.

import type { CallOptions, Request } from "../call.js";
import { asked, at, Core, type CreateOptions, newKey } from "../core.js";
import type { Heartbeat, Lease, Moved, Page } from "../types.js";
import type {
  DeliveryLeaseQuery,
  DeliveryQuery,
  DeliveryView,
  EventType,
  EventTypeFields,
  LeasedDelivery,
  Nack,
  NewEvent,
  Operation,
  PageQuery,
  Period,
  PublishedEvent,
  PublishedQuery,
  Rotated,
  Tried,
  Webhook,
  WebhookChange,
  WebhookFields,
} from "./types.js";

/** What publishers, subscribers and pull consumers call. */
export class WebhookCalls extends Core {
  /**
   * `POST /events`: stored when it is answered, delivered from then on.
   *
   * It is repeated while the server is away, and published once: by its `dedup_key`, by your `idempotencyKey`, or else
   * by one that is made here.
   */
  async publish(event: NewEvent, options: CreateOptions = {}): Promise<PublishedEvent> {
    return event.dedup_key === undefined || options.idempotencyKey !== undefined
      ? this.create<PublishedEvent>("/events", event, options, this.asker)
      : this.post<PublishedEvent>("/events", event, true, options, this.asker);
  }

  /** `POST /events`, with up to 1,000: all or none. Repeated as {@link publish} is. */
  async publishMany(events: NewEvent[], options: CreateOptions = {}): Promise<PublishedEvent[]> {
    const unkeyed = events.every((event) => event.dedup_key === undefined);
    if (unkeyed || options.idempotencyKey !== undefined) {
      return (await this.create<{ data: PublishedEvent[] }>("/events", events, options, this.asker)).data;
    }
    // An array has dedup keys or one idempotency key. Where some events have a dedup key, the others get one that
    // nobody else has: else a repeat would publish those twice.
    const keyed = events.map((event) => ({ ...event, dedup_key: event.dedup_key ?? newKey() }));
    return (await this.post<{ data: PublishedEvent[] }>("/events", keyed, true, options, this.asker)).data;
  }

  /** `GET /events`: what was published, newest first. */
  async listEvents(query: PublishedQuery = {}, options?: CallOptions): Promise<Page<PublishedEvent>> {
    return this.read(`/events${asked(query)}`, options);
  }

  /** `GET /events/{id}` */
  async getEvent(id: string, options?: CallOptions): Promise<PublishedEvent> {
    return this.read(at("events", id), options);
  }

  /** `GET /events/{id}/deliveries`: where it went, and how that went. */
  async listEventDeliveries(
    id: string,
    query: PageQuery = {},
    options?: CallOptions,
  ): Promise<Page<DeliveryView>> {
    return this.read(at("events", id, "deliveries") + asked(query), options);
  }

  /** `GET /event-types` */
  async listEventTypes(query: PageQuery = {}, options?: CallOptions): Promise<Page<EventType>> {
    return this.read(`/event-types${asked(query)}`, options);
  }

  /** `POST /event-types`: registers a new one. */
  async createEventType(
    name: string,
    fields: EventTypeFields,
    options: CreateOptions = {},
  ): Promise<EventType> {
    return this.create("/event-types", { ...fields, name }, options);
  }

  /** `GET /event-types/{name}` */
  async getEventType(name: string, options?: CallOptions): Promise<EventType> {
    return this.read(at("event-types", name), options);
  }

  /** `PUT /event-types/{name}`: registers it, or puts this in the place of what was there. */
  async putEventType(name: string, fields: EventTypeFields, options?: CallOptions): Promise<EventType> {
    const path = at("event-types", name);
    return this.send({ method: "PUT", path, body: fields, repeatable: true }, options);
  }

  /** `DELETE /event-types/{name}`: events of it stay. */
  async deleteEventType(name: string, options?: CallOptions): Promise<void> {
    await this.send({ method: "DELETE", path: at("event-types", name), repeatable: false }, options);
  }

  /** `POST /webhooks`: the answer has the secret, once. */
  async createWebhook(webhook: WebhookFields, options: CreateOptions = {}): Promise<Webhook> {
    return this.create("/webhooks", webhook, options);
  }

  /** `GET /webhooks` */
  async listWebhooks(query: PageQuery = {}, options?: CallOptions): Promise<Page<Webhook>> {
    return this.read(`/webhooks${asked(query)}`, options);
  }

  /** `GET /webhooks/{id}` */
  async getWebhook(id: string, options?: CallOptions): Promise<Webhook> {
    return this.read(at("webhooks", id), options);
  }

  /** `PATCH /webhooks/{id}` */
  async updateWebhook(id: string, change: WebhookChange, options?: CallOptions): Promise<Webhook> {
    const path = at("webhooks", id);
    return this.send({ method: "PATCH", path, body: change, repeatable: false }, options);
  }

  /** `DELETE /webhooks/{id}` */
  async deleteWebhook(id: string, options?: CallOptions): Promise<void> {
    await this.send({ method: "DELETE", path: at("webhooks", id), repeatable: false }, options);
  }

  /** `POST /webhooks/{id}/test`: sends a sample of this type now, else a ping. */
  async testWebhook(id: string, type?: string, options?: CallOptions): Promise<Tried> {
    return this.post(at("webhooks", id, "test"), { type }, false, options);
  }

  /** `POST /webhooks/{id}/rotate`: a new secret, shown once; the old one signs too for `grace_s` (a day). */
  async rotateWebhook(
    id: string,
    rotation: { grace_s?: number } = {},
    options?: CallOptions,
  ): Promise<Rotated> {
    // Not repeated: a second rotation would be another.
    return this.post(at("webhooks", id, "rotate"), rotation, false, options);
  }

  /** `POST /webhooks/{id}/revoke-previous`: the old secret signs no more. */
  async revokePreviousSecret(id: string, options?: CallOptions): Promise<Moved> {
    return this.post(at("webhooks", id, "revoke-previous"), {}, false, options);
  }

  /** `POST /webhooks/{id}/pause`: events are kept until it is resumed, unless `keep` is false. */
  async pauseWebhook(id: string, keep = true, options?: CallOptions): Promise<Moved> {
    return this.post(at("webhooks", id, "pause"), { keep }, false, options);
  }

  /** `POST /webhooks/{id}/resume` */
  async resumeWebhook(id: string, options?: CallOptions): Promise<Moved> {
    return this.post(at("webhooks", id, "resume"), {}, false, options);
  }

  /** `POST /webhooks/{id}/enable` */
  async enableWebhook(id: string, options?: CallOptions): Promise<Moved> {
    return this.post(at("webhooks", id, "enable"), {}, false, options);
  }

  /** `POST /webhooks/{id}/disable`: what waits goes to the dead letters. */
  async disableWebhook(id: string, options?: CallOptions): Promise<Moved> {
    return this.post(at("webhooks", id, "disable"), {}, false, options);
  }

  /** `POST /webhooks/{id}/recover`: delivers again what failed in this time. */
  async recoverWebhook(
    id: string,
    period: Period,
    options: CreateOptions = {},
  ): Promise<{ operation_id: string }> {
    return this.create(at("webhooks", id, "recover"), period, options);
  }

  /** `POST /webhooks/{id}/backfill`: delivers events of this time that were never sent to it. */
  async backfillWebhook(
    id: string,
    period: Period,
    options: CreateOptions = {},
  ): Promise<{ operation_id: string }> {
    return this.create(at("webhooks", id, "backfill"), period, options);
  }

  /** `GET /operations/{id}`: how far bulk work is. */
  async getOperation(id: string, options?: CallOptions): Promise<Operation> {
    return this.read(at("operations", id), options);
  }

  /** `GET /webhooks/{id}/deliveries` */
  async listWebhookDeliveries(
    id: string,
    query: DeliveryQuery = {},
    options?: CallOptions,
  ): Promise<Page<DeliveryView>> {
    return this.read(at("webhooks", id, "deliveries") + asked(query), options);
  }

  /** `GET /webhooks/{id}/stats` */
  async webhookStats(id: string, options?: CallOptions): Promise<Record<string, unknown>> {
    return this.read(at("webhooks", id, "stats"), options);
  }

  /** `GET /deliveries/{id}`: with its tries. */
  async getDelivery(id: string, options?: CallOptions): Promise<DeliveryView> {
    return this.read(at("deliveries", id), options);
  }

  /** `POST /deliveries/{id}/replay`: delivers it once more, under the same `webhook-id`. */
  async replayDelivery(id: string, note?: string, options: CreateOptions = {}): Promise<unknown> {
    return this.create(at("deliveries", id, "replay"), { note }, options);
  }

  /** `POST /webhooks/{id}/deliveries/lease`: waits up to `wait_s` for something to deliver. */
  async leaseDeliveries(
    webhookId: string,
    query: DeliveryLeaseQuery,
    options?: CallOptions,
  ): Promise<LeasedDelivery[]> {
    const request: Request = {
      method: "POST",
      path: at("webhooks", webhookId, "deliveries", "lease"),
      body: query,
      // An answer that got lost has deliveries in it: they come back when their leases end.
      repeatable: false,
      waitMs: (query.wait_s ?? 0) * 1000,
    };
    return (await this.send<{ deliveries: LeasedDelivery[] }>(request, options)).deliveries;
  }

  /** `POST /deliveries/{id}/ack`: it was taken. */
  async ackDelivery(lease: Lease, options?: CallOptions): Promise<Moved> {
    const body = { lease_token: lease.lease_token };
    return this.post(at("deliveries", lease.id, "ack"), body, true, options);
  }

  /** `POST /deliveries/{id}/nack`: it was not, and is offered again by the webhook's own schedule. */
  async nackDelivery(lease: Lease, nack: Nack, options?: CallOptions): Promise<Moved> {
    const body = { ...nack, lease_token: lease.lease_token };
    return this.post(at("deliveries", lease.id, "nack"), body, true, options);
  }

  /** `POST /deliveries/{id}/heartbeat` */
  async heartbeatDelivery(
    lease: Lease,
    extension: { extend_s?: number } = {},
    options?: CallOptions,
  ): Promise<Heartbeat> {
    const body = { ...extension, lease_token: lease.lease_token };
    return this.post(at("deliveries", lease.id, "heartbeat"), body, true, options);
  }

  /** `POST /portal-links`: whoever has the link may use the portal, so it is as good as a key. */
  async createPortalLink(
    link: { tenant?: string; expires_s?: number } = {},
    options: CreateOptions = {},
  ): Promise<{ url: string }> {
    return this.create("/portal-links", link, options);
  }
}
