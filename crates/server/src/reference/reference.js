// Finding, copying and the choice of colours: the page can be read without any of it.
const find = document.getElementById("find");
const entries = [...document.querySelectorAll("[data-words]")];
const groups = [...document.querySelectorAll(".rail [data-group]")];
const nothing = document.getElementById("nothing");
const intro = document.querySelector(".intro");

function show() {
  const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const entry of entries) {
    entry.hidden = !words.every((word) => entry.dataset.words.includes(word));
  }
  let any = false;
  for (const group of groups) {
    const some = group.querySelector("li:not([hidden])") !== null;
    any = any || some;
    group.hidden = !some;
    document.getElementById(group.dataset.group).hidden = !some;
    if (words.length > 0) group.open = true;
  }
  intro.hidden = words.length > 0;
  menu.checked = false;
  nothing.hidden = any;
}

find.addEventListener("input", show);
document.addEventListener("keydown", (event) => {
  const typing = event.target instanceof HTMLInputElement;
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    find.focus();
    find.select();
  } else if (event.key === "Escape" && typing) {
    find.value = "";
    show();
    find.blur();
  }
});

// A link to what is not shown shows everything again.
function arrive() {
  const there = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (there !== null && there.closest("[hidden]") !== null) {
    find.value = "";
    show();
    there.scrollIntoView();
  }
}
addEventListener("hashchange", arrive);

// On a phone the index makes way for what was chosen in it.
const menu = document.getElementById("menu");
document.querySelector(".rail").addEventListener("click", (event) => {
  if (event.target.closest("a") !== null) menu.checked = false;
});

for (const block of document.querySelectorAll(".shown pre")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(block.textContent);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not allowed";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  block.parentElement.append(button);
}

// Where the reader is, in the index.
const links = new Map(
  [...document.querySelectorAll(".rail li[data-words] a")].map((a) => [a.hash.slice(1), a]),
);
const watcher = new IntersectionObserver(
  (seen) => {
    for (const { target, isIntersecting } of seen) {
      const link = links.get(target.id);
      if (!isIntersecting || link === undefined) continue;
      for (const other of links.values()) other.removeAttribute("aria-current");
      link.setAttribute("aria-current", "true");
      const rail = document.querySelector(".rail");
      const { top, bottom } = link.getBoundingClientRect();
      if (top < 60 || bottom > innerHeight) rail.scrollTop += top - innerHeight / 2;
    }
  },
  { rootMargin: "-70px 0px -80% 0px" },
);
for (const article of document.querySelectorAll("article")) watcher.observe(article);

const theme = document.getElementById("theme");
const root = document.documentElement;
const system = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
function name() { theme.textContent = isDark() ? "Light" : "Dark"; }
try {
  const chosen = localStorage.getItem("wakepost-theme");
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
} catch {
  // A browser that keeps nothing shows the system's colours.
}
theme.hidden = false;
theme.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  try { localStorage.setItem("wakepost-theme", root.dataset.theme); } catch { /* as above */ }
  name();
});
system.addEventListener("change", name);
name();
