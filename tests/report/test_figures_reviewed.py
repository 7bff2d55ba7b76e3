"""What a review of the figures asked for, figure by figure: widths, hatches, bounds, demands, overlaps, intervals."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hand_made_plan import make_inventory, make_scenario
from matplotlib.colors import to_rgb
from test_frontier_figure import ROWS
from test_frontier_figure import point as frontier_point

from planner.domain import Certificate, Frontier, ObjectiveKind, ObjectiveSettings, Phase
from planner.report import figure, frontier_figure
from planner.report.kit.style import PHASE_HATCHES, TYPE_HATCHES, luminance
from planner.report.plan.certificate import rate_bound
from planner.report.plan.routing import intervals
from planner.report.plan.routing_plots import share_plots


def labelled(axes, start: str):
    items = [*axes.lines, *axes.collections, *axes.containers]
    return next(item for item in items if str(item.get_label()).startswith(start))


class TestIslands:
    def test_gpus_are_counted_in_nodes(self, plan):
        for axes, item in zip(figure(plan, "islands").axes, plan.scenario.inventory.items, strict=True):
            assert all(tick % item.gpu.gpus_per_host == 0 for tick in axes.get_xticks())
            assert axes.get_xticks()[-1] == item.count
            nodes = item.count // item.gpu.gpus_per_host
            assert f"{item.count} GPUs in {nodes} nodes of {item.gpu.gpus_per_host}" in axes.get_xlabel()

    def test_a_phase_is_hatched_in_the_bars_and_in_the_legend(self, plan):
        drawn = figure(plan, "islands")
        hatches = {patch.get_hatch() for axes in drawn.axes for patch in axes.patches if patch.get_hatch()}
        assert PHASE_HATCHES[Phase.DECODE] in hatches
        (legend,) = drawn.legends
        handles = dict(zip([text.get_text() for text in legend.get_texts()], legend.legend_handles, strict=True))
        assert handles["decode"].get_hatch() == PHASE_HATCHES[Phase.DECODE]
        assert "idle" in handles  # this plan has an island that does nothing

    def test_no_legend_of_what_is_not_there(self, plan):
        busy = replace(plan, islands=tuple(i for i in plan.islands if i.phase is not None))
        words = [text.get_text() for text in figure(busy, "islands").legends[0].get_texts()]
        assert "idle" not in words


class TestRanges:
    def test_areas_are_as_wide_as_their_share_of_the_requests(self, plan):
        shares = [interval.probability for interval in intervals(plan)]
        for plot, axes in zip(share_plots(plan), figure(plan, "routing").axes, strict=True):
            for series in plot.series:
                assert [right - left for left, right in pairwise(series.x)] == pytest.approx(shares)
            assert axes.get_xlim() == (0, 1)
        ticks = [tick.get_text() for tick in axes.get_xticklabels()]
        assert ticks[0] == "0"
        assert ticks[-1] == f"{intervals(plan)[-1].end:,}"

    def test_groups_are_told_by_hatches_too(self, plan):
        for axes in figure(plan, "throughput").axes:
            areas = [area.get_hatch() for area in axes.collections if area.get_label() != "target mix"]
            assert areas == list(TYPE_HATCHES[: len(areas)])
            assert len(areas) > 2

    def test_the_lower_panel_of_the_mix_is_there_only_where_something_differs(self, plan):
        assert len(figure(plan, "mix").axes) == 1
        assert "equals" in figure(plan, "mix").get_suptitle()
        doubled = tuple(
            replace(r, assigned_rps=2 * r.assigned_rps) if r.phase is Phase.DECODE and r.range_start == 1024 else r
            for r in plan.routing
        )
        differing = figure(replace(plan, routing=doubled), "mix")
        assert len(differing.axes) == 2
        assert "percentage points" in differing.axes[1].get_ylabel()


class TestBoundsAndDemand:
    def test_the_bound_of_the_search_is_a_line_at_its_value(self, plan):
        certificate = Certificate(
            bound_rps=205.0, gap=0.1, objective_value=180.0, objective_bound=200.0, objective_gap=0.1
        )
        (axes,) = figure(replace(plan, certificate=certificate), "search").axes
        assert set(labelled(axes, "no layout serves more (200)").get_ydata()) == {200.0}
        unproven = replace(certificate, objective_bound=None, bound_rps=None)
        (axes,) = figure(replace(plan, certificate=unproven), "search").axes
        assert not any("no layout" in str(line.get_label()) for line in axes.lines)

    def test_of_rented_fleets_the_bound_of_one_is_none_of_the_others(self, plan):
        certificate = Certificate(
            bound_rps=190.0, gap=0.1, objective_value=80.0, objective_bound=70.0, objective_gap=0.1
        )
        of_kind = {}
        for kind in (ObjectiveKind.RATE, ObjectiveKind.BUDGET, ObjectiveKind.TARGET):
            objective = ObjectiveSettings(kind=kind, budget_usd_per_hour=90.0, target_rps=50.0)
            rented = replace(plan, scenario=replace(plan.scenario, objective=objective), certificate=certificate)
            of_kind[kind] = rate_bound(rented)
        assert of_kind[ObjectiveKind.RATE] == of_kind[ObjectiveKind.BUDGET] == 70.0
        assert of_kind[ObjectiveKind.TARGET] is None  # 70 are USD/hour, and 190 of the cheapest fleet alone
        replayed = replace(plan.search, trials=tuple(replace(t, replayed_rps=1.0) for t in plan.search.trials))
        assert rate_bound(replace(plan, certificate=certificate, search=replayed)) is None

    def test_the_demand_is_a_line_of_the_frontier(self):
        scenario = make_scenario(make_inventory())
        demanding = replace(scenario, objective=ObjectiveSettings(demand_rps=123.0))
        curve = Frontier(points=tuple(frontier_point(*row) for row in ROWS))
        assert set(labelled(frontier_figure(curve, demanding).axes[0], "demand (123)").get_ydata()) == {123.0}
        bars = frontier_figure(curve, demanding).axes[1].containers
        assert len({bar.patches[0].get_hatch() for bar in bars}) == 3


def test_lines_are_dark_enough_on_paper():
    from planner.report.kit.style import line_of

    assert all(luminance(line_of(place)["color"]) < 0.75 for place in range(16))
    assert len({(line_of(place)["color"], str(line_of(place)["linestyle"])) for place in range(16)}) == 16
    assert to_rgb(line_of(0)["color"]) == to_rgb("#0072B2")
