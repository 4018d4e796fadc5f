// What makes pages live. Everything works without it, by reload.

const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];

// Copying.
function showCopyButtons(within) {
  for (const button of $$("[data-copy]", within)) button.hidden = false;
}
async function copy(button) {
  const text = button.dataset.copy;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Pages without TLS have no clipboard of that kind.
    const field = document.createElement("textarea");
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  button.classList.add("copied");
  setTimeout(() => button.classList.remove("copied"), 1200);
}
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) copy(button);
  // Only one sheet is open, and a click beside it closes it.
  for (const sheet of $$("details.act[open], details.switch[open]")) {
    if (!sheet.contains(event.target)) sheet.open = false;
  }
});
showCopyButtons(document);

// Colours.
const theme = $("[data-theme-switch]");
if (theme) {
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try {
      localStorage.setItem("wakepost-theme", root.dataset.theme);
    } catch {
      // It lasts until the next page then.
    }
  });
}

// Choosing rows.
function countChosen() {
  for (const bulk of $$("[data-bulk]")) {
    const chosen = $$("input[name=id]:checked").length;
    // Without script it is there for whoever ticks some; with it, once there is something to do it to.
    bulk.hidden = chosen === 0;
    $("[data-chosen]", bulk).textContent = `${chosen} chosen`;
  }
}
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-all]")) {
    for (const box of $$("input[name=id]")) box.checked = event.target.checked;
  }
  if (event.target.matches("[data-go]")) event.target.form.requestSubmit();
  countChosen();
});
countChosen();

// Keys.
const places = { o: "overview", i: "inbox", j: "jobs", a: "approvals", d: "dead-letters", s: "sources", w: "webhooks" };
let going = 0;
let at = -1;
function move(by) {
  const rows = $$("tbody tr").filter((row) => $("a.row", row));
  if (rows.length === 0) return;
  for (const row of rows) row.classList.remove("at");
  at = Math.min(Math.max(at + by, 0), rows.length - 1);
  rows[at].classList.add("at");
  rows[at].scrollIntoView({ block: "nearest" });
}
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    for (const open of $$("details.act[open], details.switch[open]")) open.open = false;
    if (event.target.matches("input")) event.target.blur();
    return;
  }
  if (event.target.closest("input, select, textarea, dialog")) return;
  if (Date.now() - going < 1500 && places[event.key]) {
    going = 0;
    const place = $$(".rail a").find((link) => new URL(link.href).pathname === (event.key === "o" ? "/" : `/${places[event.key]}`));
    if (place) location.href = place.href;
    return;
  }
  switch (event.key) {
    case "/":
      $("[data-search]")?.focus();
      event.preventDefault();
      break;
    case "g":
      going = Date.now();
      break;
    case "j":
      move(1);
      break;
    case "k":
      move(-1);
      break;
    case "Enter":
      if (!event.target.closest("a, button, summary")) $("tr.at a.row")?.click();
      break;
    case "r": {
      const replay = $("details.act[data-key=r]");
      if (replay) {
        replay.open = true;
        $("input:not([type=hidden])", replay)?.focus();
        event.preventDefault();
      }
      break;
    }
    case "?":
      $("#help")?.showModal();
      break;
  }
});

// Being live: the page is read anew, and what changed takes the place of what was there. Rows keep their place. A page
// with a stream is read when that tells of something, and now and then; others (`poll`) are read every few seconds.
const POLL_S = 5;
const BESIDE_STREAM_S = 8;
const TOLD = ["received", "state", "progress", "effect", "reply"];
const live = $("[data-live]");
const dot = $("[data-dot]");
let stream = null;
let waiting = null;
let paused = false;
let unseen = 0;

