"""KV flows: by hand, against the whole linear programme of every class pair, and what every answer keeps."""

from collections import defaultdict
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from assignment_tables import layout_of, random_problem, served, table_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from planner.assignment import assign
from planner.assignment.flows import staircase
from planner.domain import (
    PHASES,
    Assignment,
    AssignmentSettings,
    Formulation,
    IslandClass,
    KvTraffic,
    Layout,
    NetworkSettings,
    PerformanceTable,
    Phase,
)
from planner.errors import InfeasibleError, InputError

EXACT = AssignmentSettings(gap=0.0)
TYPES = ("H20", "H200", "H800")
Counts = dict[tuple[IslandClass, Phase], int]


def mixed(table: PerformanceTable, layout: Layout) -> tuple[PerformanceTable, Layout]:
    """The same problem with class k of the k-th GPU type, over and over."""
    name = {row.island: IslandClass(gpu=TYPES[k % 3], size=k + 1) for k, row in enumerate(table.classes)}
    rows = tuple(replace(row, island=name[row.island]) for row in table.classes)
    return replace(table, classes=rows), Layout(counts=tuple((name[island], n) for island, n in layout.counts))


def traffic(table: PerformanceTable, gb: float = 1.0, nic_gb_s: float = 10.0) -> KvTraffic:
    """Range j hands over (j + 1) * gb."""
    return KvTraffic(
        gb_per_request=tuple(gb * (j + 1) for j in range(len(table.ranges))),
        nic_gb_s=tuple((gpu, nic_gb_s) for gpu in TYPES),
    )


def counts_of(found: Assignment) -> Counts:
    return {(duty.island, duty.phase): duty.count for duty in found.duties}


def linear_programme(table: PerformanceTable, counts: Counts, network: NetworkSettings, kv: KvTraffic) -> float:
    """The rate with these phases: a variable for every pair of classes and range, nothing aggregated."""
    ends = [
        (i, k, j)
        for (i, a), (k, b), j in product(counts, counts, range(len(table.ranges)))
        if (a, b) == (Phase.PREFILL, Phase.DECODE)
        and table.row(i).prefill.rates_rps[j] > 0
        and table.row(k).decode.rates_rps[j] > 0
    ]
    rows, limits = [], []

    def bound(weights: list[float], limit: float) -> None:
        rows.append([*weights, 0.0])
        limits.append(limit)

    for (island, phase), count in counts.items():
        at = [island == (i if phase is Phase.PREFILL else k) for i, k, _ in ends]
        rates = table.row(island).phase(phase).rates_rps
        bound([here / rates[j] if here else 0.0 for here, (_, _, j) in zip(at, ends, strict=True)], count)
        nic = count * island.size * dict(kv.nic_gb_s)[island.gpu] * network.nic_share
        bound([here * kv.gb_per_request[j] for here, (_, _, j) in zip(at, ends, strict=True)], nic)
    for gpu, uplink in network.switch_gb_s:
        bound([kv.gb_per_request[j] * (i.gpu == gpu != k.gpu) for i, k, j in ends], uplink)
        bound([kv.gb_per_request[j] * (k.gpu == gpu != i.gpu) for i, k, j in ends], uplink)
    for j, span in enumerate(table.ranges):
        rows.append([*(-float(at == j) for _, _, at in ends), span.probability])
        limits.append(0.0)
    return float(-linprog([*(0.0 for _ in ends), -1.0], A_ub=rows, b_ub=limits).fun)


def check(table: PerformanceTable, found: Assignment, network: NetworkSettings, kv: KvTraffic) -> None:
    """Conservation at both ends, and no limit passed."""
    sent: dict[tuple[IslandClass, Phase, int], float] = defaultdict(float)
    volume: dict[tuple[object, ...], float] = defaultdict(float)
    for flow in found.flows:
        gb = flow.rate_rps * kv.gb_per_request[flow.range_index]
        for island, phase in ((flow.prefill, Phase.PREFILL), (flow.decode, Phase.DECODE)):
            sent[island, phase, flow.range_index] += flow.rate_rps
            volume[island, phase] += gb
        if flow.prefill.gpu != flow.decode.gpu:
            volume[flow.prefill.gpu, "out"] += gb
            volume[flow.decode.gpu, "into"] += gb
    slow = {phase: found.phase_rps(phase) / found.throughput_rps for phase in PHASES}
    for duty in found.duties:
        assert sum(duty.time_shares) <= 1 + 1e-9
        for j, rate in enumerate(table.row(duty.island).phase(duty.phase).rates_rps):
            due = duty.count * duty.time_shares[j] * rate / slow[duty.phase]
            assert sent[duty.island, duty.phase, j] == pytest.approx(due, rel=1e-8, abs=1e-12)
        nic = duty.count * duty.island.size * dict(kv.nic_gb_s)[duty.island.gpu] * network.nic_share
        assert volume[duty.island, duty.phase] <= nic * (1 + 1e-9)
    for gpu, uplink in network.switch_gb_s:
        assert max(volume[gpu, "out"], volume[gpu, "into"]) <= uplink * (1 + 1e-9)
    for phase in PHASES:
        mix = [rate / span.probability for rate, span in zip(served(table, found, phase), table.ranges, strict=True)]
        assert min(mix) == pytest.approx(found.phase_rps(phase), rel=1e-8)
        assert max(mix) == pytest.approx(found.phase_rps(phase), rel=1e-8)


