"""For which evictions each island waits: against the records, by hand, and the validator's look at it."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from eviction_cases import demand, instances, settings, spot
from hypothesis import given
from hypothesis import settings as tried
from placed_records import cluster_of, node

from planner.domain import Cluster, Placement, PlacementDemand, PlacementSettings, Pod
from planner.placement import place, violations


def waits(found: Placement) -> dict[str, tuple[int, ...] | None]:
    return {site.island: site.waits_for for site in found.sites}


@tried(deadline=None)
@given(instances())
def test_an_island_waits_for_all_it_needs_and_for_nothing_after(
    case: tuple[Cluster, list[PlacementDemand], PlacementSettings],
) -> None:
    """Nobody asks for CPUs here: an island needs its own victims and those whose GPUs it holds, and on each node it
    waits for no later one."""
    cluster, demands, asked = case
    found = place(demands, cluster, asked)
    pods = {pod.key: pod for pod in cluster.pods}
    if not found.victims:
        assert set(waits(found).values()) <= {None}
    for site in found.sites if found.victims else ():
        parts = [part for part in found.parts if part.island == site.island]
        for name in {victim.node for victim in found.victims}:
            held = {index for part in parts if part.node == name for index in part.gpu_indices}
            there = [victim for victim in found.victims if victim.node == name]
            needed = [v.order for v in there if v.island == site.island or held & set(pods[v.pod].gpus)]
            waited = [v.order for v in there if v.order in (site.waits_for or ())]
            assert waited == [v.order for v in there if v.order <= max(needed, default=0)]


def shared() -> tuple[Cluster, list[PlacementDemand], Placement]:
    """One pod makes room for two islands on n1; a third had room."""
    pods = [spot("x", "n0", range(8)), spot("y", "n1", range(4, 8), 500), Pod(name="f", node="n1", gpus=(0, 1))]
    cluster = cluster_of(node("n0"), node("n1"), pods=pods)
    demands = [demand("a", 4), demand("b", 4), demand("c", 2)]
    return cluster, demands, place(demands, cluster, settings())


def test_an_island_on_gpus_freed_for_another_waits_for_its_pod() -> None:
    cluster, demands, found = shared()
    assert [(victim.pod, victim.order) for victim in found.victims] == [("default/x", 1)]
    assert waits(found) == {"a": (1,), "b": (1,), "c": ()}
    assert violations(cluster, demands, found, evictions=settings()) == ()


def test_cpus_that_were_freed_for_another_are_waited_for() -> None:
    """The pod holds 60 of 64 CPUs and half of the GPUs; the second island lies on GPUs that were idle."""
    cluster = cluster_of(node("n0"), pods=[spot("x", "n0", range(4), cpus=60.0)])
    demands = [demand("a", 4, cpus_per_gpu=8), demand("b", 4, cpus_per_gpu=8)]
    asked = settings(cpus_per_gpu=8)
    found = place(demands, cluster, asked)
    assert len(found.victims) == 1
    idle = [part.island for part in found.parts if part.gpu_indices == (4, 5, 6, 7)]
    assert len(idle) == 1
    assert waits(found) == {"a": (1,), "b": (1,)}
    assert violations(cluster, demands, found, evictions=asked) == ()


def told(*changes: tuple[str, tuple[int, ...]]) -> Callable[[Placement], Placement]:
    """The same placement with islands that wait for others."""
    new = dict(changes)
    return lambda found: replace(
        found, sites=tuple(replace(one, waits_for=new.get(one.island, one.waits_for)) for one in found.sites)
    )


@pytest.mark.parametrize(
    ("island", "orders", "sentence"),
    [
        ("first", (), "waits_for must have [1], victims that go for it"),
        ("other", (), "GPUs [0, 1, 2, 3] are still held"),
        ("idle", (1,), "waits_for [1] are no victims on its nodes"),
        ("other", (1, 7), "waits_for [7] are no victims on its nodes"),
    ],
)
def test_the_validator_names_what_is_waited_for_wrongly(island: str, orders: tuple[int, ...], sentence: str) -> None:
    cluster, demands, found = shared()
    (victim,) = found.victims
    other = "b" if victim.island == "a" else "a"
    held = next(part.gpu_indices for part in found.parts if part.island == other)
    name = {"first": victim.island, "other": other, "idle": "c"}[island]
    faults = violations(cluster, demands, told((name, orders))(found), evictions=settings())
    assert any(sentence.replace("[0, 1, 2, 3]", str(list(held))) in fault for fault in faults), faults


def test_the_validator_wants_no_gap_and_enough_cpus() -> None:
    """Two pods go on one node: who waits for the second waits for the first; CPUs are counted at every step."""
    pods = [spot("x", "n0", range(4), 1, cpus=30.0), spot("y", "n0", range(4, 8), 2, cpus=30.0)]
    cluster = cluster_of(node("n0"), pods=pods)
    demands = [demand("a", 8, cpus_per_gpu=4)]
    asked = settings(cpus_per_gpu=4)
    found = place(demands, cluster, asked)
    assert waits(found) == {"a": (1, 2)}
    faults = violations(cluster, demands, told(("a", (2,)))(found), evictions=asked)
    assert any("which go before others on the same nodes" in fault for fault in faults)
    cluster = cluster_of(node("n0"), pods=[spot("x", "n0", range(4), cpus=60.0)])
    demands = [demand("a", 4, cpus_per_gpu=8), demand("b", 4, cpus_per_gpu=8)]
    asked = settings(cpus_per_gpu=8)
    found = place(demands, cluster, asked)
    early = next(part.island for part in found.parts if part.island != found.victims[0].island)
    faults = violations(cluster, demands, told((early, ()))(found), evictions=asked)
    assert any("of 64 CPUs are asked for" in fault for fault in faults)


def test_older_placements_do_not_tell_and_are_no_faults() -> None:
    cluster, demands, found = shared()
    silent = replace(found, sites=tuple(replace(site, waits_for=None) for site in found.sites))
    assert violations(cluster, demands, silent, evictions=settings()) == ()
