"""The frontier as table, page and figure, from hand-made points."""

from dataclasses import replace

import pytest

from planner.domain import CostMode, CostSettings, Frontier, FrontierPoint, IslandClass, Layout, RateBand
from planner.report import encode_figure, frontier_figure, frontier_frame, frontier_page, frontier_plots, page_text

# (budget, price, rate, bound, H200, H800, H20)
ROWS = (
    (40, 40.0, 50.0, 60.0, 0, 8, 24),
    (150, 140.0, 190.0, 200.0, 10, 32, 36),
    (300, 300.0, 320.0, 330.0, 30, 60, 60),
    (512, 508.0, 480.0, 500.0, 64, 64, 124),
)


def point(budget: float, price: float, rate: float, bound: float, *counts: int) -> FrontierPoint:
    gpus = tuple(zip(("H200", "H800", "H20"), counts, strict=True))
    return FrontierPoint(
        budget_usd_per_hour=budget,
        price_usd_per_hour=price,
        rate_rps=rate,
        bound_rps=bound,
        gpus=gpus,
        watts=700.0 * sum(counts),
        layout=Layout.of(IslandClass(gpu=gpu, size=n) for gpu, n in gpus if n),
    )


@pytest.fixture
def found() -> Frontier:
    return Frontier(points=tuple(point(*row) for row in ROWS))


def labelled(axes, label: str):
    items = [*axes.lines, *axes.collections, *axes.containers]
    return next(item for item in items if str(item.get_label()).startswith(label))


def test_a_row_a_point(found):
    frame = frontier_frame(found)
    assert list(frame["rate_rps"]) == [50, 190, 320, 480]
    assert list(frame["gpus_H800"]) == [8, 32, 60, 64]
    assert frame["requests_per_usd"][1] == pytest.approx(3600 * 190 / 140)
    assert frame["gap"][3] == pytest.approx(0.04)


def test_the_page_names_the_point_of_most_per_dollar(found, plan):
    page = page_text(frontier_page(found, plan.scenario))
    assert "10 H200, 32 H800, 36 H20 serve most per USD" in page
    assert "**4,886**" in page
    assert page.count("\n| ") == 2 + len(ROWS)
    assert "no layout was found" not in page
    assert "no layout was found" in page_text(frontier_page(replace(found, unsolved=(77.0,)), plan.scenario))


@pytest.fixture
def firm(found: Frontier) -> Frontier:
    """The frontier with bands, and how likely each point serves most per USD."""
    likely = (0.02, 0.71, 0.25, 0.02)
    return replace(
        found,
        points=tuple(
            replace(
                p, band=RateBand(low_rps=0.8 * p.rate_rps, high_rps=1.2 * p.rate_rps), most_per_usd_probability=share
            )
            for p, share in zip(found.points, likely, strict=True)
        ),
    )


def test_points_with_bands_say_how_likely_they_are_the_best(firm, plan):
    page = page_text(frontier_page(firm, plan.scenario))
    assert "10 H200, 32 H800, 36 H20 serve most per USD** as predicted (likely: 71 %): about 190 (150–230)" in page
    assert "| 140.00 | 190.0 (150–230) |" in page
    assert "| **4,886** | 71 % |" in page
    frame = frontier_frame(firm)
    assert list(frame["most_per_usd_probability"]) == [0.02, 0.71, 0.25, 0.02]
    assert frame["high_rps"][3] == pytest.approx(576)


def test_bands_are_bars_that_fit(firm, found, plan):
    upper = frontier_figure(firm, plan.scenario).axes[0]
    ends = [(s[0][1], s[1][1]) for s in labelled(upper, "P10–P90").get_segments()]
    assert ends == [pytest.approx((0.8 * p.rate_rps, 1.2 * p.rate_rps)) for p in firm.points]
    assert upper.get_ylim()[1] >= 576
    with pytest.raises(StopIteration):
        labelled(frontier_figure(found, plan.scenario).axes[0], "P10–P90")


def test_the_figure_shows_rate_under_bound_and_the_mix(found, plan):
    upper, lower = frontier_figure(found, plan.scenario).axes
    rate = labelled(upper, "best layout")
    assert list(rate.get_xdata()) == [40, 140, 300, 508]
    assert list(rate.get_ydata()) == [50, 190, 320, 480]
    bound = labelled(upper, "bound")
    assert list(bound.get_xdata()) == [40, 40, 150, 300, 512]
    assert list(bound.get_ydata()) == [60, 60, 200, 330, 500]
    assert bound.get_drawstyle() == "steps-pre"  # a straight line would pass below the points between two budgets
    assert labelled(upper, "most per USD").get_offsets().tolist() == [[140, 190]]
    for place, row in enumerate(ROWS):
        assert [bars.patches[place].get_width() for bars in lower.containers] == list(row[4:])
        ends = [bars.patches[place].get_x() + bars.patches[place].get_width() for bars in lower.containers]
        assert ends[-1] == sum(row[4:])  # end to end
    assert [label.get_text() for label in lower.get_yticklabels()] == ["40.00", "140.00", "300.00", "508.00"]


def test_the_pages_bound_is_nowhere_below_what_was_found(found, plan):
    rates, bound, _ = frontier_plots(found, plan.scenario)[0].series
    assert bound.stepped
    for price, rate in zip(rates.x, rates.y, strict=True):
        above = next(y for x, y in zip(bound.x, bound.y, strict=True) if x >= price)
        assert above >= rate


@pytest.mark.parametrize("count", [1, 4])
def test_nothing_leaves_the_canvas(found, plan, count):
    drawn = frontier_figure(replace(found, points=found.points[:count]), plan.scenario)
    assert encode_figure(drawn).startswith(b"\x89PNG")
    box, (width, height) = drawn.get_tightbbox(), drawn.get_size_inches()
    assert min(box.x0, box.y0) >= 0
    assert (box.x1 <= width, box.y1 <= height) == (True, True)


def test_equal_frontiers_give_equal_bytes(found, plan):
    assert encode_figure(frontier_figure(found, plan.scenario)) == encode_figure(frontier_figure(found, plan.scenario))


def test_reference_mode_is_marked(found, plan):
    scenario = replace(plan.scenario, cost=CostSettings(mode=CostMode.REFERENCE))
    assert "not physical" in frontier_figure(found, scenario).get_suptitle()
    assert "Warning" in page_text(frontier_page(found, scenario))
    assert "not physical" not in frontier_figure(found, plan.scenario).get_suptitle()
