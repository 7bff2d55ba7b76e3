"""Figures: the plan's numbers in the artists, nothing cut off or overlapping, the same bytes every time."""

import re
import subprocess
import sys
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import ClassVar

import pytest
from drawn_figures import laid_out, require_apart, require_on_canvas
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from plain_pictures import copied_pictures

import planner
from planner.domain import CostMode, CostSettings, Phase
from planner.errors import InputError
from planner.report import FIGURES, figure, render
from planner.report.kit.plots import Kind
from planner.report.kit.style import PHASE_COLOURS, encoded, type_colour
from planner.report.plan.islands_figure import spread
from planner.report.plan.routing_plots import rate_plots, share_plots

PNG = b"\x89PNG\r\n\x1a\n"


def artists(drawn: Figure, label: str):
    """Bars or lines of one legend entry, panel by panel."""
    return [
        item
        for axes in drawn.axes
        for item in (*axes.containers, *axes.lines, *axes.collections)
        if item.get_label() == label
    ]


def heights(plot) -> list[float]:
    """Total height of the areas at each place but the last, which repeats the one before."""
    areas = [series.y for series in plot.series if plot.drawn_as(series) is Kind.AREAS]
    return [sum(column) for column in zip(*areas, strict=True)][:-1]


def texts(drawn: Figure):
    """Every text that is drawn, with its box in pixels."""
    found = [*drawn.texts]
    for legend in (*drawn.legends, *(a.get_legend() for a in drawn.axes if a.get_legend())):
        found += [legend.get_title(), *legend.get_texts()]
    for axes in drawn.axes:
        found += [axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label, *axes.texts]
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in axis.get_major_ticks():
                if low <= tick.get_loc() <= high:
                    found += [tick.label1, tick.label2]
    shown = [t for t in found if t.get_visible() and t.get_text()]
    return [(t.get_text(), t.get_window_extent()) for t in shown]


@pytest.mark.parametrize("name", FIGURES)
class TestEveryFigure:
    def test_nothing_leaves_the_canvas_or_runs_into_another(self, variant, name):
        drawn = laid_out(figure(variant, name))
        require_on_canvas(drawn)
        require_apart(texts(drawn))

    def test_axes_tell_their_units(self, plan, name):
        drawn = figure(plan, name)
        for axes in drawn.axes:
            assert re.search(r"\((requests/s|%|percentage points)\)", axes.get_ylabel()), axes.get_ylabel()
        assert re.search(r"\(tokens\)|\(rounds of layouts\)|GPUs", drawn.axes[-1].get_xlabel())

    def test_same_plan_same_svg(self, make_plan, name):
        assert encoded(figure(make_plan(), name), "svg") == encoded(figure(make_plan(), name), "svg")

    def test_legends_stand_clear_of_the_data(self, crowded_plan, name):
        drawn = laid_out(figure(crowded_plan, name))
        for axes in drawn.axes:
            legend = axes.get_legend()
            if legend:
                assert legend.get_window_extent().x0 >= axes.get_window_extent().x1

    def test_reference_mode_is_marked(self, plan, name):
        scenario = replace(plan.scenario, cost=CostSettings(mode=CostMode.REFERENCE))
        marked = figure(replace(plan, scenario=scenario), name).get_suptitle()
        assert "not physical" in marked
        assert "not physical" not in figure(plan, name).get_suptitle()


class TestContent:
    def test_search(self, plan):
        drawn = figure(plan, "search")
        (best,) = artists(drawn, "best so far")
        rounds = [[t.throughput_rps for t in plan.search.trials if t.iteration <= i] for i in range(8)]
        assert list(best.get_ydata()) == [max(r) for r in rounds]
        (mean,) = artists(drawn, "round: mean")
        served = [t.throughput_rps for t in plan.search.trials if t.iteration == 3 and not t.error]
        assert mean.get_ydata()[3] == pytest.approx(sum(served) / 5)
        (failed,) = artists(drawn, "failed or serves nothing (2)")
        assert failed.get_offsets().tolist() == [[0.0, 0.0], [3.0, 0.0]]
        (winner,) = artists(drawn, "the plan (trial 41)")
        assert winner.get_offsets().tolist() == [[6.0, 180.0]]

    def test_routing_fills_every_range(self, plan):
        for plot in share_plots(plan):
            assert heights(plot) == pytest.approx([100.0] * 25)

    def test_throughput_reaches_the_target(self, plan):
        expected = [180.0 * r.probability for r in plan.routing if r.island == "i00"]
        for plot in rate_plots(plan):
            assert heights(plot) == pytest.approx(expected)
            (target,) = (series for series in plot.series if series.name == "target mix")
            assert list(target.y) == pytest.approx(expected)
        for axes in figure(plan, "throughput").axes:
            (strokes,) = artists(axes.figure, "target mix")[:1]
            assert strokes.get_offsets()[:, 1].tolist() == pytest.approx(expected)

    def test_groups_of_a_panel_stay_few(self, crowded_plan):
        for axes in figure(crowded_plan, "routing").axes:
            labels = [t.get_text() for t in axes.get_legend().get_texts()]
            assert len(labels) == 12
            islands = sum(int(label.rsplit("×", 1)[1]) for label in labels)
            assert islands == sum(
                i.phase is (Phase.PREFILL if axes is axes.figure.axes[0] else Phase.DECODE)
                for i in crowded_plan.islands
            )

    def test_mix(self, plan):
        doubled = tuple(
            replace(r, assigned_rps=2 * r.assigned_rps) if r.phase is Phase.DECODE and r.range_start == 1024 else r
            for r in plan.routing
        )
        upper, lower = figure(replace(plan, routing=doubled), "mix").axes
        p = next(r.probability for r in plan.routing if r.range_start == 1024)
        lines = {line.get_label(): list(line.get_ydata()) for line in upper.lines}
        assert [lines["prefill"][4], lines["target"][4]] == pytest.approx([100 * p] * 2)
        assert lines["decode"][4] == pytest.approx(100 * 2 * p / (1 + p))
        (gaps,) = (list(line.get_ydata()) for line in lower.lines if line.get_label() == "decode")
        assert gaps[4] == pytest.approx(100 * (2 * p / (1 + p) - p))
        assert sum(gaps[:-1]) == pytest.approx(0, abs=1e-9)

    def test_islands_add_up_to_the_inventory(self, plan):
        for axes, item in zip(figure(plan, "islands").axes, plan.scenario.inventory.items, strict=True):
            outlines = [p for p in axes.patches if isinstance(p, Rectangle) and not p.get_fill()]
            assert sum(p.get_width() for p in outlines) == item.count
            assert max(p.get_x() + p.get_width() for p in outlines) == item.count

    def test_a_small_type_is_drawn_large_enough_to_see(self, plan):
        items = plan.scenario.inventory.items
        inventory = replace(plan.scenario.inventory, items=(*items[:2], replace(items[2], count=5000)))
        axes = figure(replace(plan, scenario=replace(plan.scenario, inventory=inventory)), "islands").axes
        assert [a.get_xlim()[1] for a in axes] == [512, 512, 5000]

    def test_islands_are_filled_as_far_as_they_are_busy(self, plan):
        axes = figure(plan, "islands").axes[0]
        dark = to_rgb(PHASE_COLOURS[Phase.DECODE])
        (fill,) = (p for p in axes.patches if p.get_facecolor()[:3] == dark)
        assert fill.get_height() == pytest.approx(plan.islands[2].utilisation)
        assert "1 × 32 GPUs\nTP1 DP32\n35 % busy" in [t.get_text() for t in axes.texts]


