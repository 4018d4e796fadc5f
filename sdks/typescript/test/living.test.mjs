// What the worker promises, with a real server and real processes that are killed.

import assert from "node:assert/strict";
import { test } from "node:test";

import { LeaseLost, Worker } from "wakepost";

import { startAgent } from "./support/agent.mjs";
import { startReceiver } from "./support/receiver.mjs";
import { startServer } from "./support/server.mjs";
import { gate, jobThatIs, until } from "./support/waiting.mjs";

const quiet = { signals: false, warn: () => {} };
const steps = (...steps) => ({ kind: "conformance", input: { steps } });

/** Runs a worker in this process; the test ends it. */
function start(t, client, options, handler) {
  const worker = new Worker(client, { name: "w", waitS: 1, ...quiet, ...options }, handler);
  const running = worker.run();
  t.after(async () => {
    worker.stop();
    await running;
  });
  return { worker, running };
}

test("an agent that is killed after it acted, and before it said so, leaves the job held", async (t) => {
  const server = await startServer(t);
  const client = server.client();
  const receiver = await startReceiver(t, ({ path }) => {
    return path === "/at/acted" ? new Promise(() => {}) : { status: 200, body: { n: 1 } };
  });
  const first = await startAgent(t, server, receiver);
  const { id } = await client.createJob(
    steps({ effect: "mail", post: "/mail", inside: "acted" }, { result: "sent" }),
  );
  await until("it has acted", () => receiver.at("/at/acted").length > 0);
  first.kill("SIGKILL");
  await first.exited;
  await startAgent(t, server, receiver);
  const held = await jobThatIs(client, id, "held");
  assert.equal(held.held_reason, "in_doubt");
  assert.equal(receiver.at("/mail").length, 1);
  await client.resolve(id, "mail", { outcome: "committed", result: { n: 1 }, note: "the mail is there" });
  const job = await jobThatIs(client, id, "succeeded");
  assert.equal(job.result, "sent");
  assert.equal(receiver.at("/mail").length, 1, "it was sent once");
});

test("an effect that is safe to repeat is repeated with the same key after a kill", async (t) => {
  const server = await startServer(t);
  const client = server.client();
  const receiver = await startReceiver(t, ({ path, body }) => {
    if (path === "/at/acted" && body.attempt === 1) return new Promise(() => {});
    return { status: 200, body: { n: 1 } };
  });
  const first = await startAgent(t, server, receiver);
  const { id } = await client.createJob(
    steps({ effect: "mail", post: "/mail", inside: "acted", on_doubt: "execute" }),
  );
  await until("it has acted", () => receiver.at("/at/acted").length > 0);
  first.kill("SIGKILL");
  await startAgent(t, server, receiver);
  const job = await jobThatIs(client, id, "succeeded");
  assert.deepEqual(job.result, { effects: { mail: { n: 1 } }, attempt: 2 });
  const keys = receiver.at("/mail").map(({ headers }) => headers["idempotency-key"]);
  assert.equal(keys.length, 2);
  assert.equal(keys[0], keys[1]);
});

test("a run after a kill goes on from the checkpoint, and skips what was done", async (t) => {
  const server = await startServer(t);
  const client = server.client();
  const receiver = await startReceiver(t, ({ path, body }) => {
    if (path === "/at/later" && body.attempt === 1) return new Promise(() => {});
    return { status: 200, body: { path } };
  });
  const first = await startAgent(t, server, receiver);
  const { id } = await client.createJob(
    steps({ effect: "a", post: "/a" }, { checkpoint: true }, { effect: "b", post: "/b" }, { at: "later" }),
  );
  await until("it is at the rendezvous", () => receiver.at("/at/later").length > 0);
  first.kill("SIGKILL");
  await startAgent(t, server, receiver);
  const job = await jobThatIs(client, id, "succeeded");
  assert.deepEqual(job.result, { effects: { b: { path: "/b" } }, attempt: 2 });
  assert.deepEqual([receiver.at("/a").length, receiver.at("/b").length], [1, 1]);
});

test("a worker that lost its lease cannot act, and its job is someone else's", async (t) => {
  const server = await startServer(t);
  const client = server.client();
  const { id } = await client.createJob({ kind: "k", input: 1 });
  const told = gate();
  let acts = 0;
  const frozen = server.client();
  frozen.heartbeat = () => new Promise(() => {});
  const { worker } = start(t, frozen, { leaseS: 1 }, async (job) => {
    await until("the lease has ended", async () => (await client.getJob(id)).attempts > 1);
    told.open(await job.effect("act", () => ++acts).catch((error) => error));
  });
  await until("it is leased", async () => (await client.getJob(id)).status === "running");
  worker.stop();
  start(t, client, { leaseS: 5 }, (job) => job.effect("act", () => ++acts));
  assert.ok((await told.opened) instanceof LeaseLost);
  const job = await jobThatIs(client, id, "succeeded");
  assert.deepEqual([job.result, acts, job.attempts], [1, 1, 2]);
});

