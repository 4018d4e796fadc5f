// Before the first paint: the colours that this reader chose.
(() => {
  try {
    const chosen = localStorage.getItem("wakepost-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // A browser that keeps nothing shows the system's colours.
  }
})();
