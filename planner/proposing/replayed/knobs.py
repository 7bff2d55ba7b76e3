"""Knobs in words: what of a plan can be turned while its servers stay, and what cannot, and why."""

from collections.abc import Iterator

from planner.domain import Phase, Plan
from planner.domain.serving.tuning import Knob
from planner.proposing.replayed.space import Dial, Point, ReplaySpace

_NAMES = {"cut": "cut point", "budget": "tokens a step", "batch": "batch", "weight": "weight at the router"}


def knob_of(space: ReplaySpace, dial: Dial, point: Point) -> Knob:
    """A dial with what it is deployed as, in the plan and at a point."""
    where = dial.name.removeprefix("cut_") if dial.kind == "cut" else space.slots[dial.pool].pool.island
    before, after = (_words(space, dial, each) for each in (space.base, point))
    return Knob(name=f"{_NAMES[dial.kind]}, {where}", choices=len(dial.values), before=before, after=after)


def _words(space: ReplaySpace, dial: Dial, point: Point) -> str:
    value = point[space.dials.index(dial)]
    if dial.kind == "cut":
        return f"{space.question.workload.ranges[value].start:,} tokens"
    if dial.kind == "budget":
        return f"{value:,}"
    if dial.kind == "batch":
        server = space.slots[dial.pool].menu.server(0, space.budget(point, dial.pool), value)
        return "none" if server is None else f"{server.batch_size:,}"
    return f"{space.weight(point, dial.pool):.3g}"


def fixed_knobs(plan: Plan, space: ReplaySpace) -> Iterator[tuple[str, str]]:
    """What is not turned, and why."""
    kinds, deploy = {dial.kind for dial in space.dials if len(dial.values) > 1}, plan.scenario.deploy
    yield "servers and their shapes", "they run; planner replan changes them"
    if "cut" not in kinds:
        yield "cut points", "each phase has one bucket"
    if "budget" not in kinds:
        yield "token budgets", "no other is within the scenario's cost.max_tokens_per_step"
    if "batch" not in kinds:
        yield "batch limits", "no pool decodes"
    if "weight" not in kinds:
        yield "weights at the router", f"{plan.scenario.router.name} weighs no pools of a bucket against each other"
    yield "queue thresholds", "no router that is exported waits behind one"
    yield "which router, and what it counts", "planner routers compares them"
    yield (
        "room of prefix caches",
        "engines take what weights and answers leave of the share of memory that plans count on",
    )
    scaled = "replays start no servers" if deploy.autoscaling != "none" else "the plan has none"
    yield "floors and triggers of autoscalers", scaled
    yield "margin", "what is promised of a capacity is no setting of a server"
    if any(pool.phase is not Phase.PREFILL for pool in plan.outlook.pools):
        yield "batch limits above the plan's", "they break a bound on TPOT, or memory"
