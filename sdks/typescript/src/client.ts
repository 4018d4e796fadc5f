// The client: where the server is, which key it gets, and one method for each call about jobs.

import { randomUUID } from "node:crypto";

import { type CallOptions, type Destination, type Request, send } from "./call.js";
import type {
  Begun,
  Completion,
  Decided,
  Extension,
  Failure,
  Finish,
  Heartbeat,
  JobQuery,
  JobView,
  Lease,
  LeasedJob,
  LeaseQuery,
  Moved,
  NewEffect,
  NewJob,
  OneAnswer,
  Page,
  Progress,
  Replay,
  Reply,
} from "./types.js";

/** How long one try of a call may take, unless told otherwise. */
const TIMEOUT_MS = 30_000;
/** How often a harmless call is repeated, unless told otherwise. */
const RETRIES = 3;
/** The largest answer that is read. */
const BODY_BYTES_MAX = 64 * 1024 * 1024;

/** Where the server is, and how to speak to it. */
export interface ClientOptions {
  /** `https://hooks.example.com`, also with a path in front of the API. Else the variable `WAKEPOST_URL`. */
  url?: string;
  /** The API key. Else the variable `WAKEPOST_KEY`. */
  key?: string;
  /** Acts on this tenant, which a key of all tenants may. */
  tenant?: string;
  /** How long one try of a call may take (30 s). A long poll adds its own wait. */
  timeoutMs?: number;
  /** How often a call that changes nothing when it is repeated is sent again while the server is away (3). */
  retries?: number;
}

/** Options of a call that makes something. */
export interface CreateOptions extends CallOptions {
  /** The same key and body get the first answer again, for 24 hours. One is made if it is left out. */
  idempotencyKey?: string;
}

/** Which run asks: a {@link LeasedJob} is one. */
export interface Asker {
  /** What the run was given to pass on. */
  chain?: string | null;
  /** Its place in the trace. */
  traceparent?: string | null;
}

/**
 * A Wakepost server, as one key sees it.
 *
 * A call that may be repeated without harm is, while the server is away: reads, creates (by their Idempotency-Key),
 * and what a worker says about its own job. The others (`lease`, `progress`, an operator's moves) are sent once.
 */
export class Client {
  readonly #to: Destination;
  readonly #options: ClientOptions;
  readonly #tenant: string | undefined;
  /** The headers that say which run makes a job. */
  #asker: Record<string, string> = {};

