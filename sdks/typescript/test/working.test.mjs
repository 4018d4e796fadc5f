// What the worker promises, against a stand-in for the server.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  Cancelled,
  Client,
  done,
  EffectInDoubt,
  GiveUp,
  LeaseLost,
  NotDone,
  RetryAfter,
  RunEnded,
  Worker,
} from "wakepost";

import { startReceiver } from "./support/receiver.mjs";
import { gate, until } from "./support/waiting.mjs";

const JOB = {
  id: "job_1",
  run_id: "run_1",
  lease_token: "t",
  attempt: 1,
  kind: "k",
  input: { n: 1 },
  chain: "chain_1",
  traceparent: "00-trace-span-01",
};
const EXECUTE = { status: 200, body: { decision: "execute", idempotency_key: "eff_1" } };
const problem = (status, code) => ({ status, body: { status, code, title: "T" } });

/** A server with one job, which answers everything else with `rest`. */
async function oneJob(t, rest = () => undefined) {
  let polls = 0;
  return startReceiver(t, async (seen) => {
    if (seen.path === "/api/v1/jobs/lease") {
      return { status: 200, body: { jobs: polls++ === 0 ? [JOB] : [] } };
    }
    return (await rest(seen)) || { status: 200, body: { id: "job_1", status: "running" } };
  });
}

const ending = (server, end) => server.seen.filter((seen) => seen.path.endsWith(end));
const bodyOf = (server, end) => ending(server, end)[0]?.body;

/** Works until the server was sent a request whose path ends so. */
async function workUntil(server, last, handler, options = {}) {
  const warnings = [];
  const client = new Client({ url: server.url, key: "k" });
  const worker = new Worker(
    client,
    { name: "w", signals: false, warn: (text) => warnings.push(text), ...options },
    handler,
  );
  const running = worker.run();
  try {
    await Promise.race([until(last, () => ending(server, last).length > 0), running]);
  } finally {
    worker.stop();
    await running;
  }
  return warnings;
}

test("a job is leased, run and completed", async (t) => {
  const server = await oneJob(t);
  await workUntil(server, "/complete", (job) => job.input, { kinds: ["k"] });
  assert.deepEqual(bodyOf(server, "/lease"), { worker: "w", max: 1, wait_s: 5, lease_s: 120, kinds: ["k"] });
  assert.deepEqual(bodyOf(server, "/complete"), { lease_token: "t", result: { n: 1 } });
});

test("a handler may return nothing, or a reply and a cost", async (t) => {
  const silent = await oneJob(t);
  await workUntil(silent, "/complete", () => {});
  assert.deepEqual(bodyOf(silent, "/complete"), { lease_token: "t" });
  const rich = await oneJob(t);
  await workUntil(rich, "/complete", () => done({ result: 1, reply: "hi", cost: 0.5 }));
  assert.deepEqual(bodyOf(rich, "/complete"), { lease_token: "t", result: 1, reply: "hi", cost: 0.5 });
});

test("each way to fail says what follows", async (t) => {
  const caused = new Error("outer", { cause: new Error("inner") });
  for (const [thrown, expected] of [
    [caused, { error: "outer: inner" }],
    ["a string", { error: "a string" }],
    [new Error(`\ud800${"x".repeat(10_000_000)}`), { error: `\ufffd${"x".repeat(4095)}` }],
    [new GiveUp("never"), { error: "never", retryable: false }],
    [new RetryAfter(7, "later"), { error: "later", retryable: true, retry_after_s: 7 }],
    [new RetryAfter(0.2, "soon"), { error: "soon", retryable: true, retry_after_s: 1 }],
  ]) {
    const server = await oneJob(t);
    await workUntil(server, "/fail", () => {
      throw thrown;
    });
    assert.deepEqual(bodyOf(server, "/fail"), { lease_token: "t", ...expected });
  }
});

test("a report is repeated until it is answered", async (t) => {
  let reports = 0;
  const server = await oneJob(t, ({ path }) => {
    return path.endsWith("/complete") && reports++ < 2 ? problem(503, "busy") : undefined;
  });
  await workUntil(server, "/complete", () => {});
  assert.equal(ending(server, "/complete").length, 3);
});

