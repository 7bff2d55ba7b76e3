"""Plan, router's configuration, read back: the same lengths to the same islands, for drawn plans of buckets and every
router that takes them. Judged by the plan's own routes, not by the routing table of the files."""

import pytest
from contract_plans import as_run
from export_plans import DECODE, PREFILL, plan_of, route
from routed_plans import bucketed_plan
from router_reading.comparing import island_addresses, owned_of, read_router

from planner.domain import PHASES, DeployedRoute, Phase, Plan
from planner.errors import ExportError
from planner.export import ROUTERS, TARGETS
from planner.runs.deployments import render_plan

SEEDS = range(20)


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
    """Each plan goes to another router, the next one where that refuses it."""
    plan = bucketed_plan(seed, mixed=seed % 2 == 1)
    order = pairs()[seed % len(pairs()) :] + pairs()[: seed % len(pairs())]
    assert any(reads_back(plan, *combination) for combination in order)


@pytest.mark.parametrize(("router", "target", "engine"), pairs())
def test_each_router_takes_some_plan(router: str, target: str, engine: str) -> None:
    """The round trip above would hold for a router that refuses all."""
    pair = [route(one.id, one.phase, 0, 1.0, 4096) for one in (PREFILL, DECODE) if one.phase]
    pool = plan_of((PREFILL, DECODE), routing=tuple(pair))
    plans = (bucketed_plan(7), bucketed_plan(7, mixed=True), bucketed_plan(7, most=1), pool)
    assert any(reads_back(plan, router, target, engine) for plan in plans)


def reads_back(plan: Plan, router: str, target: str, engine: str) -> bool:
    """Whether the router takes the plan; then what it would do is compared, at the ends and in the middle of ranges."""
    plan = as_run(plan, engine)
    try:
        rendered = render_plan(plan, target=target, engine=engine, router=router)
    except ExportError as error:
        assert error.hint, error.message  # noqa: PT017  # the others are read back below
        return False
    manifests, owned = owned_of(rendered.files, rendered.plan)
    routes = read_router(router, manifests, island_addresses(manifests, owned))
    if routes is None:  # nothing chooses: a front end over all, or one island a phase
        assert all(len({(r.range_start, r.range_end) for r in plan.routing if r.phase is p}) == 1 for p in PHASES)
        return True
    for row in rendered.plan.routing:
        for length in (row.range_start, (row.range_start + row.range_end) // 2, row.range_end - 1):
            expected = planned_islands(rendered.plan, row.phase, length)
            assert read_islands(routes, row.phase, length) == expected, (row.phase, length)
    return True
