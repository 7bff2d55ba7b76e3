"""Breakpoints of a plan: at which price, and at which pace, of a GPU type other types serve a phase.

The plan is made again at values further and further apart, one key at a time, until it is known between which two of
them it changes: both sides are plans. A type that the plan has not is tried cheaper and faster alone.
"""

from collections.abc import Iterator
from itertools import chain

from planner.domain import PHASES, Phase, Plan, Scenario
from planner.domain.explanations import WhatIf
from planner.errors import InputError
from planner.evaluation.doubts.drawn import at_paces
from planner.proposing.explaining.replanning import FAR, NEAR, Change, Replanner, first_change
from planner.proposing.explaining.what_ifs import priced_at


def breakpoints(plan: Plan, seconds: float) -> tuple[tuple[WhatIf, ...], int]:
    """What was found within so many seconds of CPU, prices first, where the objective counts them; and for how many
    keys time was out. Raises InputError of a plan that was searched for or replayed, which another plan does not
    compare with."""
    replanner = Replanner(plan, seconds)
    if not replanner.comparable:
        raise InputError(
            f"plan {plan.scenario.name}: breakpoints: must be of a plan that was solved for, got one that was searched "
            "for, replayed, or has no pools behind buckets.",
            hint="Plan it with search.method exact and routing.form buckets.",
        )
    rows = [
        first_change(replanner, None, key, change, near, far)
        for key, change, near, far in chain(_prices(plan), _paces(plan))
    ]
    return tuple(row for row in rows if row is not None), rows.count(None)


def _prices(plan: Plan) -> Iterator[tuple[str, Change, float, float]]:
    """Key, change, and the values between which a change is sought."""
    if not plan.scenario.objective.kind.row.priced:
        return
    for item in plan.scenario.inventory.items:
        near = item.price_usd_per_gpu_hour
        for factor in (FAR, 1 / FAR) if any(pool.gpu == item.gpu.name for pool in plan.outlook.pools) else (1 / FAR,):
            if near > 0:
                yield f"prices_usd_per_gpu_hour.{item.gpu.name}", priced_at(item.gpu.name), near, near * factor


def _paces(plan: Plan) -> Iterator[tuple[str, Change, float, float]]:
    used = {(pool.gpu, pool.phase) for pool in plan.outlook.pools}
    mixed = any(phase is Phase.MIXED for _, phase in used)
    for item in plan.scenario.inventory.items:
        for phase in (Phase.MIXED,) if mixed else PHASES:
            key = item.gpu.name, phase
            for factor in (1 / NEAR, NEAR) if key in used else (NEAR,):
                yield f"pace.{item.gpu.name}.{phase.value}", _paced(*key), 1.0, factor


def _paced(gpu: str, phase: Phase) -> Change:
    def change(scenario: Scenario, value: float) -> Scenario:
        return at_paces(scenario, {(gpu, phase): value})

    return change
