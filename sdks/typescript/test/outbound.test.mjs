// Publishing, webhooks and pull mode, against a stand-in for the server.

import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";

import { Client, Consumer, GiveUp, LeaseLost, RetryAfter, WakepostError } from "wakepost";

import { startReceiver } from "./support/receiver.mjs";
import { gate, until } from "./support/waiting.mjs";

/** A client of a stand-in that answers as told, one answer after another, the last for ever. */
async function standIn(t, ...answers) {
  const receiver = await startReceiver(t, () => (answers.length > 1 ? answers.shift() : answers[0]));
  return { receiver, client: new Client({ url: receiver.url, key: "k" }) };
}

const ok = (body = {}) => ({ status: 200, body });
const problem = (status, code) => ({ status, body: { status, code, title: "T" } });
const keysOf = (receiver) => receiver.seen.map(({ headers }) => headers["idempotency-key"]);

test("an event is sent with all it says, and published under one key however often it is sent", async (t) => {
  const { client, receiver } = await standIn(t, problem(503, "busy"), problem(429, "slow"), ok({ id: "evt_1" }));
  const event = {
    type: "order.updated",
    data: { id: 1 },
    api_version: "2026-11-15",
    previous_attributes: { total: 1 },
    livemode: false,
    order_key: "o",
    deliver_at: "2026-11-16T10:00:00.000Z",
  };
  assert.equal((await client.publish(event)).id, "evt_1");
  await client.publish(event);
  for (const seen of receiver.seen) assert.deepEqual([seen.path, seen.body], ["/api/v1/events", event]);
  const keys = keysOf(receiver);
  assert.equal(keys.length, 4);
  assert.ok(keys[0]);
  assert.equal(new Set(keys.slice(0, 3)).size, 1);
  assert.notEqual(keys[3], keys[0], "another event, though it looks the same");
});

test("what the caller gave is what counts", async (t) => {
  const { client, receiver } = await standIn(t, problem(503, "busy"), ok({ id: "evt_1" }));
  await client.publish({ type: "a.b", data: 1, dedup_key: "mine" });
  await client.publish({ type: "a.b", data: 1 }, { idempotencyKey: "own" });
  assert.deepEqual(keysOf(receiver), [undefined, undefined, "own"]);
});

test("many are repeated under one key, or under their own", async (t) => {
  const answer = ok({ data: [{ id: "evt_1" }, { id: "evt_2" }] });
  const plain = { type: "a.b", data: 1 };
  const keyed = { type: "a.b", data: 2, dedup_key: "k" };
  const none = await standIn(t, problem(503, "busy"), answer);
  assert.equal((await none.client.publishMany([plain, plain]))[1].id, "evt_2");
  assert.ok(keysOf(none.receiver)[0]);
  assert.equal(new Set(keysOf(none.receiver)).size, 1);
  const all = await standIn(t, problem(503, "busy"), answer);
  await all.client.publishMany([keyed, { ...keyed, dedup_key: "l" }]);
  assert.deepEqual(keysOf(all.receiver), [undefined, undefined]);
  // The server takes dedup keys or an idempotency key for an array, so what has none gets one.
  const mixed = await standIn(t, problem(503, "busy"), answer);
  await mixed.client.publishMany([keyed, plain]);
  assert.deepEqual(keysOf(mixed.receiver), [undefined, undefined]);
  const [first, second] = mixed.receiver.seen.map((seen) => seen.body);
  assert.deepEqual(first, second);
  assert.equal(first[0].dedup_key, "k");
  assert.ok(first[1].dedup_key);
  assert.equal(plain.dedup_key, undefined, "what the caller has is left alone");
});

test("an event that a run publishes goes on with its trace", async (t) => {
  const { client, receiver } = await standIn(t, ok({ id: "evt_1" }));
  await client.onBehalfOf({ chain: "chain_1", traceparent: "00-t" }).publish({ type: "a.b", data: 1 });
  const { headers } = receiver.seen[0];
  assert.deepEqual([headers["wakepost-chain"], headers["traceparent"]], ["chain_1", "00-t"]);
});

