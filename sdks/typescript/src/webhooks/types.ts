// What goes over the wire about events, webhooks and deliveries, under the API's own names.

import type { Lease, Status } from "../types.js";

/** An event to publish: `type` and `data` are needed. */
export interface NewEvent {
  /** What happened: lower-case words joined by dots, such as `order.created`. */
  type: string;
  /** What it happened to. Subscribers get it as `data.object`. */
  data: unknown;
  /** In which version of the type's schema `data` is written. */
  api_version?: string;
  /** What changed, as it was before. */
  previous_attributes?: Record<string, unknown>;
  /** False: a rehearsal. */
  livemode?: boolean;
  /** A repeat within 30 days gets the first event. */
  dedup_key?: string;
  /** Events that share it arrive in order, at webhooks that want order. */
  order_key?: string;
  /** Not delivered before this time. */
  deliver_at?: string;
}

/** An event that was published. */
export interface PublishedEvent {
  /** Its id, which is also the `webhook-id` of every delivery of it. */
  id: string;
  type: string;
  /** Of a new one `accepted` or `duplicate`; later where its deliveries stand, all in all. */
  status: string;
  created_at?: string;
  /** When its delivery begins, if that is later. */
  deliver_at?: string | null;
  dedup_key?: string | null;
  /** How many repeats there were. */
  duplicates?: number;
  /** The job whose agent published it. */
  parent_id?: string | null;
  /** The version at its creation, which stays; like all that follows only in a single event. */
  api_version?: string | null;
  livemode?: boolean;
  /** What it happened to, as it was published. */
  data?: unknown;
  /** What subscribers get. */
  envelope?: EventEnvelope;
}

/** An event as subscribers get it. */
export interface EventEnvelope {
  id: string;
  type: string;
  api_version?: string | null;
  created_at: string;
  /** False: a rehearsal. */
  livemode: boolean;
  data: {
    /** What it happened to. */
    object?: unknown;
    previous_attributes?: Record<string, unknown>;
    /** It is too large to be sent: the whole event is at `url`. */
    truncated?: boolean;
    url?: string;
  };
}

/** Which published events to list. */
export interface PublishedQuery extends PageQuery {
  /** One type, or a beginning such as `order.*`. */
  type?: string;
  dedup_key?: string;
  /** Published at or after this time. */
  since?: string;
  /** Published before this time. */
  until?: string;
}

/** Which page of a list that has no filters. */
export interface PageQuery {
  limit?: number;
  cursor?: string;
}

/** What a type of event looks like in one version. */
export interface EventTypeVersion {
  /** A JSON Schema of `data`; publishing is checked against it. */
  schema?: unknown;
  /** An example of `data`. */
  example?: unknown;
  /** What changed since the version before. */
  change?: string | null;
}

/** What a type of event is to be: all of it, since it replaces what was there. */
export interface EventTypeFields {
  /** What happened, for those who subscribe. */
  description?: string;
  /** What it looks like, by `api_version`. */
  versions?: Record<string, EventTypeVersion>;
}

/** One type of event. */
export interface EventType {
  name: string;
  description: string | null;
  versions: Record<string, EventTypeVersion>;
}

/** How a delivery shows who it is, beside its signature. Only sent, never shown. */
export type WebhookAuth =
  | { type: "bearer"; token: string }
  | { type: "basic"; username: string; password: string }
  | { type: "mtls"; cert: string; key: string };

/** When a webhook's circuit opens and closes. */
export interface CircuitSettings {
  /** So many failures in a row open it; 0: it never opens. */
  failures?: number;
  /** More than this share of failures opens it too, */
  rate?: number;
  /** but only of at least so many, */
  min?: number;
  /** counted over this long. */
  window_s?: number;
  /** How long it stays open before one delivery is tried. */
  open_s?: number;
  /** So many successes in a row close it. */
  close_after?: number;
  /** Open for so long, the webhook is disabled. */
  disable_after_s?: number;
}