test("a result that cannot be kept fails the job for good", async (t) => {
  const refusing = await oneJob(t, ({ path }) => path.endsWith("/complete") && problem(413, "too_large"));
  await workUntil(refusing, "/fail", () => "much");
  assert.equal(bodyOf(refusing, "/fail").retryable, false);
  assert.match(bodyOf(refusing, "/fail").error, /the result was refused/);
  const circular = {};
  circular.circular = circular;
  const server = await oneJob(t);
  await workUntil(server, "/fail", () => circular);
  assert.match(bodyOf(server, "/fail").error, /not JSON/);
});

test("an effect is begun, done and committed", async (t) => {
  const server = await oneJob(t, ({ path }) => path.endsWith("/effects") && EXECUTE);
  await workUntil(server, "/complete", (job) => {
    const options = { description: "welcomes", onDoubt: "execute" };
    return job.effect("email:welcome", async (key) => `sent ${key}`, options);
  });
  assert.deepEqual(bodyOf(server, "/effects"), {
    lease_token: "t", key: "email:welcome", description: "welcomes", on_doubt: "execute",
  });
  assert.deepEqual(bodyOf(server, "/effects/email%3Awelcome/commit"), { lease_token: "t", result: "sent eff_1" });
  assert.equal(bodyOf(server, "/complete").result, "sent eff_1");
});

test("a committed effect is not done again", async (t) => {
  const skip = { status: 200, body: { decision: "skip", idempotency_key: "e", result: 7 } };
  const server = await oneJob(t, ({ path }) => path.endsWith("/effects") && skip);
  await workUntil(server, "/complete", (job) => job.effect("e", () => assert.fail("it was done already")));
  assert.equal(bodyOf(server, "/complete").result, 7);
});

test("only an act that certainly did not happen is aborted", async (t) => {
  for (const [error, aborted] of [[new NotDone("refused"), 1], [new Error("timeout"), 0]]) {
    const server = await oneJob(t, ({ path }) => path.endsWith("/effects") && EXECUTE);
    await workUntil(server, "/fail", (job) => job.effect("e", () => Promise.reject(error)));
    assert.equal(ending(server, "/abort").length, aborted);
    assert.equal(ending(server, "/commit").length, 0);
    assert.deepEqual(bodyOf(server, "/fail"), { lease_token: "t", error: error.message });
  }
});

test("an act in doubt is not done again in the same run, unless that was declared safe", async (t) => {
  for (const [onDoubt, times] of [["hold", 1], ["execute", 2]]) {
    const server = await oneJob(t, ({ path }) => path.endsWith("/effects") && EXECUTE);
    let acts = 0;
    await workUntil(server, "/fail", async (job) => {
      const act = () => {
        acts++;
        throw new Error("timeout");
      };
      await assert.rejects(job.effect("e", act, { onDoubt }), /timeout/);
      const again = await job.effect("e", act, { onDoubt }).catch((error) => error);
      assert.equal(again instanceof EffectInDoubt, onDoubt === "hold");
      throw again;
    });
    assert.equal(acts, times);
  }
});

test("two calls for one effect at the same time are one act", async (t) => {
  const server = await oneJob(t, ({ path }) => path.endsWith("/effects") && EXECUTE);
  let acts = 0;
  await workUntil(server, "/complete", (job) => {
    const act = async () => ++acts;
    return Promise.all([job.effect("e", act), job.effect("e", act)]);
  });
  assert.deepEqual(bodyOf(server, "/complete").result, [1, 1]);
});

test("an effect whose result cannot be kept is committed without it", async (t) => {
  let commits = 0;
  const server = await oneJob(t, ({ path }) => {
    if (path.endsWith("/effects")) return EXECUTE;
    return path.endsWith("/commit") && commits++ === 0 ? problem(422, "invalid_request") : undefined;
  });
  await workUntil(server, "/complete", (job) => job.effect("e", () => "very large"));
  assert.deepEqual(ending(server, "/commit").map(({ body }) => body.result), ["very large", null]);
});

