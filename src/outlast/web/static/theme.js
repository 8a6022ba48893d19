// Runs before anything is drawn, so that a chosen theme does not flash.
(() => {
  try {
    const chosen = localStorage.getItem("outlast-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // Storage may be forbidden: the system's theme is used then.
  }
})();