@pytest.mark.parametrize("seed", range(6))
def test_a_wide_network_changes_no_rate(seed: int) -> None:
    table, layout = mixed(*random_problem(np.random.default_rng(seed), islands=6, ranges=4, zeros=0.1))
    free = assign(table, layout, EXACT)
    wide = NetworkSettings(switch_gb_s=(("H20", 1e9), ("H800", 1e9)))
    for network in (NetworkSettings(), wide):
        found = assign(table, layout, EXACT, network, traffic(table, nic_gb_s=1e9))
        assert found.throughput_rps == pytest.approx(free.throughput_rps, rel=5e-6)
        assert found.network_bottleneck == ""
        check(table, found, network, traffic(table, nic_gb_s=1e9))


def test_headroom_is_seen_with_a_network() -> None:
    """Classes fixed in their phase: prefill 20 requests/s, decode 16; the spare 4 of prefill are told."""
    table, layout = mixed(*_one_of_each())
    found = assign(table, layout, EXACT, NetworkSettings(), traffic(table, gb=0.001))
    assert (found.prefill_rps, found.decode_rps) == (pytest.approx(20, rel=1e-5), pytest.approx(16, rel=1e-5))


def _one_of_each() -> tuple[PerformanceTable, Layout]:
    """One island of 1 GPU that prefills 20 requests/s and one of 2 GPUs that decodes 16."""
    table = table_of([1.0], [[20.0], [0.0]], [[0.0], [16.0]])
    return table, layout_of(table, [1, 1])


def test_a_tiny_nic_by_hand() -> None:
    """1 GPU * 8 GB/s * 0.25 / 0.5 GB a request = 4 requests/s, whatever the islands could do."""
    table, layout = mixed(*_one_of_each())
    found = assign(table, layout, EXACT, NetworkSettings(nic_share=0.25), traffic(table, gb=0.5, nic_gb_s=8.0))
    assert found.throughput_rps == pytest.approx(4, rel=1e-5)
    assert found.prefill_rps == pytest.approx(4, rel=1e-5)
    assert found.decode_rps == pytest.approx(4, rel=1e-5)
    assert found.network_bottleneck == "NIC of H20 prefill islands"
    assert [(f.prefill.gpu, f.decode.gpu, f.range_index) for f in found.flows] == [("H20", "H200", 0)]


@pytest.mark.parametrize(("gpu", "owner"), [("H20", "uplink out of H20 islands"), ("H200", "uplink into H200 islands")])
def test_an_uplink_between_types_by_hand(gpu: str, owner: str) -> None:
    """3 GB/s between the types at 0.5 GB a request: 6 requests/s."""
    table, layout = mixed(*_one_of_each())
    network = NetworkSettings(switch_gb_s=((gpu, 3.0),))
    found = assign(table, layout, EXACT, network, traffic(table, gb=0.5, nic_gb_s=1e6))
    assert found.throughput_rps == pytest.approx(6, rel=1e-5)
    assert found.network_bottleneck == owner


def test_a_narrow_uplink_keeps_traffic_within_the_type() -> None:
    """Two types that can do both phases, and hardly anything between them: each feeds itself."""
    table, layout = mixed(*_two_able_types())
    network = NetworkSettings(switch_gb_s=(("H20", 1e-6),))
    found = assign(table, layout, EXACT, network, traffic(table, gb=0.1, nic_gb_s=1e6))
    assert found.throughput_rps == pytest.approx(20, rel=1e-5)
    assert all(flow.prefill.gpu == flow.decode.gpu for flow in found.flows)


def _two_able_types() -> tuple[PerformanceTable, Layout]:
    table = table_of([1.0], [[10.0], [10.0]], [[10.0], [10.0]])
    return table, layout_of(table, [2, 2])