test("a worker that stops lets its job end, and takes no other", async (t) => {
  const server = await startServer(t);
  const client = server.client();
  const receiver = await startReceiver(t, async ({ path }) => {
    if (path === "/at/middle") await middle.opened;
    return { status: 200, body: {} };
  });
  const middle = gate();
  const agent = await startAgent(t, server, receiver, { AGENT_GRACE_S: "20" });
  const first = await client.createJob(steps({ at: "middle" }, { result: "ended well" }));
  await until("it is in the middle", () => receiver.at("/at/middle").length > 0);
  agent.kill("SIGTERM");
  const second = await client.createJob(steps({ result: 2 }));
  middle.open();
  assert.deepEqual(await agent.exited, [0, null]);
  assert.equal((await client.getJob(first.id)).result, "ended well");
  assert.equal((await client.getJob(second.id)).status, "pending");
});

test("a worker whose grace is over hands its job back at once", async (t) => {
  const server = await startServer(t);
  const client = server.client();
  const receiver = await startReceiver(t, () => ({ status: 200, body: {} }));
  const agent = await startAgent(t, server, receiver, { AGENT_GRACE_S: "0", AGENT_LEASE_S: "600" });
  const { id } = await client.createJob(steps({ at: "begun" }, { checkpoint: true }, { sleep_ms: 600_000 }));
  await until("it has begun", async () => (await client.getJob(id)).checkpoint !== null);
  agent.kill("SIGTERM");
  assert.deepEqual(await agent.exited, [0, null]);
  const job = await client.getJob(id);
  assert.deepEqual([job.status, job.attempts], ["pending", 0], "nothing was tried and failed");
  const [again] = await client.lease({ worker: "next", kinds: ["conformance"], wait_s: 5 });
  assert.deepEqual(again.checkpoint, { next: 2 });
});

test("a run outlives a server that is killed and comes back", async (t) => {
  const server = await startServer(t);
  const client = server.client();
  const receiver = await startReceiver(t, async ({ path }) => {
    if (path === "/at/away") {
      await server.kill();
      // Answered while the server is away, so that what follows finds nobody.
      setTimeout(() => server.restart(), 500);
    }
    return { status: 200, body: { path } };
  });
  await startAgent(t, server, receiver, { AGENT_LEASE_S: "30" });
  const { id } = await client.createJob(
    steps({ effect: "a", post: "/a", inside: "away" }, { checkpoint: true }, { effect: "b", post: "/b" }),
  );
  const job = await until("it is done", async () => {
    const job = await client.getJob(id, { retries: 10 });
    return job.status === "succeeded" ? job : undefined;
  });
  assert.equal(job.attempts, 1, "it was one run");
  assert.deepEqual([receiver.at("/a").length, receiver.at("/b").length], [1, 1]);
  assert.deepEqual(job.checkpoint, { next: 2 });
});

test("a cancelled run is told, and its job is cancelled", async (t) => {
  const server = await startServer(t);
  const client = server.client();
  const receiver = await startReceiver(t);
  await startAgent(t, server, receiver);
  const { id } = await client.createJob(steps({ at: "begun" }, { until_cancelled: true }));
  await until("it has begun", () => receiver.at("/at/begun").length > 0);
  await client.cancel(id, "not wanted any more");
  await jobThatIs(client, id, "cancelled");
  assert.deepEqual(receiver.at("/cancelled")[0].body, { job: id });
});

test("an effect is refused to a run that was asked to stop, before a heartbeat told it", async (t) => {
  const server = await startServer(t);
  const client = server.client();
  const { id } = await client.createJob({ kind: "k", input: 1 });
  let acts = 0;
  start(t, client, { leaseS: 600 }, async (job) => {
    await client.cancel(id);
    await job.effect("act", () => ++acts).catch(() => {});
    job.signal.throwIfAborted();
  });
  await jobThatIs(client, id, "cancelled");
  assert.equal(acts, 0);
});

