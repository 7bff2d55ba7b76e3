"""A calibration from how much slower servers are than the plan takes them to be: the pace of every GPU type in use."""

from collections.abc import Mapping
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
    base = cost.calibration or Calibration(name=name, factors=())
    served = {
        (island.gpu, half)
        for island in plan.islands
        if island.phase is not None
        for half in time_factors
        if half is (Phase.PREFILL if island.phase is Phase.PREFILL else Phase.DECODE)
    }
    paces = [_pace(plan, base, gpu, half, time_factors[half], source) for gpu, half in sorted(served)]
    replaced = {(factor.name, factor.family) for factor in paces}
    others = tuple(factor for factor in base.factors if (factor.name, factor.family) not in replaced)
    return CalibrationFit(calibration=replace(base, name=name, factors=(*paces, *others)), points=())


def _pace(plan: Plan, base: Calibration, gpu: str, half: Phase, time_factor: float, source: str) -> Factor:
    model, name = plan.scenario.model, f"pace_{half}"
    family = place(gpu, known_as(model), plan.scenario.cost.engine)
    earlier = [factor.value for factor in base.factors if (factor.name, factor.family) == (name, family)]
    low, high = BOUNDS[name]
    return Factor(
        name=name,
        family=family,
        value=min(max((earlier[-1] if earlier else 1.0) / time_factor, low), high),
        unit="1",
        origin=Origin.USER,
        source=source,
        gpus=(gpu,),
        measured=((gpu, model.name),),
    )
