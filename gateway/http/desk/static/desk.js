// The pages work without this file. It adds: times that tick, local times, live refresh, tables by keyboard, tooltips,
// zoom by drag, copying.
"use strict";

const REFRESH_MS = 5000;
const THIN = "\u2009";

// ---- times -----------------------------------------------------------------------------------------------------

function ago(moment, now) {
  const seconds = Math.floor((now - moment) / 1000);
  if (seconds < 5) return seconds > -60 ? "now" : "in the future";
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]]) {
    if (seconds >= size) {
      return Math.floor(seconds / size).toString().replace(/\B(?=(\d{3})+$)/g, THIN) + THIN + unit + " ago";
    }
  }
}

function tick() {
  const now = Date.now();
  for (const time of document.querySelectorAll("time[data-tick]")) {
    const text = ago(Date.parse(time.dateTime), now);
    if (time.textContent !== text) time.textContent = text;
  }
}

const LOCAL = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const SHORT_LOCAL = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" });
const isUtc = new Date().getTimezoneOffset() === 0;

// The reader's own time beside UTC: as a title where a time is relative, in words where it is exact.
function showLocal(time) {
  const moment = Date.parse(time.dateTime);
  if (Number.isNaN(moment) || isUtc || time.dataset.shown) return;
  time.dataset.shown = "true";
  if (time.hasAttribute("title")) { time.title += `\n${LOCAL.format(moment)} local time`; return; }
  const local = document.createElement("span");
  local.className = "local";
  local.textContent = SHORT_LOCAL.format(moment);
  time.after(" ", local);
}

// ---- live refresh ----------------------------------------------------------------------------------------------

async function fetched(address) {
  const answer = await fetch(address, { headers: { Accept: "text/html" }, cache: "no-store" });
  const text = await answer.text();
  if (answer.status === 401) location.reload(); // the session has ended: the page asks to sign in
  return { ok: answer.ok, page: new DOMParser().parseFromString(text, "text/html") };
}

function focusKey(element) {
  return element && (element.id ? "#" + CSS.escape(element.id) : element.getAttribute("href") && `a[href="${CSS.escape(element.getAttribute("href"))}"]`);
}

function replaceKeepingFocus(current, fresh) {
  const focused = current.contains(document.activeElement) ? focusKey(document.activeElement) : null;
  const openDetails = [...current.querySelectorAll("details")].map((one) => one.open);
  current.replaceWith(fresh);
  [...fresh.querySelectorAll("details")].forEach((one, at) => { one.open = openDetails[at] ?? one.open; });
  if (focused) fresh.parentNode.querySelector(focused)?.focus({ preventScroll: true });
  dress(fresh);
}

// Rows change in place; while somebody points at the table or walks through it, none moves.
function refreshTable(table, fresh) {
  const body = table.tBodies[0];
  const isRead = table.matches(":hover") || table.contains(document.activeElement);
  const current = new Map([...body.rows].map((row) => [row.id, row]));
  const wanted = [...fresh.tBodies[0].rows];
  for (const row of wanted) {
    const old = current.get(row.id);
    if (!old) body.append(row);
    else if (old.outerHTML !== row.outerHTML) replaceKeepingFocus(old, row);
    current.delete(row.id);
  }
  current.forEach((row) => row.remove());
  if (!isRead && !sortings.has(table.id)) wanted.forEach((row) => body.append(document.getElementById(row.id)));
  sortAgain(table);
  dress(table);
}

async function refresh() {
  const main = document.querySelector("main[data-live]");
  if (!main || document.hidden) return;
  try {
    const { ok, page } = await fetched(location.href);
    if (!ok) throw new Error("the registry answered with an error");
    const same = [...page.querySelectorAll("[data-swap], table[data-keys]")];
    if (Boolean(page.querySelector("#streams")) !== Boolean(document.querySelector("#streams"))) return location.reload();
    for (const fresh of same) {
      const current = document.getElementById(fresh.id);
      if (!current || fresh.parentNode.closest("[data-swap]")) continue;
      if (current.tagName === "TABLE") refreshTable(current, fresh);
      else if (current.innerHTML !== fresh.innerHTML && !current.matches("#chart:has(.column.on, .selection, :focus-within)")) replaceKeepingFocus(current, fresh);
    }
    for (const holder of document.querySelectorAll("[data-fragment]")) await loadFragment(holder);
    tell("", "Live");
  } catch {
    tell("stale", "Not updating, trying again");
  }
  tick();
}

function tell(state, words) {
  const live = document.getElementById("live");
  live.hidden = false;
  live.className = "live " + state;
  if (live.textContent !== words) live.textContent = words;
}

// ---- parts of a page that come later -------------------------------------------------------------------------------

