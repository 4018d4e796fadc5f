// What a call promises, against a stand-in for the server.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createServer } from "node:net";
import { test } from "node:test";

import { Cancelled, Client, LeaseLost, Unreachable, WakepostError } from "wakepost";

import { startReceiver } from "./support/receiver.mjs";

const LEASE = { id: "job_1", lease_token: "t", input: "not to be sent" };

/** A client of a stand-in that answers as told, one answer after another, the last for ever. */
async function standIn(t, ...answers) {
  const receiver = await startReceiver(t, () => (answers.length > 1 ? answers.shift() : answers[0]));
  return { receiver, client: new Client({ url: `${receiver.url}/`, key: "k" }) };
}

const ok = (body = { id: "job_1", status: "running" }) => ({ status: 200, body });
const problem = (status, code, headers = {}) => ({
  status,
  body: { status, code, title: "T", detail: "D", errors: [{ field: "f", message: "m" }] },
  headers,
});

test("a client needs a url and a key that can be ones, and never shows the key", () => {
  for (const url of ["127.0.0.1:8787", "ftp://host", "not a url", "http://u:p@h", ""]) {
    assert.throws(
      () => new Client({ url, key: "k" }),
      (error) => error instanceof TypeError && !error.message.includes(":p@"),
    );
  }
  for (const key of ["", "a b", "a\nb"]) {
    assert.throws(() => new Client({ url: "http://h", key }), TypeError);
  }
  const client = new Client({ url: "https://h/behind/", key: "secret-key" });
  assert.equal(client.url, "https://h/behind");
  assert.ok(!JSON.stringify(client).includes("secret-key"));
  assert.ok(!Object.values(client).join().includes("secret-key"));
});

test("the environment gives what is left out", () => {
  process.env.WAKEPOST_URL = "http://from-env:1";
  process.env.WAKEPOST_KEY = "k";
  try {
    assert.equal(new Client().url, "http://from-env:1");
  } finally {
    delete process.env.WAKEPOST_URL;
    delete process.env.WAKEPOST_KEY;
  }
  assert.throws(() => new Client(), /WAKEPOST_URL/);
});

test("a refusal tells its code, its fields and how long to wait", async (t) => {
  const { client } = await standIn(t, problem(422, "invalid_request", { "retry-after": "7" }));
  const error = await client.getJob("job_1").catch((error) => error);
  assert.ok(error instanceof WakepostError);
  assert.equal(error.message, "D (422 invalid_request); f: m");
  assert.deepEqual([error.status, error.code, error.problem.retryAfterS], [422, "invalid_request", 7]);
});

test("a lost lease and a wish to stop have errors of their own", async (t) => {
  const { client } = await standIn(t, problem(409, "lease_lost"), problem(409, "cancel_requested"));
  await assert.rejects(client.heartbeat(LEASE), LeaseLost);
  await assert.rejects(client.beginEffect(LEASE, { key: "k" }), Cancelled);
});

test("what may be repeated is, with the same body and key, until it is answered", async (t) => {
  const calls = [
    ["getJob", (client) => client.getJob("job_1")],
    ["createJob", (client) => client.createJob({ input: 1 })],
    ["createJobs", (client) => client.createJobs([{ input: 1 }])],
    ["createJobs by dedup keys", (client) => client.createJobs([{ input: 1, dedup_key: "d" }])],
    ["heartbeat", (client) => client.heartbeat(LEASE)],
    ["heartbeats", (client) => client.heartbeats([LEASE])],
    ["checkpoint", (client) => client.checkpoint(LEASE, { a: 1 })],
    ["beginEffect", (client) => client.beginEffect(LEASE, { key: "k" })],
    ["commitEffect", (client) => client.commitEffect(LEASE, "k", 1)],
    ["abortEffect", (client) => client.abortEffect(LEASE, "k", "why")],
    ["reply", (client) => client.reply(LEASE, { text: "hi" })],
    ["complete", (client) => client.complete(LEASE, { result: 1 })],
    ["fail", (client) => client.fail(LEASE, { error: "e" })],
    ["finish", (client) => client.finish([{ ...LEASE, outcome: "complete" }])],
    ["replay", (client) => client.replay("job_1", { note: "n" })],
  ];
  await Promise.all(
    calls.map(async ([name, call]) => {
      const answers = [problem(503, "busy"), problem(429, "slow"), ok({ id: "job_1", jobs: [], data: [] })];
      const { client, receiver } = await standIn(t, ...answers);
      await call(client);
      assert.equal(receiver.seen.length, 3, name);
      const sent = receiver.seen.map(({ body, headers }) => [body, headers["idempotency-key"]]);
      assert.deepEqual(sent[1], sent[0]);
      assert.deepEqual(sent[2], sent[0]);
    }),
  );
});

test("what a repeat could do twice is sent once", async (t) => {
  const calls = [
    (client) => client.lease({ worker: "w" }),
    (client) => client.progress(LEASE, { message: "m" }),
    (client) => client.cancel("job_1"),
    (client) => client.approve("job_1", { effects: [] }),
    (client) => client.reject("job_1", { effects: [] }),
    (client) => client.resolve("job_1", "k", { outcome: "committed", note: "n" }),
    (client) => client.release("job_1", "n"),
    (client) => client.createJobs([{ input: 1, dedup_key: "d" }, { input: 2 }]),
  ];
  for (const call of calls) {
    const { client, receiver } = await standIn(t, problem(503, "busy"));
    await assert.rejects(call(client), WakepostError);
    assert.equal(receiver.seen.length, 1, call.toString());
  }
});