test("a run that ended on the server reports nothing, also if the handler goes on", async (t) => {
  for (const decision of ["in_doubt", "needs_approval"]) {
    const ended = { status: 200, body: { decision, idempotency_key: "e" } };
    const server = await oneJob(t, ({ path }) => path.endsWith("/effects") && ended);
    let refused;
    await workUntil(server, "/effects", async (job) => {
      await job.effect("e", () => assert.fail("it must not be done")).catch(() => {});
      refused = await job.checkpoint({}).catch((error) => error);
    });
    assert.ok(refused instanceof RunEnded);
    assert.deepEqual(server.seen.filter(({ path }) => !/lease|effects/.test(path)), []);
  }
});

test("what must be answered is repeated; progress that does not get through is dropped", async (t) => {
  const tries = {};
  const server = await oneJob(t, ({ path }) => {
    const verb = path.split("/").at(-1);
    tries[verb] = (tries[verb] ?? 0) + 1;
    return tries[verb] === 1 && verb !== "complete" ? problem(503, "busy") : undefined;
  });
  await workUntil(server, "/complete", async (job) => {
    await job.progress("half");
    await job.checkpoint({ next: 2 });
    await job.reply("working on it");
    await job.reply({ text: "done", update: true });
  });
  assert.deepEqual(tries, { progress: 1, checkpoint: 2, reply: 3, complete: 1 });
  const replies = ending(server, "/reply").map(({ body, headers }) => [body.text, headers["idempotency-key"]]);
  assert.deepEqual(replies, [
    ["working on it", "run_1:0"],
    ["working on it", "run_1:0"],
    ["done", "run_1:1"],
  ]);
  assert.deepEqual(bodyOf(server, "/checkpoint"), { lease_token: "t", state: { next: 2 } });
});

test("heartbeats bring the wish to cancel, and the handler's error ends the job", async (t) => {
  const asked = { status: 200, body: { cancel_requested: true } };
  const server = await oneJob(t, ({ path }) => path.endsWith("/heartbeat") && asked);
  await workUntil(server, "/fail", untilTold, { leaseS: 3 });
  assert.deepEqual(bodyOf(server, "/heartbeat"), { lease_token: "t", extend_s: 3 });
  assert.equal(bodyOf(server, "/fail").error, new Cancelled().message);
});

test("a run may take much longer than its lease", async (t) => {
  const server = await oneJob(t, ({ path }) => {
    return path.endsWith("/heartbeat") && { status: 200, body: { cancel_requested: false } };
  });
  const work = () => until("five heartbeats", () => ending(server, "/heartbeat").length >= 5);
  const warnings = await workUntil(server, "/complete", work, { leaseS: 2 });
  assert.deepEqual(warnings, []);
});

test("a run whose lease is lost is told, and says no more", async (t) => {
  const server = await oneJob(t, ({ path }) => path.endsWith("/heartbeat") && problem(409, "lease_lost"));
  const told = gate();
  const warnings = await workUntil(
    server,
    "/heartbeat",
    async (job) => {
      const reason = await untilTold(job).catch((reason) => reason);
      await assert.rejects(job.effect("e", () => assert.fail("a zombie must not act")), LeaseLost);
      await assert.rejects(job.checkpoint({}), LeaseLost);
      told.open(reason);
    },
    { leaseS: 1 },
  );
  assert.ok((await told.opened) instanceof LeaseLost);
  assert.deepEqual(server.seen.filter(({ path }) => !/lease|heartbeat/.test(path)), []);
  assert.match(warnings.join(), /is lost/);
});

test("a lease that cannot be kept alive is given up when it ends", async (t) => {
  const server = await oneJob(t, ({ path }) => path.endsWith("/heartbeat") && problem(503, "busy"));
  const begun = performance.now();
  await workUntil(server, "/heartbeat", untilTold, { leaseS: 1, graceS: 60 });
  const took = performance.now() - begun;
  assert.ok(took > 900 && took < 30_000, `${took}`);
  assert.deepEqual(ending(server, "/fail"), []);
});