def test_the_network_has_a_say_in_the_phases() -> None:
    """Prefill on the one-GPU islands is faster; their NICs let 1 request/s through, those of the other class 10."""
    table = table_of([1.0], [[100.0], [50.0]], [[40.0], [40.0]])
    table, layout = mixed(table, layout_of(table, [1, 1]))
    kv = KvTraffic(gb_per_request=(1.0,), nic_gb_s=(("H20", 20.0), ("H200", 1.0)))
    found = assign(table, layout, EXACT, NetworkSettings(nic_share=1.0), kv)
    assert found.throughput_rps == pytest.approx(2, rel=1e-5)
    assert "H200" in found.network_bottleneck


@pytest.mark.parametrize("nic_gb_s", [8.0, 1e6])
def test_an_uplink_does_not_matter_within_its_type(nic_gb_s: float) -> None:
    table, layout = _one_of_each()
    found = assign(
        table,
        layout,
        EXACT,
        NetworkSettings(switch_gb_s=(("H200", 1e-6),)),
        KvTraffic(gb_per_request=(0.5,), nic_gb_s=(("H200", nic_gb_s),)),
    )
    assert found.throughput_rps == pytest.approx(min(16, nic_gb_s / 2 / 0.5), rel=1e-5)
    assert len(found.flows) == 1


@given(
    seed=st.integers(0, 10**6),
    zeros=st.sampled_from([0.0, 0.2]),
    nic_gb_s=st.sampled_from([0.5, 5.0, 50.0]),
    uplink=st.sampled_from([None, 2.0, 20.0]),
    types=st.integers(1, 3),
)
@settings(max_examples=20)
def test_rates_are_those_of_the_whole_programme(
    seed: int, zeros: float, nic_gb_s: float, uplink: float | None, types: int
) -> None:
    problem = random_problem(np.random.default_rng(seed), islands=7, ranges=4, zeros=zeros, largest_count=2)
    table, layout = mixed(*problem)
    network = NetworkSettings(switch_gb_s=tuple((gpu, uplink) for gpu in TYPES[:types] if uplink))
    kv = traffic(table, nic_gb_s=nic_gb_s)
    try:
        found = assign(table, layout, EXACT, network, kv)
    except InfeasibleError:
        assert zeros > 0
        return
    if found.throughput_rps == 0:
        return
    assert found.throughput_rps == pytest.approx(linear_programme(table, counts_of(found), network, kv), rel=1e-5)
    check(table, found, network, kv)


def _splits(layout: Layout) -> list[Counts]:
    ways = [
        [((island, Phase.PREFILL), n, (island, Phase.DECODE), c - n) for n in range(c + 1)]
        for island, c in layout.counts
    ]
    return [
        {end: n for one in choice for end, n in (one[:2], one[2:]) if n}  # type: ignore[misc]
        for choice in product(*ways)
    ]


@pytest.mark.parametrize("seed", range(6))
def test_phases_are_the_best_within_the_network(seed: int) -> None:
    table, layout = mixed(*random_problem(np.random.default_rng(seed), islands=4, ranges=2, largest_count=2))
    network, kv = NetworkSettings(switch_gb_s=(("H20", 4.0),)), traffic(table, nic_gb_s=4.0)
    best = max(
        linear_programme(table, counts, network, kv)
        for counts in _splits(layout)
        if {phase for _, phase in counts} == set(PHASES)
    )
    assert assign(table, layout, EXACT, network, kv).throughput_rps == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("name", ["highs", "cbc"])
def test_both_solvers_name_the_bottleneck(name: str) -> None:
    table, layout = mixed(*_one_of_each())
    kv = traffic(table, gb=0.5, nic_gb_s=8.0)
    found = assign(table, layout, replace(EXACT, solver=name), NetworkSettings(nic_share=0.25), kv)
    assert found.network_bottleneck == "NIC of H20 prefill islands"


def test_a_hardly_passable_network_still_serves() -> None:
    """1e-4 GB/s at 0.5 GB a request, over islands of 20 and 16 requests/s."""
    table, layout = mixed(*_one_of_each())
    found = assign(table, layout, EXACT, NetworkSettings(nic_share=1.0), traffic(table, gb=0.5, nic_gb_s=1e-4))
    assert found.throughput_rps == pytest.approx(2e-4, rel=1e-3)


def test_few_flows_between_equal_sums() -> None:
    assert staircase({0: 3.0, 1: 1.0}, {5: 2.0, 6: 2.0}) == {(0, 5): 2.0, (0, 6): 1.0, (1, 6): 1.0}


def test_the_deviation_formulation_has_no_flows() -> None:
    table, layout = _one_of_each()
    paper = AssignmentSettings(formulation=Formulation.DEVIATION)
    with pytest.raises(InputError, match=r"assignment.formulation: must be max_rate .* got deviation"):
        assign(table, layout, paper, NetworkSettings(), traffic(table))
    with pytest.raises(InputError, match="kv must be given with network"):
        assign(table, layout, EXACT, NetworkSettings())
