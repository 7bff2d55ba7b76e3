"""What every router owes: on each target that it reaches, for each engine that it knows, the same promises. A router is
in the suite by being registered."""

from dataclasses import replace
from functools import cache

import pytest
from contract_plans import aggregated_plan, as_run, single_node_plan
from export_plans import DECODE, PREFILL, plan_of

from planner.domain import DeploySettings, ParallelConfig, Plan
from planner.domain.serving.programs import PROGRAMS, Surroundings
from planner.domain.serving.targets import TARGET_ROWS, Reach
from planner.errors import ExportError
from planner.export import ENGINES, ROUTERS, TARGETS, find_faults, render, router_behaviour
from planner.export.manifests import deployment_of
from planner.files import catalog

PLANS = {"split": single_node_plan, "aggregated": aggregated_plan, "one pair": lambda: plan_of((PREFILL, DECODE))}
CASES = [
    (router.name, target, engine, plan)
    for router in ROUTERS.values()
    for target in router.targets
    for engine in router.engines
    if engine in TARGETS[target].engines
    for plan in PLANS
]
each_case = pytest.mark.parametrize(("router", "target", "engine", "plan"), CASES)


@cache
def planned(name: str, engine: str = "vllm") -> Plan:
    return as_run(PLANS[name](), engine)


@cache
def attempted(router: str, target: str, engine: str, plan: str) -> dict[str, str] | ExportError:
    """The files, or why there are none."""
    try:
        return render(planned(plan, engine), target=target, engine=engine, router=router)
    except ExportError as error:
        return error


@each_case
def test_it_writes_what_passes_every_check_or_says_what_to_do(router: str, target: str, engine: str, plan: str) -> None:
    files = attempted(router, target, engine, plan)
    if isinstance(files, ExportError):
        assert any(who in files.message for who in (f"Router {router}", f"Target {target}", "Island "))
        assert (bool(files.hint), files.exit_status) == (True, 3)
        return
    assert find_faults(files, planned(plan, engine)) == ()
    again = render(planned(plan, engine), target=target, engine=engine, router=router)
    assert [(name, text.encode()) for name, text in again.items()] == [(n, t.encode()) for n, t in files.items()]


@pytest.mark.parametrize("router", ROUTERS)
def test_it_takes_some_plan_on_some_target(router: str) -> None:
    cases = [case for case in CASES if case[0] == router]
    assert any(isinstance(attempted(*case), dict) for case in cases)


@each_case
def test_it_says_whom_it_chooses_in_each_phase(router: str, target: str, engine: str, plan: str) -> None:
    """Whether promises count on the same is `tests/pipeline/test_deployed_routers.py`'s."""
    if isinstance(attempted(router, target, engine, plan), ExportError):
        return
    deployed = router_behaviour(planned(plan, engine), router, target=target, engine=engine)
    assert deployed.name == PROGRAMS[router](Surroundings(engine=engine)).name
    for phase in {island.phase for island in planned(plan, engine).islands if island.phase is not None}:
        assert deployed.layers(phase)
        assert deployed.words([phase])


@pytest.mark.parametrize("router", ROUTERS)
def test_targets_that_it_cannot_reach_are_refused_by_those_that_it_can(router: str) -> None:
    reached = ROUTERS[router].targets
    assert reached == tuple(dict.fromkeys(reached))
    for target in set(TARGETS) - set(reached):
        engine = next(iter(TARGETS[target].engines))
        with pytest.raises(ExportError, match=f"Router {router}, target: must be") as refused:
            render(planned("split", engine), target=target, engine=engine, router=router)
        assert all(name in refused.value.message for name in reached)


@pytest.mark.parametrize("router", ROUTERS)
def test_engines_that_it_does_not_know_are_refused(router: str) -> None:
    for target in ROUTERS[router].targets:
        for engine in {*ENGINES, *TARGETS[target].engines} - {*ROUTERS[router].engines}:
            with pytest.raises(ExportError, match="engine: must be"):
                render(planned("split", engine), target=target, engine=engine, router=router)


def test_each_way_is_offered_and_needed() -> None:
    assert {way for row in TARGET_ROWS.values() for way in row.offers} == set(Reach)
    assert {way for router in ROUTERS.values() for way in router.needs} == set(Reach)
    assert {row.router for row in TARGET_ROWS.values()} <= set(ROUTERS)
    assert set(ROUTERS) == set(PROGRAMS)


@pytest.mark.parametrize("engine", ENGINES)
def test_servers_of_one_rank_are_endpoints_as_the_promise_counts_on(engine: str) -> None:
    """Else every export would warn of a router that chooses otherwise than planned."""
    one_rank = ParallelConfig(tp=8, dp=1)
    plan = plan_of(tuple(replace(island, size=8, parallel=one_rank) for island in (PREFILL, DECODE)))
    around = deployment_of(plan, target="lws", engine=engine).surroundings
    planned_around = Surroundings.of(catalog.engine(engine), DeploySettings(target="lws"))
    assert (around.ranks, around.decode_ranks) == (planned_around.ranks, planned_around.decode_ranks)
