// Live updates and shortcuts. Every page works without this script.
"use strict";

(() => {
  const all = (what, within = document) => [...within.querySelectorAll(what)];
  const one = (what, within = document) => within.querySelector(what);

  // Times: keeps "4 min ago" current while the page is open, in the words of report/text_format.py.
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  function ago(at) {
    const seconds = (Date.now() - at) / 1000;
    if (Math.abs(seconds) < 1.5) return seconds >= 0 ? "just now" : "now";
    const whole = Math.round(Math.abs(seconds));
    const [unit, size] = units.find(([, size]) => whole >= size) ?? units[3];
    return seconds > 0 ? `${Math.floor(whole / size)} ${unit} ago` : `in ${Math.floor(whole / size)} ${unit}`;
  }
  // Local time beside UTC, with its date if that differs; nothing where both are the same.
  function addLocal(time) {
    const at = new Date(time.dateTime);
    if (time.dataset.local || !at.getTimezoneOffset()) return;
    const [day, clock] = at.toLocaleString("sv-SE").split(" ");
    time.dataset.local = `${time.dateTime.startsWith(day) ? "" : `${day} `}${clock} local`;
    if (time.classList.contains("clock")) time.textContent += ` (${time.dataset.local})`;
    else time.title += ` (${time.dataset.local})`;
  }
  function updateTimes(within = document) {
    all("time[datetime]", within).forEach(addLocal);
    for (const time of all("time[datetime]:not(.clock)", within)) {
      const text = ago(Date.parse(time.dateTime));
      if (time.textContent !== text) time.textContent = text;
    }
  }
  setInterval(updateTimes, 1000);

  // Theme: that of the system, light, or dark; stored in this browser.
  const toggle = one("[data-theme-toggle]");
  const themes = ["auto", "light", "dark"];
  function showTheme() {
    toggle.textContent = `Theme: ${document.documentElement.dataset.theme ?? "auto"}`;
  }
  if (toggle) {
    toggle.hidden = false;
    showTheme();
    toggle.addEventListener("click", () => {
      const root = document.documentElement;
      const next = themes[(themes.indexOf(root.dataset.theme ?? "auto") + 1) % themes.length];
      if (next === "auto") delete root.dataset.theme;
      else root.dataset.theme = next;
      try {
        if (next === "auto") localStorage.removeItem("outlast-theme");
        else localStorage.setItem("outlast-theme", next);
      } catch {
        // Storage may be forbidden: then the choice lasts until the page is closed.
      }
      showTheme();
    });
  }

  // Filters: submitted on change; empty fields stay out of the URL.
  for (const form of all("form[data-auto-submit]")) {
    form.addEventListener("change", (event) => {
      if (event.target.matches("select, input[type=checkbox]")) form.requestSubmit();
    });
    form.addEventListener("submit", () => {
      for (const field of all("input, select", form)) field.disabled = field.value === "" || field.disabled;
    });
  }
  const enable = (what) => all(what).forEach((field) => (field.disabled = false));
  addEventListener("pageshow", () => enable("form[data-auto-submit] :disabled"));

  // Confirmation before what cannot be undone, and no second submit of the same form.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    const question = event.submitter?.dataset.confirm;
    if (question && !confirm(question)) event.preventDefault();
    else if (form.method === "post") setTimeout(() => all("button", form).forEach((button) => (button.disabled = true)));
  });
  addEventListener("pageshow", (event) => event.persisted && enable("form[method=post] button:disabled")); // gone back

  // Copying.
  function offerCopies() {
    for (const button of all("[data-copy]")) button.hidden = !navigator.clipboard;
  }
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    await navigator.clipboard.writeText(one("[data-copy-text]", button.parentElement).textContent);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  offerCopies();

  // Selecting rows.
  const selectAll = one("[data-select-all]");
  function countSelected() {
    const boxes = all("[data-select]");
    const selected = boxes.filter((box) => box.checked).length;
    for (const place of all("[data-selected-count]")) place.textContent = selected;
    for (const button of all("[data-needs-selection]")) button.disabled = selected === 0;
    if (selectAll) {
      selectAll.checked = selected > 0 && selected === boxes.length;
      selectAll.indeterminate = selected > 0 && selected < boxes.length;
    }
  }
  if (selectAll) {
    selectAll.hidden = false;
    selectAll.addEventListener("change", () => {
      for (const box of all("[data-select]")) box.checked = selectAll.checked;
      countSelected();
    });
    document.addEventListener("change", (event) => event.target.matches("[data-select]") && countSelected());
    addEventListener("pageshow", countSelected);
  }

  // Keys.
  const help = one("#keys");
  const helpButton = one("[data-keys]");
  if (helpButton) {
    helpButton.hidden = false;
    helpButton.addEventListener("click", () => help.showModal());
  }
  let going = false;
  function move(by) {
    const rows = all("[data-row]");
    if (!rows.length) return;
    const at = rows.findIndex((row) => row.classList.contains("at"));
    const next = rows[Math.min(Math.max(at + by, 0), rows.length - 1)];
    rows[at]?.classList.remove("at");
    next.classList.add("at");
    (one("[data-open]", next) ?? one("a", next))?.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  }
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input:not([type=checkbox]), select, textarea");
    if (event.key === "Escape" && typing) typing.blur();
    if (typing || help?.open || event.ctrlKey || event.metaKey || event.altKey) return;
    if (going) {
      going = false;
      one(`[data-key="${CSS.escape(event.key)}"]`)?.click();
      return;
    }
    const keys = {
      "/": () => (one(".filters input[type=search]") ?? one(".filters input, .filters select"))?.focus(),
      "?": () => help?.showModal(),
      j: () => move(1),
      k: () => move(-1),
      x: () => one("[data-row].at [data-select]")?.click(),
      g: () => (going = true),
    };
    if (!Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key]();
  });

  // Live updates: one stream, closed while the page is hidden. Fragments come from the server's templates, escaped.
  const state = one("[data-live-state]");
  const events = document.body.dataset.events;
  // On a phone the state is hidden behind the menu, so a longer outage is shown across the page.
  const banner = one("[data-lost]");
  let lastUpdate = Date.now();
  let bannerTimer = 0;
  function showLiveState(is, text) {
    state.dataset.liveState = is;
    if (state.textContent !== text) state.textContent = text;
    if (is === "on") {
      lastUpdate = Date.now();
      clearTimeout(bannerTimer);
      bannerTimer = 0;
      banner.hidden = true;
    } else {
      bannerTimer ||= setTimeout(() => {
        const since = new Date(lastUpdate).toLocaleTimeString();
        banner.textContent = `The dashboard or its store does not answer. This page was last updated at ${since} and may be out of date.`;
        banner.hidden = false;
      }, 8000);
    }
  }
  function showBadges(badges) {
    for (const place of all("[data-badge]")) {
      const badge = badges[place.dataset.badge];
      place.textContent = badge?.text ?? "";
      place.title = badge?.title ?? "";
      place.className = `nav-badge${badge ? ` k-${badge.kind}` : ""}`;
    }
  }
  function showNew(newest) {
    for (const pill of all("[data-new]")) {
      pill.dataset.seen ||= newest[pill.dataset.new] ?? 0; // the server had no recent pulse when it rendered the page
      const more = BigInt(newest[pill.dataset.new] ?? 0) - BigInt(pill.dataset.seen); // numbers may exceed 2**53
      pill.hidden = more <= 0n;
      if (!pill.hidden && pill.textContent !== "New · show") pill.textContent = "New · show"; // no count: row numbers have gaps
    }
  }
  function showPart(html) {
    const fragment = document.createElement("template");
    fragment.innerHTML = html;
    for (const fresh of all("[data-part]", fragment.content)) {
      const old = one(`[data-part="${fresh.dataset.part}"]`);
      if (!old) continue;
      updateTimes(fresh);
      if (old.outerHTML === fresh.outerHTML) continue;
      const focused = old.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
      const opened = one("[data-row].at [data-open]", old)?.getAttribute("href");
      const find = (href) => all("a[href]", fresh).find((link) => link.getAttribute("href") === href);
      old.replaceWith(fresh);
      if (old.dataset.mark !== fresh.dataset.mark) refresh();
      if (opened) find(opened)?.closest("[data-row]")?.classList.add("at");
      if (focused) find(focused)?.focus({ preventScroll: true });
    }
  }
  // Loads the page again when its subject has changed, but never while someone is typing.
  async function refresh() {
    const typed = all("[data-fresh] input:not([type=hidden])").some((field) => field.value || field === document.activeElement);
    const answer = typed ? null : await fetch(location.href).catch(() => null);
    const page = answer?.ok ? new DOMParser().parseFromString(await answer.text(), "text/html") : null;
    const [old, fresh] = [one("[data-fresh]"), page && one("[data-fresh]", page)];
    if (!fresh) return (one("[data-changed]", old).hidden = false);
    const opened = all("details", old).map((each) => each.open);
    old.replaceWith(fresh);
    if (all("details", fresh).length === opened.length) all("details", fresh).forEach((each, at) => (each.open = opened[at]));
    updateTimes(fresh);
    offerCopies();
    if (document.body.dataset.view === page.body.dataset.view) return;
    document.body.dataset.view = page.body.dataset.view;
    stopListening();
    listen();
  }
  let stream = null;
  function listen() {
    if (!events || !state || stream || document.hidden) return;
    stream = new EventSource(`${events}?view=${encodeURIComponent(document.body.dataset.view)}`);
    stream.addEventListener("pulse", (event) => {
      const { badges, newest } = JSON.parse(event.data);
      showLiveState("on", "Live");
      showBadges(badges);
      showNew(newest);
    });
    stream.addEventListener("parts", (event) => showPart(JSON.parse(event.data)));
    stream.addEventListener("trouble", (event) => showLiveState("lost", JSON.parse(event.data)));
    stream.addEventListener("error", () => {
      const over = stream?.readyState === EventSource.CLOSED;
      showLiveState("lost", over ? "Not live: reload the page" : "Reconnecting…");
    });
  }
  function stopListening() {
    clearTimeout(bannerTimer);
    bannerTimer = 0;
    stream?.close();
    stream = null;
  }
  document.addEventListener("visibilitychange", () => (document.hidden ? stopListening() : listen()));
  addEventListener("pagehide", stopListening);
  addEventListener("pageshow", listen);
  listen();
  updateTimes();
})();