test("every call goes where the API has it", async (t) => {
  const since = "2026-11-15T00:00:00.000Z";
  const calls = [
    [(c) => c.listEvents({ limit: 2 }), "/events?limit=2"],
    [(c) => c.getEvent("evt_1"), "/events/evt_1"],
    [(c) => c.listEventDeliveries("evt_1", { cursor: "c" }), "/events/evt_1/deliveries?cursor=c"],
    [(c) => c.listEventTypes(), "/event-types"],
    [(c) => c.createEventType("a.b", { description: "d" }), "/event-types", { description: "d", name: "a.b" }],
    [(c) => c.getEventType("a.b"), "/event-types/a.b"],
    [(c) => c.putEventType("a.b", { versions: { v1: {} } }), "/event-types/a.b", { versions: { v1: {} } }],
    [(c) => c.deleteEventType("a.b"), "/event-types/a.b"],
    [(c) => c.createWebhook({ url: "https://a", events: ["*"] }), "/webhooks", { url: "https://a", events: ["*"] }],
    [(c) => c.listWebhooks(), "/webhooks"],
    [(c) => c.getWebhook("wh_1"), "/webhooks/wh_1"],
    [(c) => c.updateWebhook("wh_1", { rate_per_s: null }), "/webhooks/wh_1", { rate_per_s: null }],
    [(c) => c.deleteWebhook("wh_1"), "/webhooks/wh_1"],
    [(c) => c.testWebhook("wh_1", "a.b"), "/webhooks/wh_1/test", { type: "a.b" }],
    [(c) => c.testWebhook("wh_1"), "/webhooks/wh_1/test", {}],
    [(c) => c.rotateWebhook("wh_1", { grace_s: 60 }), "/webhooks/wh_1/rotate", { grace_s: 60 }],
    [(c) => c.revokePreviousSecret("wh_1"), "/webhooks/wh_1/revoke-previous", {}],
    [(c) => c.pauseWebhook("wh_1", false), "/webhooks/wh_1/pause", { keep: false }],
    [(c) => c.resumeWebhook("wh_1"), "/webhooks/wh_1/resume", {}],
    [(c) => c.enableWebhook("wh_1"), "/webhooks/wh_1/enable", {}],
    [(c) => c.disableWebhook("wh_1"), "/webhooks/wh_1/disable", {}],
    [(c) => c.recoverWebhook("wh_1", { since }), "/webhooks/wh_1/recover", { since }],
    [(c) => c.backfillWebhook("wh_1", { since, until: since }), "/webhooks/wh_1/backfill", { since, until: since }],
    [(c) => c.getOperation("op_1"), "/operations/op_1"],
    [(c) => c.listWebhookDeliveries("wh_1", { status: "held" }), "/webhooks/wh_1/deliveries?status=held"],
    [(c) => c.webhookStats("wh_1"), "/webhooks/wh_1/stats"],
    [(c) => c.getDelivery("dlv_1"), "/deliveries/dlv_1"],
    [(c) => c.replayDelivery("dlv_1"), "/deliveries/dlv_1/replay", {}],
    [(c) => c.createPortalLink({ tenant: "acme", expires_s: 60 }), "/portal-links", { tenant: "acme", expires_s: 60 }],
  ];
  const { client, receiver } = await standIn(t, ok());
  for (const [call, path, body] of calls) {
    await call(client);
    const seen = receiver.seen.at(-1);
    assert.deepEqual([seen.path, seen.body], [`/api/v1${path}`, body ?? null]);
  }
});

test("what a repeat could do twice is sent once", async (t) => {
  for (const call of [
    (client) => client.rotateWebhook("wh_1"),
    (client) => client.testWebhook("wh_1"),
    (client) => client.disableWebhook("wh_1"),
    (client) => client.updateWebhook("wh_1", {}),
    (client) => client.leaseDeliveries("wh_1", { worker: "w" }),
  ]) {
    const { client, receiver } = await standIn(t, problem(503, "busy"));
    await assert.rejects(call(client), WakepostError);
    assert.equal(receiver.seen.length, 1, call.toString());
  }
});

const BODY = '{"id":"evt_1","type":"order.created","data":{"object":{"n":1}}}';
const LEASED = { id: "dlv_1", lease_token: "t", attempt: 2, headers: { "Webhook-Id": "evt_1" }, body: BODY };

/** A server with these deliveries, which answers everything else with `rest`. */
async function offering(t, deliveries, rest = () => undefined) {
  let polls = 0;
  return startReceiver(t, async (seen) => {
    if (seen.path === "/api/v1/webhooks/wh_1/deliveries/lease") {
      return ok({ deliveries: polls++ === 0 ? deliveries : [] });
    }
    return (await rest(seen)) || ok({ id: "dlv_1", status: "succeeded" });
  });
}

const ending = (server, end) => server.seen.filter(({ path }) => path.endsWith(end)).map(({ body }) => body);

/** Consumes; the test ends it. */
function consume(t, server, handler, options = {}) {
  const warnings = [];
  const client = new Client({ url: server.url, key: "k" });
  const settings = { webhookId: "wh_1", name: "w", waitS: 1, graceS: 0, signals: false };
  const consumer = new Consumer(
    client,
    { ...settings, warn: (text) => warnings.push(text), ...options },
    handler,
  );
  const running = consumer.run();
  const end = async () => {
    consumer.stop();
    await running;
  };
  t.after(end);
  return { end, warnings, running };
}

test("what a handler took is acked", async (t) => {
  const server = await offering(t, [LEASED]);
  const got = [];
  consume(t, server, (delivery) => got.push(delivery), { leaseS: 30 });
  await until("an ack", () => ending(server, "/ack").length > 0);
  assert.deepEqual(ending(server, "/ack"), [{ lease_token: "t" }]);
  const [delivery] = got;
  assert.deepEqual([delivery.eventId, delivery.attempt, delivery.body], ["evt_1", 2, BODY]);
  assert.deepEqual(delivery.event.data.object, { n: 1 });
  assert.deepEqual(ending(server, "/lease")[0], { worker: "w", max: 1, wait_s: 1, lease_s: 30 });
  assert.equal(ending(server, "/nack").length, 0);
});

