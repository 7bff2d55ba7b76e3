"""The tables of an observation, as words: for its page and for a terminal."""

from planner.domain.serving.observed import ComparedFigure, Observation, ObservedIsland, Verdict
from planner.report.kit.quantities import NONE

FIGURE_COLUMNS = ("of", "figure", "promised", "may lie", "measured", "ratio", "")
ISLAND_COLUMNS = ("island", "phase", "GPU", "requests/s", "share planned", "busy", "waiting", "pace")


def figure_rows(observation: Observation) -> list[tuple[str, ...]]:
    """Every figure, promised and measured."""
    return [_figure(figure) for figure in observation.figures]


def _figure(figure: ComparedFigure) -> tuple[str, ...]:
    between = NONE if figure.low is None or figure.high is None else f"{figure.low:.4g} to {figure.high:.4g}"
    return (
        figure.subject,
        figure.name,
        NONE if figure.promised is None else f"{figure.promised:.4g} {figure.unit}",
        between,
        f"{figure.measured:.4g} {figure.unit}",
        NONE if figure.ratio is None else f"{figure.ratio:.2f}",
        figure.verdict.value,
    )


def island_rows(observation: Observation) -> list[tuple[str, ...]]:
    """How each island was loaded."""
    return [_island(island) for island in observation.islands]


def _island(island: ObservedIsland) -> tuple[str, ...]:
    waiting = NONE if island.waiting is None else f"{island.waiting:.3g}"
    return (
        island.island,
        island.phase.value,
        island.gpu,
        f"{island.requests_rps:.4g}",
        f"{island.planned_rps:.4g}",
        _share(island.busy),
        waiting if island.backlog is None else f"{waiting} ({_share(island.backlog)} of the time)",
        NONE if island.pace is None else f"{island.pace:.0%}",
    )


def _share(value: float | None) -> str:
    return NONE if value is None else f"{value:.0%}"


def observed_verdict(observation: Observation) -> str:
    """The observation in a sentence."""
    off = [figure for figure in observation.figures if figure.verdict is Verdict.WORSE]
    load = (
        f"{observation.rate_rps:.4g} requests/s came, {observation.rate_rps / observation.promise_rps:.0%} of the "
        f"{observation.promise_rps:.4g} that the plan promises"
        if observation.promise_rps
        else f"{observation.rate_rps:.4g} requests/s came"
    )
    if not off:
        return f"As planned: {load}; every figure with a promise keeps it or is better."
    return f"Not as planned: {load}; {len(off)} of {len(observation.figures)} figures are worse than promised."