async function loadFragment(holder) {
  let fresh;
  try {
    const { page } = await fetched(holder.dataset.fragment);
    fresh = page.querySelector("#latest-content") ?? page.querySelector("main > *");
  } catch {
    if (holder.getAttribute("aria-busy") !== "true") return;
    fresh = document.createElement("p");
    fresh.className = "empty-line";
    fresh.textContent = "The registry does not answer. This is tried again by itself.";
    holder.replaceChildren(fresh);
    return;
  }
  const current = holder.querySelector("#latest-content");
  const isFirst = holder.getAttribute("aria-busy") === "true" || !current?.querySelector("tbody");
  holder.setAttribute("aria-busy", "false");
  if (isFirst || !fresh.querySelector("tbody")) {
    if (current?.innerHTML !== fresh.innerHTML) holder.replaceChildren(fresh);
    dress(holder);
    return;
  }
  const known = new Set([...current.querySelectorAll("tbody tr")].map((row) => row.id));
  const count = [...fresh.querySelectorAll("tbody tr")].filter((row) => !known.has(row.id)).length;
  let button = holder.querySelector(".fresh");
  if (!count) return button?.remove();
  if (!button) {
    button = document.createElement("button");
    button.type = "button";
    button.className = "fresh";
    holder.prepend(button);
  }
  button.textContent = count === 1 ? "Show 1 new record" : `Show ${count} new records`;
  button.onclick = () => { holder.replaceChildren(fresh); dress(holder); };
}

// ---- tables --------------------------------------------------------------------------------------------------------

const sortings = new Map();

function compared(a, b) {
  const [x, y] = [a, b].map(Number);
  return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b, "en", { numeric: true }) : x - y;
}

function sortAgain(table) {
  const sorting = sortings.get(table.id);
  if (!sorting) return;
  const value = (row) => row.cells[sorting.column].dataset.value ?? "";
  const rows = [...table.tBodies[0].rows].sort((a, b) => sorting.direction * compared(value(a), value(b)));
  table.tBodies[0].append(...rows);
}

function makeSortable(table) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    if (!head.hasAttribute("aria-sort") || head.querySelector("button")) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const isAscending = head.getAttribute("aria-sort") === "ascending";
      table.querySelectorAll("th[aria-sort]").forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", isAscending ? "descending" : "ascending");
      sortings.set(table.id, { column, direction: isAscending ? -1 : 1 });
      sortAgain(table);
    });
  });
}

function openShortcuts() {
  document.getElementById("shortcuts").showModal();
}

function isTyping(target) {
  return target.closest("input:not([type=checkbox]), textarea, select") !== null;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !(event.target instanceof Element)) return;
  if (event.key === "Escape" && isTyping(event.target)) return event.target.blur();
  if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
  if (event.key === "?") return openShortcuts();
  if (event.key === "/") {
    const field = document.querySelector("[data-search]");
    if (field) { field.focus(); field.select(); event.preventDefault(); }
    return;
  }
  const neighbour = { j: "next", k: "prev" }[event.key];
  if (neighbour && !document.querySelector("table[data-keys]")) document.querySelector(`.records-nav a[rel=${neighbour}]`)?.click();
});

document.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
  if (!step || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, svg, dialog, [tabindex='0']:not(table, .scroll)")) return;
  const table = event.target.closest("table[data-keys]");
  const links = [...(table ?? document.querySelector("table[data-keys]"))?.querySelectorAll("tbody .open") ?? []];
  if (!links.length || (!table && event.target !== document.body && event.target.id !== "content" && !event.target.matches(".scroll"))) return;
  const at = links.indexOf(event.target);
  links[at < 0 ? 0 : Math.min(links.length - 1, Math.max(0, at + step))].focus();
  event.preventDefault();
});

document.addEventListener("click", (event) => {
  const copy = event.target.closest("[data-copy]");
  if (copy) {
    navigator.clipboard?.writeText(copy.dataset.copy).then(() => { copy.textContent = "Copied"; });
    return;
  }
  const from = event.target.closest("[data-copy-from]");
  if (from) {
    navigator.clipboard?.writeText(document.getElementById(from.dataset.copyFrom).textContent).then(() => { from.textContent = "Copied"; });
    return;
  }
  const row = event.target.closest("table[data-keys] tbody tr");
  if (row && !event.target.closest("a, button") && !String(getSelection())) row.querySelector(".open")?.click();
});

// ---- chart ---------------------------------------------------------------------------------------------------------