function isBusy() {
  return paused || $("details.act[open]") || $("input[name=id]:checked") || document.hidden;
}
function tellState(state, isGood = false) {
  if (!dot) return;
  dot.hidden = false;
  dot.textContent = state;
  dot.classList.toggle("on", isGood);
}
/** Says how new what is shown stays, now that it could be read. */
function tellStanding() {
  if (!stream) tellState(`every ${POLL_S} s`, true);
  else if (stream.readyState === EventSource.OPEN) tellState("live", true);
  else tellState("connecting");
}
/** The page as it is now, or null; the dot says why. */
async function readAnew() {
  let answer;
  try {
    answer = await fetch(location.href, { headers: { accept: "text/html" } });
  } catch {
    tellState("no answer");
    return null;
  }
  if (!answer.ok) {
    tellState({ 401: "signed out", 404: "gone" }[answer.status] ?? "no answer");
    return null;
  }
  const text = await answer.text().catch(() => null);
  if (text === null) {
    tellState("no answer");
    return null;
  }
  // What gave up for good, as on an answer that is no stream, is begun again once the page can be read.
  if (stream?.readyState === EventSource.CLOSED) listen();
  tellStanding();
  return text;
}
/** What the reader opened or folded stays so. */
const turned = new Map();
const foldName = (fold) => $("b", fold)?.textContent;
document.addEventListener("click", (event) => {
  const fold = event.target.closest("summary")?.parentElement;
  if (fold?.closest("[data-part] .timeline")) turned.set(foldName(fold), !fold.open);
});
function keepFolds(fresh) {
  for (const fold of $$(".timeline details", fresh)) {
    if (turned.has(foldName(fold))) fold.toggleAttribute("open", turned.get(foldName(fold)));
  }
}
async function refresh() {
  waiting = null;
  if (isBusy()) return later(2000);
  const text = await readAnew();
  if (text === null) return;
  if (isBusy()) return later(2000);
  const fresh = new DOMParser().parseFromString(text, "text/html");
  showCopyButtons(fresh);
  keepFolds(fresh);
  // Work that ended has no more to tell; work that was begun has.
  const now = fresh.querySelector("[data-live]")?.dataset.live;
  if (now && now !== live.dataset.live) {
    live.dataset.live = now;
    listen();
    tellStanding();
  }
  for (const part of $$("[data-part]")) {
    const other = fresh.querySelector(`[data-part="${part.dataset.part}"]`);
    if (other && other.innerHTML !== part.innerHTML) part.innerHTML = other.innerHTML;
  }
  const body = $("tbody[data-rows]");
  const rows = fresh.querySelector("tbody[data-rows]");
  if (body && rows) exchange(body, rows);
  else if (!body !== !rows) location.reload();
}
/** Makes the rows those of the fresh page: what is not on it went on to another state, or to the next page. */
function exchange(body, rows) {
  const known = new Map($$("tr", body).map((row) => [row.dataset.id, row]));
  const arrived = [];
  const now = $$("tr", rows).map((row) => {
    const old = known.get(row.dataset.id);
    if (!old) {
      row.classList.add("new");
      arrived.push(row);
      return row;
    }
    if (old.innerHTML !== row.innerHTML) old.innerHTML = row.innerHTML;
    return old;
  });
  // Whoever scrolled goes on reading where they are: at the first row in sight that stays.
  const scrolled = scrollY > 200;
  const anchor = now.find((row) => row.isConnected && row.getBoundingClientRect().top >= 0);
  const top = anchor?.getBoundingClientRect().top;
  body.replaceChildren(...now);
  at = now.findIndex((row) => row.classList.contains("at"));
  if (scrolled && anchor) scrollBy(0, anchor.getBoundingClientRect().top - top);
  if (scrolled && arrived.length > 0) tell(unseen + arrived.length);
}
function tell(number) {
  unseen = number;
  const pill = $("[data-pill]");
  if (!pill) return;
  pill.hidden = number === 0;
  pill.textContent = `${number} new`;
}
function later(ms) {
  waiting ??= setTimeout(refresh, ms);
}
/** Listens to the page's stream, if it has one and somebody looks: a browser has only six connections to a server. */
function listen() {
  stream?.close();
  stream = null;
  if (live.dataset.live === "poll" || document.hidden) return;
  stream = new EventSource(live.dataset.live);
  stream.onopen = tellStanding;
  stream.onerror = () => {
    tellStanding();
    later(400);
  };
  for (const name of TOLD) stream.addEventListener(name, () => later(400));
}
/** What changes without a word of a stream shows within a few seconds too. */
function readNowAndThen() {
  setTimeout(() => {
    later(0);
    readNowAndThen();
  }, (stream ? BESIDE_STREAM_S : POLL_S) * 1000);
}
if (live) {
  const rows = $("tbody[data-rows]");
  rows?.addEventListener("mouseenter", () => (paused = true));
  rows?.addEventListener("mouseleave", () => (paused = false));
  $("[data-pill]")?.addEventListener("click", () => {
    tell(0);
    scrollTo({ top: 0, behavior: "smooth" });
  });
  addEventListener("scroll", () => scrollY < 50 && tell(0), { passive: true });
  listen();
  // It was read just now.
  tellStanding();
  readNowAndThen();
  document.addEventListener("visibilitychange", () => {
    listen();
    if (document.hidden) return;
    tellStanding();
    later(0);
  });
  addEventListener("pagehide", () => stream?.close());
}