test("a stopping worker lets jobs end, and hands back what it cannot finish", async (t) => {
  const patient = await oneJob(t);
  await workUntil(patient, "/progress", async (job) => {
    await job.progress("begun");
    await new Promise((resolve) => setTimeout(resolve, 200));
  });
  assert.equal(ending(patient, "/complete").length, 1);
  const hasty = await oneJob(t);
  const work = async (job) => {
    await job.progress("begun");
    await untilTold(job);
  };
  await workUntil(hasty, "/progress", work, { graceS: 0.05 });
  assert.deepEqual(bodyOf(hasty, "/fail"), {
    lease_token: "t", error: "the worker stopped", hand_back: true,
  });
});

test("a job whose handler does not heed its signal is not handed back", async (t) => {
  const server = await oneJob(t);
  const ends = gate();
  const work = async (job) => {
    await job.progress("begun");
    await ends.opened;
  };
  const warnings = await workUntil(server, "/progress", work, { graceS: 0.05 });
  assert.match(warnings.join(), /does not heed its signal/);
  ends.open();
  await new Promise(setImmediate);
  assert.deepEqual(server.seen.filter(({ path }) => /complete|fail$/.test(path)), []);
});

test("what an effect did while the worker stopped is still committed", async (t) => {
  const server = await oneJob(t, ({ path }) => path.endsWith("/effects") && EXECUTE);
  const work = async (job) => {
    await job.effect("e", async () => untilTold(job).catch(() => "it happened"));
    await job.effect("next", () => assert.fail("nothing more is begun"));
  };
  await workUntil(server, "/effects", work, { graceS: 0.05 });
  assert.equal(bodyOf(server, "/effects/e/commit").result, "it happened");
  assert.equal(bodyOf(server, "/fail").error, "the worker stopped");
  assert.equal(ending(server, "/effects").length, 1);
});

test("no more jobs run at once than there may, and all that fit are asked for together", async (t) => {
  let left = 10;
  const server = await startReceiver(t, ({ path, body }) => {
    if (!path.endsWith("/lease")) return { status: 200, body: {} };
    const jobs = Array.from({ length: Math.min(body.max, left) }, () => ({ ...JOB, id: `job_${left--}` }));
    return { status: 200, body: { jobs } };
  });
  let now = 0;
  let most = 0;
  const client = new Client({ url: server.url, key: "k" });
  const worker = new Worker(client, { name: "w", concurrency: 3, signals: false }, async () => {
    most = Math.max(most, ++now);
    await new Promise((resolve) => setTimeout(resolve, 20));
    now--;
  });
  const running = worker.run();
  await until("all are done", () => ending(server, "/complete").length === 10);
  worker.stop();
  await running;
  assert.equal(most, 3);
  assert.equal(bodyOf(server, "/lease").max, 3);
});

test("a server that is away is waited for; one that refuses the worker ends it", async (t) => {
  let polls = 0;
  const server = await startReceiver(t, ({ path }) => {
    if (!path.endsWith("/lease")) return { status: 200, body: {} };
    polls++;
    if (polls <= 2) return problem(503, "busy");
    return { status: 200, body: { jobs: polls === 3 ? [JOB] : [] } };
  });
  const warnings = await workUntil(server, "/complete", () => {});
  assert.equal(warnings.length, 2);
  const closed = await startReceiver(t, () => problem(401, "unauthorized"));
  const worker = new Worker(new Client({ url: closed.url, key: "k" }), { name: "w", signals: false }, () => {});
  await assert.rejects(worker.run(), { status: 401 });
  assert.equal(closed.seen.length, 1);
});

test("settings that make no sense are refused at once", () => {
  const client = new Client({ url: "http://h", key: "k" });
  const settings = { concurrency: [0, 1.5, Number.NaN], leaseS: [0, 3601], waitS: [0, 31], graceS: [-1, Infinity] };
  const bad = Object.entries(settings).flatMap(([name, values]) => values.map((value) => ({ [name]: value })));
  for (const settings of bad) {
    assert.throws(() => new Worker(client, { name: "w", ...settings }, () => {}), TypeError);
  }
});

/** Waits until the run should stop, and throws why. */
function untilTold(job) {
  return new Promise((_, reject) => {
    job.signal.addEventListener("abort", () => reject(job.signal.reason));
  });
}

