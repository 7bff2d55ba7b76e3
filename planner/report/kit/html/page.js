
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

// a table that is too wide gets tighter; if that is not enough, each of its rows becomes a block of named values
const FITS = ["snug", "stacked"];
function fitTable(box) {
  const table = box.firstElementChild;
  table.classList.remove(...FITS);
  for (const step of FITS) {
    if (printing || box.scrollWidth <= box.clientWidth) return;
    table.classList.remove(...FITS);
    table.classList.add(step);
    if (step === "stacked") nameCells(table);
  }
}
function nameCells(table) {
  if (table.dataset.named) return;
  table.dataset.named = "yes";
  const heads = Array.from(table.tHead.rows[0].cells, head => head.textContent);
  for (const row of table.tBodies[0].rows) {
    Array.from(row.cells, (cell, column) => { cell.dataset.head = heads[column] || ""; });
  }
}
function fitTables() {
  for (const box of all(".table .box, section > .box, details > .box")) if (visible(box)) fitTable(box);
}

function reveal() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  let fold = target && target.closest("details");
  for (; fold; fold = fold.parentElement.closest("details")) fold.open = true;
  if (target) target.scrollIntoView();
}
addEventListener("hashchange", reveal);

const wide = matchMedia("(min-width: 100rem)"), contents = document.querySelector("nav details");
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

// where there is room, lines are named at their ends, not in a legend
const ROOMY_PX = 600, LETTER_PX = 7, LINE_PX = 15;
async function draw(place) {
  const figure = figures[place.dataset.chart], width = widthOf(place);
  const named = figure.ends.length > 0 && width >= ROOMY_PX;
  const layout = structuredClone(figure.layout);
  if (touch) layout.dragmode = false;
  layout.width = width;
  if (named) {
    layout.showlegend = false;
    layout.margin.r = 16 + LETTER_PX * Math.max(...figure.ends.map(end => end.text.length));
    layout.annotations = [...(layout.annotations || []), ...figure.ends];
  }
  await Plotly.react(place, structuredClone(figure.data), layout, CONFIG);
  await keepApart(place);
}

// labels beside lines: those at one side are moved apart, those of upright lines get rows where they would overlap
async function keepApart(place) {
  const notes = place.layout.annotations || [], full = place._fullLayout, moves = {};
  const widthOfText = note => LETTER_PX * note.text.length;
  for (const kind of ["end", "level"]) {
    const listed = notes.map((note, at) => [note, at]).filter(([note]) => note.name === kind)
      .map(([note, at]) => [full.yaxis.c2p(full.yaxis.r2c(note.y)), at]).sort(([a], [b]) => a - b);
    let last = -Infinity;
    for (const [pixel, at] of listed) {
      const moved = Math.max(pixel, last + LINE_PX);
      if (moved > pixel) moves[`annotations[${at}].yshift`] = pixel - moved;
      last = moved;
    }
  }
  const rows = [];
  for (const note of notes.filter(note => note.name === "level")) {
    const above = full.yaxis.c2p(full.yaxis.r2c(note.y)) / LINE_PX - 1;
    for (const row of [Math.floor(above), Math.ceil(above)]) rows[row] = Math.max(rows[row] ?? 0, widthOfText(note));
  }
  const uprights = notes.map((note, at) => [note, at]).filter(([note]) => note.name === "upright")
    .map(([note, at]) => [full.xaxis.c2p(full.xaxis.r2c(note.x)), note, at]).sort(([a], [b]) => a - b);
  for (const [pixel, note, at] of uprights) {
    const turned = pixel + widthOfText(note) > full._size.w;
    const from = turned ? pixel - widthOfText(note) : pixel;
    let row = 0;
    while ((rows[row] ?? -Infinity) >= from) row += 1;
    rows[row] = from + widthOfText(note);
    if (turned) moves[`annotations[${at}].xanchor`] = "right";
    if (row) moves[`annotations[${at}].yshift`] = -LINE_PX * row;
  }
  if (Object.keys(moves).length) await Plotly.relayout(place, moves);
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
  fitTables();
  for (const place of all(".plot.js-plotly-plot")) {
    if (visible(place) && place.layout.width !== widthOf(place)) draw(place);
  }
}

const unfolded = [];
const UNDRAWN = "This chart cannot be drawn here; its numbers are below.";
function beforePrint() {
  if (printing) return;
  printing = true;
  for (const fold of all("details:not([open])")) { unfolded.push(fold); fold.open = true; }
  fitTables();
  if (window.Plotly) for (const place of all(".plot")) draw(place);
}
function afterPrint() {
  printing = false;
  for (const fold of unfolded.splice(0)) fold.open = false;
  if (window.Plotly) fit(); else fitTables();
}
addEventListener("beforeprint", beforePrint);
addEventListener("afterprint", afterPrint);
matchMedia("print").addEventListener("change", event => event.matches ? beforePrint() : afterPrint());

// what is on the screen can be used; the charts below follow when nothing else is to be done
function markInteractive() { window.interactiveMs = window.interactiveMs || performance.now(); }

let waiting = 0;
addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(fit, 120); });
for (const fold of all("details")) fold.addEventListener("toggle", fitTables);
fitTables();
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
    } catch (error) {
      for (const place of all(".plot")) if (!drawn(place)) place.textContent = UNDRAWN;
      console.error(error);
    }
  }
  if (location.hash) reveal();
  markInteractive();
  document.documentElement.dataset.ready = "charts";
})();
