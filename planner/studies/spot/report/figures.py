"""Figures of a spot study: GPUs by who has them over time, policies against a baseline, the curve over spot loads.

matplotlib is loaded with the first figure, not with this file.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from planner.errors import InputError
from planner.studies.spot.capacity import CurvePoint, SpotLimits
from planner.studies.spot.means import SpotSeedRun

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SPOT_FIGURES = ("allocation", "standby", "comparison", "curve")
"""`allocation` and, where jobs lend GPUs, `standby`: a panel a policy, of its first seed; `comparison`: needs two
policies; `curve`: needs points."""


def spot_figure(
    kind: str,
    runs: Sequence[SpotSeedRun],
    baseline: str,
    *,
    points: Sequence[CurvePoint] = (),
    limits: SpotLimits = SpotLimits(),
) -> "Figure":
    """One of SPOT_FIGURES. InputError: another name, or nothing to draw."""
    from planner.report.kit import style  # matplotlib takes a second to load
    from planner.studies.spot.report import panels as spot_panels  # matplotlib takes a second to load

    kinds = kinds_of_spot(runs, points)
    if kind not in kinds:
        raise InputError(
            f"figure: must be one of {', '.join(kinds)} for these runs, got {kind!r}.",
            hint="Choose one of these names.",
        )
    with style.look():
        if kind == "allocation":
            return spot_panels.draw_allocation(runs)
        if kind == "standby":
            return spot_panels.draw_standby(runs)
        if kind == "comparison":
            return spot_panels.draw_comparison(runs, baseline)
        return spot_panels.draw_curve(points, limits)


def kinds_of_spot(runs: Sequence[SpotSeedRun], points: Sequence[CurvePoint]) -> tuple[str, ...]:
    """Those of SPOT_FIGURES that can be drawn."""
    several = len({seed_run.policy for seed_run in runs}) > 1
    lent = any(sample.standby_gpus for seed_run in runs for sample in seed_run.run.series)
    there = {"allocation": bool(runs), "standby": lent, "comparison": several, "curve": bool(points)}
    return tuple(kind for kind in SPOT_FIGURES if there[kind])


def spot_figures(
    runs: Sequence[SpotSeedRun],
    baseline: str,
    *,
    points: Sequence[CurvePoint] = (),
    limits: SpotLimits = SpotLimits(),
) -> dict[str, bytes]:
    """Every figure that the study allows as a PNG, by its name in SPOT_FIGURES."""
    from planner.report.kit import style  # matplotlib takes a second to load

    return {
        kind: style.encoded(spot_figure(kind, runs, baseline, points=points, limits=limits))
        for kind in kinds_of_spot(runs, points)
    }
