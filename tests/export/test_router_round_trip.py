"""Plan, router's configuration, read back: the same lengths to the same islands, for drawn plans of buckets and every
router that takes them. Judged by the plan's own routes, not by the routing table of the files."""

import pytest
from routed_plans import bucketed_plan

from planner.domain import PHASES, DeployedRoute, Phase, Plan
from planner.errors import ExportError
from planner.export import ROUTERS, TARGETS, read_manifests
from planner.export.checking.expectation import expectation_of, owned_workloads
from planner.export.checking.routing.routers import island_addresses
from planner.runs.deployments import render_plan

SEEDS = range(50)
_FORMS = {seed: seed % 2 == 1 for seed in SEEDS}
"""Every second plan is aggregated."""


def planned_islands(plan: Plan, phase: Phase, length: int) -> set[str]:
    """The islands that the plan's own routes give a prompt."""
    return {r.island for r in plan.routing if r.phase is phase and r.range_start <= length < r.range_end}


def read_islands(routes: tuple[DeployedRoute, ...], phase: Phase, length: int) -> set[str]:
    """The islands that a router would choose from."""
    return {r.island for r in routes if r.phase is phase and r.range_start <= length < r.range_end}


def pairs() -> list[tuple[str, str, str]]:
    """Every router with every target and engine that it names."""
    return [
        (router.name, target, engine)
        for router in ROUTERS.values()
        for target in router.targets
        for engine in router.engines
        if engine in TARGETS[target].engines
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_router_reads_back_what_the_plan_says(seed: int) -> None:
    plan = bucketed_plan(seed, mixed=_FORMS[seed])
    combinations = pairs()
    router, target, engine = combinations[seed % len(combinations)]
    _check(plan, router, target, engine)


@pytest.mark.parametrize(("router", "target", "engine"), pairs())
@pytest.mark.parametrize("seed", [100, 101])
def test_each_router_takes_some_plan_or_says_why_not(router: str, target: str, engine: str, seed: int) -> None:
    _check(bucketed_plan(seed, mixed=seed % 2 == 1), router, target, engine)


def _check(plan: Plan, router: str, target: str, engine: str) -> None:
    try:
        rendered = render_plan(plan, target=target, engine=engine, router=router)
    except ExportError as error:
        assert error.hint, error.message  # noqa: PT017  # the others are read back below
        return
    sound = read_manifests(rendered.files).sound
    manifests = [manifest for manifest, _ in sound]
    workloads = [w for m, kind in sound if kind and kind.workloads for w in kind.workloads(m)]
    owned, faults = owned_workloads(workloads, expectation_of(rendered.plan))
    assert not faults
    routes = ROUTERS[router].read(manifests, island_addresses(manifests, owned))
    if routes is None:  # nothing chooses: one island a phase, or a front end over all
        assert all(len({(r.range_start, r.range_end) for r in plan.routing if r.phase is p}) == 1 for p in PHASES)
        return
    for route in rendered.plan.routing:
        for length in (route.range_start, (route.range_start + route.range_end) // 2, route.range_end - 1):
            expected = planned_islands(rendered.plan, route.phase, length)
            assert read_islands(routes, route.phase, length) == expected, (route.phase, length)


def test_some_plans_are_taken_by_every_router() -> None:
    """The round trip above would hold for a router that refuses all."""
    refused: dict[str, list[str]] = {name: [] for name in ROUTERS}
    tried: dict[str, int] = dict.fromkeys(ROUTERS, 0)
    for router, target, engine in pairs():
        for mixed in (False, True):
            tried[router] += 1
            try:
                render_plan(bucketed_plan(7, mixed=mixed), target=target, engine=engine, router=router)
            except ExportError as error:
                refused[router].append(error.message)
    assert all(len(refused[name]) < tried[name] for name in ROUTERS), refused
