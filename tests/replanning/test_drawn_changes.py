"""Changes drawn by seed end in steps that hold their share, or in a refusal whose hint works."""

import re
from collections.abc import Sequence

import pytest
from drawn_changes import Drawn, drawn, followed

from planner.domain import PHASES, BucketPool, Plan
from planner.domain.rollouts import RollOutStep
from planner.errors import EXIT_BAD_INPUT, EXIT_INFEASIBLE, PlannerError
from planner.evaluation.buckets.service import BucketService
from planner.replanning.changes import context_of
from planner.replanning.rollouts.interim import InterimFleet
from planner.runs.replanning.asking import ChangedPlan, publish_change

QUICK = (1, 3, 7, 34)
STUDY = tuple(seed for seed in range(40) if seed not in QUICK)
CLOSE = 2e-3
OUT_OF_REACH = re.compile(r"(?:at most|the closest reach) ([\d.,]+)\.")
ANEW = re.compile(r"[Pp]lan anew, as there is nothing to keep serving \(planner plan\)")


@pytest.mark.parametrize("seed", [*QUICK, *(pytest.param(seed, marks=pytest.mark.study) for seed in STUDY)])
def test_a_drawn_change_ends_in_steps_or_in_a_refusal_that_can_be_acted_on(seed: int) -> None:
    saved, change = drawn(seed)
    changed, error = _made(saved, change)
    if error is not None:
        assert error.exit_status in (EXIT_BAD_INPUT, EXIT_INFEASIBLE)
        _require_a_way_out(saved, change, error)
    else:
        assert changed is not None
        _require_steps(changed, change)


def _made(saved: Plan, change: Drawn) -> tuple[ChangedPlan | None, PlannerError | None]:
    try:
        return change.made(saved), None
    except PlannerError as error:
        return None, error


def _require_a_way_out(saved: Plan, change: Drawn, error: PlannerError) -> None:
    """What the hint says can be done is done, and leads to steps."""
    ways = list(followed(change, error))
    if not ways:
        said = str(error)
        # a rate that can be asked for, or that there is nothing to change
        assert OUT_OF_REACH.search(said) or ANEW.search(said), said
    for way in ways:
        changed, again = _made(saved, way)
        if again is not None:  # types that are missing are told one by one
            following = next(followed(way, again))
            _require_steps(following.made(saved), following)
        else:
            assert changed is not None
            _require_steps(changed, way)


def _require_steps(changed: ChangedPlan, change: Drawn) -> None:
    """Servers, GPUs and rates of every step, counted anew; and manifests that lead there."""
    before, after, roll_out = changed.before, changed.plan, changed.roll_out
    assert after.buckets is not None
    there = {item.gpu.name: item.count for item in after.scenario.inventory.items} | change.meanwhile
    servers = {pool.island: pool.count for pool in before.buckets.pools}
    gpus = {
        pool.island: (pool.gpu, pool.server.parallel.devices) for pool in (*before.buckets.pools, *after.buckets.pools)
    }
    for step in roll_out.steps:
        stopped = {island: _moved(step, island)[0] for island in gpus}
        started = {island: _moved(step, island)[1] for island in gpus}
        during = {island: servers.get(island, 0) - stopped[island] for island in gpus}
        assert {island: n for island, n in during.items() if n} == dict(step.during)
        servers = {island: during[island] + started[island] for island in gpus}
        assert {island: n for island, n in servers.items() if n} == dict(step.after)
        if step.starts:
            used: dict[str, int] = {}
            for island, count in servers.items():
                used[gpus[island][0]] = used.get(gpus[island][0], 0) + count * gpus[island][1]
            started_types = {role.after.gpu for role in step.starts if role.after is not None}
            assert all(used[gpu] <= there.get(gpu, 0) for gpu in started_types)
        assert _served_rps(changed, step) >= change.least_share * roll_out.lower_rps * (1 - CLOSE)
    assert {island: n for island, n in servers.items() if n} == {p.island: p.count for p in after.buckets.pools}
    files = publish_change(changed, deployed={}).files
    assert bool(roll_out.steps) == any(path.startswith("steps/") for path in files)
    assert "steps/NOT-WRITTEN.txt" not in files, files["steps/NOT-WRITTEN.txt"].decode()


def _moved(step: RollOutStep, island: str) -> tuple[int, int]:
    stops = sum(row.count for row in step.stops if row.before is not None and row.before.island == island)
    starts = sum(row.count for row in step.starts if row.after is not None and row.after.island == island)
    return stops, starts


def _served_rps(changed: ChangedPlan, step: RollOutStep) -> float:
    """Of the slowest bucket and phase, all servers of the step priced together as a plan's are."""
    fleet = InterimFleet(changed.before, changed.plan)
    pools = (
        BucketService(fleet.question).priced(fleet.lanes[0].pools(dict(step.during), new_table=step.new_table)).pools
    )
    _require_context(changed, pools, fleet.question.workload.max_output_tokens)
    ranges, rates = fleet.question.workload.ranges, list[float]()
    for phase in PHASES:
        for span in ranges:
            takers = [p for p in pools if p.serves(phase) and p.start <= span.start and span.end <= p.end]
            starts, ends = min((p.start for p in takers), default=0), max((p.end for p in takers), default=0)
            mass = sum(r.probability for r in ranges if starts <= r.start and r.end <= ends)
            rates.append(sum(p.count * p.capacity_rps for p in takers) / mass if takers else 0.0)
    return min(rates)


def _require_context(changed: ChangedPlan, pools: Sequence[BucketPool], longest: int) -> None:
    """An engine takes no prompt that it has no room for, with the longest answer."""
    deployed = {pool.island: pool for pool in changed.before.buckets.pools}
    for pool in pools:
        if pool.island in deployed:
            context = context_of(changed.before.scenario, deployed[pool.island])
            assert context >= changed.plan.scenario.model.max_context or pool.end - 1 + longest <= context
