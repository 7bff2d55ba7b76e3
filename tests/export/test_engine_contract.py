"""What every engine owes: command lines that its own reader takes back, ports, health, and the rows by which it is
priced and routed. An engine is in the suite by being registered."""

from dataclasses import replace

import pytest
from contract_plans import planned
from export_plans import plan_of

from planner.domain import Phase, Plan, ServerConfig
from planner.domain.serving.programs import ENGINE_ROWS
from planner.errors import ExportError, InputError
from planner.export import ENGINES, ROUTERS
from planner.export.engines.arguments import flag_pairs
from planner.export.engines.dialects import engine_named
from planner.export.engines.seam import Engine, Launch, Rendezvous
from planner.export.islands import ServingIsland, serving_islands
from planner.files import catalog

HERE = Rendezvous(leader_address="leader", pod_index="0", joined=True)
MOVED = replace(HERE, port_offset=128)


def islands(engine: str) -> list[ServingIsland]:
    """Of both phases and of one, of one pod and of several, with attention ranks and without."""
    names = ("single nodes", "several nodes", "beside", "aggregated")
    plans: list[Plan] = [planned(name, engine) for name in names]
    found = [island for plan in plans for island in serving_islands(plan, "contract")]
    return list({(island.phase, island.parallel, island.batch_size): island for island in found}.values())


ISLANDS = {engine: islands(engine) for engine in ENGINES}
CASES = [(engine, number) for engine in ENGINES for number in range(len(ISLANDS[engine]))]
each_case = pytest.mark.parametrize(("engine", "number"), CASES)


def started(engine: str, number: int, rendezvous: Rendezvous = HERE) -> Launch | None:
    """How it starts the island; None where it says in words that it cannot."""
    refusal: ExportError | None = None
    try:
        return engine_named(engine).launch(ISLANDS[engine][number], rendezvous)
    except ExportError as error:
        refusal = error
    assert (bool(refusal.message), bool(refusal.hint), refusal.exit_status) == (True, True, 3)
    assert ISLANDS[engine][number].id in refusal.message
    return None


def read(engine: Engine, launch: Launch, island: ServingIsland) -> ServerConfig:
    return engine.read_server(launch.leader.arguments, island.phase)


def refusal_of(engine: str, launch: Launch, island: ServingIsland, more: str) -> str:
    """Why its reader refuses the line with one argument more; empty where it takes it."""
    try:
        engine_named(engine).read_server((*launch.leader.arguments, more), island.phase)
    except InputError as error:
        return error.message
    return ""


@pytest.mark.parametrize("engine", ENGINES)
def test_it_starts_most_of_what_is_planned(engine: str) -> None:
    able = [number for number in range(len(ISLANDS[engine])) if started(engine, number)]
    assert {ISLANDS[engine][number].phase for number in able} == {Phase.PREFILL, Phase.DECODE, Phase.MIXED}
    assert len(able) > len(ISLANDS[engine]) / 2


@each_case
def test_its_reader_takes_back_what_it_starts(engine: str, number: int) -> None:
    launch, island = started(engine, number), ISLANDS[engine][number]
    if launch is None:
        return
    server = read(engine_named(engine), launch, island)
    assert server.parallel.devices == island.parallel.devices
    assert (server.parallel.tp, server.parallel.dp, server.parallel.pp) == (
        island.parallel.tp,
        island.parallel.dp,
        island.parallel.pp,
    )
    assert server.batch_size == island.batch_size
    if island.takes_prompts:
        assert server.tokens_per_step == island.max_tokens_per_step


@each_case
def test_another_batch_is_another_command_line(engine: str, number: int) -> None:
    launch, island = started(engine, number), ISLANDS[engine][number]
    if launch is None:
        return
    larger = replace(island, batch_size=island.batch_size * 2)
    other = engine_named(engine).launch(larger, HERE)
    assert other.leader.arguments != launch.leader.arguments
    assert read(engine_named(engine), other, larger).batch_size == larger.batch_size


@each_case
def test_a_flag_that_is_given_twice_is_refused(engine: str, number: int) -> None:
    """Engines take the last value, operators the first."""
    launch, island = started(engine, number), ISLANDS[engine][number]
    if launch is None:
        return
    counts = {name: value for name, value in flag_pairs(launch.leader.arguments) if value.isdecimal()}
    refusals = {name: refusal_of(engine, launch, island, f"--{name}={int(counts[name]) + 1}") for name in counts}
    refused = {name for name, message in refusals.items() if message}
    assert refused
    assert all(f"--{name}" in refusals[name] for name in refused)


@each_case
def test_copies_on_one_host_share_no_port(engine: str, number: int) -> None:
    launch, moved = started(engine, number), started(engine, number, MOVED)
    if launch is None or moved is None:
        return
    first, second = ({port.number for port in each.ports} for each in (launch, moved))
    assert len(first) == len(launch.ports)
    assert max(second) < 65536
    assert not first & second
    assert launch.health_path.startswith("/")
    assert launch.rank_ports[0].number in engine_named(engine).answering_ports(launch.leader.arguments)
    assert (launch.worker is None) == (ISLANDS[engine][number].grouping.pods == 1)


@pytest.mark.parametrize("engine", ENGINES)
def test_it_has_the_rows_by_which_it_is_priced_and_routed(engine: str) -> None:
    profile, row = catalog.engine(engine), ENGINE_ROWS[engine]
    assert (profile.name, bool(profile.version), "NVIDIA" in dict(profile.images)) == (engine, True, True)
    assert engine in ROUTERS[row.gateway].engines
    assert set(ENGINE_ROWS) == set(ENGINES)


def test_a_plan_that_no_engine_runs_is_refused_by_each() -> None:
    for engine in ENGINES:
        with pytest.raises(InputError):
            engine_named(f"{engine}-of-another-name")
    assert plan_of(()).islands == ()