/** The fields of a webhook that can be set. A new one needs `events`, and `url` unless it is a pull webhook. */
export interface WebhookFields {
  url?: string;
  mode?: "push" | "pull";
  /** `order.created`, `order.*` or `*`. */
  events?: string[];
  description?: string;
  enabled?: boolean;
  /** `hmac`, with a shared secret, or `ed25519`, with a key pair. */
  signature?: "hmac" | "ed25519";
  /** Further headers of each delivery. */
  headers?: Record<string, string>;
  auth?: WebhookAuth;
  /** How many deliveries may start in a second. */
  rate_per_s?: number;
  /** Whether events that share an order key arrive in order. */
  order?: boolean;
  /** How long one try may take. */
  timeout_s?: number;
  /** How long to wait before each try, the first among them. */
  retry_s?: number[];
  circuit_settings?: CircuitSettings;
  /** Notes of your own. */
  metadata?: Record<string, unknown>;
}

/** A change of a webhook: null sets a field back to its default. */
export type WebhookChange = { [Name in keyof WebhookFields]?: WebhookFields[Name] | null };

/** One webhook. */
export interface Webhook {
  id: string;
  url: string | null;
  mode: "push" | "pull";
  events: string[];
  description: string | null;
  status: "active" | "paused" | "disabled";
  enabled: boolean;
  disabled_reason: string | null;
  circuit: { state: string; failures: number; opened_at: string | null; history: unknown[] };
  signature: "hmac" | "ed25519";
  headers: Record<string, string>;
  /** The kind of it, never what is secret. */
  auth: { type: string } | null;
  rate_per_s: number | null;
  order: boolean;
  timeout_s: number;
  retry_s: number[];
  circuit_settings: CircuitSettings;
  metadata: Record<string, unknown>;
  created_by: string | null;
  created_at: string;
  secret_age_days: number | null;
  /** What is wrong, although it was saved. */
  warning?: string;
  /** What deliveries are signed with: only in the answer that made the webhook. */
  secret?: string;
}

/** What the receiver of a sample answered. */
export interface Tried {
  status_code: number | null;
  body: string | null;
  timings: Record<string, number | null>;
  error?: string;
}

/** From when to when. */
export interface Period {
  since: string;
  until?: string;
}

/** How far bulk work is. */
export interface Operation {
  kind: string;
  status: string;
  matched: number;
  done: number;
  failed: number;
}

/** Which deliveries of a webhook to list. */
export interface DeliveryQuery extends PageQuery {
  status?: Status;
}

/** One event's way to one webhook. */
export interface DeliveryView {
  id: string;
  event_id: string;
  webhook_id: string;
  status: Status;
  /** Its tries, where one delivery is asked for; else their number. */
  attempts: number | Record<string, unknown>[];
  created_at: string;
  finished_at?: string | null;
  last_error?: string | null;
  replayed_as?: string | null;
}

/** How many deliveries to lease, and for how long. */
export interface DeliveryLeaseQuery {
  /** Who asks, for people. */
  worker: string;
  /** At most how many (1–500). */
  max?: number;
  /** How long to wait for one (0–30). */
  wait_s?: number;
  /** How long the lease lasts (1–3600). */
  lease_s?: number;
}

/** A delivery of a pull webhook that is this consumer's until its lease expires. */
export interface LeasedDelivery extends Lease {
  lease_expires_at: string;
  /** Which try this is, from 1. */
  attempt: number;
  /** The headers that a push would have had, signature included. */
  headers: Record<string, string>;
  /** The body that a push would have had. */
  body: string;
}

/** Why a delivery was not taken. */
export interface Nack {
  error: string;
  /** False: straight to the dead letters. */
  retryable?: boolean;
  retry_after_s?: number;
  /** Nothing went wrong, the consumer stops: another gets it, and no attempt is counted. */
  hand_back?: boolean;
}

/** What a rotation answers. */
export interface Rotated {
  id: string;
  /** The new secret: shown once. None where deliveries are signed by Ed25519. */
  secret?: string;
  /** What verifies from now on, where they are. */
  public_key?: string;
  /** Until when what signed before signs too. */
  previous_expires_at: string | null;
}