test("failures, retries and the end of them", async (t) => {
  const server = await startServer(t);
  const client = server.client();
  const receiver = await startReceiver(t, ({ path }) => {
    return path === "/refuse" ? { status: 409, body: { why: "not now" } } : { status: 200, body: {} };
  });
  await startAgent(t, server, receiver, { AGENT_CONCURRENCY: "4" });
  const [gone, again, refused, thrown, mute] = await client.createJobs([
    steps({ fail: "no use", retryable: false }),
    steps({ fail: "soon", retry_after_s: 0 }),
    { ...steps({ effect: "e", post: "/refuse" }), max_attempts: 1 },
    { ...steps({ throw: "oh" }), max_attempts: 1 },
    { ...steps({ reply: "hello?" }), max_attempts: 1 },
  ]);
  assert.equal((await jobThatIs(client, gone.id, "dead_letter")).last_error, "no use");
  const tried = await jobThatIs(client, again.id, "dead_letter");
  assert.deepEqual([tried.attempts, tried.last_error], [3, "soon"]);
  const job = await jobThatIs(client, refused.id, "dead_letter");
  assert.deepEqual([job.effects[0].state, job.last_error], ["aborted", '{"why":"not now"}']);
  assert.equal((await jobThatIs(client, thrown.id, "dead_letter")).last_error, "oh");
  // The lease lives, so this is no end of the run: the server has to hear of it.
  assert.match((await jobThatIs(client, mute.id, "dead_letter")).last_error, /nowhere that can be answered/);
  const { job_id } = await client.replay(gone.id, { note: "try it" });
  assert.equal((await jobThatIs(client, job_id, "dead_letter")).last_error, "no use");
});

test("a run that goes well after it failed says so, with its reply and its cost", async (t) => {
  const server = await startServer(t);
  const client = server.client();
  const receiver = await startReceiver(t, () => ({ status: 200, body: { n: 7 } }));
  await startAgent(t, server, receiver);
  const { id } = await client.createJob(
    steps(
      { progress: "begun", percent: 5, step: "first" },
      { effect: "e", post: "/e", description: "does it" },
      { fail: "once", retry_after_s: 0 },
    ),
  );
  const failing = await jobThatIs(client, id, "dead_letter");
  assert.deepEqual([failing.attempts, failing.effects[0].description], [3, "does it"]);
  assert.equal(receiver.at("/e").length, 1, "later runs skip it");
  assert.equal(receiver.at("/e")[0].headers["wakepost-run-id"], failing.runs[0].id);
  const policy = await server.call("PATCH", "/tenants/default", { backoff_s: [0] });
  assert.deepEqual(policy.backoff_s, [0]);
  const again = await client.createJob(
    steps({ fail_first: 1, error: "not yet" }, { sleep_ms: 1 }, { result: { ok: true }, reply: "well", cost: 1.5 }),
  );
  const job = await jobThatIs(client, again.id, "succeeded");
  assert.deepEqual([job.attempts, job.result, job.reply, job.cost], [2, { ok: true }, "well", 1.5]);
  assert.equal(job.runs.find((run) => run.attempt === 1).error, "not yet");
});

test("many at once: made, leased, kept alive and finished", async (t) => {
  const server = await startServer(t);
  const client = server.client();
  const made = await client.createJobs(Array.from({ length: 20 }, (_, n) => ({ kind: "many", input: n })));
  const leased = await client.lease({ worker: "w", max: 500, kinds: ["many"], lease_s: 60 });
  assert.equal(leased.length, made.length);
  const stale = { ...leased[0], lease_token: "stale" };
  const beats = await client.heartbeats([...leased, stale]);
  assert.deepEqual([beats.filter(({ ok }) => ok).length, beats.at(-1).code], [20, "lease_lost"]);
  const answers = await client.finish(
    leased.map(({ id, lease_token, input }) => ({ id, lease_token, outcome: "complete", result: input * 2 })),
  );
  assert.ok(answers.every(({ ok }) => ok));
  const page = await client.listJobs({ status: "succeeded", kind: "many", limit: 15 });
  assert.equal(page.data.length, 15);
  const rest = await client.listJobs({ status: "succeeded", kind: "many", cursor: page.next_cursor });
  assert.deepEqual([rest.data.length, rest.next_cursor], [5, null]);
  assert.equal((await client.getJob(leased[3].id)).result, leased[3].input * 2);
});

test("a repeated dedup key or idempotency key makes one job", async (t) => {
  const server = await startServer(t);
  const client = server.client();
  const first = await client.createJob({ input: 1, dedup_key: "d" });
  const second = await client.createJob({ input: 1, dedup_key: "d" });
  assert.deepEqual([second.id, second.duplicate], [first.id, true]);
  const options = { idempotencyKey: "i" };
  const third = await client.createJob({ input: 1 }, options);
  assert.equal((await client.createJob({ input: 1 }, options)).id, third.id);
  await assert.rejects(client.createJob({ input: 2 }, options), { code: "idempotency_mismatch" });
  assert.equal((await client.createJobs([{ input: 1, dedup_key: "d" }]))[0].id, first.id);
});
