"""Other forms of islands that found no room: proposed only where they were placed."""

from dataclasses import replace

import pytest
from competing_cases import drawn
from placed_records import cluster_of, node

from planner.domain import Cluster, IslandForm, Phase, PlacementDemand, PlacementSettings, Pod
from planner.placement import place, violations
from planner.placement.islands.second_tries.alternatives import even_splits

SETTINGS = PlacementSettings()


def demand(island: str, tp: int, groups: int = 1, replicas: int = 1, **changes: object) -> PlacementDemand:
    fields: dict[str, object] = {"gpu": "H20", "phase": Phase.DECODE}
    return PlacementDemand(island=island, replicas=replicas, groups=groups, tp=tp, **(fields | changes))  # type: ignore[arg-type]


@pytest.fixture
def two_times_six() -> Cluster:
    """Two nodes with three idle GPUs in either NUMA node."""
    pods = [Pod(name=f"f{k}", node=f"n{k}", gpus=(0, 4), cpus=1.0) for k in range(2)]
    return cluster_of(node("n0"), node("n1"), pods=pods)


def remedies(cluster: Cluster, *demands: PlacementDemand, chosen: PlacementSettings = SETTINGS) -> dict[str, list[str]]:
    """What is said of other forms of each island that finds no room."""
    shortfalls = place(demands, cluster, chosen).shortfalls
    return {
        short.island: [text for text in short.remedies if text.startswith(("an even split", "another form"))]
        for short in shortfalls
    }


def test_six_and_six_in_place_of_twelve(two_times_six: Cluster) -> None:
    """A group of twelve lies on no node; three of four leave a NUMA node with three GPUs each."""
    assert remedies(two_times_six, demand("a", 12))["a"][0] == (
        "an even split, 6 + 6 GPUs: 2 copies of 1 attention group of 6 GPUs would fit, if the model runs like that"
    )
    assert remedies(two_times_six, demand("a", 4, 3))["a"][0] == (
        "an even split, 6 + 6 GPUs: 2 copies of 2 attention groups of 3 GPUs would fit, if the model runs like that"
    )


def test_two_copies_of_four_in_place_of_eight_across_numa_nodes() -> None:
    """Each node has one socket left."""
    pods = [Pod(name=f"f{k}", node=f"n{k}", gpus=(4, 5, 6, 7), cpus=1.0) for k in range(2)]
    cluster = cluster_of(node("n0"), node("n1"), pods=pods)
    assert remedies(cluster, demand("a", 8))["a"] == [
        "an even split, 4 + 4 GPUs: 2 copies of 1 attention group of 4 GPUs would fit, if the model runs like that",
        "an even split, 4 + 4 GPUs: 2 copies of 2 attention groups of 2 GPUs would fit, if the model runs like that",
    ]


def test_forms_of_a_demand_come_in_their_order_with_their_rates(two_times_six: Cluster) -> None:
    forms = (
        IslandForm(replicas=1, groups=6, tp=2, rate_rps=1.9),
        IslandForm(replicas=1, groups=12, tp=1, rate_rps=1.8),
        IslandForm(replicas=2, groups=2, tp=3, rate_rps=1.5),
        IslandForm(replicas=12, groups=1, tp=1, rate_rps=0.1),
    )
    assert remedies(two_times_six, demand("a", 4, 3, rate_rps=2.0, forms=forms))["a"] == [
        "another form: one copy of 12 attention groups of 1 GPU would fit; 1.8 requests/s laid out compactly, 90 % of "
        "the 2 of its own form",
        "another form, 6 + 6 GPUs: 2 copies of 2 attention groups of 3 GPUs would fit; 1.5 requests/s laid out "
        "compactly, 75 % of the 2 of its own form",
    ]


def test_forms_named_first_fit_together(two_times_six: Cluster) -> None:
    """Twelve idle GPUs: one island of eight may come in another form, the second may not, too."""
    said = remedies(two_times_six, demand("a", 8), demand("b", 8))
    assert said["a"][0].startswith("an even split, 4 + 4 GPUs")
    assert said["b"] == []


@pytest.mark.parametrize("seed", range(30))
def test_every_form_that_is_named_first_can_be_placed(seed: int) -> None:
    """By itself on what the islands that have a place leave."""
    cluster, demands = drawn(seed)
    before = place(demands, cluster, SETTINGS)
    cpus = {one.island: one.cpus_per_gpu for one in demands}
    held = [
        Pod(
            name=f"{part.island}-{k}",
            node=part.node,
            gpus=part.gpu_indices,
            cores=part.cores,
            cpus=float(cpus[part.island] * len(part.gpu_indices)),
        )
        for k, part in enumerate(before.parts)
    ]
    left = replace(cluster, pods=(*cluster.pods, *held))
    said = remedies(cluster, *demands)
    for one in demands:
        if said.get(one.island):
            forms = [f for f in even_splits(one) if _copies(f) in said[one.island][0]]
            assert forms
            smaller = replace(one, replicas=forms[0].replicas, groups=forms[0].groups, tp=forms[0].tp)
            placement = place([smaller], left, SETTINGS)
            assert placement.sites
            assert violations(left, [smaller], placement) == ()


def _copies(form: IslandForm) -> str:
    groups = f"{form.groups:,} attention group{'s' * (form.groups > 1)} of {form.tp:,} GPU{'s' * (form.tp > 1)} would"
    return f"{form.replicas:,} copies of {groups}"


def test_even_splits_have_the_gpus_of_the_island_in_smaller_groups() -> None:
    for one in (demand("a", 12), demand("a", 4, 3), demand("a", 8, 2, 3), demand("a", 1, 7)):
        for form in even_splits(one):
            assert form.replicas * form.groups * form.tp == one.size
            assert form.tp < one.tp
            assert form.replicas % one.replicas == 0
    assert not list(even_splits(demand("a", 1, 7)))


def test_nothing_is_proposed_beside_a_power_cap(two_times_six: Cluster) -> None:
    capped = replace(SETTINGS, power_cap_w=1e9)
    watts = {"H20": (60.0, 400.0)}
    (short,) = place([demand("a", 12)], two_times_six, capped, watts).shortfalls
    assert not any("an even split" in text for text in short.remedies)