  constructor(options: ClientOptions = {}) {
    const url = options.url ?? process.env["WAKEPOST_URL"];
    const key = options.key ?? process.env["WAKEPOST_KEY"];
    if (!url) throw new TypeError("give the server's url, or set WAKEPOST_URL");
    if (!key) throw new TypeError("give a key, or set WAKEPOST_KEY");
    if (!/^[\x21-\x7e]+$/.test(key)) throw new TypeError("the key has characters that no key has");
    this.#options = { ...options, url, key };
    this.#tenant = options.tenant;
    this.#to = {
      url: baseUrl(url),
      headers: { authorization: `Bearer ${key}`, "user-agent": "wakepost-typescript/0.1.0" },
      timeoutMs: options.timeoutMs ?? TIMEOUT_MS,
      retries: options.retries ?? RETRIES,
      bodyBytesMax: BODY_BYTES_MAX,
    };
  }

  /** The server's base URL. */
  get url(): string {
    return this.#to.url;
  }

  /**
   * The same client, but jobs that it creates know which run made them, and go on with its trace. So agents that call
   * each other without end are stopped. `job.client` is one.
   */
  onBehalfOf(run: Asker): Client {
    const client = new Client(this.#options);
    if (run.chain) client.#asker["wakepost-chain"] = run.chain;
    if (run.traceparent) client.#asker["traceparent"] = run.traceparent;
    return client;
  }

  /** `POST /jobs` */
  async createJob(job: NewJob, options: CreateOptions = {}): Promise<JobView> {
    return this.#create("/jobs", job, options, this.#asker);
  }

  /** `POST /jobs`, with up to 1,000: all or none. */
  async createJobs(jobs: NewJob[], options: CreateOptions = {}): Promise<JobView[]> {
    const keyed = jobs.filter((job) => job.dedup_key !== undefined).length;
    // The API takes one or the other. Where every job has a dedup key, a repeat is harmless by those.
    const made =
      keyed === 0 || options.idempotencyKey !== undefined
        ? this.#create<{ data: JobView[] }>("/jobs", jobs, options, this.#asker)
        : this.#post<{ data: JobView[] }>("/jobs", jobs, keyed === jobs.length, options, this.#asker);
    return (await made).data;
  }

  /** `GET /jobs/{id}` */
  async getJob(id: string, options?: CallOptions): Promise<JobView> {
    return this.#send({ method: "GET", path: at("jobs", id), repeatable: true }, options);
  }

  /** `GET /jobs` */
  async listJobs(query: JobQuery = {}, options?: CallOptions): Promise<Page<JobView>> {
    return this.#send({ method: "GET", path: `/jobs${asked(query)}`, repeatable: true }, options);
  }

  /** `POST /jobs/lease`: waits up to `wait_s` for something to do. */
  async lease<Input = any>(query: LeaseQuery, options?: CallOptions): Promise<LeasedJob<Input>[]> {
    const request: Request = {
      method: "POST",
      path: "/jobs/lease",
      body: query,
      // An answer that got lost has jobs in it: they come back when their leases end.
      repeatable: false,
      waitMs: (query.wait_s ?? 0) * 1000,
    };
    return (await this.#send<{ jobs: LeasedJob<Input>[] }>(request, options)).jobs;
  }

  /** `POST /jobs/{id}/heartbeat` */
  async heartbeat(lease: Lease, extension: Extension = {}, options?: CallOptions): Promise<Heartbeat> {
    return this.#leased(lease, "heartbeat", extension, true, options);
  }

  /** `POST /jobs/heartbeat`: many at once, each with its own answer. */
  async heartbeats(leases: (Lease & Extension)[], options?: CallOptions): Promise<OneAnswer[]> {
    const jobs = leases.map(({ id, lease_token, extend_s, cost }) => {
      return { id, lease_token, extend_s, cost };
    });
    return (await this.#post<{ jobs: OneAnswer[] }>("/jobs/heartbeat", { jobs }, true, options)).jobs;
  }

  /** `PUT /jobs/{id}/checkpoint`: at most 1 MiB of JSON. */
  async checkpoint(lease: Lease, state: unknown, options?: CallOptions): Promise<Moved> {
    const body = { lease_token: lease.lease_token, state: state ?? null };
    const path = at("jobs", lease.id, "checkpoint");
    return this.#send({ method: "PUT", path, body, repeatable: true }, options);
  }

  /** `POST /jobs/{id}/progress` */
  async progress(lease: Lease, progress: Progress, options?: CallOptions): Promise<Moved> {
    return this.#leased(lease, "progress", progress, false, options);
  }

  /** `POST /jobs/{id}/effects`: asks to act. */
  async beginEffect(lease: Lease, effect: NewEffect, options?: CallOptions): Promise<Begun> {
    return this.#leased(lease, "effects", effect, true, options);
  }

  /** `POST /jobs/{id}/effects/{key}/commit`: it happened. */
  async commitEffect(lease: Lease, key: string, result: unknown, options?: CallOptions): Promise<Moved> {
    const body = { lease_token: lease.lease_token, result: result ?? null };
    return this.#post(at("jobs", lease.id, "effects", key, "commit"), body, true, options);
  }

  /** `POST /jobs/{id}/effects/{key}/abort`: it certainly did not happen. */
  async abortEffect(lease: Lease, key: string, error: string, options?: CallOptions): Promise<Moved> {
    const body = { lease_token: lease.lease_token, error };
    return this.#post(at("jobs", lease.id, "effects", key, "abort"), body, true, options);
  }

  /** `POST /jobs/{id}/reply`: answers the message's own id. */
  async reply(lease: Lease, reply: Reply, options: CreateOptions = {}): Promise<Moved> {
    const body = { ...reply, lease_token: lease.lease_token };
    return this.#create(at("jobs", lease.id, "reply"), body, options);
  }

  /** `POST /jobs/{id}/complete` */
  async complete(lease: Lease, completion: Completion = {}, options?: CallOptions): Promise<Moved> {
    return this.#leased(lease, "complete", completion, true, options);
  }

  /** `POST /jobs/{id}/fail` */
  async fail(lease: Lease, failure: Failure, options?: CallOptions): Promise<Moved> {
    return this.#leased(lease, "fail", failure, true, options);
  }

  /** `POST /jobs/finish`: many at once, each with its own answer. */
  async finish(jobs: Finish[], options?: CallOptions): Promise<OneAnswer[]> {
    return (await this.#post<{ jobs: OneAnswer[] }>("/jobs/finish", { jobs }, true, options)).jobs;
  }

  /** `POST /jobs/{id}/cancel`: a running job learns of it on its next heartbeat. */
  async cancel(id: string, note?: string, options?: CallOptions): Promise<Moved> {
    return this.#post(at("jobs", id, "cancel"), { note }, false, options);
  }

  /** `POST /jobs/{id}/approve`: lets the proposed effects happen. */
  async approve(id: string, decided: Decided, options?: CallOptions): Promise<Moved> {
    return this.#post(at("jobs", id, "approve"), decided, false, options);
  }

  /** `POST /jobs/{id}/reject` */
  async reject(id: string, decided: Decided, options?: CallOptions): Promise<Moved> {
    return this.#post(at("jobs", id, "reject"), decided, false, options);
  }

  /** `POST /jobs/{id}/effects/{key}/resolve`: an operator's word on an effect in doubt. */
  async resolve(
    id: string,
    key: string,
    resolution: { outcome: "committed" | "not_done"; result?: unknown; note: string },
    options?: CallOptions,
  ): Promise<Moved> {
    return this.#post(at("jobs", id, "effects", key, "resolve"), resolution, false, options);
  }

  /** `POST /jobs/{id}/release`: lets a held job run. */
  async release(id: string, note: string, options?: CallOptions): Promise<Moved> {
    return this.#post(at("jobs", id, "release"), { note }, false, options);
  }

  /** `POST /jobs/{id}/replay`: does finished work again, as a new job. */
  async replay(id: string, replay: Replay, options: CreateOptions = {}): Promise<{ job_id: string }> {
    return this.#create(at("jobs", id, "replay"), replay, options);
  }

  #create<T>(path: string, body: unknown, options: CreateOptions, headers = {}): Promise<T> {
    const idempotencyKey = options.idempotencyKey ?? randomUUID();
    return this.#send({ method: "POST", path, body, repeatable: true, idempotencyKey, headers }, options);
  }

  /** A call about a lease. Only the lease's own fields are taken from it: it may be a whole job. */
  #leased<T>(
    lease: Lease,
    verb: string,
    fields: object,
    repeatable: boolean,
    options?: CallOptions,
  ): Promise<T> {
    const body = { ...fields, lease_token: lease.lease_token };
    return this.#post(at("jobs", lease.id, verb), body, repeatable, options);
  }

  #post<T>(
    path: string,
    body: unknown,
    repeatable: boolean,
    options?: CallOptions,
    headers = {},
  ): Promise<T> {
    return this.#send({ method: "POST", path, body, repeatable, headers }, options);
  }

  #send<T>(request: Request, options: CallOptions = {}): Promise<T> {
    const mark = request.path.includes("?") ? "&" : "?";
    const tenant = this.#tenant === undefined ? "" : `${mark}tenant=${encodeURIComponent(this.#tenant)}`;
    return send(this.#to, { ...request, path: `/api/v1${request.path}${tenant}` }, options);
  }
}

function baseUrl(text: string): string {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw new TypeError("the server's url must begin with http:// or https:// and a host");
  }
  if (!["http:", "https:"].includes(url.protocol)) {
    throw new TypeError("the server's url must begin with http:// or https:// and a host");
  }
  if (url.username !== "" || url.password !== "") {
    // Not repeated: it may hold a password.
    throw new TypeError("the server's url must not hold a user or password: use a key");
  }
  return url.origin + url.pathname.replace(/\/+$/, "");
}

/** A path of these segments. One that would lead elsewhere is refused. */
function at(...segments: string[]): string {
  const path = segments.map((segment) => {
    if (segment === "" || segment === "." || segment === "..") {
      throw new TypeError(`${JSON.stringify(segment)} is not an id`);
    }
    return encodeURIComponent(segment);
  });
  return `/${path.join("/")}`;
}

function asked(query: object): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null) given.set(name, String(value));
  }
  return given.size === 0 ? "" : `?${given}`;
}