test("each way to fail says what follows", async (t) => {
  for (const [thrown, expected] of [
    [new Error("oh", { cause: new Error("inner") }), { error: "oh: inner" }],
    [new RetryAfter(30, "busy"), { error: "busy", retryable: true, retry_after_s: 30 }],
    [new GiveUp("never"), { error: "never", retryable: false }],
  ]) {
    const server = await offering(t, [LEASED]);
    const { end } = consume(t, server, async () => {
      throw thrown;
    });
    await until("a nack", () => ending(server, "/nack").length > 0);
    assert.deepEqual(ending(server, "/nack"), [{ lease_token: "t", ...expected }]);
    await end();
    assert.equal(ending(server, "/ack").length, 0);
  }
});

test("leases are kept alive while handlers run, several at once", async (t) => {
  const { opened, open } = gate();
  const server = await offering(t, [LEASED, { ...LEASED, id: "dlv_2", lease_token: "u" }]);
  consume(t, server, () => opened, { concurrency: 2, leaseS: 1 });
  await until("heartbeats of both", () => ending(server, "/heartbeat").length >= 6);
  const tokens = ending(server, "/heartbeat").map((body) => body.lease_token);
  assert.deepEqual([...new Set(tokens)].sort(), ["t", "u"]);
  assert.equal(ending(server, "/heartbeat")[0].extend_s, 1);
  open();
  await until("both acks", () => ending(server, "/ack").length === 2);
});

test("nothing is said about a delivery whose lease is lost", async (t) => {
  const server = await offering(t, [LEASED], ({ path }) => {
    return path.endsWith("/heartbeat") ? problem(409, "lease_lost") : undefined;
  });
  const reasons = [];
  const { end, warnings } = consume(
    t,
    server,
    async (delivery) => {
      if (!delivery.signal.aborted) await once(delivery.signal, "abort");
      reasons.push(delivery.signal.reason);
    },
    { leaseS: 1 },
  );
  await until("it is lost", () => warnings.some((text) => text.includes("is lost")));
  await end();
  assert.ok(reasons[0] instanceof LeaseLost);
  assert.equal(ending(server, "/ack").length + ending(server, "/nack").length, 0);
});

test("a consumer that stops hands back what it has not taken", async (t) => {
  const server = await offering(t, [LEASED]);
  const { opened, open } = gate();
  const { end } = consume(t, server, async (delivery) => {
    open();
    if (!delivery.signal.aborted) await once(delivery.signal, "abort");
    throw delivery.signal.reason;
  });
  await opened;
  await end();
  assert.deepEqual(ending(server, "/nack"), [
    { lease_token: "t", error: "the worker stopped", hand_back: true },
  ]);
});

test("an ack is repeated until it is answered, and one that is refused kills nothing", async (t) => {
  let acks = 0;
  const server = await offering(t, [LEASED], ({ path }) => {
    return path.endsWith("/ack") && acks++ < 2 ? problem(503, "busy") : undefined;
  });
  consume(t, server, () => {});
  await until("three acks", () => ending(server, "/ack").length === 3);
  const refusing = await offering(t, [LEASED], ({ path }) => {
    return path.endsWith("/ack") ? problem(422, "invalid_request") : undefined;
  });
  const { end, warnings } = consume(t, refusing, () => {});
  await until("it is told", () => warnings.some((text) => text.includes("was not recorded")));
  await end();
  // It was taken: to say otherwise would make a dead letter of it.
  assert.equal(ending(refusing, "/nack").length, 0);
});

test("a server that is away is waited for, and a refusal ends it", async (t) => {
  let polls = 0;
  const server = await startReceiver(t, ({ path }) => {
    if (!path.endsWith("/lease")) return ok();
    polls += 1;
    if (polls === 1) return problem(503, "busy");
    return ok({ deliveries: polls === 2 ? [LEASED] : [] });
  });
  consume(t, server, () => {});
  await until("an ack", () => ending(server, "/ack").length > 0);
  const refusing = await startReceiver(t, () => problem(404, "not_found"));
  const client = new Client({ url: refusing.url, key: "k" });
  const consumer = new Consumer(client, { webhookId: "wh_1", signals: false }, () => {});
  await assert.rejects(consumer.run(), /404/);
});

test("settings that make no sense are refused at once", () => {
  const client = new Client({ url: "http://127.0.0.1:1", key: "k" });
  for (const wrong of [{ concurrency: 0 }, { leaseS: 0 }, { waitS: 31 }, { graceS: -1 }]) {
    assert.throws(() => new Consumer(client, { webhookId: "wh_1", ...wrong }, () => {}), TypeError);
  }
});