test("retries end, and a refusal is not repeated", async (t) => {
  const away = await standIn(t, problem(503, "busy"));
  await assert.rejects(away.client.getJob("job_1", { retries: 1 }), WakepostError);
  assert.equal(away.receiver.seen.length, 2);
  const refused = await standIn(t, problem(404, "not_found"));
  await assert.rejects(refused.client.getJob("job_1"), WakepostError);
  assert.equal(refused.receiver.seen.length, 1);
});

test("only the lease's own fields are sent of a leased job", async (t) => {
  const { client, receiver } = await standIn(t, ok({ jobs: [] }));
  await client.complete(LEASE, { result: { a: 1 } });
  await client.heartbeats([LEASE]);
  await client.checkpoint(LEASE, undefined);
  await client.commitEffect(LEASE, "email:a/b", undefined);
  assert.deepEqual(
    receiver.seen.map((seen) => [seen.path, seen.body]),
    [
      ["/api/v1/jobs/job_1/complete", { result: { a: 1 }, lease_token: "t" }],
      ["/api/v1/jobs/heartbeat", { jobs: [{ id: "job_1", lease_token: "t" }] }],
      ["/api/v1/jobs/job_1/checkpoint", { lease_token: "t", state: null }],
      ["/api/v1/jobs/job_1/effects/email%3Aa%2Fb/commit", { lease_token: "t", result: null }],
    ],
  );
});

test("the tenant and the filter are in the query", async (t) => {
  const { receiver } = await standIn(t, ok({ data: [], next_cursor: null }));
  const client = new Client({ url: receiver.url, key: "k", tenant: "a&b" });
  await client.listJobs({ status: "held", subject: "x:y:1 2", limit: 5 });
  await client.getJob("job_1");
  assert.deepEqual(
    receiver.seen.map((seen) => seen.path),
    ["/api/v1/jobs?status=held&subject=x%3Ay%3A1+2&limit=5&tenant=a%26b", "/api/v1/jobs/job_1?tenant=a%26b"],
  );
});

test("the server hears which SDK calls, with its version", async (t) => {
  const { client, receiver } = await standIn(t, ok());
  await client.getJob("job_1");
  const { version } = JSON.parse(await readFile(new URL("../package.json", import.meta.url), "utf8"));
  assert.equal(receiver.seen[0].headers["user-agent"], `wakepost-typescript/${version}`);
  assert.equal(receiver.seen[0].headers.authorization, "Bearer k");
});

test("an id cannot lead elsewhere", async (t) => {
  const { client, receiver } = await standIn(t, ok());
  for (const id of ["", ".", ".."]) await assert.rejects(client.getJob(id), TypeError);
  assert.equal(receiver.seen.length, 0);
  await client.getJob("../keys");
  assert.equal(receiver.seen[0].path, "/api/v1/jobs/..%2Fkeys");
});

test("a redirect is not followed, so that the key goes nowhere else", async (t) => {
  const other = await startReceiver(t);
  const { client } = await standIn(t, { status: 307, headers: { location: `${other.url}/` } });
  await assert.rejects(client.getJob("job_1"), /status 307/);
  assert.equal(other.seen.length, 0);
});

test("an answer that is no JSON, or a proxy's page, is told as such", async (t) => {
  const page = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", (data) => {
      const status = data.includes("job_2") ? "418 T" : "200 OK";
      socket.end(`HTTP/1.1 ${status}\r\ncontent-length: 6\r\nconnection: close\r\n\r\n<html>`);
    });
  });
  await new Promise((resolve) => page.listen(0, "127.0.0.1", resolve));
  t.after(() => page.close());
  const client = new Client({ url: `http://127.0.0.1:${page.address().port}`, key: "k" });
  await assert.rejects(client.getJob("job_1"), /not JSON/);
  const error = await client.getJob("job_2").catch((error) => error);
  assert.deepEqual([error.status, error.code], [418, ""]);
});

test("a server that is away or silent is unreachable, and the call can be given up", async (t) => {
  const silent = await startReceiver(t, () => undefined);
  const client = new Client({ url: silent.url, key: "k", retries: 0 });
  await assert.rejects(client.getJob("job_1", { timeoutMs: 50 }), (error) => {
    return error instanceof Unreachable && /no answer within 50 ms/.test(error.message);
  });
  const away = await nobodyListens();
  const nobody = new Client({ url: away, key: "k", retries: 0 });
  await assert.rejects(nobody.getJob("job_1"), /ECONNREFUSED/);
  const asked = new AbortController();
  const waiting = client.getJob("job_1", { signal: asked.signal });
  const reason = new Error("enough");
  setImmediate(() => asked.abort(reason));
  await assert.rejects(waiting, reason);
  const patient = new Client({ url: away, key: "k", retries: Infinity });
  await assert.rejects(patient.getJob("job_1", { signal: AbortSignal.timeout(100) }), {
    name: "TimeoutError",
  });
});

/** An address that was just given up. */
async function nobodyListens() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return `http://127.0.0.1:${port}`;
}
