"""Islands that compete for what evictions free: held against every set of islands, on recorded and drawn clusters."""

from dataclasses import replace
from statistics import mean

import pytest
from competing_cases import PREEMPTING, Case, best_set, drawn, recorded, worth
from eviction_cases import demand, settings, spot
from placed_records import cluster_of, node

from planner.domain import Phase, Placement, PlacementDemand, Pod
from planner.placement import place, violations

HARD = (6, 51, 73, 99)
"""Drawn clusters on which a phase gives way to the one that has least, or orders of islands miss the best set."""


def placed(case: Case) -> tuple[Placement, list[PlacementDemand]]:
    """The placement, which is sound, and the islands that have a place."""
    cluster, demands = case
    placement = place(demands, cluster, PREEMPTING)
    assert violations(cluster, demands, placement, evictions=PREEMPTING) == ()
    there = {site.island for site in placement.sites}
    return placement, [one for one in demands if one.island in there]


@pytest.mark.parametrize(("name", "gpus", "victims"), [("c332", 32, 0), ("c347", 25, 4), ("c352", 22, 5)])
def test_recorded_clusters_hold_the_best_set_of_islands(name: str, gpus: int, victims: int) -> None:
    """28, 9 and 12 GPUs were placed where no phase was to get less than without evictions."""
    case = recorded(name)
    placement, islands = placed(case)
    assert (sum(one.size for one in islands), len(placement.victims)) == (gpus, victims)
    got = worth(islands, case[1])
    assert got == best_set(*case, got)


def shares(seeds: range | tuple[int, ...]) -> list[float]:
    """What the placer gets over the best of all sets: of the least phase, of the sum where that gets nothing."""
    found = []
    for seed in seeds:
        case = drawn(seed)
        got = worth(placed(case)[1], case[1])
        best = best_set(*case, got)
        if best[1] > 0:
            found.append(got[0] / best[0] if best[0] > 0 else got[1] / best[1])
    return found


def test_drawn_clusters_get_all_that_the_best_set_gets() -> None:
    found = shares(HARD)
    assert len(found) == len(HARD)
    assert min(found) >= 1.0


@pytest.mark.parametrize("seeds", [range(200, 216), pytest.param(range(200, 300), marks=pytest.mark.study)], ids=len)
def test_many_drawn_clusters_get_nearly_all_that_the_best_set_gets(seeds: range) -> None:
    found = shares(seeds)
    assert len(found) > 0.8 * len(seeds)
    assert mean(found) >= 0.999
    assert min(found) >= 0.9


@pytest.mark.parametrize("seed", range(6))
def test_never_less_than_the_island_that_serves_most_alone(seed: int) -> None:
    case = drawn(seed)
    cluster, demands = case
    got = worth(placed(case)[1], demands)
    for one in demands:
        alone = place([one], cluster, PREEMPTING)
        assert not alone.sites or got >= worth([one], demands)


def test_the_least_phase_gets_more_though_the_other_gets_less() -> None:
    """Decode needs all four GPUs of a socket; without evictions prefill has two of them and serves nobody."""
    pods = [
        spot("a", "n0", [2]),
        Pod(name="f", node="n0", gpus=(4, 5, 6, 7), cpus=1.0),
        Pod(name="g", node="n1", gpus=tuple(range(1, 8)), cpus=1.0),
    ]
    cluster = cluster_of(node("n0"), node("n1"), pods=pods)
    demands = [
        demand("decode", 4, phase=Phase.DECODE),
        demand("pair", 2, phase=Phase.PREFILL),
        demand("single", 1, phase=Phase.PREFILL),
    ]
    placement = place(demands, cluster, settings())
    assert {site.island for site in placement.sites} == {"decode", "single"}
    (short,) = placement.shortfalls
    assert short.remedies == (
        "a choice between islands: it would fit in place of decode (4 GPUs), with which no less is served",
    )


def test_an_island_that_nobody_keeps_out_has_no_rival() -> None:
    firm = [Pod(name=f"f{k}", node=f"n{k}", gpus=tuple(range(1, 8)), cpus=1.0) for k in range(2)]
    cluster = cluster_of(node("n0"), node("n1"), pods=firm)
    shortfalls = place([demand("large", 4), demand("small", 1)], cluster, settings()).shortfalls
    assert [(one.island, one.remedies) for one in shortfalls] == [("large", ())]


def test_several_islands_in_the_way_are_told_without_a_name() -> None:
    """Two islands of two GPUs each serve as much as the one of four, and came first."""
    cluster = cluster_of(node("n0"), pods=[Pod(name="f", node="n0", gpus=(4, 5, 6, 7), cpus=1.0)])
    demands = [replace(demand(f"i{k}", 2), rate_rps=2.0) for k in range(2)]
    large = replace(demand("large", 4), rate_rps=1.0)
    (short,) = place([*demands, large], cluster, settings()).shortfalls
    assert short.island == "large"
    assert "others of the plan" in short.remedies[-1]
