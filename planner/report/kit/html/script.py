"""What a page does in a browser: sort and filter tables, draw charts once, unfold itself for print.

It makes no HTML of texts, and reaches nothing outside the page.
"""

SCRIPT = r"""
"use strict";
const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));

function keyOf(row, column, numeric) {
  const cell = row.cells[column];
  if (!numeric) return cell.textContent;
  return cell.dataset.v === undefined ? null : Number(cell.dataset.v);
}

function sortBy(head, column) {
  const table = head.closest("table"), body = table.tBodies[0];
  const direction = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
  const sign = direction === "ascending" ? 1 : -1, numeric = head.classList.contains("n");
  const order = new Intl.Collator("en", {numeric: true}).compare;
  const rows = Array.from(body.rows).map(row => [keyOf(row, column, numeric), row]);
  rows.sort(([a], [b]) => a === null ? (b === null ? 0 : 1) : b === null ? -1 : sign * (numeric ? a - b : order(a, b)));
  for (const other of all("th", table)) other.setAttribute("aria-sort", "none");
  head.setAttribute("aria-sort", direction);
  body.append(...rows.map(([, row]) => row));
}

for (const head of all("table.data th")) {
  const column = Array.from(head.parentNode.cells).indexOf(head);
  head.firstElementChild.addEventListener("click", () => sortBy(head, column));
}

for (const field of all(".filter input")) {
  const rows = Array.from(field.closest(".table").querySelector("tbody").rows), count = field.nextElementSibling;
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every(word => text.includes(word));
      if (!row.hidden) shown += 1;
    }
    count.textContent = words.length ? ` ${shown} of ${rows.length} rows` : "";
  });
}

function reveal() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  let fold = target && target.closest("details");
  for (; fold; fold = fold.parentElement.closest("details")) fold.open = true;
  if (target) target.scrollIntoView();
}
addEventListener("hashchange", reveal);

const wide = matchMedia("(min-width: 70rem)"), contents = document.querySelector("nav details");
function unfoldContents() { if (contents) contents.open = wide.matches; }
unfoldContents();
wide.addEventListener("change", unfoldContents);

const figures = JSON.parse(document.getElementById("charts").textContent);
const touch = matchMedia("(pointer: coarse)").matches;
const CONFIG = {displaylogo: false, typesetMath: false, modeBarButtonsToRemove: ["lasso2d", "select2d"],
  displayModeBar: touch ? false : "hover"};

async function libraryOf(element) {
  const bytes = Uint8Array.from(atob(element.textContent), letter => letter.charCodeAt(0));
  const text = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  const script = document.createElement("script");
  script.textContent = text;
  document.head.append(script);
}

const PRINTED_PX = 680;
let printing = false;
function widthOf(place) { return printing ? PRINTED_PX : Math.max(240, Math.floor(place.clientWidth)); }

async function draw(place) {
  const figure = figures[place.dataset.chart];
  if (touch) figure.layout.dragmode = false;
  figure.layout.width = widthOf(place);
  await Plotly.newPlot(place, figure.data, figure.layout, CONFIG);
}

const visible = place => place.offsetParent !== null;
const drawn = place => place.classList.contains("js-plotly-plot");

const near = place => place.getBoundingClientRect().top < 2 * innerHeight;
const idle = () => new Promise(next => window.requestIdleCallback ? requestIdleCallback(next, {timeout: 200}) : next());

async function drawVisible(wanted = () => true) {
  for (const place of all(".plot")) {
    if (visible(place) && !drawn(place) && wanted(place)) { await draw(place); await idle(); }
  }
}

function fit() {
  for (const place of all(".plot.js-plotly-plot")) {
    const width = widthOf(place);
    if (visible(place) && place.layout.width !== width) Plotly.relayout(place, {width});
  }
}

const unfolded = [];
const UNDRAWN = "This chart cannot be drawn here; its numbers are below.";
function beforePrint() {
  if (printing) return;
  printing = true;
  for (const fold of all("details:not([open])")) { unfolded.push(fold); fold.open = true; }
  if (window.Plotly) { for (const place of all(".plot")) if (!drawn(place)) draw(place); fit(); }
}
function afterPrint() {
  printing = false;
  for (const fold of unfolded.splice(0)) fold.open = false;
  if (window.Plotly) fit();
}
addEventListener("beforeprint", beforePrint);
addEventListener("afterprint", afterPrint);
matchMedia("print").addEventListener("change", event => event.matches ? beforePrint() : afterPrint());

// what is on the screen can be used; the charts below follow when nothing else is to be done
function markInteractive() { window.interactiveMs = window.interactiveMs || performance.now(); }

document.documentElement.dataset.ready = "tables";
(async () => {
  const library = document.getElementById("library");
  if (library) {
    try {
      await libraryOf(library);
      await drawVisible(near);
      markInteractive();
      await drawVisible();
      for (const fold of all("details")) fold.addEventListener("toggle", () => { drawVisible().then(() => fit()); });
      let waiting = 0;
      addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(fit, 120); });
    } catch (error) {
      for (const place of all(".plot")) if (!drawn(place)) place.textContent = UNDRAWN;
      console.error(error);
    }
  }
  if (location.hash) reveal();
  markInteractive();
  document.documentElement.dataset.ready = "charts";
})();
"""
