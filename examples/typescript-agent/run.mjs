// Shows the whole path: a server, a source, a signed event sent twice, an agent that dies, and one mail.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { createHmac, randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const root = join(here, "../..");
const sdk = join(root, "sdks/typescript");
// Asked first: what comes next takes a while.
const program = findServer();
const key = randomBytes(24).toString("hex");
const directory = mkdtempSync(join(tmpdir(), "wakepost-example-"));
const children = [];

try {
  build();
  await story();
} finally {
  for (const child of children) child.kill("SIGKILL");
  rmSync(directory, { recursive: true, force: true });
}

async function story() {
  const server = await startServer();
  console.log(`the server listens on ${server}`);
  const mails = [];
  const mailUrl = await startMailServer(mails);

  const source = await call(server, "POST", "/sources", { provider: "standard-webhooks", name: "app" });
  console.log(`made the source ${source.id}`);
  const body = JSON.stringify({ type: "user.signed_up", data: { name: "Ada", email: "ada@example.com" } });
  const first = await sendSigned(server, source, body);
  console.log(`sent a signed event: ${first.status}, ${first.event_id} made ${first.job_id}`);
  console.log(`sent it again: ${(await sendSigned(server, source, body)).status}`);

  const doomed = startAgent(server, mailUrl, { CRASH: "1" });
  await once(doomed, "exit");
  console.log(`the agent was killed; mails sent so far: ${mails.length}`);
  const agent = startAgent(server, mailUrl);
  const job = await finished(server, first.job_id);
  const result = JSON.stringify(job.result);
  console.log(`a second agent took over: the job ${job.status} at attempt ${job.attempts} with ${result}`);
  for (const run of job.runs) console.log(`  run ${run.attempt} by ${run.worker}: ${run.outcome}`);
  for (const effect of job.effects) console.log(`  effect ${effect.key}: ${effect.state} (${effect.description})`);
  console.log(`mails sent: ${mails.length}: "${mails[0].text}" to ${mails[0].to}`);
  assert.deepEqual([job.status, mails.length], ["succeeded", 1]);

  agent.kill("SIGTERM");
  await once(agent, "exit");
  console.log("the agent stopped");
}

/** The SDK and the agent, compiled. */
function build() {
  const stdio = ["ignore", "ignore", "inherit"];
  const npm = (cwd, ...args) => execFileSync("npm", [...args, "--loglevel=error"], { cwd, stdio });
  console.log("building the SDK and the agent");
  if (!existsSync(join(sdk, "node_modules"))) npm(sdk, "ci", "--no-audit", "--no-fund");
  if (!isBuilt()) npm(sdk, "run", "build");
  npm(here, "install", "--no-audit", "--no-fund", "--no-package-lock");
  execFileSync(process.execPath, [join(sdk, "node_modules/typescript/bin/tsc"), "-p", here], { stdio: "inherit" });
}

/** Whether the SDK was compiled after its last change. */
function isBuilt() {
  const compiled = join(sdk, "dist/index.js");
  if (!existsSync(compiled)) return false;
  const sources = readdirSync(join(sdk, "src"), { recursive: true }).map((name) => join(sdk, "src", name));
  return sources.every((path) => statSync(path).mtimeMs <= statSync(compiled).mtimeMs);
}

/** The server that is there. */
function findServer() {
  const built = ["release", "debug"].map((kind) => join(root, "target", kind, "wakepost"));
  const program = process.env.WAKEPOST_BIN ? resolve(process.env.WAKEPOST_BIN) : built.find((path) => existsSync(path));
  if (program && existsSync(program)) return program;
  console.error("there is no server: build it with `cargo build --release`, or name it by WAKEPOST_BIN");
  process.exit(1);
}

/** Ours, without what would be a setting of the server: an example must not write into somebody's database. */
function environment() {
  const settings = ["DATABASE_URL", "WEBHOOK_BASE_URL", "APP_URL", "URL"];
  const kept = ([name]) => !settings.includes(name) && !name.startsWith("WAKEPOST_");
  return Object.fromEntries(Object.entries(process.env).filter(kept));
}

async function startServer() {
  const server = spawn(program, ["serve", "--listen", "127.0.0.1:0", "--data-dir", directory], {
    cwd: directory,
    env: { ...environment(), WAKEPOST_ADMIN_KEY: key },
    stdio: ["ignore", "pipe", "ignore"],
  });
  children.push(server);
  for await (const line of createInterface({ input: server.stdout })) {
    const found = /listening on (http:\S+)/.exec(line);
    if (found) return found[1];
  }
  throw new Error("the server did not start");
}

/** Whoever sends the mails. */
async function startMailServer(mails) {
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    mails.push(JSON.parse(text));
    response.end(JSON.stringify({ id: `mail-${mails.length}` }));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  server.unref();
  return `http://127.0.0.1:${server.address().port}/`;
}

function startAgent(server, mailUrl, more = {}) {
  const env = { ...environment(), WAKEPOST_URL: server, WAKEPOST_KEY: key, MAIL_URL: mailUrl, ...more };
  const agent = spawn(process.execPath, [join(here, "dist/agent.js")], { env, stdio: "inherit" });
  children.push(agent);
  return agent;
}

/** As any sender of Standard Webhooks does. */
async function sendSigned(server, source, body) {
  const id = "msg_1";
  const time = Math.floor(Date.now() / 1000);
  const secret = Buffer.from(source.secret.slice("whsec_".length), "base64");
  const signature = createHmac("sha256", secret).update(`${id}.${time}.${body}`).digest("base64");
  const answer = await fetch(`${server}/in/${source.id}`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      "webhook-id": id,
      "webhook-timestamp": `${time}`,
      "webhook-signature": `v1,${signature}`,
    },
    body,
  });
  return answer.json();
}

async function finished(server, id) {
  for (const end = Date.now() + 30_000; Date.now() < end; ) {
    const job = await call(server, "GET", `/jobs/${id}`);
    if (["succeeded", "dead_letter", "held"].includes(job.status)) return job;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error("the job did not end");
}

async function call(server, method, path, body) {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const answer = await fetch(`${server}/api/v1${path}`, { method, headers, body: body && JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}
