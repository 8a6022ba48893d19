// Runs before the first paint, so that the page does not flash in another theme.
(() => {
  try {
    const chosen = localStorage.getItem("outlast-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // Storage may be forbidden: then the system's theme applies.
  }
})();
