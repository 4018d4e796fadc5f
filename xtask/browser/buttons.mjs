// What an operator does with the dashboard, button by button, and what must have come of it.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { api, SAID, until } from "./seed.mjs";

export async function buttons({ browser, open, signIn, url, key, made, receiver, shots, looks }) {
  const call = api(url, key);
  let count = 0;
  const step = async (name, page, run) => {
    try {
      await run();
      await page.inspect();
    } catch (error) {
      await page.screenshot({ path: join(shots, "failed.png"), fullPage: true }).catch(() => {});
      throw new Error(`${name}: ${error.message}`);
    }
    count++;
  };
  const must = (held, what) => {
    if (!held) throw new Error(what);
  };
  /** Opens a button's sheet, fills it in and sends it. */
  const press = async (page, label, fields = {}, within = "body") => {
    const sheet = page.locator(`${within} details.act:has(> summary:text-is("${label}"))`).first();
    await sheet.locator("summary").click();
    for (const [name, value] of Object.entries(fields)) {
      const field = sheet.locator(`[name="${name}"]`);
      if ((await field.evaluate((node) => node.tagName)) === "SELECT") await field.selectOption(value);
      else await field.fill(value);
    }
    await Promise.all([page.waitForNavigation(), sheet.locator("button:not(.copy)").last().click()]);
  };
  const told = (page) => page.locator(".flash").first().innerText();
  const text = (page) => page.locator("main").innerText();

  // Light on a wide screen and dark on a phone: each colour scheme and each width once.
  for (const look of [looks[0], looks[3]]) {
    const page = await open(browser, look);
    const on = (name) => `${name}, ${look.name}`;

    await step(on("a wrong key is refused in words"), page, async () => {
      page.expected = "401";
      await signIn(page, url, "wpk_wrong");
      must((await told(page)).includes("No live key"), await told(page));
    });
    await step(on("signing in leads to the page that was asked for"), page, async () => {
      await page.goto(`${url}/jobs?status=held`);
      await page.fill("input[name=key]", key);
      await Promise.all([page.waitForNavigation(), page.click("button.main")]);
      page.expected = null;
      must(page.url().endsWith("/jobs?status=held"), page.url());
      const [cookie] = (await page.context().cookies()).filter((cookie) => cookie.name === "wakepost_session");
      must(cookie.httpOnly && cookie.sameSite === "Strict", JSON.stringify(cookie));
    });
    await step(on("an event is replayed with a note"), page, async () => {
      await page.goto(`${url}/inbox/${made.hostile}`);
      await press(page, "Replay", { note: `again on ${look.name}`, scope: "same" });
      must((await told(page)).includes("Replayed"), await told(page));
      const trail = await call("GET", "/audit?limit=5");
      must(trail.data.some((entry) => entry.note === `again on ${look.name}`), "the audit trail has the note");
    });
    await step(on("the audit trail is filtered"), page, async () => {
      await page.goto(`${url}/audit`);
      const entry = (await call("GET", "/audit?limit=5")).data.find((each) => each.note === `again on ${look.name}`);
      await page.fill("main input[name=action]", entry.action);
      await page.fill("main input[name=target]", entry.target);
      await Promise.all([page.waitForNavigation(), page.click("main form.filters button")]);
      const rows = await page.locator("tbody tr").count();
      must(rows > 0 && (await text(page)).includes(`again on ${look.name}`), await text(page));
      await page.goto(`${url}/audit?action=no.such`);
      must((await text(page)).includes("No entry is like that"), await text(page));
    });
    await step(on("its job is cancelled"), page, async () => {
      await page.goto(`${url}/inbox/${made.hostile}`);
      await press(page, "Cancel", { note: "not now" });
      await page.goto(`${url}/inbox/${made.hostile}`);
      must((await text(page)).includes("Cancelled"), "the event page says so");
    });
    await step(on("an effect in doubt is resolved"), page, async () => {
      await page.goto(`${url}/jobs/${made.jobs.held}`);
      if (look !== looks[0]) return;
      await press(page, "Resolve", { outcome: "not_done", note: "the bank says no" });
      must((await told(page)).includes("Resolved"), await told(page));
      const job = await call("GET", `/jobs/${made.jobs.held}`);
      must(job.effects.every((effect) => effect.state !== "in_doubt"), JSON.stringify(job.effects));
      if (job.status === "held") await press(page, "Release", { note: "go on" });
      must((await call("GET", `/jobs/${made.jobs.held}`)).status !== "held", "it goes on");
    });
    await step(on("what an event waits for is decided on its page"), page, async () => {
      const source = await call("POST", "/sources", { provider: "stripe", name: `asks on ${look.name}`, secret: "whsec_test_secret_for_asking" });
      await call("POST", `/sources/${source.id}/test`, {});
      const lease = () => until("a lease", async () => (await call("POST", "/jobs/lease", { worker: "worker-6", sources: [source.id] })).jobs[0]);
      const begin = (job) => call("POST", `/jobs/${job.id}/effects`, { lease_token: job.lease_token, key: "refund:ch_5", description: "refund 7.00 EUR" });
      const first = await lease();
      const event = `${url}/inbox/${first.envelope.event_id}`;
      await begin(first);
      await call("POST", `/jobs/${first.id}/fail`, { lease_token: first.lease_token, error: "connection lost", retryable: true, retry_after_s: 0 });
      must((await begin(await lease())).decision === "in_doubt", "nobody knows of the refund");
      await page.goto(event);
      must((await page.locator("summary:text-is('Replay')").count()) === 0, "what is held is not replayed");
      await page.screenshot({ path: join(shots, `event-held-${look.name}.png`), fullPage: true });
      await press(page, "Resolve", { outcome: "not_done", note: "not on the bill" });
      must(page.url() === event && (await told(page)).includes("Resolved"), `${page.url()}: ${await told(page)}`);
      await call("PATCH", `/sources/${source.id}`, { mode: "draft" });
      must((await begin(await lease())).decision === "needs_approval", "the source asks now");
      await page.goto(event);
      must((await text(page)).includes("refund 7.00 EUR"), await text(page));
      await page.screenshot({ path: join(shots, `event-asking-${look.name}.png`), fullPage: true });
      await press(page, "Approve", { note: "seven it is" });
      must(page.url() === event && (await told(page)).includes("Approved"), `${page.url()}: ${await told(page)}`);
      await press(page, "Cancel", { note: "enough" });
      await call("DELETE", `/sources/${source.id}`);
    });
    await step(on("a proposal is decided"), page, async () => {
      const [approve, word] = look === looks[0] ? ["Approve", "Approved"] : ["Reject", "Rejected"];
      if (look !== looks[0]) {
        await call("POST", `/sources/${made.stripe.id}/test`, {});
        const [job] = (await call("POST", "/jobs/lease", { worker: "worker-8", wait_s: 5, sources: [made.stripe.id] })).jobs;
        await call("POST", `/jobs/${job.id}/effects`, { lease_token: job.lease_token, key: "refund:ch_9", description: "refund" });
      }
      await page.goto(`${url}/approvals`);
      await press(page, approve, { note: "looked at it" });
      must((await told(page)).includes(word), await told(page));
      must((await call("GET", "/jobs?status=awaiting_approval")).data.length === 0, "nothing waits any more");
    });
    await step(on("a job is replayed from its page, by key"), page, async () => {
      const dead = (await call("GET", "/dead-letters?kind=job&limit=1")).data[0];
      await page.goto(`${url}/jobs/${dead.id}`);
      if (look === looks[0]) {
        await page.keyboard.press("r");
        await page.keyboard.type("by key");
        await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
      } else await press(page, "Replay", { note: "by hand" });
      must((await told(page)).includes("Replayed"), await told(page));
      must((await call("GET", `/jobs/${dead.id}`)).replayed_as, "the old one names the new one");
    });
    let operation;
    /** Says yes to what is asked before bulk work begins, and waits until it is through. */
    const confirm = async (style) => {
      await Promise.all([page.waitForNavigation(), page.click(`main form button.${style}`)]);
      operation = /op_\w+/.exec(await told(page))[0];
      must(page.url().endsWith(`/operations/${operation}`), page.url());
      await page.screenshot({ path: join(shots, `operation-${look.name}.png`) });
      return until("the bulk work", async () => {
        const shown = await call("GET", `/operations/${operation}`);
        return shown.status !== "running" && shown;
      });
    };
    /** Ticks the first two dead deliveries, and says which these are. */
    const chooseTwo = async () => {
      await page.goto(`${url}/dead-letters?kind=delivery`);
      must(!(await page.locator("[data-bulk]").isVisible()), "nothing is chosen, so there is nothing to do to it");
      const boxes = page.locator("input[name=id]");
      for (const box of [boxes.nth(0), boxes.nth(1)]) await box.check();
      must((await page.locator("[data-chosen]").innerText()).startsWith("2 "), "the count is shown");
      return [await boxes.nth(0).getAttribute("value"), await boxes.nth(1).getAttribute("value")];
    };
    await step(on("chosen dead letters are replayed, after it said how many"), page, async () => {
      for (let i = 0; i < 6; i++) await call("POST", "/events", { type: "order.created", data: { id: `ord_${i}_${look.name}` } });
      await until("dead deliveries", async () => (await call("GET", "/dead-letters?kind=delivery")).data.length >= 6);
      const ids = await chooseTwo();
      await page.screenshot({ path: join(shots, `chosen-${look.name}.png`) });
      await page.fill("[data-bulk] input[name=note]", "chosen");
      await Promise.all([page.waitForNavigation(), page.click("[data-bulk] button[value=replay]")]);
      must((await text(page)).includes("Replay 2 dead letters?"), await text(page));
      const { matched, done } = await confirm("main");
      must(matched === 2 && done === 2, `${done} of ${matched}`);
      for (const id of ids) must((await call("GET", `/deliveries/${id}`)).replayed_as, "it was replayed");
    });
    await step(on("chosen dead letters are exported, and purged after it said how many"), page, async () => {
      const ids = await chooseTwo();
      const [file] = await Promise.all([page.waitForEvent("download"), page.click("[data-bulk] button[value=export]")]);
      const lines = readFileSync(await file.path(), "utf8").trim().split("\n");
      must(lines.map((line) => JSON.parse(line).id).join() === ids.join(), "those, and no others");
      await page.fill("[data-bulk] input[name=note]", "useless");
      await Promise.all([page.waitForNavigation(), page.click("[data-bulk] button[value=purge]")]);
      must((await text(page)).includes("Purge 2 dead letters?"), await text(page));
      await page.screenshot({ path: join(shots, `sure-purge-${look.name}.png`) });
      const { matched, done } = await confirm("danger");
      must(matched === 2 && done === 2, `${done} of ${matched}`);
      const left = (await call("GET", "/dead-letters?kind=delivery&limit=500")).data;
      must(left.length > 0 && !left.some((letter) => ids.includes(letter.id)), "those are gone, and no others");
    });
    await step(on("dead letters are exported"), page, async () => {
      await page.goto(`${url}/dead-letters?kind=delivery`);
      const [file] = await Promise.all([page.waitForEvent("download"), page.click("a.button:text-is('Export')")]);
      const lines = readFileSync(await file.path(), "utf8").trim().split("\n");
      must(lines.length > 0 && lines.every((line) => JSON.parse(line).id), "JSON Lines");
    });
    await step(on("all that match are replayed, after it said how many"), page, async () => {
      await page.goto(`${url}/dead-letters?kind=delivery`);
      await page.click("summary:text-is('All that match…')");
      await page.fill(".sheet input[name=note]", "all of them");
      await Promise.all([page.waitForNavigation(), page.click("button[value=replay_all]")]);
      must(/Replay \d+ dead letter/.test(await text(page)), await text(page));
      await page.screenshot({ path: join(shots, `sure-${look.name}.png`) });
      await confirm("main");
    });
    await step(on("dead letters are purged"), page, async () => {
      const dead = await until("dead letters", async () => {
        const found = (await call("GET", "/dead-letters?kind=delivery")).data;
        return found.length > 0 && found;
      });
      await page.goto(`${url}/dead-letters?kind=delivery`);
      await page.click("summary:text-is('All that match…')");
      await page.fill(".sheet input[name=note]", "old");
      await Promise.all([page.waitForNavigation(), page.click("button[value=purge_all]")]);
      await Promise.all([page.waitForNavigation(), page.click("main form button.danger")]);
      must((await told(page)).includes("Under way"), await told(page));
      await until("the purge", async () => !(await call("GET", "/dead-letters?kind=delivery&limit=500")).data.some((letter) => letter.id === dead[0].id));
    });

    let source;
    await step(on("a source is made, and its secret shown once"), page, async () => {
      await page.goto(`${url}/sources`);
      await Promise.all([page.waitForNavigation(), page.click("text=New source")]);
      await Promise.all([page.waitForNavigation(), page.click("a.chip:text-is('GitHub')")]);
      await page.fill("input[name=name]", `made on ${look.name}`);
      await Promise.all([page.waitForNavigation(), page.click("main form button.main")]);
      const secret = await page.locator(".secret code").innerText();
      must(secret.length > 20, secret);
      source = (await call("GET", "/sources?limit=1")).data[0].id;
      await page.goto(`${url}/sources/${source}`);
      must(!(await page.content()).includes(secret), "the secret is not shown again");
    });
    await step(on("it is sent a test event"), page, async () => {
      await press(page, "Send a test event", { event_type: "issues.opened" });
      must((await text(page)).includes("event_id"), await text(page));
      must((await call("GET", `/inbox?source=${source}`)).data.length === 1, "it is in the inbox");
    });
    await step(on("it is changed, and what was not touched stays"), page, async () => {
      await call("PATCH", `/sources/${source}`, { mode: "draft", max_attempts: 7 });
      await page.goto(`${url}/sources/${source}`);
      await Promise.all([page.waitForNavigation(), page.click("main a.button:text-is('Change')")]);
      await page.fill("main input[name=name]", `<b>changed</b> on ${look.name}`);
      await page.fill("main input[name=filter]", "issues.*, push");
      await Promise.all([page.waitForNavigation(), page.click("main form button.main")]);
      must((await told(page)).includes("Changed"), await told(page));
      const changed = await call("GET", `/sources/${source}`);
      must(changed.name === `<b>changed</b> on ${look.name}` && changed.filter.length === 2, JSON.stringify(changed));
      must(changed.mode === "draft" && changed.max_attempts === 7 && changed.has_secret, JSON.stringify(changed));
    });
    await step(on("settings of a provider are changed one by one"), page, async () => {
      const slack = await call("POST", "/sources", { provider: "slack", name: "assistant", secret: "s".repeat(32), settings: { bot_token: "xoxb-1", allowed_teams: "T0ACME001" } });
      await page.goto(`${url}/sources/${slack.id}/edit`);
      must((await page.inputValue("main input[name='setting.bot_token']")) === "", "a secret is not shown");
      must((await page.inputValue("main input[name='setting.allowed_teams']")) === "T0ACME001", "the others are");
      await page.fill("main input[name='setting.allowed_teams']", "T0ACME002");
      await Promise.all([page.waitForNavigation(), page.click("main form button.main")]);
      const { settings } = await call("GET", `/sources/${slack.id}`);
      must(settings.bot_token === "(secret)" && settings.allowed_teams === "T0ACME002", JSON.stringify(settings));
      await press(page, "Set up");
      must((await page.locator("main ol.steps li").count()) > 0, "what to do there");
      await page.screenshot({ path: join(shots, `source-set-up-${look.name}.png`), fullPage: true });
      await call("DELETE", `/sources/${slack.id}`);
      await page.goto(`${url}/sources/${source}`);
    });
    await step(on("its secret is rotated"), page, async () => {
      await press(page, "Rotate secret");
      must((await page.locator(".secret code").innerText()).length > 20, "a new secret");
    });
    await step(on("it is disabled, enabled and deleted"), page, async () => {
      await page.goto(`${url}/sources/${source}`);
      await press(page, "Disable");
      must((await call("GET", `/sources/${source}`)).enabled === false, "disabled");
      await press(page, "Enable");
      must((await call("GET", `/sources/${source}`)).enabled === true, "enabled");
      await press(page, "Delete");
      must(!(await call("GET", "/sources?limit=200")).data.some((each) => each.id === source), "deleted");
    });

    await step(on("a webhook lives its life"), page, async () => {
      await page.goto(`${url}/webhooks/new`);
      await page.fill("input[name=url]", `${receiver}/in`);
      await page.fill("input[name=events]", "invoice.*");
      await page.check("input[value='order.created']");
      await Promise.all([page.waitForNavigation(), page.click("main form button.main")]);
      must((await page.locator(".secret code").innerText()).startsWith("whsec_"), "a secret");
      const [webhook] = (await call("GET", "/webhooks?limit=1")).data;
      must(webhook.events.length === 2, JSON.stringify(webhook.events));
      await page.goto(`${url}/webhooks/${webhook.id}`);
      const command = await page.locator(".empty .command code").innerText();
      must(command.includes("webhookctl events publish"), command);
      await press(page, "Test");
      must((await text(page)).includes("200"), await text(page));
      await press(page, "Rotate secret");
      must((await page.locator(".secret code").innerText()).startsWith("whsec_"), "a new secret");
      await page.goto(`${url}/webhooks/${webhook.id}`);
      await Promise.all([page.waitForNavigation(), page.click("main a.button:text-is('Change')")]);
      must(await page.isChecked("input[value='order.created']"), "what it gets is ticked");
      must((await page.inputValue("input[name=events]")) === "invoice.*", "or written");
      await page.fill("main input[name=description]", "the shop");
      await page.fill("input[name=events]", "");
      await Promise.all([page.waitForNavigation(), page.click("main form button.main")]);
      must((await told(page)).includes("Changed"), await told(page));
      const changed = await call("GET", `/webhooks/${webhook.id}`);
      must(changed.description === "the shop" && changed.events.join() === "order.created", JSON.stringify(changed));
      const status = async () => (await call("GET", `/webhooks/${webhook.id}`)).status;
      for (const [label, then] of [["Pause", "paused"], ["Resume", "active"], ["Disable", "disabled"], ["Enable", "active"]]) {
        await press(page, label);
        must((await status()) === then, `${label}: ${await status()}`);
      }
      await press(page, "Recover", { since: "24 hours" });
      must((await told(page)).includes("Under way"), await told(page));
      await press(page, "Delete");
      must(!(await call("GET", "/webhooks?limit=200")).data.some((each) => each.id === webhook.id), "deleted");
    });
    await step(on("a delivery is sent again"), page, async () => {
      const { data } = await call("GET", `/webhooks/${made.webhook.id}/deliveries?status=succeeded&limit=1`);
      await page.goto(`${url}/deliveries/${data[0].id}`);
      await press(page, "Send again", { note: "they lost it" });
      must((await told(page)).includes("sent again"), await told(page));
      must(page.url() !== `${url}/deliveries/${data[0].id}`, "it leads to the new one");
    });
    await step(on("an event is published by hand"), page, async () => {
      await page.goto(`${url}/events`);
      await page.click("summary:has-text('Publish one by hand')");
      await page.fill("details input[name=type]", "order.created");
      await page.fill("details textarea", `{"id": "by hand on ${look.name}"}`);
      await Promise.all([page.waitForNavigation(), page.click("details button.main")]);
      must((await text(page)).includes(`by hand on ${look.name}`), await text(page));
    });
    await step(on("an event that nobody wanted says how to want it"), page, async () => {
      const { id } = await call("POST", "/events", { type: "nobody.asked", data: {} });
      await page.goto(`${url}/events/${id}`);
      const command = await page.locator(".empty .command code").innerText();
      must(command.includes("webhooks create") && command.includes("--event nobody.asked"), command);
    });
    await step(on("a type is added and deleted"), page, async () => {
      await page.goto(`${url}/event-types`);
      await page.click("summary:has-text('Add a type')");
      await page.fill("details input[name=name]", `made.${look.name.replace("-", "_")}`);
      await Promise.all([page.waitForNavigation(), page.click("details button.main")]);
      must((await told(page)).includes("Added"), await told(page));
      await press(page, "Delete");
      must((await told(page)).includes("Deleted"), await told(page));
    });
    await step(on("a tenant is made, changed and looked at"), page, async () => {
      const slug = `made-${look.name}`;
      await page.goto(`${url}/tenants`);
      await page.click("summary:has-text('New tenant')");
      await page.fill("details.card input[name=slug]", slug);
      await page.fill("details.card input[name=name]", "Made by hand");
      await Promise.all([page.waitForNavigation(), page.click("details.card button.main")]);
      await press(page, "Change", { weight: "3", concurrency: "5", bodies_days: "7" }, `tr:has(a:text-is("${slug}"))`);
      const tenant = await call("GET", `/tenants/${slug}`);
      must(tenant.weight === 3 && tenant.concurrency === 5, JSON.stringify(tenant));
      // The column is not there on a phone, the words are.
      must(tenant.retention.bodies_days === 7 && (await page.content()).includes("bodies 7 d"), JSON.stringify(tenant));
      await page.click(".switch > summary");
      await Promise.all([page.waitForNavigation(), page.click(`.switch a:has-text("${slug}")`)]);
      must(page.url().includes(`tenant=${slug}`), page.url());
      await Promise.all([page.waitForNavigation(), page.click(".rail a:has-text('Jobs')")]);
      must(page.url().includes(`tenant=${slug}`), "links stay with the tenant");
      page.expected = "404";
      for (const path of [`/deliveries/${made.dead}`, `/operations/${operation}`, `/jobs/${made.jobs.retrying}`, "/no-such-page"]) {
        await page.goto(url + path);
        await page.click(".switch > summary");
        const [answer] = await Promise.all([page.waitForNavigation(), page.click(`.switch a:has-text("${slug}")`)]);
        must(answer.status() === 200 && page.url().includes(`tenant=${slug}`), `${path} leads to ${page.url()}: ${answer.status()}`);
      }
      page.expected = null;
    });
    let made_key;
    await step(on("a key is made, opens the dashboard, and is revoked"), page, async () => {
      await page.goto(`${url}/keys`);
      await page.click("summary:has-text('New key')");
      await page.fill("details.card input[name=name]", `for ${look.name}`);
      await page.selectOption("details.card select[name=role]", "viewer");
      await page.fill("details.card input[name=days]", "7");
      await Promise.all([page.waitForNavigation(), page.click("details.card button.main")]);
      made_key = await page.locator(".secret code").innerText();
      const viewer = await open(browser, look);
      await signIn(viewer, url, made_key);
      await viewer.goto(`${url}/jobs/${made.jobs.retrying}`);
      must((await viewer.locator("details.act").count()) === 0, "a viewer has no buttons");
      viewer.expected = "403";
      const refused = await viewer.evaluate(async (path) => {
        const csrf = document.querySelector("input[name=csrf]").value;
        return (await fetch(path, { method: "POST", body: new URLSearchParams({ csrf, note: "x" }) })).status;
      }, `/jobs/${made.jobs.retrying}/cancel`);
      must(refused === 403, `a viewer's cancel: ${refused}`);
      await page.goto(`${url}/keys`);
      await press(page, "Revoke", {}, `tr:has-text("for ${look.name}")`);
      viewer.expected = "401";
      must((await viewer.goto(`${url}/jobs`)).status() === 401, "revoked at once, also in a session");
      await viewer.context().close();
    });
    await step(on("the search finds by id and by text"), page, async () => {
      await page.goto(`${url}/`);
      await page.fill("[data-search]", made.jobs.retrying);
      await Promise.all([page.waitForNavigation(), page.press("[data-search]", "Enter")]);
      must(page.url().endsWith(`/jobs/${made.jobs.retrying}`), page.url());
      await page.fill("[data-search]", "github:issue");
      await Promise.all([page.waitForNavigation(), page.press("[data-search]", "Enter")]);
      must((await page.locator("tbody tr").count()) > 0, "events by subject");
    });
    await step(on("the inbox is live"), page, async () => {
      await page.goto(`${url}/inbox`);
      await page.waitForSelector(".live.on");
      const before = await page.locator("tbody tr").first().getAttribute("data-id");
      await call("POST", `/sources/${made.github.id}/test`, {});
      await page.waitForFunction((id) => document.querySelector("tbody tr").dataset.id !== id, before, { timeout: 10_000 });
    });
    await step(on("new rows are told of to those who scrolled"), page, async () => {
      await page.evaluate(() => scrollTo(0, 600));
      await page.mouse.move(5, 5);
      await call("POST", `/sources/${made.github.id}/test`, {});
      await page.waitForSelector("[data-pill]:not([hidden])", { timeout: 10_000 });
      must((await page.locator("[data-pill]").innerText()).endsWith("new"), "so many new");
      await page.click("[data-pill]");
    });
    await step(on("a job leaves the filter that it fits no more"), page, async () => {
      const kind = `leaves-${look.name}`;
      await call("POST", "/jobs", { kind, input: {} });
      await call("POST", "/jobs", { kind, input: {} });
      const { jobs } = await call("POST", "/jobs/lease", { worker: "worker-9", wait_s: 5, max: 2, kinds: [kind] });
      must(jobs.length === 2, JSON.stringify(jobs));
      await page.goto(`${url}/jobs?status=running&kind=${kind}`);
      await page.mouse.move(5, 5);
      must((await page.locator("tbody tr").count()) === 2, "both run");
      await call("POST", `/jobs/${jobs[0].id}/complete`, { lease_token: jobs[0].lease_token });
      await page.waitForFunction((id) => !document.querySelector(`tr[data-id="${id}"]`) && document.querySelectorAll("tbody tr").length === 1, jobs[0].id, { timeout: 15_000 });
      await call("POST", `/jobs/${jobs[1].id}/complete`, { lease_token: jobs[1].lease_token });
      await page.waitForSelector(".empty", { timeout: 15_000 });
    });
    await step(on("the dot says whether the page is live"), page, async () => {
      await page.goto(`${url}/jobs/${made.jobs.retrying}`);
      await page.mouse.move(5, 5);
      await page.waitForSelector(".live.on");
      page.expected = "offline";
      await page.context().setOffline(true);
      await page.waitForSelector(".live:not(.on):text-is('no answer')");
      await page.context().setOffline(false);
      await page.waitForSelector(".live.on:text-is('live')");
      page.expected = "401";
      const cookies = await page.context().cookies();
      await page.context().clearCookies();
      await page.waitForSelector(".live:not(.on):text-is('signed out')");
      await page.screenshot({ path: join(shots, `signed-out-${look.name}.png`) });
      await page.context().addCookies(cookies);
      await page.waitForSelector(".live.on");
      page.expected = null;
    });
    await step(on("a button that is pressed after the session ended leads back to its page"), page, async () => {
      const path = `/jobs/${made.jobs.retrying}`;
      await page.goto(url + path);
      await page.context().clearCookies();
      page.expected = "401";
      await press(page, "Cancel", { note: "too late" });
      must((await told(page)).includes("nothing was done"), await told(page));
      await page.screenshot({ path: join(shots, `session-over-${look.name}.png`) });
      await page.fill("input[name=key]", key);
      await Promise.all([page.waitForNavigation(), page.click("button.main")]);
      page.expected = null;
      must(page.url() === url + path, page.url());
      must((await call("GET", path)).status === "retrying", "it was not cancelled");
      await page.goto(`${url}${path}/cancel`);
      must(page.url() === url + path, page.url());
    });
    await step(on("the dot claims a stream only where there is one"), page, async () => {
      for (const path of ["/", "/jobs", "/events", `/jobs/${made.telling.job}`, `/inbox/${made.telling.event}`]) {
        await page.goto(url + path);
        await page.waitForSelector(".live.on:text-is('every 5 s')");
      }
    });
    await step(on("the page of a job follows it until it ends"), page, async () => {
      const kind = `goes-on-${look.name}`;
      const { id } = await call("POST", "/jobs", { kind, input: {} });
      await page.goto(`${url}/jobs/${id}`);
      await page.mouse.move(5, 5);
      await page.waitForSelector(".live.on:text-is('live')");
      // Sooner than a page is read anew whose stream says nothing.
      const soon = { timeout: 6_000 };
      const { jobs } = await call("POST", "/jobs/lease", { worker: "worker-9", wait_s: 5, kinds: [kind] });
      await page.waitForSelector(".timeline :text('Run 1 by worker-9')", soon);
      await call("POST", `/jobs/${id}/progress`, { lease_token: jobs[0].lease_token, message: "half of it is there" });
      await page.waitForSelector(".timeline :text('half of it is there')", soon);
      await call("POST", `/jobs/${id}/complete`, { lease_token: jobs[0].lease_token, result: { whole: "of it" } });
      await page.waitForSelector(".verdict :text('Done.')", soon);
      await page.waitForSelector(".live.on:text-is('every 5 s')");
      must((await text(page)).includes("whole"), "with what came of it");
    });
    await step(on("the page of an event follows its job"), page, async () => {
      const body = JSON.stringify({ type: "note.added", id: `followed on ${look.name}` });
      const sent = await fetch(`${url}/in/${made.generic.id}`, { method: "POST", headers: { "content-type": "application/json" }, body });
      const { event_id, job_id } = await sent.json();
      await page.goto(`${url}/inbox/${event_id}`);
      await page.mouse.move(5, 5);
      await page.waitForSelector(".live.on:text-is('live')");
      const { jobs } = await call("POST", "/jobs/lease", { worker: "worker-9", wait_s: 5, max: 50, sources: [made.generic.id] });
      const { lease_token } = jobs.find((job) => job.id === job_id);
      await call("POST", `/jobs/${job_id}/complete`, { lease_token });
      await page.waitForSelector(".verdict :text('Done.')", { timeout: 6_000 });
      await page.waitForSelector(".live.on:text-is('every 5 s')");
    });
    await step(on("what a job published goes on with its story, and leads back"), page, async () => {
      const line = page.locator(".timeline");
      for (const path of [`/jobs/${made.telling.job}`, `/inbox/${made.telling.event}`]) {
        await page.goto(url + path);
        for (const words of ["Published order.created", "Delivery of order.created", "Delivery, attempt 1"]) {
          must((await line.innerText()).includes(words), `${words}: ${await line.innerText()}`);
        }
      }
      await Promise.all([page.waitForNavigation(), line.locator("a", { hasText: "Published order.created" }).click()]);
      must(page.url() === `${url}/events/${made.told}`, page.url());
      await Promise.all([page.waitForNavigation(), page.click(`main a[href="/jobs/${made.telling.job}"]`)]);
      must(page.url() === `${url}/jobs/${made.telling.job}`, page.url());
    });
    await step(on("an event shows what was replied and whom it told"), page, async () => {
      await page.goto(`${url}/inbox/${made.answered}`);
      const line = page.locator(".timeline");
      for (const words of [`Reply “${SAID}`, "Reply, attempt 1", "Reply, part 1", "Reply, part 2", "Reply sent", "Callback, attempt 1", "Callback taken"]) {
        must((await line.innerText()).includes(words), `${words}: ${await line.innerText()}`);
      }
      await line.locator("summary", { hasText: SAID }).click();
      must((await line.innerText()).includes("no space left on its disk"), "all that it says");
      await page.waitForTimeout(6_000);
      must((await line.innerText()).includes("no space left on its disk"), "what was opened stays open");
      await page.goto(`${url}/inbox/${made.unheard}`);
      for (const words of ["channel_not_found", "Reply: given up", "Callback: given up", "410"]) {
        must((await line.innerText()).includes(words), `${words}: ${await line.innerText()}`);
      }
    });
    await step(on("what is dead has its page, also replies and callbacks"), page, async () => {
      for (const [kind, id] of [["reply", made.unheard_reply], ["callback", made.unheard_callback]]) {
        await page.goto(`${url}/dead-letters?kind=${kind}`);
        await Promise.all([page.waitForNavigation(), page.click("tbody a.row")]);
        must(page.url() === `${url}/jobs/${id}`, page.url());
        must((await text(page)).includes("Given up."), await text(page));
        await page.fill("[data-search]", id);
        await Promise.all([page.waitForNavigation(), page.press("[data-search]", "Enter")]);
        must(page.url() === `${url}/jobs/${id}`, page.url());
      }
      const [run] = (await call("GET", `/jobs/${made.jobs.retrying}`)).runs;
      await page.fill("[data-search]", run.id);
      await Promise.all([page.waitForNavigation(), page.press("[data-search]", "Enter")]);
      must(page.url() === `${url}/jobs/${made.jobs.retrying}`, page.url());
    });
    await step(on("an alert is seen on the overview, and leads to what it is about"), page, async () => {
      await page.goto(url);
      const alert = (await call("GET", "/alerts?status=firing")).data.find((each) => each.subject === made.broken.id);
      const link = page.locator(`[data-part=alerts] a[href="/webhooks/${alert.subject}"]`).first();
      must((await link.innerText()) === alert.title, await text(page));
      await Promise.all([page.waitForNavigation(), link.click()]);
      must(page.url() === `${url}/webhooks/${made.broken.id}`, page.url());
    });
    await step(on("a table's header stays in sight, and nothing is cut off"), page, async () => {
      const widths = look.width > 920 ? [look.width, 1201, 921] : [look.width];
      for (const width of widths) {
        await page.setViewportSize({ width, height: 500 });
        for (const path of ["/inbox", "/jobs", "/dead-letters", "/audit", "/sources", "/webhooks", `/webhooks/${made.webhook.id}`, `/sources/${made.generic.id}`, "/events"]) {
          await page.goto(url + path);
          const cut = await page.evaluate(() => [...document.querySelectorAll(".scroll")].map((box) => box.scrollWidth - box.clientWidth).filter((more) => more > 1));
          must(cut.length === 0, `${path} at ${width}: ${cut} px are cut off`);
        }
      }
      await page.setViewportSize({ width: look.width, height: 500 });
      await page.goto(`${url}/jobs`);
      await page.evaluate(() => scrollTo(0, document.querySelector("tbody tr:nth-child(8)").getBoundingClientRect().top));
      const [head, bar] = await page.evaluate(() => [document.querySelector("th").getBoundingClientRect().top, document.querySelector(".top").getBoundingClientRect().bottom]);
      must(Math.abs(head - bar) <= 1, `the header is at ${head}, under a bar that ends at ${bar}`);
      await page.screenshot({ path: join(shots, `sticky-${look.name}.png`) });
      await page.setViewportSize({ width: look.width, height: 860 });
    });
    await step(on("ids are copied"), page, async () => {
      await page.context().grantPermissions(["clipboard-read", "clipboard-write"], { origin: url });
      await page.goto(`${url}/inbox/${made.twice}`);
      await page.locator("h1 ~ p [data-copy]").first().click();
      must((await page.evaluate(() => navigator.clipboard.readText())) === made.twice, "the whole id");
    });
    await step(on("another filter is another address, and back works"), page, async () => {
      await page.goto(`${url}/inbox`);
      await Promise.all([page.waitForNavigation(), page.click("a.chip:text-is('succeeded')")]);
      must(page.url().includes("status=succeeded"), page.url());
      await Promise.all([page.waitForNavigation(), page.selectOption("select[name=source]", made.github.id)]);
      must(page.url().includes("status=succeeded") && page.url().includes(made.github.id), page.url());
      await page.goBack();
      must(!page.url().includes(made.github.id), page.url());
    });
    await step(on("the colours are switched, and stay"), page, async () => {
      const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
      await page.click("[data-theme-switch]");
      const chosen = await theme();
      await page.reload();
      must((await theme()) === chosen && chosen !== undefined, `${chosen}`);
      await page.click("[data-theme-switch]");
    });
    if (look === looks[0]) {
      await step("the keys do what the help says", page, async () => {
        await page.goto(`${url}/`);
        await page.keyboard.press("g");
        await Promise.all([page.waitForNavigation(), page.keyboard.press("i")]);
        must(page.url().endsWith("/inbox"), page.url());
        await page.keyboard.press("j");
        await page.keyboard.press("j");
        await page.keyboard.press("k");
        const id = await page.locator("tr.at").getAttribute("data-id");
        await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
        must(page.url().includes(id), page.url());
        await page.keyboard.press("/");
        must(await page.evaluate(() => document.activeElement.matches("[data-search]")), "/ goes to the search");
        await page.keyboard.press("Escape");
        await page.keyboard.press("?");
        must(await page.locator("#help").isVisible(), "? shows the help");
        await page.screenshot({ path: join(shots, "help-light.png") });
        await page.keyboard.press("Escape");
      });
    }
    await step(on("a form without its token is refused"), page, async () => {
      page.expected = "403";
      const refused = await page.evaluate(async (path) => (await fetch(path, { method: "POST", body: new URLSearchParams({ note: "x" }) })).status, `/jobs/${made.jobs.retrying}/cancel`);
      must(refused === 403, `${refused}`);
      page.expected = null;
    });
    await step(on("a subscriber looks after a webhook by a link"), page, async () => {
      const link = await call("POST", "/portal-links", { tenant: "acme" });
      const visitor = await open(browser, look);
      await visitor.goto(link.url);
      must((await visitor.locator("main").innerText()).includes("No webhooks yet"), "empty at first");
      await visitor.screenshot({ path: join(shots, `portal-empty-${look.name}.png`) });
      await Promise.all([visitor.waitForNavigation(), visitor.click("text=New webhook")]);
      await visitor.fill("input[name=url]", `${receiver}/in`);
      await visitor.fill("input[name=events]", "order.*");
      await Promise.all([visitor.waitForNavigation(), visitor.click("main form button.main")]);
      must((await visitor.locator(".secret code").innerText()).startsWith("whsec_"), "a secret");
      const [webhook] = (await call("GET", "/webhooks?tenant=acme&limit=1")).data;
      await call("POST", "/events?tenant=acme", { type: "order.created", data: { id: "ord_p" } });
      await until("the delivery", async () => (await call("GET", `/webhooks/${webhook.id}/deliveries?tenant=acme&status=succeeded`)).data.length > 0);
      await visitor.goto(`${link.url}/webhooks/${webhook.id}`);
      await visitor.screenshot({ path: join(shots, `portal-webhook-${look.name}.png`), fullPage: true });
      await press(visitor, "Test");
      await Promise.all([visitor.waitForNavigation(), visitor.click("tbody a.row")]);
      must(visitor.url().includes("/p/"), "it stays behind the link");
      await visitor.goto(`${link.url}/event-types`);
      await Promise.all([visitor.waitForNavigation(), visitor.click("tbody a.row:text-is('order.created')")]);
      must(visitor.url() === `${link.url}/event-types/order.created`, visitor.url());
      must((await visitor.locator("main").innerText()).includes("Schema"), "what it looks like");
      await visitor.inspect();
      visitor.expected = "401";
      must((await visitor.goto(`${url}/inbox`)).status() === 401, "the link opens nothing else");
      visitor.expected = "404";
      must((await visitor.goto(`${link.url}/jobs`)).status() === 404, "nor behind it");
      await Promise.all([visitor.waitForNavigation(), visitor.click("a.button")]);
      must(visitor.url() === link.url, visitor.url());
      must((await visitor.goto(`${link.url}x`)).status() === 404, "a link that was changed is not good");
      await visitor.goto(`${link.url}/webhooks/${webhook.id}`);
      await press(visitor, "Delete");
      await visitor.inspect();
      await visitor.context().close();
    });
    await step(on("signing out ends it"), page, async () => {
      await page.goto(`${url}/inbox`);
      await Promise.all([page.waitForNavigation(), page.click("text=Sign out")]);
      page.expected = "401";
      must((await page.goto(`${url}/inbox`)).status() === 401, "signed out");
    });
    await page.context().close();
  }

  const { url: portal } = await call("POST", "/portal-links", {});
  for (const look of looks) {
    const visitor = await open(browser, look);
    await step(`a subscriber's pages, ${look.name}`, visitor, async () => {
      for (const [name, path] of Object.entries({ webhooks: "/webhooks", webhook: `/webhooks/${made.broken.id}`, delivery: `/deliveries/${made.dead}`, types: "/event-types", type: "/event-types/order.created" })) {
        must((await visitor.goto(portal + path)).status() === 200, path);
        await visitor.inspect();
        await visitor.screenshot({ path: join(shots, `portal-${name}-${look.name}.png`), fullPage: true });
      }
    });
    await visitor.context().close();
  }

  const plain = await open(browser, looks[0], { javaScriptEnabled: false });
  await step("it works without script", plain, async () => {
    await signIn(plain, url, key);
    for (const path of ["/", "/inbox", `/inbox/${made.twice}`, "/jobs", "/dead-letters", "/webhooks"]) {
      must((await plain.goto(url + path)).status() === 200, path);
    }
    await plain.goto(`${url}/inbox/${made.twice}`);
    await press(plain, "Replay", { note: "without script" });
    must((await told(plain)).includes("Replayed"), await told(plain));
    await plain.goto(`${url}/dead-letters?kind=job`);
    await plain.locator("input[name=id]").first().check();
    await plain.fill("[data-bulk] input[name=note]", "without script");
    await Promise.all([plain.waitForNavigation(), plain.click("[data-bulk] button[value=replay]")]);
    must((await plain.locator("main").innerText()).includes("Replay 1 dead letter?"), await plain.locator("main").innerText());
    await Promise.all([plain.waitForNavigation(), plain.click("main form button.main")]);
    must((await told(plain)).includes("Under way"), await told(plain));
  });
  await plain.context().close();
  return count;
}
