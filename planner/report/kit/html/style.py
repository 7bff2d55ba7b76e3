"""The look of every page: system fonts, one column of text, light, made for print as well.

Drawings take their colours from the variables at the top: `--ink`, `--muted`, `--line`, `--tint`, `--accent`,
`--alarm`, and those of the phases.
"""

from planner.report.kit.colours import PHASES

PHASE_VARIABLES = " ".join(f"--{phase}: {colour};" for phase, colour in PHASES.items())

STYLE = (
    """\
:root { --ink: #1F2933; --muted: #52606D; --line: #D9E0E6; --tint: #F4F7F9; --paper: #FFFFFF; --accent: #0B5A8A;
  """
    + PHASE_VARIABLES
    + """ --alarm: #B00020; color-scheme: light; }
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; -webkit-text-size-adjust: 100%; }
body { margin: 0; color: var(--ink); background: var(--paper); font: 16px/1.55 system-ui, -apple-system, "Segoe UI",
  Roboto, "Helvetica Neue", Arial, sans-serif; overflow-wrap: break-word; }
.page { max-width: 78rem; margin: 0 auto; padding: 1.5rem 1.25rem 4rem; }
header h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .6rem; }
.verdict { font-size: 1.15rem; line-height: 1.5; max-width: 62rem; margin: 0 0 1.2rem; padding-left: 1rem;
  border-left: 4px solid var(--accent); }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(max(9.5rem, 22%), 1fr)); gap: .75rem;
  margin: 0 0 1.5rem; padding: 0; }
.figures div { background: var(--tint); border: 1px solid var(--line); border-radius: 6px; padding: .7rem .85rem; }
.figures dt { color: var(--muted); font-size: .82rem; line-height: 1.3; }
.figures dd { margin: 0; } .figures .value { font-size: 1.45rem; font-weight: 650; line-height: 1.25;
  font-variant-numeric: tabular-nums; }
.figures .band { color: var(--muted); font-size: .82rem; line-height: 1.3; }
nav summary, details > summary { cursor: pointer; color: var(--accent); }
nav ol { list-style: none; margin: .4rem 0 0; padding: 0; columns: 2; } nav li { padding: .15rem 0; }
a { color: var(--accent); } nav a { text-decoration: none; } nav a:hover, a.anchor:hover { text-decoration: underline; }
a.anchor { color: inherit; text-decoration: none; }
section { margin-top: 2.4rem; min-width: 0; } main > section:first-child { margin-top: .4rem; }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 0 0 .6rem; padding-bottom: .3rem;
  border-bottom: 1px solid var(--line); }
h3 { font-size: 1.02rem; margin: 1.2rem 0 .2rem; } section p { max-width: 62rem; margin: .5rem 0; }
code { background: var(--tint); padding: .05em .3em; border-radius: 3px; font-size: .92em; overflow-wrap: anywhere; }
pre { background: var(--tint); border: 1px solid var(--line); border-radius: 6px; padding: .8rem; overflow-x: auto; }
pre code { background: none; padding: 0; overflow-wrap: normal; }
blockquote { margin: .8rem 0; padding: .1rem 1rem; border-left: 4px solid var(--alarm); background: var(--tint); }
figure { margin: 1rem 0 1.6rem; min-width: 0; } .says, .caption, .note { color: var(--muted); font-size: .92rem; }
.plot { width: 100%; min-width: 0; overflow: hidden; }
.drawing .box { padding: .3rem 0; } .drawing svg { display: block; width: 100%; height: auto; }
.drawing svg.narrow { display: none; }
@media (max-width: 50rem) { .drawing svg.wide { display: none; } .drawing svg.narrow { display: block; } }
details { margin: .5rem 0; } details.fold { border: 1px solid var(--line); border-radius: 6px; padding: .5rem .9rem; }
details.fold > summary { font-weight: 600; }
.box { overflow-x: auto; max-width: 100%; background:
  linear-gradient(to right, var(--paper) 50%, transparent) left, linear-gradient(to left, var(--paper) 50%, transparent)
  right, linear-gradient(to right, #0002, transparent) left, linear-gradient(to left, #0002, transparent) right;
  background-size: 2.5rem 100%, 2.5rem 100%, .8rem 100%, .8rem 100%; background-repeat: no-repeat;
  background-attachment: local, local, scroll, scroll; }
.box:focus-visible, button:focus-visible, summary:focus-visible, a:focus-visible { outline: 2px solid var(--accent);
  outline-offset: 1px; }
table { border-collapse: collapse; font-size: .9rem; line-height: 1.4; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: .32rem .7rem; text-align: left; vertical-align: top; }
td.n, th.n { text-align: right; } td.n, td.s { white-space: nowrap; } td.l { min-width: 15rem; max-width: 34rem; }
.snug th, .snug td, .snug th button { padding-left: .35rem; padding-right: .35rem; } .snug { font-size: .84rem; }
.snug td.s { white-space: normal; } .snug td.l { min-width: 9rem; }
.stacked, .stacked tbody { display: block; } .stacked tr { display: grid; gap: .45rem 1rem; padding: .5rem 0;
  grid-template-columns: repeat(auto-fill, minmax(min(9.5rem, 45%), 1fr)); border-bottom: 1px solid var(--line); }
.stacked th, .stacked td { border: 0; padding: 0; text-align: left; min-width: 0; max-width: none;
  white-space: normal; }
.stacked td.l { grid-column: 1 / -1; } .stacked td::before { content: attr(data-head); display: block;
  color: var(--muted); font-size: .78rem; line-height: 1.2; } .stacked td:first-child { font-weight: 600; }
.stacked thead { display: none; }
thead th { position: sticky; top: 0; background: var(--tint); font-weight: 600; padding: 0;
  border-bottom: 2px solid var(--line); }
table:not(.data) thead th { padding: .32rem .7rem; position: static; }
th button { all: unset; box-sizing: border-box; display: block; width: 100%; padding: .32rem .7rem; cursor: pointer; }
th button::after { content: "\\00a0\\2195"; color: var(--muted); }
th[aria-sort=ascending] button::after { content: "\\00a0\\2191"; color: var(--ink); }
th[aria-sort=descending] button::after { content: "\\00a0\\2193"; color: var(--ink); }
th abbr { text-decoration: underline dotted var(--muted); text-underline-offset: 3px; }
.filter { display: block; margin: .4rem 0; font-size: .9rem; color: var(--muted); }
.filter input { font: inherit; padding: .25rem .5rem; border: 1px solid var(--line); border-radius: 4px; width: 14rem;
  max-width: 60%; }
.words dt { font-weight: 600; } .words dd { margin: 0 0 .5rem; }
footer { margin-top: 3rem; padding-top: .8rem; border-top: 1px solid var(--line); color: var(--muted);
  font-size: .85rem; }
@media (min-width: 100rem) {
  .page { max-width: 96rem; display: grid; grid-template-columns: 12.5rem minmax(0, 1fr); column-gap: 2.5rem; }
  header, footer { grid-column: 1 / -1; } nav { position: sticky; top: 1.2rem; align-self: start; margin-top: .4rem;
    max-height: calc(100vh - 2.4rem); overflow-y: auto; font-size: .92rem; } nav ol { columns: 1; }
}
@media (max-width: 30rem) { .page { padding: 1rem .9rem 3rem; } header h1 { font-size: 1.3rem; }
  .verdict { font-size: 1.02rem; padding-left: .7rem; } .figures { grid-template-columns: 1fr 1fr; gap: .5rem; }
  .figures .value { font-size: 1.15rem; } th, td { padding: .28rem .5rem; } }
@media print {
  body { font-size: 10pt; } .page { display: block; max-width: none; padding: 0; } nav, .filter { display: none; }
  .box { overflow: visible; } th button::after { content: ""; }
  thead th { position: static; } figure, tr { break-inside: avoid; } h2, h3 { break-after: avoid; }
  details::details-content { content-visibility: visible; block-size: auto; } details.fold { border: 0; padding: 0; }
  .drawing svg.wide { display: block; } .drawing svg.narrow { display: none; }
  .figures div { break-inside: avoid; } .modebar { display: none !important; }
  table { font-size: 7pt; } td, th, th button { padding: 1pt 2pt !important; } td.l { min-width: 0; }
  td, th { white-space: normal !important; overflow-wrap: anywhere; } a { color: inherit; text-decoration: none; }
}
"""
)
