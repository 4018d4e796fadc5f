// The client: one method for each call about jobs, and for each about what is sent to subscribers.

import type { CallOptions, Request } from "./call.js";
import { asked, at, type CreateOptions } from "./core.js";
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
import { WebhookCalls } from "./webhooks/calls.js";

/**
 * A Wakepost server, as one key sees it.
 *
 * A call that may be repeated without harm is, while the server is away: reads, creates (by their Idempotency-Key),
 * and what a worker says about its own job. The others (`lease`, `progress`, an operator's moves) are sent once.
 */
export class Client extends WebhookCalls {
  /** `POST /jobs` */
  async createJob(job: NewJob, options: CreateOptions = {}): Promise<JobView> {
    return this.create("/jobs", job, options, this.asker);
  }

  /** `POST /jobs`, with up to 1,000: all or none. */
  async createJobs(jobs: NewJob[], options: CreateOptions = {}): Promise<JobView[]> {
    const keyed = jobs.filter((job) => job.dedup_key !== undefined).length;
    // The API takes one or the other. Where every job has a dedup key, a repeat is harmless by those.
    const made =
      keyed === 0 || options.idempotencyKey !== undefined
        ? this.create<{ data: JobView[] }>("/jobs", jobs, options, this.asker)
        : this.post<{ data: JobView[] }>("/jobs", jobs, keyed === jobs.length, options, this.asker);
    return (await made).data;
  }

  /** `GET /jobs/{id}` */
  async getJob(id: string, options?: CallOptions): Promise<JobView> {
    return this.read(at("jobs", id), options);
  }

  /** `GET /jobs` */
  async listJobs(query: JobQuery = {}, options?: CallOptions): Promise<Page<JobView>> {
    return this.read(`/jobs${asked(query)}`, options);
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
    return (await this.send<{ jobs: LeasedJob<Input>[] }>(request, options)).jobs;
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
    return (await this.post<{ jobs: OneAnswer[] }>("/jobs/heartbeat", { jobs }, true, options)).jobs;
  }

  /** `PUT /jobs/{id}/checkpoint`: at most 1 MiB of JSON. */
  async checkpoint(lease: Lease, state: unknown, options?: CallOptions): Promise<Moved> {
    const body = { lease_token: lease.lease_token, state: state ?? null };
    const path = at("jobs", lease.id, "checkpoint");
    return this.send({ method: "PUT", path, body, repeatable: true }, options);
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
    return this.post(at("jobs", lease.id, "effects", key, "commit"), body, true, options);
  }

  /** `POST /jobs/{id}/effects/{key}/abort`: it certainly did not happen. */
  async abortEffect(lease: Lease, key: string, error: string, options?: CallOptions): Promise<Moved> {
    const body = { lease_token: lease.lease_token, error };
    return this.post(at("jobs", lease.id, "effects", key, "abort"), body, true, options);
  }

  /** `POST /jobs/{id}/reply`: answers the message's own id. */
  async reply(lease: Lease, reply: Reply, options: CreateOptions = {}): Promise<Moved> {
    const body = { ...reply, lease_token: lease.lease_token };
    return this.create(at("jobs", lease.id, "reply"), body, options);
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
    return (await this.post<{ jobs: OneAnswer[] }>("/jobs/finish", { jobs }, true, options)).jobs;
  }

  /** `POST /jobs/{id}/cancel`: a running job learns of it on its next heartbeat. */
  async cancel(id: string, note?: string, options?: CallOptions): Promise<Moved> {
    return this.post(at("jobs", id, "cancel"), { note }, false, options);
  }

  /** `POST /jobs/{id}/approve`: lets the proposed effects happen. */
  async approve(id: string, decided: Decided, options?: CallOptions): Promise<Moved> {
    return this.post(at("jobs", id, "approve"), decided, false, options);
  }

  /** `POST /jobs/{id}/reject` */
  async reject(id: string, decided: Decided, options?: CallOptions): Promise<Moved> {
    return this.post(at("jobs", id, "reject"), decided, false, options);
  }

  /** `POST /jobs/{id}/effects/{key}/resolve`: an operator's word on an effect in doubt. */
  async resolve(
    id: string,
    key: string,
    resolution: { outcome: "committed" | "not_done"; result?: unknown; note: string },
    options?: CallOptions,
  ): Promise<Moved> {
    return this.post(at("jobs", id, "effects", key, "resolve"), resolution, false, options);
  }

  /** `POST /jobs/{id}/release`: lets a held job run. */
  async release(id: string, note: string, options?: CallOptions): Promise<Moved> {
    return this.post(at("jobs", id, "release"), { note }, false, options);
  }

  /** `POST /jobs/{id}/replay`: does finished work again, as a new job. */
  async replay(id: string, replay: Replay, options: CreateOptions = {}): Promise<{ job_id: string }> {
    return this.create(at("jobs", id, "replay"), replay, options);
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
    return this.post(at("jobs", lease.id, verb), body, repeatable, options);
  }
}
