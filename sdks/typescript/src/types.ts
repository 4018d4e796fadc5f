// What goes over the wire, under the API's own names. Answers may have more fields than are named here.

/** Where work stands. */
export type Status =
  | "pending"
  | "scheduled"
  | "awaiting_approval"
  | "held"
  | "running"
  | "retrying"
  | "succeeded"
  | "cancelled"
  | "dead_letter";

/** How a job reaches its agent. */
export type Executor =
  | { kind: "pull" }
  | { kind: "http"; url: string }
  | { kind: "exec"; name: string }
  | { kind: "self_webhook"; run: Executor; budget_s?: number };

/** A job to create: only `input` is needed. */
export interface NewJob {
  /** What the agent gets: any JSON, at most 1 MiB. */
  input: unknown;
  /** A free name. */
  kind?: string;
  priority?: "interactive" | "webhook" | "batch";
  /** Not before this time. */
  run_at?: string;
  /** Not before this many seconds from now. */
  delay_s?: number;
  /** A repeat within 30 days gets the first job. */
  dedup_key?: string;
  /** Jobs that share it run one at a time, in the order they were made. */
  order_key?: string;
  /** What it is about, as `provider:kind:id`. */
  subject?: string;
  owner?: string;
  /** Who is told the outcome. */
  callback_url?: string;
  /** An event of this type with the job's subject cancels it. */
  cancel_on?: { type: string };
  executor?: Executor;
  max_attempts?: number;
  /** `draft`: a person must agree before it acts. */
  mode?: "auto" | "draft";
}

/** One effect of a job. */
export interface Effect {
  key: string;
  state: string;
  description: string | null;
  result?: unknown;
  proposal_hash?: string;
}

/** One try at a job. */
export interface Run {
  id: string;
  attempt: number;
  worker: string | null;
  started_at: string | null;
  ended_at: string | null;
  outcome: string | null;
  error: string | null;
  /** What it cost in all, if it said so. */
  cost?: number | null;
}

/** Work that led to other work. */
export interface ChainLink {
  id: string;
  kind: string;
  status: Status;
  hops: number;
}

/** One job, as those see it who create, watch and steer it. */
export interface JobView {
  id: string;
  kind: string;
  event_id: string | null;
  event_ids: string[];
  tenant: string;
  source: string | null;
  owner: string | null;
  status: Status;
  held_reason: string | null;
  priority: string;
  attempts: number;
  max_attempts: number;
  run_at: string | null;
  created_at: string;
  finished_at: string | null;
  subject: string | null;
  order_key: string | null;
  /** Whether a person must agree before it acts, by its maker's word. */
  mode?: string | null;
  flags: string[];
  waiting_on: unknown;
  superseded_by: string | null;
  parent_id: string | null;
  hops: number;
  scope: string | null;
  lease: { worker: string; expires_at: string } | null;
  last_error: string | null;
  /** What its agent gets; only where one job is asked for, as all that may be missing here. */
  input?: unknown;
  result?: unknown;
  reply?: string | null;
  checkpoint?: unknown;
  cost?: number | null;
  effects?: Effect[];
  runs?: Run[];
  /** The jobs that led to it, the nearest first. */
  chain?: ChainLink[];
  /** What to do next. */
  next_action?: string;
  trace_id: string | null;
  replayed_as?: string | null;
  /** The event that would cancel it. */
  cancel_on?: { type: string } | null;
  /** The schedule that made it, and which of its ticks did. */
  schedule_id?: string | null;
  scheduled_for?: string | null;
  /** Signs the requests to the job's own http executor; shown once, by the call that made the job. */
  executor_secret?: string;
  /** Signs the job's callback; shown once, by the call that made the job. */
  callback_secret?: string;
  /** Whether the job had been made before, under the same dedup key. */
  duplicate?: boolean;
}

/** Which jobs to list. */
export interface JobQuery {
  status?: Status;
  source?: string;
  kind?: string;
  subject?: string;
  thread?: string;
  limit?: number;
  cursor?: string;
}

/** One page of a list, newest first. */
export interface Page<T> {
  data: T[];
  /** Where the next page begins; null: this was the last. */
  next_cursor: string | null;
}

/** An event, normalized. */
export interface Envelope {
  event_id: string;
  source: string | null;
  provider: string;
  tenant_id: string | null;
  event_type: string;
  occurred_at: string | null;
  received_at: string | null;
  payload_hash: string | null;
  dedup_key: string | null;
  order_key: string | null;
  provider_request_id: string | null;
  actor: { id?: string; name?: string; email?: string; verified?: boolean } | null;
  subject: { kind: string; id: string; url?: string } | null;
  /** The message, on messaging platforms. */
  message: { text?: string; thread_id?: string; [more: string]: unknown } | null;
  /** The parsed payload. */
  data: any;
}

