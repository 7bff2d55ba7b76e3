"""The door: what a running deployment tells, beside its plan; and the factors that its steps ask for."""

from collections.abc import Iterator, Mapping, Sequence

from planner.cost import fit_calibration, with_bands
from planner.domain import CalibrationFit, Phase, Plan
from planner.domain.serving.observed import (
    ComparedFigure,
    Observation,
    ObservedIsland,
    ObservedSeries,
    Quantity,
    Verdict,
)
from planner.errors import InputError
from planner.plans.observed.figures import ALL, TOLERANCE, compared_figures
from planner.plans.observed.loads import Loads, loads_of
from planner.plans.observed.steps import observed_island

_LOST = 0.05
_FEW = 0.99


def compare_observed(
    plan: Plan, series: Sequence[ObservedSeries], labels: Mapping[str, str], plan_label: str
) -> Observation:
    """`labels`: an island's label on its pods -> its id; `plan_label`: the plan's name on its objects. InputError as of
    `loads_of`."""
    loads = loads_of(plan, series, labels, plan_label)
    serving = [island for island in plan.islands if island.phase is not None]
    islands = tuple(observed_island(loads, island, row) for row, island in enumerate(serving, start=1))
    figures = tuple(compared_figures(loads, islands))
    return Observation(
        plan=plan.scenario.name,
        rate_rps=loads.rate_rps,
        promise_rps=plan.outlook.promise_rps,
        capacity_rps=plan.throughput_rps,
        start_s=min(item.start_s for item in series),
        end_s=max(item.end_s for item in series),
        samples=max(item.samples for item in series),
        figures=figures,
        islands=islands,
        advice=tuple(advice(loads, figures, islands)),
        notes=tuple(notes(loads, islands)),
    )


def observed_calibration(plan: Plan, observation: Observation, name: str) -> CalibrationFit:
    """Paces fitted to the observed steps, as of `planner cost calibrate`; what else the plan's own calibration says is
    kept.

    Raises:
        InputError: no island told a step time, or one that cannot be.
    """
    if not observation.measurements:
        reasons = " ".join(f"{island.island}: {island.why_not}" for island in observation.islands)
        raise InputError(
            f"Plan {observation.plan}: no step time can be taken, so that nothing is to calibrate. {reasons}",
            hint="Observe a time in which the islands are busy.",
        )
    scenario = plan.scenario
    used = {measurement.gpu for measurement in observation.measurements}
    return with_bands(
        fit_calibration(
            observation.measurements,
            {item.gpu.name: item.gpu for item in scenario.inventory.items if item.gpu.name in used},
            {scenario.model.name: scenario.model},
            name=name,
            base=scenario.cost.calibration,
        )
    )


def advice(loads: Loads, figures: Sequence[ComparedFigure], islands: Sequence[ObservedIsland]) -> Iterator[str]:
    """Sentences. Causes come before what they cause: a slower GPU explains late answers."""
    for island in islands:
        if island.ranks is not None and island.ranks < island.planned_ranks * _FEW:
            yield (
                f"{island.island}: {island.ranks:.3g} of {island.planned_ranks} attention groups were scraped. See "
                "that all copies run and are scraped (SGLang tells of the leader's node alone)."
            )
    yield from _pace(figures)
    promise = loads.plan.outlook.promise_rps
    if loads.rate_rps > promise:
        yield (
            f"More requests come ({loads.rate_rps:.4g}/s) than the plan promises to serve ({promise:.4g}/s): it takes "
            "more GPUs, or looser service levels (planner frontier tells what more GPUs serve)."
        )
    wrong = {figure.name: figure for figure in figures if figure.subject == ALL and figure.verdict is Verdict.WORSE}
    for name in ("prompt tokens of a request", "answer tokens of a request"):
        if name in wrong:
            yield (
                f"{name[0].upper()}{name[1:]}: {wrong[name].measured:.4g}, planned with {wrong[name].promised:.4g}: "
                "plan again with a trace of these days (planner workload summarize)."
            )
    yield from _unbalanced(figures, islands)
    late = [f for f in figures if f.name.startswith(("TTFT", "TPOT")) and f.verdict is Verdict.WORSE]
    if late and not any((figure.ratio or 0) > 1 for figure in _other_steps(figures)):
        yield (
            f"{late[0].name} of {late[0].subject} is late, and no step is known to be slower: replay the plan with the "
            "arrivals of a trace (planner replay --arrivals trace) to see whether bursts explain it."
        )


def _pace(figures: Sequence[ComparedFigure]) -> Iterator[str]:
    for figure in _other_steps(figures):
        assert figure.ratio is not None
        within = figure.verdict is Verdict.AS_PLANNED
        where = "which the plan's band allows" if within else "beyond what the plan's band allows"
        yield (
            f"{figure.subject}: its steps take {figure.ratio:.2f} x what is planned, {where}. Plan again with this "
            "observation's calibration.yaml (--out writes it) under cost.calibration."
        )


def _other_steps(figures: Sequence[ComparedFigure]) -> list[ComparedFigure]:
    """Steps outside the band, or so far from what is planned that a calibration would change the plan."""
    steps = [figure for figure in figures if figure.name.endswith("step") and figure.ratio is not None]
    return [f for f in steps if f.verdict is not Verdict.AS_PLANNED or abs((f.ratio or 1) - 1) > TOLERANCE]


def _unbalanced(figures: Sequence[ComparedFigure], islands: Sequence[ObservedIsland]) -> Iterator[str]:
    names = {island.island for island in islands}
    off = [f for f in figures if f.subject in names and f.name == "requests" and f.verdict is Verdict.WORSE]
    if off:
        rates = ", ".join(f"{figure.subject} {figure.measured:.4g} for {figure.promised:.4g}" for figure in off)
        yield f"Islands do not get the planned share of requests/s: {rates}. Check the router and its labels."


def notes(loads: Loads, islands: Sequence[ObservedIsland]) -> Iterator[str]:
    """Why there is no step time of an island, and what came out of one half and not of the other."""
    for island in islands:
        if island.why_not:
            yield f"{island.island}: no step time. {island.why_not}"
    halves = {phase: loads.total(Quantity.REQUESTS, phase) for phase in (Phase.PREFILL, Phase.DECODE)}
    if min(halves.values()) < max(halves.values()) * (1 - _LOST):
        rates = " and ".join(f"{rate:.4g} requests/s in {phase}" for phase, rate in halves.items())
        yield f"The halves do not agree: {rates}. Requests are lost between them, or servers are not scraped."
