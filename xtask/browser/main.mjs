// Every page and every button of the dashboard, in headless Chromium, against the real server with real data.
//
// WAKEPOST_BIN is the server, WAKEPOST_SHOTS where pictures go, CHROMIUM the browser; DATABASE_URL is handed on.

import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { buttons } from "./buttons.mjs";
import { receiver, seed } from "./seed.mjs";

const KEY = "browser-check-admin-key-0123456789abcdef";
const shots = process.env.WAKEPOST_SHOTS;
mkdirSync(shots, { recursive: true });

const LOOKS = [
  { name: "light", colorScheme: "light", width: 1280 },
  { name: "dark", colorScheme: "dark", width: 1280 },
  { name: "phone", colorScheme: "light", width: 390 },
  { name: "phone-dark", colorScheme: "dark", width: 390 },
];

/** Starts the server on a port of its own, and waits until it listens. */
async function serve(directory) {
  const environment = { PATH: process.env.PATH, WAKEPOST_ADMIN_KEY: KEY, WAKEPOST_ALLOW_HTTP: "true", WAKEPOST_ALLOW_PRIVATE: "true", WAKEPOST_LOG_LEVEL: "warn", WAKEPOST_ALERTS_EVERY_S: "1" };
  if (process.env.DATABASE_URL) environment.DATABASE_URL = process.env.DATABASE_URL;
  const server = spawn(process.env.WAKEPOST_BIN, ["serve", "--listen", "127.0.0.1:0", "--data-dir", join(directory, "data")], { cwd: directory, env: environment, stdio: ["ignore", "pipe", "inherit"] });
  const url = await new Promise((found, failed) => {
    let said = "";
    server.on("exit", () => failed(new Error(`the server ended: ${said}`)));
    server.stdout.on("data", (text) => {
      said += text;
      const listening = /listening on (http:\/\/\S+)/.exec(said);
      if (listening) found(listening[1]);
    });
  });
  return { url, stop: () => server.kill("SIGTERM") };
}

/** The picture of the README: one event, and all that an operator needs to know of it. */
async function picture(browser, url, made, file) {
  const page = await open(browser, { colorScheme: "light", width: 1280 }, { deviceScaleFactor: 2 });
  await signIn(page, url, KEY);
  await page.goto(`${url}/inbox/${made.retrying}`);
  await page.screenshot({ path: file, clip: { x: 0, y: 0, width: 1280, height: 800 } });
  await page.context().close();
}

