"""Figures of studies where lines and intervals would lie on each other."""

from test_policy_report import run as policy_run
from test_spot_report import LIMITS, results, run

from planner.studies.policies.plots import policy_figure
from planner.studies.spot.capacity import curve_of
from planner.studies.spot.plots import spot_pictures


class TestOverlaps:
    def test_policies_that_coincide_show_by_their_markers(self):
        runs = {name: [policy_run(name, 5, 100)] for name in ("fgd", "bestfit", "dotprod")}
        lines = policy_figure("grar", {"": runs}, "fgd").axes[0].lines
        assert len({line.get_marker() for line in lines}) == 3
        places = [line.get_markevery() for line in lines if line.get_markevery() is not None]
        assert len({start for start, _ in places}) == len(places)
        widths = [line.get_linewidth() for line in lines]
        assert widths[0] > max(widths[1:])  # the baseline below, wider than what lies on it

    def test_intervals_of_the_spot_curve_stand_beside_each_other_and_end_in_the_panel(self):
        runs = [
            run(policy, seed, load, evictions_per_job=4 * load * seed, due_done_percent=97.0)
            for policy in ("spotgpu", "random|x")
            for seed in (1, 9)
            for load in (0.1, 0.2)
        ]
        points = curve_of(runs, 1.0)
        axes = spot_pictures(results(runs, "spotgpu", points=points, limits=LIMITS))["curve"]().axes[0]
        first, second = [line.get_xdata() for line in axes.lines[:2]]
        assert all(a != b for a, b in zip(first, second, strict=True))
        whiskers: list[float] = []
        for lines in axes.collections:
            if hasattr(lines, "get_segments"):
                whiskers += [end[1] for segment in lines.get_segments() for end in segment]
        assert whiskers
        assert 0 <= min(whiskers) <= max(whiskers) <= axes.get_ylim()[1] + 1e-9
