"""The door: what a running deployment tells, beside its plan; and the factors that its steps ask for."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from planner.cost import FreeFactor, fit_calibration, with_bands
from planner.domain import Calibration, CalibrationFit, Phase, Plan
from planner.domain.serving.observed import Observation, ObservedSeries
from planner.errors import InputError
from planner.plans.observed.advice import advice, notes
from planner.plans.observed.figures import compared_figures
from planner.plans.observed.loads import loads_of
from planner.plans.observed.steps import observed_island

_KERNELS, _BANDWIDTH = 0.5, 0.3  # how far the logarithm of a factor may be expected to move, as in fits to runs
_LEAST = 0.02


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
    """Factors fitted to the observed steps, as of `planner cost calibrate`; those of the plan's own calibration that no
    step bears on are kept.

    Raises:
        InputError: no island told a step time, or one that cannot be.
    """
    if not observation.measurements:
        reasons = " ".join(f"{island.island}: {island.why_not}" for island in observation.islands)
        raise InputError(
            f"Plan {observation.plan}: no step time can be taken, so that nothing is to calibrate. {reasons}",
            hint="Observe a time in which the islands are busy.",
        )
    scenario, before = plan.scenario, plan.scenario.cost.calibration
    used = {measurement.gpu for measurement in observation.measurements}
    fit = with_bands(
        fit_calibration(
            observation.measurements,
            {item.gpu.name: item.gpu for item in scenario.inventory.items if item.gpu.name in used},
            {scenario.model.name: scenario.model},
            name=name,
            base=before,
            free=_free(observation, {item.gpu.name: item.gpu.family for item in scenario.inventory.items}),
        )
    )
    return replace(fit, calibration=_over(before, fit.calibration))


def _free(observation: Observation, families: Mapping[str, str]) -> tuple[FreeFactor, ...]:
    """What the steps can tell: the pace of the kernels by phase; of decode, which reads weights and caches more than it
    computes, the bandwidth as well."""
    pairs = sorted({(families[step.gpu], step.phase) for step in observation.measurements})
    kernels = [
        FreeFactor(name=f"kernels_{phase}", family=family, sigma=_KERNELS, low=_LEAST, high=1)
        for family, phase in pairs
    ]
    reading = [family for family, phase in pairs if phase is Phase.DECODE]
    return (
        *kernels,
        *(
            FreeFactor(name=name, family=family, sigma=_BANDWIDTH, low=_LEAST, high=1)
            for family in reading
            for name in ("memory", "cache")
        ),
    )


def _over(before: Calibration | None, fitted: Calibration) -> Calibration:
    if before is None:
        return fitted
    moved = {(factor.name, factor.family) for factor in fitted.factors}
    remaining = tuple(factor for factor in before.factors if (factor.name, factor.family) not in moved)
    measured = {(band.gpu, band.model, band.phase) for band in fitted.bands}
    bands = tuple(band for band in before.bands if (band.gpu, band.model, band.phase) not in measured)
    return replace(fitted, factors=(*fitted.factors, *remaining), bands=(*fitted.bands, *bands))
