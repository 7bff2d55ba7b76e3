"""A calibration from how much slower servers are than the plan takes them to be: the pace of every GPU type in use."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from planner.cost import known_as, place
from planner.domain import Calibration, CalibrationFit, CostMode, CostSource, Phase, Plan
from planner.domain.efficiency import BOUNDS, Factor, Origin


def paced_calibration(plan: Plan, time_factors: Mapping[Phase, float], name: str, source: str) -> CalibrationFit | None:
    """The plan's calibration with the paces of its GPU types divided by these factors on the times of a phase. None
    where its times come from no formulas, or no factor is known.

    One factor for all types of a phase: who asks through a router is not told which of them answered.
    """
    cost = plan.scenario.cost
    if cost.mode is CostMode.REFERENCE or cost.source is not CostSource.ANALYTIC or not time_factors:
        return None
    served = {
        (island.gpu, half)
        for island in plan.islands
        if island.phase is not None
        for half in time_factors
        if half is (Phase.PREFILL if island.phase is Phase.PREFILL else Phase.DECODE)
    }
    factors = [pace_factor(plan, gpu, half, 1 / time_factors[half], source) for gpu, half in sorted(served)]
    return CalibrationFit(calibration=with_factors(plan, factors, name), points=())


def pace_factor(plan: Plan, gpu: str, phase: Phase, pace: float, source: str) -> Factor:
    """The factor of a GPU type that goes at a pace of what the plan, with its own factor, takes it to go at."""
    scenario, name = plan.scenario, f"pace_{phase}"
    family = place(gpu, known_as(scenario.model), scenario.cost.engine)
    base = scenario.cost.calibration
    earlier = [f.value for f in base.factors if (f.name, f.family) == (name, family)] if base else []
    low, high = BOUNDS[name]
    return Factor(
        name=name,
        family=family,
        value=min(max((earlier[-1] if earlier else 1.0) * pace, low), high),
        unit="1",
        origin=Origin.USER,
        source=source,
        gpus=(gpu,),
        measured=((gpu, scenario.model.name),),
    )


def with_factors(plan: Plan, factors: Iterable[Factor], name: str) -> Calibration:
    """The plan's calibration with factors in the place of its own."""
    base = plan.scenario.cost.calibration or Calibration(name=name, factors=())
    new = {(factor.name, factor.family): factor for factor in factors}
    others = [factor for factor in base.factors if (factor.name, factor.family) not in new]
    return replace(base, name=name, factors=(*new.values(), *others))