test("an act whose commit was refused is not done again in the same run", async (t) => {
  const server = await oneJob(t, ({ path }) => {
    if (path.endsWith("/effects")) return EXECUTE;
    return path.endsWith("/commit") && problem(403, "forbidden");
  });
  let acts = 0;
  await workUntil(server, "/fail", async (job) => {
    await assert.rejects(job.effect("e", () => ++acts));
    await job.effect("e", () => ++acts);
  });
  assert.equal(acts, 1);
  assert.match(bodyOf(server, "/fail").error, /may have happened in this run/);
});

test("an act that was allowed while the worker stops is done and committed, and no other is begun", async (t) => {
  const asked = gate();
  const stopped = gate();
  const server = await oneJob(t, async ({ path }) => {
    if (!path.endsWith("/effects")) return undefined;
    asked.open();
    await stopped.opened;
    return EXECUTE;
  });
  let acts = 0;
  const client = new Client({ url: server.url, key: "k" });
  const worker = new Worker(client, { name: "w", signals: false, graceS: 0, waitS: 1, warn: () => {} }, async (job) => {
    job.signal.addEventListener("abort", () => stopped.open());
    await job.effect("e", () => ++acts);
    await job.effect("f", () => ++acts);
  });
  const running = worker.run();
  await asked.opened;
  worker.stop();
  await running;
  assert.equal(acts, 1);
  assert.equal(ending(server, "/e/commit").length, 1);
  assert.equal(ending(server, "/abort").length, 0);
  assert.deepEqual(bodyOf(server, "/fail"), { lease_token: "t", error: "the worker stopped", hand_back: true });
});

test("a run that is to be handed back saves its state, and ends there", async (t) => {
  const begun = gate();
  const server = await oneJob(t);
  const client = new Client({ url: server.url, key: "k" });
  let wentOn = false;
  const worker = new Worker(client, { name: "w", signals: false, graceS: 0, waitS: 1, warn: () => {} }, async (job) => {
    begun.open();
    await new Promise((resolve) => job.signal.addEventListener("abort", resolve));
    await job.checkpoint({ page: 7 });
    wentOn = true;
  });
  const running = worker.run();
  await begun.opened;
  worker.stop();
  await running;
  assert.deepEqual(bodyOf(server, "/checkpoint"), { lease_token: "t", state: { page: 7 } });
  assert.equal(bodyOf(server, "/fail").hand_back, true);
  assert.equal(wentOn, false);
});

test("one heartbeat that hangs loses no lease, and beats carry the cost so far", async (t) => {
  let beats = 0;
  const forever = gate();
  const server = await oneJob(t, async ({ path }) => {
    if (path.endsWith("/heartbeat") && beats++ === 0) await forever.opened;
  });
  await workUntil(
    server,
    "/complete",
    async (job) => {
      job.cost = 0.25;
      await new Promise((resolve) => setTimeout(resolve, 1500));
    },
    { leaseS: 1 },
  );
  forever.open();
  assert.deepEqual(bodyOf(server, "/heartbeat"), { lease_token: "t", extend_s: 1, cost: 0.25 });
  assert.deepEqual(bodyOf(server, "/complete"), { lease_token: "t", cost: 0.25 });
});

test("jobs that a job makes say what led to them", async (t) => {
  const server = await oneJob(t, ({ path }) => path.endsWith("/jobs") && { status: 201, body: { id: "job_2", data: [] } });
  await workUntil(server, "/complete", async (job) => {
    await job.client.createJob({ input: 1, mode: "draft" });
    await job.client.createJobs([{ input: 1 }]);
    await job.client.createJobs([{ input: 1, dedup_key: "d" }]);
    return job.chain;
  });
  const made = ending(server, "/jobs");
  assert.equal(made.length, 3);
  for (const { headers } of made) {
    assert.equal(headers["wakepost-chain"], "chain_1");
    assert.equal(headers["traceparent"], "00-trace-span-01");
  }
  assert.equal(made[0].body.mode, "draft");
  assert.equal(bodyOf(server, "/complete").result, "chain_1");
  assert.equal(ending(server, "/lease")[0].headers["wakepost-chain"], undefined);
});