class TestColours:
    # Machado, Oliveira and Fernandes (2009), severity 1.0, for linear RGB
    BLINDNESS: ClassVar = {
        "none": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
        "protan": (
            (0.152286, 1.052583, -0.204868),
            (0.114503, 0.786281, 0.099216),
            (-0.003882, -0.048116, 1.051998),
        ),
        "deutan": (
            (0.367322, 0.860646, -0.227968),
            (0.280085, 0.672501, 0.047413),
            (-0.011820, 0.042940, 0.968881),
        ),
    }

    def seen(self, colour: str, kind: str) -> list[float]:
        linear = [((c + 0.055) / 1.055) ** 2.4 if c > 0.04045 else c / 12.92 for c in to_rgb(colour)]
        mixed = [sum(m * c for m, c in zip(row, linear, strict=True)) for row in self.BLINDNESS[kind]]
        return [max(0.0, c) ** (1 / 2.4) for c in mixed]

    @pytest.mark.parametrize("kind", BLINDNESS)
    def test_types_and_phases_are_told_apart(self, kind):
        types = [type_colour(gpu) for gpu in ("H200", "H20", "H800", "H100", "A100", "MI300X", "L40S", "DGX-B200")]
        for palette in (types, list(PHASE_COLOURS.values())):
            seen = [self.seen(colour, kind) for colour in palette]
            for a, b in combinations(seen, 2):
                assert sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) ** 0.5 > 0.12

    def test_more_types_than_colours(self):
        assert len({type_colour(f"gpu-{n}") for n in range(20)}) == 20


@given(
    st.lists(st.tuples(st.floats(0, 100), st.floats(0.1, 9)), min_size=1, max_size=12),
)
def test_spread_labels_neither_overlap_nor_move_without_need(labels):
    centres = sorted(c for c, _ in labels)
    widths = [w for _, w in labels]
    places = spread(centres, widths, 110.0)
    edges = [(x - w / 2, x + w / 2) for x, w in zip(places, widths, strict=True)]
    assert edges[0][0] >= -1e-9
    assert edges[-1][1] <= 110.0 + 1e-9
    assert all(a[1] <= b[0] + 1e-9 for a, b in pairwise(edges))
    fits = [(c - w / 2, c + w / 2) for c, w in zip(centres, widths, strict=True)]
    if fits[0][0] >= 0 and fits[-1][1] <= 110 and all(a[1] <= b[0] for a, b in pairwise(fits)):
        assert places == pytest.approx(centres)


def test_a_plan_without_routes_says_so_in_the_figure(make_plan):
    for name in ("routing", "throughput", "mix"):
        told = [t.get_text() for t in figure(make_plan(routing=()), name).axes[0].texts]
        assert told == ["no requests are routed"]


def test_unknown_name_lists_the_valid_ones(plan):
    with pytest.raises(InputError) as caught:
        figure(plan, "pie")
    assert all(name in str(caught.value) for name in FIGURES)
    assert "'pie'" in str(caught.value)


def test_render_gives_the_page_and_every_figure(make_plan):
    pages = render(make_plan())
    assert list(pages) == ["summary.md", *(f"figures/{name}.png" for name in (*FIGURES, "importance", "slices"))]
    assert pages["summary.md"].decode().startswith("# Plan: mixed-a")
    assert all(data.startswith(PNG) for name, data in pages.items() if name.endswith(".png"))
    assert not any(b"tIME" in data or b"Software" in data for data in pages.values())
    with copied_pictures():
        assert render(make_plan()) == {"summary.md": pages["summary.md"]}


def test_importing_the_report_loads_neither_matplotlib_nor_pandas():
    code = (
        "import sys, planner.report; assert not {'matplotlib', 'pandas'} & set(sys.modules), 'too early'; "
        "import planner.report.plan.islands_figure; assert 'matplotlib.pyplot' not in sys.modules, 'pyplot'"
    )
    root = Path(planner.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
