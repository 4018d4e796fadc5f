// Agents that are called: as a command, and by http.

import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { GiveUp, SignatureError, verifyJob } from "wakepost";

import { startServer } from "./support/server.mjs";
import { jobThatIs, until } from "./support/waiting.mjs";

const AGENT = fileURLToPath(new URL("support/exec-agent.mjs", import.meta.url));

async function startWithAgent(t) {
  const settings = `[exec.agent]\ncommand = [${JSON.stringify(process.execPath)}, ${JSON.stringify(AGENT)}]\n`;
  return startServer(t, { prepare: (directory) => writeFile(join(directory, "wakepost.toml"), settings) });
}

const asked = (what, more = {}) => ({ input: { do: what }, executor: { kind: "exec", name: "agent" }, ...more });

test("a command does its job, with effects and a checkpoint, whatever it logs", async (t) => {
  const server = await startWithAgent(t);
  const client = server.client();
  const { id } = await client.createJob(asked("complete"));
  const job = await jobThatIs(client, id, "succeeded");
  assert.deepEqual([job.result, job.reply, job.cost], [{ result: id }, "hello", 2]);
  assert.equal(job.effects[0].state, "committed");
  assert.equal(job.checkpoint.sent.job, id);
});

test("a command's failures keep their words, and say whether to try again", async (t) => {
  const server = await startWithAgent(t);
  const client = server.client();
  const gone = await client.createJob(asked("give up"));
  const dead = await jobThatIs(client, gone.id, "dead_letter");
  assert.deepEqual([dead.attempts, dead.last_error], [1, "no use"]);
  const later = await client.createJob(asked("later"));
  const done = await jobThatIs(client, later.id, "succeeded");
  assert.deepEqual(done.result, { attempt: 2 });
  assert.ok(done.runs.some((run) => run.error === "not yet"));
});

test("a command that is asked to stop is told, and one that died in an act leaves it in doubt", async (t) => {
  const server = await startWithAgent(t);
  const client = server.client();
  const file = join(server.directory, "told");
  const waiting = await client.createJob({ ...asked("wait"), input: { do: "wait", file } });
  await until("it waits", async () => (await client.getJob(waiting.id)).checkpoint !== null);
  await client.cancel(waiting.id);
  await jobThatIs(client, waiting.id, "cancelled");
  assert.equal(await readFile(file, "utf8"), "Cancelled");
  const doubtful = await client.createJob(asked("doubt"));
  const died = await jobThatIs(client, doubtful.id, "retrying");
  assert.equal(died.effects[0].state, "in_doubt");
});

test("a posted job is verified, works with the API, and is answered", async (t) => {
  const server = await startServer(t);
  const client = server.client();
  const seen = [];
  let secrets = "whsec_AAAA";
  const url = await agentAt(t, async (posted) => {
    seen.push(posted);
    const job = await verifyJob(posted, { secrets, client });
    if (job.input === "give up") throw new GiveUp("no use");
    const sent = await job.effect("mail", () => job.id);
    await job.progress({ percent: 50 });
    return { result: { sent, attempt: job.attempt } };
  });
  const executor = { kind: "http", url };
  const first = await client.createJob({ input: 1, executor, max_attempts: 1 });
  const refused = await jobThatIs(client, first.id, "dead_letter");
  assert.match(refused.last_error, /401/, "the secret was not the right one yet");
  secrets = ["whsec_AAAA", first.executor_secret];
  const second = await client.createJob({ input: 2, executor });
  const job = await jobThatIs(client, second.id, "succeeded");
  assert.deepEqual(job.result, { sent: second.id, attempt: 1 });
  const third = await client.createJob({ input: "give up", executor });
  assert.equal((await jobThatIs(client, third.id, "dead_letter")).attempts, 1);
  const { headers, body } = seen.at(1);
  const request = new Request("http://agent/", { method: "POST", headers: plain(headers), body });
  assert.equal((await verifyJob(request, { secrets, client })).id, second.id);
  const bent = { headers, body: Buffer.concat([body, Buffer.from(" ")]) };
  await assert.rejects(verifyJob(bent, { secrets, client }), SignatureError);
});

/** An http agent on a free port, which answers as the SDK says. */
async function agentAt(t, work) {
  const agent = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const answer = (status, body) => response.writeHead(status).end(JSON.stringify(body));
    try {
      answer(200, await work({ headers: request.headers, body: Buffer.concat(chunks) }));
    } catch (error) {
      answer(error instanceof SignatureError ? 401 : error instanceof GiveUp ? 422 : 503, error.message);
    }
  });
  agent.listen(0, "127.0.0.1");
  await once(agent, "listening");
  t.after(() => {
    agent.close();
    agent.closeAllConnections();
  });
  return `http://127.0.0.1:${agent.address().port}/`;
}

/** Those headers that a request may be made with. */
function plain(headers) {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith("webhook-")));
}
