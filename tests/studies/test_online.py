"""Online policies on small made-up traces: against the slow oracle, against brute force, and what always holds."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import online_oracle as oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.domain import PowerFormula, Semantics, TraceNode, TracePod
from planner.errors import InputError
from planner.placement.clusters.synthetic import synthesize
from planner.placement.fragmentation import TargetWorkload, fragmentation, target_workload
from planner.placement.node_states import NodeState, states_of
from planner.placement.power_model import OPENB_POWER, NodePower
from planner.studies.policies.online.arrivals import arrivals_in_order, draw_arrivals, draw_tie_order
from planner.studies.policies.online.policies import NAMES, PolicyMix, parse_policy
from planner.studies.policies.online.simulation import simulate

MIXES = (*(name for name in NAMES if name != "random"), "pwr:0.1+fgd:0.9", "pwr:0.5+fgd:0.5", "bestfit:0.3+pwr:0.7")


def nodes_of(seed: int, count: int = 12) -> list[TraceNode]:
    generator = np.random.default_rng(seed)
    kinds = [("T4", 2, 104), ("G2", 8, 96), ("P100", 2, 16), ("V100M16", 4, 32), ("G3", 8, 128)]
    drawn = [kinds[k] for k in generator.integers(len(kinds), size=count)]
    return [
        TraceNode(name=f"n{k:03}", cpu_milli=cpu * 1000, memory_mib=cpu * 4096, gpus=gpus, gpu_model=model)
        for k, (model, gpus, cpu) in enumerate(drawn)
    ]


def pods_of(seed: int, count: int = 160) -> list[TracePod]:
    generator = np.random.default_rng([seed, 7])
    asks = [(0, 0), (1, 1000), (1, 1000), (1, 500), (1, 470), (1, 200), (1, 810), (2, 1000), (4, 1000), (8, 1000)]
    specs = ["", "", "", "T4", "G2|V100M16"]
    found = []
    for k in range(count):
        gpus, milli = asks[generator.integers(len(asks))]
        cpu = int(generator.choice([500, 3152, 4000, 8000, 12000, 32000]))
        spec = str(generator.choice(specs)) if gpus else ""
        found.append(TracePod(name=f"p{k}", cpu_milli=cpu, memory_mib=4096, gpus=gpus, gpu_milli=milli, gpu_spec=spec))
    return found


def terms_of(mix: PolicyMix) -> list[tuple[str, int]]:
    return [(name, weight) for (name, _), weight in zip(mix.terms, mix.integer_weights, strict=True)]


@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 10**6))
@pytest.mark.parametrize("policy", MIXES)
def test_every_step_as_the_oracle(policy: str, seed: int) -> None:
    nodes, pods, mix = nodes_of(seed), pods_of(seed, 90), parse_policy(policy)
    classes = target_workload(pods)
    run = simulate(nodes, pods, mix, classes)
    expected = oracle.replay(nodes, pods, terms_of(mix), classes)
    for line, (node, gpus, fragments, cpu_w, gpu_w) in zip(run.decisions, expected, strict=True):
        assert (line.node, line.gpus, line.cpu_power_w, line.gpu_power_w) == (node, gpus, cpu_w, gpu_w), line
        assert line.fragmentation_milli == pytest.approx(fragments, abs=1e-6)


def replayed(nodes: Sequence[TraceNode], pods: Sequence[TracePod], run: object) -> list[oracle.Node]:
    """States after the run; fails where a pod was put where it does not fit, or dropped though it fitted."""
    states = {node.name: oracle.Node.of(node) for node in nodes}
    for pod, line in zip(pods, run.decisions, strict=True):
        if not line.node:
            assert not any(state.fits(pod) for state in states.values())
            continue
        state = states[line.node]
        assert state.fits(pod)
        assert len(set(line.gpus)) == pod.gpus
        states[line.node] = state.after(pod, line.gpus)
        assert min([*states[line.node].gpus, states[line.node].cpu, states[line.node].memory]) >= 0
    return list(states.values())


@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize("policy", [*NAMES, "pwr:0.1+fgd:0.9"])
def test_no_policy_overcommits(policy: str, semantics: Semantics) -> None:
    nodes, trace = nodes_of(3), pods_of(3, 60)
    pods = draw_arrivals(trace, nodes, 5)
    run = simulate(nodes, pods, parse_policy(policy), target_workload(trace), semantics=semantics, seed=5)
    states = replayed(nodes, pods, run)
    last = run.decisions[-1]
    assert last.used_gpu_milli == run.gpu_milli - sum(sum(state.gpus) for state in states)
    assert last.arrived_gpu_milli == sum(pod.total_gpu_milli for pod in pods)
    assert run.failures == run.metrics[-1].failures > 0
    assert run == simulate(nodes, pods, parse_policy(policy), target_workload(trace), semantics=semantics, seed=5)


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_exact_fgd_takes_the_least_growth(seed: int) -> None:
    nodes, pods = nodes_of(seed, 6), pods_of(seed, 40)
    classes = target_workload(pods)
    run = simulate(nodes, pods, parse_policy("fgd"), classes, semantics=Semantics.EXACT)
    states = {node.name: oracle.Node.of(node) for node in nodes}
    for pod, line in zip(pods, run.decisions, strict=True):
        if line.node:
            growth = {
                (name, option): oracle.fragment(state.after(pod, option), classes) - oracle.fragment(state, classes)
                for name, state in states.items()
                if state.fits(pod)
                for option in state.options(pod)
            }
            assert growth[line.node, line.gpus] <= min(growth.values()) + 1e-6
            states[line.node] = states[line.node].after(pod, line.gpus)


def test_random_is_uniform_over_nodes_and_gpus() -> None:
    nodes = [TraceNode(name=f"n{k}", cpu_milli=9000, memory_mib=9000, gpus=2, gpu_model="T4") for k in range(3)]
    pod = TracePod(name="p", cpu_milli=1, memory_mib=1, gpus=1, gpu_milli=10)
    drawn = [
        simulate(nodes, [pod], parse_policy("random"), target_workload([pod]), seed=seed).decisions[0]
        for seed in range(240)
    ]
    counts = np.unique([f"{line.node} {line.gpus}" for line in drawn], return_counts=True)[1]
    assert len(counts) == 6
    assert ((counts - 40) ** 2 / 40).sum() < 20.5  # chi-square, 5 degrees of freedom, 0.1 %


def test_fragments_by_cause_add_up() -> None:
    nodes, pods = nodes_of(1), pods_of(1)
    classes = target_workload(pods)
    states = [NodeState.empty(node) for node in nodes]
    states[0].take(replace(pods[0], gpus=1, gpu_milli=300, gpu_spec=""), (1,))
    found = fragmentation(states, classes)
    target = TargetWorkload.of(classes)
    assert found.causes.total == pytest.approx(sum(target.fragment(state) for state in states))
    assert found.causes.total + found.causes.usable == pytest.approx(found.idle_gpu_milli)
    for pod, cause in found.classes:
        assert cause.total + cause.usable == pytest.approx(found.idle_gpu_milli), pod


@pytest.mark.parametrize("formula", PowerFormula)
def test_power_formulas(formula: PowerFormula) -> None:
    """A T4 node of openb has 104 CPUs, 3.25 packages: three idle ones by the paper, four by the simulators."""
    node = TraceNode(name="n", cpu_milli=104_000, memory_mib=1, gpus=2, gpu_model="T4")
    power = NodePower.of(node, OPENB_POWER, formula)
    idle, busy, full = power.cpu_watts(np.array([104_000, 103_000, 0])).tolist()
    paper = formula is PowerFormula.PAPER
    assert (idle, busy, full) == ((45, 165, 480) if paper else (60, 165, 480))
    assert power.gpu_watts([1000, 990]) == 80


def test_a_cluster_as_the_policies_see_it() -> None:
    cluster = synthesize(30, 4, 0.6)
    states = states_of(cluster)
    idle = sum(left == 1000 for state in states for left in state.gpu_left)
    assert idle == sum(cluster.idle_gpus.values())
    assert all(min([state.cpu_left, *state.gpu_left]) >= 0 for state in states)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), inflation=st.sampled_from((0.2, 1.0, 1.3, 2.0)))
def test_arrivals_reach_their_target(seed: int, inflation: float) -> None:
    nodes, pods = nodes_of(seed), pods_of(seed, 40)
    target = inflation * sum(node.gpu_milli for node in nodes)
    drawn = draw_arrivals(pods, nodes, seed, inflation)
    asked = sum(pod.total_gpu_milli for pod in drawn)
    assert drawn == draw_arrivals(pods, nodes, seed, inflation)
    assert len({pod.name for pod in drawn}) == len(drawn)
    if sum(pod.total_gpu_milli for pod in pods) < target:
        assert {pod.name for pod in pods} <= {pod.name for pod in drawn}
        assert target - 1000 < asked <= target + 7000
    else:
        assert target - 8000 <= asked <= target
    assert sorted(draw_tie_order(nodes, seed)) == [node.name for node in nodes]


def test_given_arrivals() -> None:
    pods = pods_of(0, 3)
    names = [pod.name for pod in arrivals_in_order(pods, ["p2", "p0", "p2", "p1", "p0"])]
    assert names == ["p2", "p0", "p2-tuned-0", "p1", "p0-tuned-1"]
    with pytest.raises(InputError, match="row 2 must name a pod of the trace, got 'q'"):
        arrivals_in_order(pods, ["p0", "q"])


def test_a_pod_larger_than_any_node_is_counted() -> None:
    pod = TracePod(name="huge", cpu_milli=10**9, memory_mib=1, gpus=8, gpu_milli=1000)
    run = simulate(nodes_of(0), [pod], parse_policy("fgd"), target_workload([pod]))
    assert (run.failures, run.decisions[0].node, run.decisions[0].arrived_gpu_milli) == (1, "", 8000)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("fdg", "must be one of random, dotprod"),
        ("pwr+fgd", "must give every policy of a mixture a weight"),
        ("pwr:x+fgd:1", "a number as its weight"),
        ("pwr:0+fgd:1", "above 0 and at most 1"),
        ("pwr:0.1+pwr:0.9", "each policy once"),
        ("random:0.5+fgd:0.5", "must not mix random"),
    ],
)
def test_malformed_policies(text: str, fault: str) -> None:
    with pytest.raises(InputError, match=fault):
        parse_policy(text)


def test_mixtures_as_they_are_written() -> None:
    mix = parse_policy("pwr:0.1+fgd:0.9")
    assert (mix.name, mix.integer_weights, mix.picks_gpus) == ("pwr:0.1+fgd:0.9", (1, 9), 1)
    assert parse_policy("PWR:0.5 + fgd:0.5").picks_gpus == 1
    assert parse_policy("pwr:0.5+bestfit:0.5").picks_gpus == 0


def test_what_cannot_be_simulated() -> None:
    nodes, pods = nodes_of(0), pods_of(0, 9)
    mix, classes = parse_policy("fgd"), target_workload(pods)
    with pytest.raises(InputError, match="arrivals: must hold at least one pod"):
        simulate(nodes, [], mix, classes)
    with pytest.raises(InputError, match="each must have a name of its own"):
        simulate([*nodes, nodes[0]], pods, mix, classes)
    with pytest.raises(InputError, match="tie order: must list each of the 12 nodes once"):
        simulate(nodes, pods, mix, classes, tie_order=["n000"])
    with pytest.raises(InputError, match="node n000: gpu model must be one whose watts are known, got 'X9'"):
        simulate([replace(nodes[0], gpu_model="X9"), *nodes[1:]], pods, mix, classes)
    with pytest.raises(InputError, match="several GPUs must be whole ones"):
        simulate(nodes, [replace(pods[0], gpus=2, gpu_milli=500)], mix, classes)