function showTip(svg, column) {
  const chart = svg.closest(".chart");
  hideTip(svg);
  column.classList.add("on");
  const tip = document.createElement("div");
  tip.id = "tip";
  const title = document.createElement("p");
  title.textContent = column.dataset.title + (isUtc ? "" : ` (${SHORT_LOCAL.format(Date.parse(column.dataset.from))})`);
  const list = document.createElement("ul");
  const line = (kind, words, count) => {
    const item = document.createElement("li");
    const key = document.createElement("span");
    const label = document.createElement("span");
    const number = document.createElement("span");
    if (kind !== null) key.className = `swatch s${kind}`;
    else item.className = "sum";
    label.textContent = words;
    number.textContent = String(count).replace(/\B(?=(\d{3})+$)/g, THIN);
    item.append(...(kind === null ? [label, number] : [key, label, number]));
    list.append(item);
  };
  const counts = JSON.parse(column.dataset.counts);
  counts.slice(0, 10).forEach(([label, slot, count]) => line(slot, label, count));
  if (counts.length > 1) line(null, "together", column.dataset.total);
  if (!counts.length) line(null, "nothing refused", "");
  if (Number(column.dataset.volume)) line(null, `of all records (${column.dataset.share} %)`, column.dataset.volume);
  tip.append(title, list);
  chart.append(tip);
  const place = column.getBoundingClientRect();
  const around = chart.getBoundingClientRect();
  const right = place.right - around.left + 8;
  const fits = right + tip.offsetWidth <= around.width;
  tip.style.left = `${fits ? right : Math.max(0, place.left - around.left - tip.offsetWidth - 8)}px`;
  tip.style.top = "8px";
}

function hideTip(svg) {
  document.getElementById("tip")?.remove();
  svg.querySelectorAll(".column.on").forEach((column) => column.classList.remove("on"));
}

function zoomTo(svg, first, last) {
  const address = new URL(svg.dataset.zoom, location.origin);
  address.searchParams.set("from", first.dataset.from);
  address.searchParams.set("to", last.dataset.to);
  location.assign(address);
}

// Dragging marks whole bars; letting go shows them alone. A press without a drag changes nothing.
function makeZoomable(svg, columns) {
  let start = null;
  let selection = null;
  const at = (event) => {
    const box = svg.getBoundingClientRect();
    return Math.min(columns.length - 1, Math.max(0, Math.floor((event.clientX - box.left) / box.width * columns.length)));
  };
  const end = () => { start = null; selection?.remove(); selection = null; };
  svg.addEventListener("pointerdown", (event) => {
    if (event.button === 0 && event.pointerType !== "touch") { start = at(event); svg.setPointerCapture(event.pointerId); }
  });
  svg.addEventListener("pointermove", (event) => {
    if (start === null) return;
    const [low, high] = [start, at(event)].sort((a, b) => a - b);
    if (low === high && !selection) return;
    hideTip(svg);
    selection ??= svg.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "rect"));
    selection.setAttribute("class", "selection");
    selection.setAttribute("y", "0");
    selection.setAttribute("height", "100%");
    selection.setAttribute("x", `${low / columns.length * 100}%`);
    selection.setAttribute("width", `${(high - low + 1) / columns.length * 100}%`);
  });
  svg.addEventListener("pointerup", (event) => {
    const [low, high] = start === null ? [0, 0] : [start, at(event)].sort((a, b) => a - b);
    const isDragged = selection !== null && high > low;
    end();
    if (isDragged) zoomTo(svg, columns[low], columns[high]);
  });
  svg.addEventListener("pointercancel", end);
}

function makeChart(svg) {
  const columns = [...svg.querySelectorAll(".column")];
  if (columns.length && svg.dataset.zoom) makeZoomable(svg, columns);
  svg.addEventListener("pointermove", (event) => {
    if (svg.querySelector(".selection")) return;
    const column = event.target.closest(".column");
    if (column && !column.classList.contains("on")) showTip(svg, column);
  });
  svg.addEventListener("pointerleave", () => hideTip(svg));
  svg.addEventListener("blur", () => hideTip(svg));
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Escape") hideTip(svg);
    const on = columns.find((column) => column.classList.contains("on"));
    if (event.key === "Enter" && on && svg.dataset.zoom) return zoomTo(svg, on, on);
    if (!step) return;
    const at = columns.findIndex((column) => column.classList.contains("on"));
    const next = at < 0 ? columns.length - 1 : Math.min(columns.length - 1, Math.max(0, at + step));
    showTip(svg, columns[next]);
    event.preventDefault();
  });
}

// ---- start ---------------------------------------------------------------------------------------------------------

function dress(root) {
  root.querySelectorAll("[data-copy][hidden], [data-copy-from][hidden]").forEach((button) => { button.hidden = !navigator.clipboard; });
  root.querySelectorAll("time[datetime]").forEach(showLocal);
  root.querySelectorAll("svg[data-chart]").forEach(makeChart);
  (root.matches?.("table[data-sortable]") ? [root] : root.querySelectorAll("table[data-sortable]")).forEach(makeSortable);
}

dress(document);
document.getElementById("help").hidden = false;
document.getElementById("help").addEventListener("click", openShortcuts);
document.getElementById("close-shortcuts").addEventListener("click", () => document.getElementById("shortcuts").close());
tick();
setInterval(tick, 1000);
document.querySelectorAll("[data-fragment]").forEach(loadFragment);
if (document.querySelector("main[data-live]")) {
  tell("", "Live");
  setInterval(refresh, REFRESH_MS);
  document.addEventListener("visibilitychange", refresh);
}
