// Looks at a page as it is shown, and returns what is wrong with it: a list of lines for each kind.
() => {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const rgba = (colour) => {
    if (!known.has(colour)) {
      pen.clearRect(0, 0, 1, 1);
      pen.fillStyle = "#000";
      pen.fillStyle = colour;
      pen.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
      known.set(colour, [r, g, b, a / 255]);
    }
    return known.get(colour);
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const luminance = ([r, g, b]) =>
    [r, g, b]
      .map((v) => v / 255)
      .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
      .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ratio = (a, b) => {
    const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  const where = (element) => {
    const text = (element.textContent || element.getAttribute("aria-label") || "").trim().replace(/\s+/g, " ");
    const name = element.tagName.toLowerCase() + (element.id ? "#" + element.id : "") + [...element.classList].map((c) => "." + c).join("");
    return `${name} “${text.slice(0, 40)}”`;
  };
  const shown = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const clipped = (element, style) =>
    style.clipPath === "inset(50%)" || (style.position === "absolute" && element.offsetWidth <= 1 && element.offsetHeight <= 1);

  // What stands behind a text: the colours of what it is in, and in a drawing of the shapes beneath it.
  const behind = (element, rect) => {
    const layers = [];
    const svg = element.closest("svg");
    if (svg) {
      const [x, y] = [rect.left + rect.width / 2, rect.top + rect.height / 2];
      for (const shape of [...svg.querySelectorAll("rect, circle, path")].reverse()) {
        const box = shape.getBoundingClientRect();
        const before = shape.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING;
        const style = getComputedStyle(shape);
        if (before && shape.tagName === "rect" && x >= box.left && x <= box.right && y >= box.top && y <= box.bottom && !style.fill.startsWith("url")) {
          const [r, g, b, a] = rgba(style.fill);
          layers.push([r, g, b, a * Number(style.fillOpacity) * Number(style.opacity)]);
        }
      }
    }
    for (let each = element; each; each = each.parentElement) {
      const style = getComputedStyle(each);
      layers.push(rgba(style.backgroundColor));
      if (layers.at(-1)[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), rgba(getComputedStyle(document.documentElement).colorScheme.includes("dark") && matchMedia("(prefers-color-scheme: dark)").matches ? "#121212" : "#fff"));
  };
  const opacity = (element) => {
    let product = 1;
    for (let each = element; each; each = each.parentElement) product *= Number(getComputedStyle(each).opacity);
    return product;
  };

  const contrast = new Map();
  const judge = (element, colour, rect, extra) => {
    const [r, g, b, a] = rgba(colour);
    const ground = behind(element, rect);
    const found = ratio(over([r, g, b, a * opacity(element)], ground), ground);
    if (found < 4.5) {
      const name = element.tagName.toLowerCase() + [...element.classList].map((c) => "." + c).join("") + extra;
      if (!contrast.has(name)) contrast.set(name, `${found.toFixed(2)}:1 ${where(element)}${extra} ${colour} on rgb(${ground.slice(0, 3).map(Math.round)})`);
    }
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode;
    const element = text.parentElement;
    if (!text.data.trim() || /^(SCRIPT|STYLE|TITLE|OPTION|DESC|NOSCRIPT)$/i.test(element.tagName) || !shown(element)) continue;
    const style = getComputedStyle(element);
    if (clipped(element, style) || element.closest("[disabled]")) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    const rect = range.getBoundingClientRect();
    if (!rect.width || !rect.height) continue;
    judge(element, element.namespaceURI.endsWith("svg") ? style.fill : style.color, rect, "");
  }
  for (const field of document.querySelectorAll("input, select, textarea")) {
    if (!shown(field) || ["hidden", "checkbox", "radio"].includes(field.type)) continue;
    const rect = field.getBoundingClientRect();
    judge(field, getComputedStyle(field).color, rect, "");
    if (field.placeholder) judge(field, getComputedStyle(field, "::placeholder").color, rect, "::placeholder");
  }

  const named = (element) => {
    const by = element.getAttribute("aria-labelledby");
    if (by && by.split(/\s+/).every((id) => document.getElementById(id)?.textContent.trim())) return true;
    return Boolean((element.getAttribute("aria-label") || "").trim());
  };
  const labels = [];
  for (const field of document.querySelectorAll("input:not([type=hidden]), select, textarea")) {
    const label = [...(field.labels || [])].some((each) => each.textContent.trim());
    if (!label && !named(field)) labels.push(`no label: ${field.outerHTML.slice(0, 120)}`);
  }
  for (const control of document.querySelectorAll("button, a[href], summary, [role=button]")) {
    const inside = control.textContent.trim() || control.querySelector("img[alt]:not([alt=''])") || control.querySelector("[aria-label]");
    if (!inside && !named(control) && !control.hidden) labels.push(`no name: ${control.outerHTML.slice(0, 120)}`);
  }
  for (const place of document.querySelectorAll("nav, dialog, section[role], [role=region]")) {
    if (!named(place)) labels.push(`no name: ${place.outerHTML.slice(0, 80)}`);
  }
  for (const table of document.querySelectorAll("table")) {
    if (!table.querySelector("th")) labels.push(`a table without heads: ${where(table)}`);
    for (const head of table.querySelectorAll("th")) if (!head.textContent.trim() && !head.querySelector("[aria-label]")) labels.push(`an empty head: ${head.outerHTML.slice(0, 80)} in ${where(table)}`);
  }

  const seen = new Set();
  const ids = [];
  for (const { id } of document.querySelectorAll("[id]")) seen.has(id) ? ids.push(`twice: #${id}`) : seen.add(id);
  for (const element of document.querySelectorAll("[for], [aria-labelledby], [aria-describedby], [aria-controls]")) {
    for (const attribute of ["for", "aria-labelledby", "aria-describedby", "aria-controls"]) {
      for (const id of (element.getAttribute(attribute) || "").split(/\s+/).filter(Boolean)) {
        if (!seen.has(id)) ids.push(`${attribute}=${id} leads nowhere`);
      }
    }
  }

  const headings = [];
  let level = 0;
  const heads = [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].filter((each) => shown(each) && !each.closest("dialog"));
  for (const each of heads) {
    const now = Number(each.tagName[1]);
    if (now > level + 1) headings.push(`${where(each)} follows a heading of level ${level}`);
    if (!each.textContent.trim()) headings.push("an empty heading");
    level = now;
  }
  const firsts = heads.filter((each) => each.tagName === "H1").length;
  if (firsts !== 1) headings.push(`${firsts} headings of level 1`);
  if (!document.title.trim()) headings.push("no title");
  if (document.documentElement.lang !== "en") headings.push("no language");
  if (document.querySelectorAll("main").length !== 1) headings.push("not one main part");

  const images = [];
  for (const image of document.querySelectorAll("img")) if (!image.hasAttribute("alt")) images.push(`no alt: ${image.outerHTML.slice(0, 100)}`);
  for (const svg of document.querySelectorAll("svg")) {
    if (svg.parentElement.closest("svg") || svg.closest("[aria-hidden=true]") || svg.getAttribute("aria-hidden") === "true") continue;
    if (!named(svg) && !svg.querySelector(":scope > title")) images.push(`no name: ${svg.outerHTML.slice(0, 100)}`);
    if (!svg.hasAttribute("role")) images.push(`no role: ${svg.outerHTML.slice(0, 100)}`);
  }

  const inline = [...document.querySelectorAll("[style]")].filter((each) => !each.closest("dialog")).map((each) => `style: ${where(each)}`);
  for (const element of document.querySelectorAll("*")) {
    for (const { name } of element.attributes) if (name.startsWith("on")) inline.push(`${name}: ${where(element)}`);
  }

  // Elements that stick out to the right of the window, outside of boxes that scroll by themselves.
  const outside = [];
  if (document.documentElement.scrollWidth > innerWidth) {
    outside.push(`the page is ${document.documentElement.scrollWidth} wide in a window of ${innerWidth}`);
    for (const element of document.querySelectorAll("main *, header *")) {
      const box = element.getBoundingClientRect();
      let inner = element.parentElement;
      while (inner && inner !== document.body && !/auto|scroll|hidden|clip/.test(getComputedStyle(inner).overflowX)) inner = inner.parentElement;
      if (box.right > innerWidth + 1 && (!inner || inner === document.body) && outside.length < 6) outside.push(`${where(element)} ends at ${Math.round(box.right)}`);
    }
  }

  // Targets smaller than 24 px on a side; links within a sentence and bars of a chart, which a legend repeats, may be.
  const targets = [];
  for (const each of document.querySelectorAll("a[href], button, summary, input:not([type=hidden]), select, textarea")) {
    if (!shown(each) || clipped(each, getComputedStyle(each)) || each.closest("svg, .menu-box, .skip") || getComputedStyle(each).opacity === "0") continue;
    const inSentence = each.tagName === "A" && getComputedStyle(each).display === "inline" && each.parentElement.textContent.trim() !== each.textContent.trim();
    const box = ((each.matches("input") && each.closest("label")) || each).getBoundingClientRect();
    if (!inSentence && Math.min(box.width, box.height) < 23.9 && targets.length < 8) targets.push(`${Math.round(box.width)}×${Math.round(box.height)} ${where(each)}`);
  }

  // Texts that do not fit: in a button, in an empty field, or beside another text of a drawing.
  const cut = [];
  for (const button of document.querySelectorAll("button, .button")) {
    if (shown(button) && (button.scrollWidth > button.clientWidth + 1 || button.scrollHeight > button.clientHeight + 1)) cut.push(where(button));
  }
  for (const field of document.querySelectorAll("input[placeholder]")) {
    const style = getComputedStyle(field);
    pen.font = style.font;
    const room = field.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    if (shown(field) && !field.value && pen.measureText(field.placeholder).width > room + 1) cut.push(`placeholder “${field.placeholder}” in ${Math.round(room)} px`);
  }
  for (const svg of document.querySelectorAll("svg")) {
    const boxes = [...svg.querySelectorAll("text")].filter(shown).map((each) => [each, each.getBoundingClientRect()]);
    boxes.forEach(([one, a], place) => {
      for (const [other, b] of boxes.slice(place + 1)) {
        if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4) cut.push(`${where(one)} lies on ${where(other)}`);
      }
    });
  }

  return { cut, targets, contrast: [...contrast.values()], labels, ids, headings, images, inline, outside, pwned: window.pwned !== undefined ? ["a text was run"] : [] };
}
