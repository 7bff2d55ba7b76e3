"""What one sees of a page in Chromium: nothing scrolled off, lines named, text dark enough, drawings whole."""

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from opened_pages import NARROW, WIDE, opened, started_browser

from planner import files
from planner.report import html_page, plan_page
from planner.report.kit.html.charts import charts_json
from planner.report.kit.plots import Kind, Plot, chart_of, series_of
from planner.report.kit.tree import Chart, DataTable, Page, Section

COLUMNS = tuple(f"figure {number}" for number in range(20))
WIDE_TABLE = DataTable(
    columns=("name", *COLUMNS), rows=tuple((f"row-{row}", *(100.5 * row + n for n in range(20))) for row in range(30))
)
SWEPT = Plot(
    name="swept",
    title="t",
    says="s",
    kind=Kind.LINES,
    x="rate",
    y="ms",
    series=tuple(series_of(f"P{n}", [(float(x), 10.0 + 0.01 * n + x) for x in range(40)]) for n in (50, 95, 99)),
    bounds=(("bound", 49.0), ("other bound", 48.5)),
    marks=(("promise", 20.0), ("capacity", 20.5), ("holds up to", 21.0)),
)
UNFOLD = "() => { for (const fold of document.querySelectorAll('details')) fold.open = true; }"
CONTRASTS = """() => {
  const channels = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const lightness = colour => colour.slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const faint = [];
  for (const element of document.querySelectorAll("body *")) {
    const written = Array.from(element.childNodes).some(node => node.nodeType === 3 && node.textContent.trim());
    const box = element.getBoundingClientRect();
    if (!written || !box.width || ["SCRIPT", "STYLE"].includes(element.tagName)) continue;
    const style = getComputedStyle(element);
    let paper = [255, 255, 255];
    for (let behind = element; behind; behind = behind.parentElement) {
      const colour = channels(getComputedStyle(behind).backgroundColor);
      if (colour.length === 3) { paper = colour; break; }
    }
    const pair = [lightness(channels(element instanceof SVGElement ? style.fill : style.color)), lightness(paper)];
    const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    if (ratio < 4.5) faint.push([element.tagName, element.textContent.slice(0, 30), ratio]);
  }
  return faint;
}"""


@pytest.fixture(scope="module")
def browser():
    """One for all tests here."""
    with started_browser() as running:
        yield running


def page_with(folder: Path, *blocks: DataTable | Chart) -> Path:
    page = Page(
        title="t", verdict="v", figures=(), sections=(Section(name="s", title="s", blocks=blocks),), made_by="m"
    )
    path = folder / "page.html"
    path.write_text(html_page(page, files.chart_script()), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_a_wide_and_long_table_is_seen_whole(browser, tmp_path, width) -> None:
    with opened(browser, page_with(tmp_path, WIDE_TABLE), width) as seen:
        cells = seen.page.evaluate(
            """() => Array.from(document.querySelectorAll('td'), cell => [cell.getBoundingClientRect().right,
            cell.dataset.head, cell.cellIndex])"""
        )
        assert seen.hidden() == []
        assert len(cells) == 30 * 21
        assert all(0 < right <= width for right, *_ in cells)
        heads = seen.page.locator("thead th").all_text_contents()
        assert all(head == heads[column] for _, head, column in cells)
        assert seen.complaints == []


def test_a_small_table_stays_a_table(browser, tmp_path) -> None:
    small = DataTable(columns=("name", "rate"), rows=(("a", 1.0), ("b", 2.0)))
    with opened(browser, page_with(tmp_path, small), NARROW) as seen:
        assert seen.page.locator("table").get_attribute("class") == "data"


def test_a_plan_is_seen_whole_on_a_phone_and_legible(browser, tmp_path, plan_named) -> None:
    path = tmp_path / "plan.html"
    path.write_text(html_page(plan_page(plan_named("two-buckets")), files.chart_script()), encoding="utf-8")
    with opened(browser, path, NARROW) as seen:
        seen.page.evaluate(UNFOLD)
        seen.page.wait_for_timeout(400)
        assert seen.hidden() == []
        drawing = seen.page.locator("#what-to-deploy svg").filter(visible=True)
        assert drawing.count() == 1
        box = drawing.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= NARROW
        scale = box["width"] / float(drawing.get_attribute("viewBox").split()[2])
        assert min(float(text.get_attribute("font-size")) for text in drawing.locator("text").all()) * scale >= 9
        assert seen.page.evaluate(CONTRASTS) == []
        seen.page.set_viewport_size({"width": WIDE, "height": 900})
        seen.page.wait_for_timeout(600)
        assert seen.hidden() == []
        assert seen.page.locator("#what-to-deploy svg").filter(visible=True).count() == 1


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_lines_are_named_beside_them_and_apart(browser, tmp_path, width) -> None:
    with opened(browser, page_with(tmp_path, chart_of(SWEPT)), width) as seen:
        labels = seen.page.locator(".plot .annotation").all()
        boxes = {label.text_content(): label.bounding_box() for label in labels}
        references = {"bound", "other bound", "promise", "capacity", "holds up to"}
        assert set(boxes) == references | ({"P50", "P95", "P99"} if width == WIDE else set())
        assert seen.page.locator(".plot .legend").count() == (0 if width == WIDE else 1)
        for (one, a), (other, b) in combinations(boxes.items(), 2):
            beside = a["x"] + a["width"] <= b["x"] + 2 or b["x"] + b["width"] <= a["x"] + 2
            above = a["y"] + a["height"] <= b["y"] + 6 or b["y"] + b["height"] <= a["y"] + 6
            assert beside or above, (one, other, a, b)
        assert seen.complaints == []


def test_references_differ_and_stand_in_no_legend() -> None:
    data = json.loads(charts_json([chart_of(SWEPT)]))["swept"]["data"]
    named = {trace["name"]: trace for trace in data}
    for names in (("bound", "other bound"), ("promise", "capacity", "holds up to")):
        assert len({named[name]["line"]["dash"] for name in names}) == len(names)
        assert not any(named[name].get("showlegend", True) for name in names)


def test_a_line_on_one_level_is_no_upright() -> None:
    """All requests within their levels: the uprights still span from the bound to the line."""
    flat = replace(SWEPT, series=(series_of("within", [(1.0, 100.0), (9.0, 100.0)]),), bounds=(("must", 99.0),))
    figure = json.loads(charts_json([chart_of(replace(flat, from_zero=False))]))["swept"]
    uprights = [trace for trace in figure["data"] if trace["name"] in dict(flat.marks)]
    assert [trace["y"] for trace in uprights] == [[99.0, 100.0]] * 3
    assert [note["name"] for note in figure["layout"]["annotations"]] == ["level", "upright", "upright", "upright"]
