"""The tables of an observation, and its verdict in a sentence."""

from planner.domain.serving.observed import ComparedFigure, Observation, ObservedIsland, Verdict
from planner.report.kit.quantities import NONE
from planner.report.kit.tables import Column, Table, fields, table_of

_EXACT = fields(
    *("of=subject", "phase", "figure=name", "unit", "promised", "low", "high", "measured", "ratio", "verdict", "basis"),
)
_FIGURE: tuple[Column[ComparedFigure], ...] = (
    *fields("of=subject", "figure=name"),
    Column("promised", lambda f: None if f.promised is None else f"{f.promised:.4g} {f.unit}", right=True),
    Column("may lie", lambda f: None if None in (f.low, f.high) else f"{f.low:.4g} to {f.high:.4g}", right=True),
    Column("measured", lambda f: f"{f.measured:.4g} {f.unit}", right=True),
    Column("ratio", lambda f: f.ratio, "{:.2f}".format),
    Column("", lambda f: f.verdict.value),
)


def _waiting(island: ObservedIsland) -> str:
    waiting = NONE if island.waiting is None else f"{island.waiting:.3g}"
    return waiting if island.backlog is None else f"{waiting} ({island.backlog:.0%} of the time)"


_ISLAND: tuple[Column[ObservedIsland], ...] = (
    *fields("island", "phase", "GPU=gpu"),
    Column("requests/s", lambda island: island.requests_rps, "{:.4g}".format),
    Column("share planned", lambda island: island.planned_rps, "{:.4g}".format),
    Column("busy", lambda island: island.busy, "{:.0%}".format),
    Column("waiting", _waiting, right=True),
    Column("pace", lambda island: island.pace, "{:.0%}".format),
)


def exact_figures(observation: Observation) -> Table[ComparedFigure]:
    """Every figure, as in observe.csv."""
    return table_of(_EXACT, observation.figures)


def figures(observation: Observation) -> Table[ComparedFigure]:
    """Every figure, promised and measured, in words."""
    return table_of(_FIGURE, observation.figures)


def islands(observation: Observation) -> Table[ObservedIsland]:
    """How each island was loaded."""
    return table_of(_ISLAND, observation.islands)


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
