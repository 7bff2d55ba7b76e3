"""Pages in Chromium: nothing from the network, no complaint, plan.json's numbers, both widths, print, grey."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from opened_pages import NARROW, WIDE, opened, started_browser
from playwright.sync_api import expect

from planner import files
from planner.domain import PHASES, LoadPoint
from planner.report import html_page, plan_page
from planner.report.kit.html.charts import PALETTE
from planner.report.kit.tree import Chart, DataTable, Page, Prose, Section

HOSTILE = (
    """</script><script>alert(1)</script><img src=x onerror=alert(2)> "q" '&amp;' `b` $x$ <a href="javascript:1">"""
)


@pytest.fixture(scope="module")
def browser():
    """One for all tests here: starting it takes longer than most of them."""
    with started_browser() as running:
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


def written(folder: Path, name: str, page: Page) -> Path:
    path = folder / f"{name}.html"
    path.write_text(html_page(page, files.chart_script()), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["usual", "long-names", "two-buckets", "empty"])
def test_pages_fit_and_ask_for_nothing(browser, folder, name, plan_named) -> None:
    path = written(folder, name, plan_page(plan_named(name)))
    with opened(browser, path, NARROW) as seen:
        assert seen.overflow() == 0
        seen.page.evaluate("() => { for (const fold of document.querySelectorAll('details')) fold.open = true; }")
        seen.page.wait_for_timeout(100)
        assert seen.overflow() == 0
        seen.page.set_viewport_size({"width": WIDE, "height": 900})
        seen.page.wait_for_timeout(400)
        assert seen.overflow() == 0
        script = "() => Array.from(document.querySelectorAll('.plot'), p => [p.layout.width, p.clientWidth])"
        drawn = seen.page.evaluate(script)
        assert all(width == room > NARROW for width, room in drawn)
        assert (seen.complaints, seen.requests) == ([], [path.as_uri()])


def test_charts_hold_the_plans_numbers(browser, folder, plan_named) -> None:
    plan = plan_named("two-buckets")
    with opened(browser, written(folder, "numbers", plan_page(plan))) as seen:
        figures = seen.figures()
    of_rates = {trace["name"]: trace["x"] for trace in figures["rates-and-bounds"]}
    assert of_rates["promise"] == [plan.buckets.promise_rps]
    assert of_rates["capacity"] == [plan.throughput_rps]
    assert of_rates["bound, deployable"] == [plan.certificate.objective_bound]
    assert of_rates["bound, any layout"] == [plan.certificate.bound_rps]
    for phase, name, scale in zip(PHASES, ("latency-ttft", "latency-tpot"), (1000.0, 1.0), strict=True):
        rows = [row for row in plan.buckets.latencies if row.phase is phase]
        starts = sorted({row.start for row in rows})
        ordered = sorted(rows, key=lambda row: (starts.index(row.start), list(LoadPoint).index(row.load)))
        by_name = {trace["name"]: trace["y"] for trace in figures[name]}
        assert by_name["P50"] == [None if row.p50_ms is None else row.p50_ms / scale for row in ordered]
        assert by_name["P99"] == [None if row.late_ms is None else row.late_ms / scale for row in ordered]
    of_gpus = {trace["name"]: dict(zip(trace["y"], trace["x"], strict=True)) for trace in figures["inventory-used"]}
    assert sum(sum(row.values()) for row in of_gpus.values()) == sum(plan.fleet.values())
    for phase in PHASES:
        assert sum(of_gpus[phase].values()) == sum(i.size for i in plan.islands if i.phase is phase)


def test_the_search_is_drawn_with_every_trial_and_its_bound(browser, folder, plan_named) -> None:
    plan = plan_named("usual")
    bound = replace(plan_named("two-buckets").certificate, bound_rps=240.0, objective_bound=None)
    with opened(browser, written(folder, "search", plan_page(replace(plan, certificate=bound)))) as seen:
        traces = {trace["name"]: trace for trace in seen.figures()["search-trials"]}
    dots = [trace["y"] for name, trace in traces.items() if name == "one layout" or name.startswith("failed or serves")]
    drawn = [rate for rates in dots for rate in rates]
    assert sorted(drawn) == sorted(trial.throughput_rps for trial in plan.search.trials)
    assert traces["best so far"]["y"] == list(plan.search.best_by_iteration())
    (bound_line,) = (trace for name, trace in traces.items() if name.startswith("no layout serves more"))
    assert set(bound_line["y"]) == {240.0}
    (chosen,) = (trace for name, trace in traces.items() if name.startswith("the plan"))
    assert chosen["y"] == [plan.search.trials[41].throughput_rps]


TABLE = DataTable(
    columns=("Name", "Rate"),
    rows=(("b10", 3.0), ("b9", None), (HOSTILE, 20.0), *((f"c{n}", 100.0 + n) for n in range(12))),
)


def one_chart(name: str, traces, **layout) -> Chart:
    return Chart(name=name, title=f"A {HOSTILE}", says=HOSTILE, traces=tuple(traces), layout=layout, table=TABLE)


def test_tables_sort_by_click_and_key_and_are_filtered(browser, folder, plan_named) -> None:
    page = Page(
        title="t",
        verdict="v",
        figures=(),
        sections=(Section(name="s", title="s", blocks=(TABLE,)),),
        made_by="m",
    )
    with opened(browser, written(folder, "table", page)) as seen:
        browser_page = seen.page

        def first_column() -> list[str]:
            return browser_page.locator("tbody tr td:first-child").all_inner_texts()

        def sorting() -> list[str | None]:
            return [head.get_attribute("aria-sort") for head in browser_page.locator("th").all()]

        browser_page.locator("th button").nth(1).click()
        assert sorting() == ["none", "ascending"]
        assert first_column() == ["b10", HOSTILE, *(f"c{n}" for n in range(12)), "b9"]  # no number comes last
        browser_page.keyboard.press("Enter")
        assert sorting() == ["none", "descending"]
        assert first_column() == [*(f"c{n}" for n in reversed(range(12))), HOSTILE, "b10", "b9"]
        browser_page.locator("th button").nth(0).focus()
        browser_page.keyboard.press("Space")
        assert sorting() == ["ascending", "none"]
        assert first_column()[-14:-10] == ["b9", "b10", "c0", "c1"]
        browser_page.locator("input[type=search]").fill("c1")
        shown = [row for row in browser_page.locator("tbody tr").all() if row.is_visible()]
        assert [row.inner_text().split()[0] for row in shown] == ["c1", "c10", "c11"]
        assert browser_page.locator(".count").inner_text().strip() == "3 of 15 rows"


def test_names_are_shown_and_never_run(browser, folder, plan_named) -> None:
    bars = [{"type": "bar", "name": HOSTILE, "x": [HOSTILE, "b"], "y": [1, 2]}]
    page = Page(
        title=HOSTILE,
        verdict=f"**Bold** {HOSTILE}",
        figures=(),
        sections=(
            Section(
                name="s", title=HOSTILE, blocks=(one_chart("bars", bars), TABLE), folded=(Prose(markdown=HOSTILE),)
            ),
        ),
        made_by=HOSTILE,
    )
    path = written(folder, "hostile", page)
    with opened(browser, path) as seen:
        alerts: list[str] = []
        seen.page.on("dialog", lambda dialog: (alerts.append(dialog.message), dialog.dismiss()))
        assert (seen.complaints, seen.requests) == ([], [path.as_uri()])
        assert seen.page.title() == HOSTILE
        assert seen.page.locator("h1").inner_text() == HOSTILE
        legend = seen.page.locator(".plot .xaxislayer-above text").first.text_content()
        assert legend.startswith("</script><script>alert(1)</script><img src=x onerror=alert(2)>")
        assert seen.page.locator("img, main a[href^='javascript']").count() == 0
        assert alerts == []


def test_print_unfolds_what_is_folded_and_drops_controls(browser, folder, plan_named) -> None:
    path = written(folder, "print", plan_page(plan_named("two-buckets")))
    with opened(browser, path) as seen:
        folds = seen.page.locator("details:not([open])")
        assert folds.count() > 5
        folded = folds.count()
        seen.page.emulate_media(media="print")
        expect(folds).to_have_count(0)
        assert not seen.page.locator("nav").is_visible()
        assert not any(field.is_visible() for field in seen.page.locator(".filter").all())
        assert seen.page.locator(".numbers table").first.is_visible()
        widths = seen.page.evaluate("() => Array.from(document.querySelectorAll('.plot'), place => place.layout.width)")
        assert set(widths) == {680}
        seen.page.emulate_media(media="screen")
        expect(folds).to_have_count(folded)
        assert seen.complaints == []


def luminance(colour: str) -> float:
    """Relative luminance of an #RRGGBB colour (WCAG 2.2, relative luminance)."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_series_differ_in_grey() -> None:
    """Neighbours in a chart differ by a contrast of 1.5 (WCAG), every two of one contrast by hatch, dash or marker."""
    from planner.report.kit.html.charts import DASHES, PATTERNS, SYMBOLS

    for first, second in pairwise(PALETTE):
        lighter, darker = sorted((luminance(first), luminance(second)), reverse=True)
        assert (lighter + 0.05) / (darker + 0.05) >= 1.5, (first, second)
    looks = list(zip(PALETTE, PATTERNS, DASHES, SYMBOLS, strict=True))
    for place, (colour, pattern, dash, symbol) in enumerate(looks):
        for other, *marks in looks[:place]:
            lighter, darker = sorted((luminance(colour), luminance(other)), reverse=True)
            assert (lighter + 0.05) / (darker + 0.05) >= 1.5 or [pattern, dash, symbol] != marks
