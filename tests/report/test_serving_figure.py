"""Forms of serving as table, page and figure, from hand-made points."""

from dataclasses import replace

import pytest

from planner.domain import FormChange, FormComparison, FormPoint, KvTransfer, RangeSlo, ServingForm, SloSettings
from planner.report import encode_figure, page_text, serving_figure, serving_frame, serving_page
from planner.report.comparison.serving_forms import conclusions, headline

SPLIT, AGGREGATED, AUTO = ServingForm.SPLIT, ServingForm.AGGREGATED, ServingForm.AUTO
# bound (ms): split, aggregated, free choice
RATES = {10.0: (0.0, 0.0, 0.0), 20.0: (5.0, 0.0, 5.0), 40.0: (9.0, 7.0, 9.9), 80.0: (9.0, 14.0, 13.0)}


def point(tpot_ms: float, form: ServingForm, rate: float) -> FormPoint:
    why = "" if rate else "scenario usual: too few GPUs.\n  more of it"
    return FormPoint(tpot_ms=tpot_ms, form=form, rate_rps=rate, bound_rps=1.1 * rate, why=why)


@pytest.fixture
def comparison() -> FormComparison:
    return compared_forms()


def compared_forms() -> FormComparison:
    forms = (SPLIT, AGGREGATED, AUTO)
    return FormComparison(
        bounds_ms=tuple(RATES),
        points=tuple(point(ms, form, rate) for ms, row in RATES.items() for form, rate in zip(forms, row, strict=True)),
        changes=(
            FormChange(below_ms=10.0, above_ms=20.0, before=None, after=SPLIT),
            FormChange(below_ms=40.0, above_ms=80.0, before=SPLIT, after=AGGREGATED),
        ),
        own_ms=40.0,
        transfer=KvTransfer(mean_ms=12.0, longest_ms=85.0, gb_s=3.2),
    )


def test_the_headline_tells_where_which_form_is_better(comparison):
    assert headline(comparison) == (
        "By bound on TPOT: up to 14 ms neither form serves; from 14 to 57 ms splitting pays (5.00 against none "
        "requests/s at 20.0 ms); from 57 ms on aggregated pools are the better choice "
        "(14.0 against 9.00 requests/s at 80.0 ms)."
    )


def test_the_free_choice_is_told_where_it_gains_and_where_it_falls_short(comparison):
    assert "up to 10 % more than the better form (at 40 ms); at 80 ms it falls 7 % short" in conclusions(comparison)[1]


def test_the_page_has_a_row_a_bound_and_reasons(comparison, plan):
    page = page_text(serving_page(comparison, plan.scenario))
    assert "| 40 (the scenario's) | **9.000** | 7.000 | 9.900 |" in page
    assert "| 20 | **5.000** | infeasible | 5.000 |" in page
    assert "- Aggregated pools serve nothing under 20.0 ms: " in page
    assert "too few GPUs." in page
    assert "more of it" not in page
    assert "under 40 ms TPOT: 12.0 ms of the TTFT of a mean prompt, 85.0 ms of the longest; 3.20 GB/s" in page
    assert "Interrupted" not in page
    assert "`slo.ranges`" not in page


def test_what_is_missing_is_said(comparison, plan):
    cut = replace(comparison, unasked=(90.0, 100.0), interrupted=True, transfer=None)
    limits = SloSettings(ranges=(RangeSlo(start=0, end=100, tpot_ms=30),))
    page = page_text(serving_page(cut, replace(plan.scenario, slo=limits)))
    assert "**Interrupted**: 2 further bounds up to 100 ms were not looked at." in page
    assert "`slo.ranges` are kept" in page
    assert "KV transfer" not in page
    late = replace(comparison, points=tuple(replace(p, late=not p.rate_rps) for p in comparison.points))
    assert "| 10 | none found |" in page_text(serving_page(late, plan.scenario))


def test_a_row_a_point(comparison):
    frame = serving_frame(comparison)
    assert list(frame["serving"][:3]) == ["split", "aggregated", "auto"]
    assert frame["gap"][3] == pytest.approx(1 - 1 / 1.1)
    assert frame["why"][0] == "scenario usual: too few GPUs."


def test_the_figure_has_a_line_a_form_and_names_beside(comparison, plan):
    drawn = serving_figure(comparison, plan.scenario)
    (axes,) = drawn.axes
    assert axes.get_xscale() == "log"
    lines = {line.get_label(): line for line in axes.lines}
    rates = dict(zip(("split", "aggregated", "free choice"), zip(*RATES.values(), strict=True), strict=True))
    assert {name: tuple(lines[name].get_ydata()) for name in rates} == rates
    marks = {"change at 14 ms": 14.14, "change at 57 ms": 56.57, "the scenario's bound": 40.0}
    assert {name: lines[name].get_xdata()[0] for name in marks} == pytest.approx(marks, rel=1e-3)
    assert {text.get_text() for text in axes.get_legend().get_texts()} == {*rates, *marks}
    assert encode_figure(drawn) == encode_figure(serving_figure(comparison, plan.scenario))
    box, (width, height) = drawn.get_tightbbox(), drawn.get_size_inches()
    assert min(box.x0, box.y0) >= 0
    assert (box.x1 <= width, box.y1 <= height) == (True, True)


def test_figures_below_the_axis_have_room(comparison, plan):
    close = (*(50 + k / 10 for k in range(40)), 200.0)
    points = tuple(point(ms, form, 5.0) for ms in close for form in (SPLIT, AGGREGATED, AUTO))
    many = replace(comparison, bounds_ms=close, points=points, changes=(), own_ms=None)
    (axes,) = serving_figure(many, plan.scenario).axes
    ticks = [tick for tick in axes.get_xticks() if 50 <= tick <= 200]
    assert 3 <= len(ticks) < 8
