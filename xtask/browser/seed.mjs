// What the pages have to show: events of several providers, jobs in every state, effects, approvals, dead letters,
// webhooks that work and one that fails, tenants and keys; and texts that try to be markup.

import { createServer } from "node:http";

/** Text that breaks out of anything that does not escape it. */
export const HOSTILE = `"><script>window.hacked = 1</script><img src=x onerror="window.hacked = 1"> \u001b[31m \u202e ${"{{7*7}}"}`;

/** The same for names, which may have visible characters only. */
export const MARKUP = `"><script>window.hacked = 1</script><b>`;

/** The API as one key sees it. */
export function api(base, key) {
  return async (method, path, body, headers = {}) => {
    const answer = await fetch(`${base}/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text === "" ? null : JSON.parse(text);
  };
}

/** A receiver that takes everything, but for a path that fails and one that is gone; and two of Slack's APIs, of which
 * one does not know the channel. */
export async function receiver() {
  let posted = 0;
  const answers = (path) => {
    if (path.startsWith("/broken")) return [500, HOSTILE];
    if (path.startsWith("/gone")) return [410, "nobody is here"];
    if (path === "/slack/chat.postMessage") return [200, JSON.stringify({ ok: true, channel: "C0DEPLOYS", ts: `1700000000.${String(++posted).padStart(6, "0")}` })];
    if (path.startsWith("/slack/")) return [200, JSON.stringify({ ok: true, messages: [] })];
    if (path.startsWith("/deaf/")) return [200, JSON.stringify({ ok: false, error: "channel_not_found" })];
    return [200, "thank you"];
  };
  const server = createServer((request, answer) => {
    request.resume();
    request.on("end", () => {
      const [status, text] = answers(request.url.split("?")[0]);
      answer.writeHead(status, { "content-type": text.startsWith("{") ? "application/json" : "text/plain" });
      answer.end(text);
    });
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

export const wait = (ms) => new Promise((done) => setTimeout(done, ms));

/** Asks until the answer is as wanted. */
export async function until(what, look) {
  for (let tries = 0; tries < 300; tries++) {
    const found = await look();
    if (found) return found;
    await wait(100);
  }
  throw new Error(`waited in vain for ${what}`);
}

/** What a reply says first, and how it goes on: long enough for two parts. */
export const SAID = "The build failed in the linker";

/** Two mentions in a chat that are answered: one where all goes well, and one where neither the reply nor the callback can. */
async function conversations(call, receiverUrl, lease, end) {
  const made = {};
  for (const [name, chat, callback] of [["answered", "/slack", "/in"], ["unheard", "/deaf", "/gone"]]) {
    const settings = { bot_token: "xoxb-1", api_url: receiverUrl + chat };
    const source = await call("POST", "/sources", { provider: "slack", name: `chat, ${name}`, secret: "s".repeat(32), settings, callback_url: receiverUrl + callback });
    await call("POST", `/sources/${source.id}/test`, { event_type: "app_mention" });
    const job = await until("the mention", async () => (await lease(1, { sources: [source.id] }))[0]);
    const text = `${SAID}. ${HOSTILE}\n\n${"It had no space left on its disk.\n".repeat(160)}`;
    await end(job, "complete", { result: { answered: true }, reply: text });
    made[name] = job.envelope.event_id;
    const work = await until(`what became of what is ${name}`, async () => {
      const { work } = await call("GET", `/inbox/${made[name]}`);
      const others = work.filter((each) => each.kind !== "job");
      return others.length === 2 && others.every((each) => each.finished_at) && others;
    });
    for (const each of work) made[`${name}_${each.kind}`] = each.id;
  }
  return made;
}

/** Fills a server, and says what is where. */
export async function seed(base, key, receiverUrl) {
  const call = api(base, key);
  const github = await call("POST", "/sources", { provider: "github", name: "shop issues", max_attempts: 2, backoff_s: [600] });
  const stripe = await call("POST", "/sources", { provider: "stripe", name: "payments", secret: "whsec_test_secret_for_payments", mode: "draft" });
  const generic = await call("POST", "/sources", { provider: "generic", name: `odd ${MARKUP}`, unsigned: true, max_attempts: 1 });
  const slack = await call("POST", "/sources", { provider: "slack", name: "team chat" });
  const made = { github, stripe, generic, slack };

  const jobs = {};
  for (const type of ["issues.opened", "pull_request.opened", "push"]) {
    await call("POST", `/sources/${github.id}/test`, { event_type: type }).catch(() => call("POST", `/sources/${github.id}/test`, {}));
  }
  for (let i = 0; i < 12; i++) await call("POST", `/sources/${github.id}/test`, {});
  const send = (body, type = "application/json") =>
    fetch(`${base}/in/${generic.id}`, { method: "POST", headers: { "content-type": type }, body }).then((answer) => answer.json());
  const hostile = await send(JSON.stringify({ type: "note.added", text: HOSTILE, [HOSTILE]: [1, 2, { deep: HOSTILE }], long: "x".repeat(5000) }));
  const twice = JSON.stringify({ type: "order.paid", id: "ord_7", amount: 1999 });
  const first = await send(twice);
  await send(twice);
  await send(twice);
  await send("not json at all \u0000\u0001", "text/plain");
  await fetch(`${base}/in/${github.id}`, { method: "POST", headers: { "x-github-event": "push", "x-hub-signature-256": "sha256=00" }, body: "{}" });
  made.hostile = hostile.event_id;
  made.twice = first.event_id;

  const lease = async (max, filter = {}) => (await call("POST", "/jobs/lease", { worker: "worker-7", max, lease_s: 900, ...filter })).jobs;
  const all = await lease(40, { sources: [github.id, generic.id] });
  const end = (job, how, more = {}) => call("POST", `/jobs/${job.id}/${how}`, { lease_token: job.lease_token, ...more });
  for (const [at, job] of all.entries()) {
    const own = job.envelope?.event_id === hostile.event_id;
    if (own) {
      await call("POST", `/jobs/${job.id}/progress`, { lease_token: job.lease_token, message: HOSTILE, percent: 40, step: "reading" });
      await end(job, "fail", { error: `cannot read it: ${HOSTILE}`, retryable: false });
    } else if (job.envelope?.event_id === first.event_id) {
      const effect = await call("POST", `/jobs/${job.id}/effects`, { lease_token: job.lease_token, key: "mail:receipt", description: "send the receipt" });
      if (effect.decision !== "execute") throw new Error(`effect: ${effect.decision}`);
      await call("POST", `/jobs/${job.id}/effects/${encodeURIComponent("mail:receipt")}/commit`, { lease_token: job.lease_token, result: { message: "m-1" } });
      await end(job, "complete", { result: { sent: true } });
    } else if (at === 0) {
      await call("POST", `/jobs/${job.id}/progress`, { lease_token: job.lease_token, message: "reading the thread", percent: 30 });
      jobs.running = job.id;
    } else if (at === 1) {
      await end(job, "fail", { error: "GitHub API 502 during issue creation", retryable: true });
      jobs.retrying = job.id;
      made.retrying = job.envelope.event_id;
    } else if (at === 2) {
      await call("POST", `/jobs/${job.id}/effects`, { lease_token: job.lease_token, key: "github:comment", description: "comment on the issue" });
      await end(job, "fail", { error: "connection lost while commenting", retryable: true });
    } else if (at < 6) {
      await end(job, "fail", { error: "the model refused", retryable: false });
    } else {
      await end(job, "complete", { result: { labelled: true }, cost: 0.02 });
    }
  }
  for (let i = 0; i < 5; i++) await call("POST", `/sources/${github.id}/test`, {});

  await call("POST", `/sources/${stripe.id}/test`, {});
  const [payment] = await lease(1, { sources: [stripe.id] });
  if (payment) {
    const asked = await call("POST", `/jobs/${payment.id}/effects`, { lease_token: payment.lease_token, key: "refund:ch_1", description: `refund 19.99 EUR ${HOSTILE}` });
    jobs.asked = payment.id;
    if (asked.decision !== "needs_approval") throw new Error(`approval: ${asked.decision}`);
  }
  await call("POST", "/jobs", { kind: "refund", input: { charge: "ch_2", note: HOSTILE }, max_attempts: 3 });
  const [refund] = await lease(1, { kinds: ["refund"] });
  const beginning = { key: "refund:ch_2", description: "refund 5.00 EUR" };
  await call("POST", `/jobs/${refund.id}/effects`, { lease_token: refund.lease_token, ...beginning });
  await end(refund, "fail", { error: "connection lost while refunding", retryable: true, retry_after_s: 0 });
  const again = await until("the second run", async () => (await lease(1, { kinds: ["refund"] }))[0]);
  await call("POST", `/jobs/${again.id}/effects`, { lease_token: again.lease_token, ...beginning });
  jobs.held = refund.id;
  made.jobs = jobs;
  Object.assign(made, await conversations(call, receiverUrl, lease, end));

  await call("POST", "/event-types", { name: "order.created", description: "An order was placed.", versions: { "2026-11-15": { schema: { type: "object", required: ["id"], properties: { id: { type: "string" } } }, example: { id: "ord_1" }, change: "first" } } });
  made.webhook = await call("POST", "/webhooks", { url: `${receiverUrl}/in`, events: ["order.*"], description: "the shop's warehouse" });
  made.broken = await call("POST", "/webhooks", { url: `${receiverUrl}/broken`, events: ["order.*"], description: `broken ${MARKUP}`, retry_s: [0, 1], circuit_settings: { failures: 5 } });
  made.refusing = await call("POST", "/webhooks", { url: `${receiverUrl}/broken/once`, events: ["order.*"], description: "takes nothing", retry_s: [0], circuit_settings: { failures: 100, min: 1000 } });
  for (let i = 0; i < 8; i++) await call("POST", "/events", { type: "order.created", data: { id: `ord_${i}`, note: HOSTILE } });
  // An agent publishes, so that the story of its event goes on at those who subscribed.
  await call("POST", `/sources/${github.id}/test`, {});
  const [telling] = await lease(1, { sources: [github.id] });
  made.told = (await call("POST", "/events", { type: "order.created", data: { id: "ord_told" } }, { "wakepost-chain": telling.chain })).id;
  await end(telling, "complete", { result: { told: true } });
  made.telling = { job: telling.id, event: telling.envelope.event_id };
  await call("POST", "/tenants", { slug: "acme", name: `Acme ${MARKUP}` });
  made.viewer = await call("POST", "/keys", { name: "looks on", role: "viewer" });
  made.operator = await call("POST", "/keys", { name: `helps ${MARKUP}`, role: "operator" });
  await call("POST", "/schedules", { name: "nightly report", cron: "0 3 * * *", time_zone: "Europe/Berlin", input: { report: true }, enabled: true }).catch(() => {});
  const dead = await until("dead deliveries", async () => {
    const found = (await call("GET", "/dead-letters?kind=delivery")).data;
    return found.length >= 8 && found;
  });
  // The broken webhook's circuit opens, which is something to raise an alert for.
  await until("an alert", async () => (await call("GET", "/alerts")).data.some((alert) => alert.status === "firing"));
  made.dead = dead[0].id;
  made.published = dead[0].event_id;
  return made;
}

if (process.argv[1]?.endsWith("seed.mjs")) {
  const [, , base, key] = process.argv;
  const there = await receiver();
  const made = await seed(base, key, there.url);
  console.log(JSON.stringify(made, null, 2));
  there.close();
}