/** A browser's window in which nothing may go wrong unseen. */
export async function open(browser, look, options = {}) {
  const context = await browser.newContext({ colorScheme: look.colorScheme, viewport: { width: look.width, height: 860 }, acceptDownloads: true, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  const wrong = [];
  page.expected = null;
  page.on("console", (said) => {
    const expected = page.expected && said.text().includes(page.expected === "offline" ? "net::ERR_" : `status of ${page.expected}`);
    if (said.type() === "error" && !expected) wrong.push(`${page.url()}: ${said.text()}`);
  });
  page.on("pageerror", (error) => wrong.push(`${page.url()}: ${error.message}`));
  page.on("dialog", (dialog) => {
    wrong.push(`${page.url()}: a dialog opened: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.inspect = async () => {
    const found = await page.evaluate(() => ({ hacked: window.hacked, wide: document.documentElement.scrollWidth - innerWidth })).catch(() => ({}));
    if (found.hacked) wrong.push(`${page.url()}: foreign markup ran`);
    if (found.wide > 1) wrong.push(`${page.url()}: ${found.wide} px wider than the window of ${look.width}`);
    if (wrong.length > 0) throw new Error(wrong.join("\n"));
  };
  return page;
}

export async function signIn(page, url, key) {
  await page.goto(`${url}/sign-in`);
  await page.fill("input[name=key]", key);
  await Promise.all([page.waitForNavigation(), page.click("button.main")]);
}

/** The pages, by the name of their picture. */
function pagesOf(made) {
  return {
    overview: "/",
    "overview-day": "/?span=24h",
    inbox: "/inbox",
    "inbox-filtered": `/inbox?status=dead_letter&source=${made.generic.id}&since=1h`,
    "inbox-none": "/inbox?status=scheduled",
    "inbox-empty": "/inbox?tenant=acme",
    event: `/inbox/${made.retrying}`,
    "event-hostile": `/inbox/${made.hostile}`,
    "event-raw": `/inbox/${made.hostile}?show=raw`,
    "event-headers": `/inbox/${made.hostile}?show=headers`,
    "event-envelope": `/inbox/${made.hostile}?show=envelope`,
    "event-duplicates": `/inbox/${made.twice}`,
    "event-answered": `/inbox/${made.answered}`,
    "event-unheard": `/inbox/${made.unheard}`,
    "reply-dead": `/jobs/${made.unheard_reply}`,
    "callback-dead": `/jobs/${made.unheard_callback}`,
    jobs: "/jobs",
    "jobs-empty": "/jobs?tenant=acme",
    "job-running": `/jobs/${made.jobs.running}`,
    "job-retrying": `/jobs/${made.jobs.retrying}`,
    "job-held": `/jobs/${made.jobs.held}`,
    "job-asking": `/jobs/${made.jobs.asked}`,
    approvals: "/approvals",
    "approvals-empty": "/approvals?tenant=acme",
    "dead-letters": "/dead-letters",
    "dead-letters-jobs": "/dead-letters?kind=job",
    "dead-letters-empty": "/dead-letters?tenant=acme",
    sources: "/sources",
    "sources-empty": "/sources?tenant=acme",
    "source-new": "/sources/new",
    "source-new-slack": "/sources/new?provider=slack",
    source: `/sources/${made.github.id}`,
    "source-hostile": `/sources/${made.generic.id}`,
    "source-edit": `/sources/${made.slack.id}/edit`,
    "source-incomplete": `/sources/${made.slack.id}`,
    webhooks: "/webhooks",
    "webhooks-empty": "/webhooks?tenant=acme",
    "webhook-new": "/webhooks/new",
    webhook: `/webhooks/${made.webhook.id}`,
    "webhook-edit": `/webhooks/${made.webhook.id}/edit`,
    "webhook-broken": `/webhooks/${made.broken.id}`,
    delivery: `/deliveries/${made.dead}`,
    "event-types": "/event-types",
    "event-type": "/event-types/order.created",
    events: "/events",
    "published-event": `/events/${made.published}`,
    "job-telling": `/jobs/${made.telling.job}`,
    "event-telling": `/inbox/${made.telling.event}`,
    "events-of-a-job": `/events?parent=${made.telling.job}`,
    tenants: "/tenants",
    keys: "/keys",
    audit: "/audit",
    docs: "/docs",
  };
}

async function look(browser, url, made, sight) {
  const page = await open(browser, sight);
  await page.goto(`${url}/sign-in`);
  await page.screenshot({ path: join(shots, `sign-in-${sight.name}.png`) });
  await signIn(page, url, KEY);
  let count = 0;
  for (const [name, path] of Object.entries(pagesOf(made))) {
    const answer = await page.goto(url + path);
    if (answer.status() !== 200) throw new Error(`${path}: ${answer.status()}`);
    await page.inspect();
    await page.screenshot({ path: join(shots, `${name}-${sight.name}.png`), fullPage: true });
    count++;
  }
  page.expected = "404";
  const missing = await page.goto(`${url}/jobs/job_00000000000000000000000000`);
  if (missing.status() !== 404) throw new Error("a job that is not there must be 404");
  await page.inspect();
  await page.screenshot({ path: join(shots, `not-there-${sight.name}.png`) });
  await page.context().close();
  return count;
}

const directory = mkdtempSync(join(tmpdir(), "wakepost-browser-"));
const there = await receiver();
const server = await serve(directory);
// Background networking of a browser in a closed network would only fail, many times.
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
try {
  const made = await seed(server.url, KEY, there.url);
  if (process.env.WAKEPOST_PICTURE) await picture(browser, server.url, made, process.env.WAKEPOST_PICTURE);
  let pages = 0;
  for (const sight of LOOKS) pages += await look(browser, server.url, made, sight);
  const pressed = await buttons({ browser, open, signIn, url: server.url, key: KEY, made, receiver: there.url, shots, looks: LOOKS });
  console.log(`${pages} pages looked at, ${pressed} things done by hand, pictures in ${shots}`);
} finally {
  await browser.close();
  server.stop();
  there.close();
  rmSync(directory, { recursive: true, force: true });
}