/** Proves that a job is this worker's. A {@link LeasedJob} is one. */
export interface Lease {
  id: string;
  lease_token: string;
}

/** A job that is this worker's until its lease expires. */
export interface LeasedJob<Input = any> extends Lease {
  run_id: string;
  tenant: string;
  lease_expires_at: string;
  /** Which try this is, from 1. */
  attempt: number;
  kind: string;
  /** The event, for a webhook's job. */
  envelope: Envelope | null;
  /** All events, if it covers several. */
  events?: Envelope[];
  /** The input, for a job made through the API. */
  input: Input;
  /** The tick that made it, for a job of a schedule. */
  scheduled_for?: string;
  /** What an earlier run saved; null: nothing. */
  checkpoint: any;
  scope: string;
  /** Its place in the trace. */
  traceparent: string;
  /** What to send along as `wakepost-chain` with whatever leads to further work. */
  chain: string;
}

/** Which jobs to lease, and for how long. */
export interface LeaseQuery {
  /** The worker's name, for people. */
  worker: string;
  /** At most how many (1–500). */
  max?: number;
  /** How long to wait for one (0–30). */
  wait_s?: number;
  kinds?: string[];
  sources?: string[];
  /** How long the lease lasts (1–3600). */
  lease_s?: number;
}

/** How a lease is extended. */
export interface Extension {
  /** How long from now; left out, as long as it was asked to last. */
  extend_s?: number;
  /** What the run has cost so far. */
  cost?: number;
}

/** What a heartbeat answers. */
export interface Heartbeat {
  lease_expires_at: string;
  /** Whether someone wants the job to stop. */
  cancel_requested: boolean;
}

/** A word on how the work goes. */
export interface Progress {
  message?: string;
  /** From 0 to 100. */
  percent?: number;
  step?: string;
  data?: unknown;
}

/** A message on the thread of a job's event. */
export interface Reply {
  /** What to say, as Markdown. */
  text: string;
  /**
   * True: in the place of the job's message before it, where the platform can. False: a message of its own, for
   * good. Left out: one that the job's last reply takes the place of.
   */
  update?: boolean;
}

/** What to do about an effect that an earlier run began and never resolved. */
export type OnDoubt = "hold" | "execute";

/** An effect to begin. */
export interface NewEffect {
  /** Chosen by the agent: the same act has the same key in every run. */
  key: string;
  /** What it does, for people who approve it. */
  description?: string;
  /** `hold` if left out. */
  on_doubt?: OnDoubt;
}

/** What beginning an effect answers. */
export interface Begun {
  /** `in_doubt` and `needs_approval`: the run has ended. */
  decision: "execute" | "skip" | "in_doubt" | "needs_approval";
  /** A stable key to pass on, so that whoever receives it can tell a repeat. */
  idempotency_key: string;
  /** For `skip`: what the first time returned. */
  result?: unknown;
  /** For `needs_approval`: what exactly is to be approved. */
  proposal_hash?: string;
}

/** How a job that worked went. */
export interface Completion {
  result?: unknown;
  /** What it says on the event's thread. */
  reply?: string;
  /** What the run cost in all. */
  cost?: number;
}

/** How a job that did not work went. */
export interface Failure {
  error: string;
  /** False: straight to the dead letters. */
  retryable?: boolean;
  retry_after_s?: number;
  cost?: number;
  /** Nothing went wrong, the worker stops: another gets the job, and no attempt is counted. */
  hand_back?: boolean;
}

/** One job of many that are finished. */
export type Finish = Lease &
  (({ outcome: "complete" } & Completion) | ({ outcome: "fail" } & Failure));

/** The answer for one job of many. */
export interface OneAnswer {
  id: string;
  ok: boolean;
  /** If not: the code that a single call would have had. */
  code?: string;
  lease_expires_at?: string;
  cancel_requested?: boolean;
  status?: Status;
}

/** What was moved, and where it stands now. */
export interface Moved {
  id: string;
  status: string;
}

/** Which proposed effects a person decided on. */
export interface Decided {
  effects: { key: string; proposal_hash: string }[];
  note?: string;
}

/** A wish to do finished work again. */
export interface Replay {
  /** Who wants it, and why. It stays in the audit trail. */
  note: string;
  /** `fresh`: committed effects are done again. */
  scope?: "same" | "fresh";
}
