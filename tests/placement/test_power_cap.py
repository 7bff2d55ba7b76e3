"""The cap on watts: never exceeded, larger replicas first, and what a shortfall of power says."""

import numpy as np
import pytest
from placed_records import cluster_of, node
from test_placer import demand, random_islands

from planner.domain import PlacementSettings, Pod, Qos
from planner.errors import InputError
from planner.placement import place
from planner.placement.clusters.synthetic import synthesize
from planner.placement.islands.validation import violations

WATTS = {"H20": (100.0, 500.0), "H200": (100.0, 700.0), "H800": (75.0, 400.0)}


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.9, 1.0])
def test_the_cap_holds_and_larger_replicas_go_first(share: float) -> None:
    cluster = synthesize(60, 3, 0.5)
    asked = random_islands(np.random.default_rng(8), 12, [Qos.BEST_EFFORT])
    free = place(asked, cluster, PlacementSettings(), WATTS)
    cap = free.before.watts + share * (free.after.watts - free.before.watts)
    settings = PlacementSettings(power_cap_w=cap)
    found = place(asked, cluster, settings, WATTS)
    assert found.after.watts <= cap + 1e-6
    assert violations(cluster, asked, found) == ()
    short = {one.island for one in found.shortfalls if one.resource == "power"}
    size = {one.island: one.groups * one.tp for one in asked}
    placed = {site.island for site in found.sites}
    assert (not short) == (share == 1.0)
    assert not short or not placed or max(size[name] for name in short) <= min(size[name] for name in placed)
    assert placed | {one.island for one in found.shortfalls} == set(size)


def test_a_shortfall_of_power_in_watts() -> None:
    """Two nodes of 8 GPUs and 64 CPUs rest at 2 * (800 + 30) W; a GPU at work adds 400 W, 8 cores wake a package."""
    cluster = cluster_of(node("n1"), node("n2"))
    asked = [demand("i", 1, 1, 4, cpus_per_gpu=8)]
    (short,) = place(asked, cluster, PlacementSettings(power_cap_w=2_800.0), WATTS).shortfalls
    assert short.resource == "power"
    assert short.reason == "1,705 W are asked for, 1,140 W are left of the cap of 2,800 W; 1,660 W are drawn already"
    assert short.remedies == (
        "placement.power_cap_w 3365: it would fit",
        "fewer GPUs: about 2 of 4 replicas would fit (2 GPUs)",
        "GPUs that draw less: H800 adds 325 W a GPU, H20 400 W",
    )
    found = place(asked, cluster, PlacementSettings(power_cap_w=3_365.0), WATTS)
    assert (found.shortfalls, found.after.watts) == ((), 3_365.0)


def test_nobody_goes_for_an_island_that_the_cap_keeps_out() -> None:
    pods = [Pod(name=f"p{k}", node="n1", gpus=(k,), cpus=1.0, preemptible=True, priority=1) for k in range(8)]
    cluster = cluster_of(node("n1"), pods=pods)
    full = PlacementSettings(preempt=True)
    assert place([demand("i", 8, cpus_per_gpu=8)], cluster, full, WATTS).victims
    drawn = place([], cluster, full, WATTS)
    assert drawn.victims == ()
    found = place(
        [demand("i", 8, cpus_per_gpu=8)], cluster, PlacementSettings(preempt=True, power_cap_w=4_000.0), WATTS
    )
    assert found.victims == ()
    assert [one.resource for one in found.shortfalls] == ["power"]
    assert found.before.watts == found.after.watts


def test_a_cap_needs_watts() -> None:
    with pytest.raises(InputError, match=r"placement\.power_cap_w: the watts of H20 must be known"):
        place([demand("i")], cluster_of(node("n1")), PlacementSettings(power_cap_w=1.0))
