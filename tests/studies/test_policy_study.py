"""Policies over several seeds: the same in any number of processes, means by hand, and what cannot be compared."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from test_online import nodes_of, pods_of

from planner.domain import Semantics
from planner.errors import InputError
from planner.placement.fragmentation import target_workload
from planner.studies.policies.means import mean_metrics, savings
from planner.studies.policies.online.arrivals import draw_arrivals, draw_tie_order
from planner.studies.policies.online.policies import parse_policy
from planner.studies.policies.online.simulation import simulate
from planner.studies.policies.records import OnlineMetrics, OnlineRun
from planner.studies.policies.study import PolicyStudy, SeedRun, run_study, too_large
from planner.studies.runner import RunsDone

NODES, PODS = tuple(nodes_of(5)), tuple(pods_of(5, 50))
STUDY = PolicyStudy(
    nodes=NODES,
    pods=PODS,
    policies=(parse_policy("random"), parse_policy("pwr:0.1+fgd:0.9")),
    seeds=(4, 2),
    decisions=True,
)


def test_a_run_is_the_simulation_of_its_seed() -> None:
    heard: list[RunsDone[SeedRun]] = []
    runs = list(run_study(STUDY, listen=heard.append))
    assert [(one.policy, one.seed) for one in runs] == [
        (name, seed) for name in ("random", "pwr:0.1+fgd:0.9") for seed in (4, 2)
    ]
    for one in runs:
        arrivals, ties = draw_arrivals(PODS, NODES, one.seed), draw_tie_order(NODES, one.seed)
        mix, classes = parse_policy(one.policy), target_workload(PODS)
        assert one.run == simulate(NODES, arrivals, mix, classes, tie_order=ties, seed=one.seed)
    assert [step.last for step in heard if step.last] == runs
    assert [step.done for step in heard] == sorted(step.done for step in heard)
    assert (heard[-1].done, heard[-1].total) == (4, 4)


def test_processes_answer_the_same() -> None:
    assert list(run_study(STUDY, processes=2)) == list(run_study(STUDY))


def test_decisions_are_kept_where_asked_for() -> None:
    kept, dropped = list(run_study(STUDY)), list(run_study(replace(STUDY, decisions=False)))
    assert [replace(one.run, decisions=()) for one in kept] == [one.run for one in dropped]
    assert all(one.run.decisions for one in kept)


def row_of(at: int, **figures: float) -> OnlineMetrics:
    names = ("allocation_percent", "fragmentation_percent", "fragmentation_ratio_percent", "cpu_power_w", "gpu_power_w")
    known = dict.fromkeys(names, 0.0) | {"arrived_gpu_milli": 0.0, "used_gpu_milli": 0.0} | figures
    return OnlineMetrics(arrived_percent=at, failures=at, **known)


def run_of(*rows: OnlineMetrics) -> OnlineRun:
    return OnlineRun(policy="x", semantics=Semantics.REFERENCE, gpu_milli=1, decisions=(), metrics=rows)


def test_ratios_are_ratios_of_means() -> None:
    """10 of 10 and 10 of 30: 20 of 40, not the mean of 1 and 1/3; likewise power."""
    base = mean_metrics(
        [
            run_of(row_of(0), row_of(1, cpu_power_w=100, gpu_power_w=100, arrived_gpu_milli=10, used_gpu_milli=10)),
            run_of(row_of(1, cpu_power_w=100, gpu_power_w=500, arrived_gpu_milli=30, used_gpu_milli=10), row_of(2)),
        ]
    )
    assert [row.arrived_percent for row in base] == [1]
    assert (base[0].grar, base[0].power_w, base[0].failures) == (0.5, 400, 1)
    other = mean_metrics([run_of(row_of(0), row_of(1, cpu_power_w=300), row_of(2))])
    assert savings(base, other) == {1: 25.0}
    assert other[0].grar == 1.0
    assert mean_metrics([]) == ()


def test_pods_that_no_empty_node_takes() -> None:
    fits = replace(PODS[0], gpus=8, gpu_milli=1000, gpu_spec="G2|G3", cpu_milli=1000, memory_mib=1)
    larger: list[dict[str, object]] = [
        {"gpus": 9},
        {"gpu_spec": "T4"},
        {"cpu_milli": 10**9},
        {"memory_mib": 10**9},
    ]
    pods = [fits, *(replace(fits, **change) for change in larger)]
    assert too_large(NODES, pods) == tuple(pods[1:])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: replace(s, policies=()), "policies: must be at least one"),
        (lambda s: replace(s, policies=s.policies[:1] * 2), "each once, got random, random"),
        (lambda s: replace(s, seeds=()), "seeds: must be at least one"),
        (lambda s: replace(s, seeds=(1, 1)), "got 1, 1"),
        (lambda s: replace(s, arrivals=PODS), "given orders belong to one seed, got 2"),
        (lambda s: replace(s, tie_order=tuple(node.name for node in NODES)), "given orders belong to one seed"),
        (lambda s: replace(s, inflation=0.0), "inflate: must be above 0"),
        (lambda s: replace(s, inflation=float("nan")), "inflate: must be above 0"),
    ],
)
def test_what_cannot_be_compared(change: Callable[[PolicyStudy], PolicyStudy], said: str) -> None:
    with pytest.raises(InputError, match=said):
        list(run_study(change(STUDY)))


def test_faults_come_back_from_other_processes() -> None:
    with pytest.raises(InputError, match="arrivals: inflation must leave some pods"):
        list(run_study(replace(STUDY, inflation=1e-9), processes=2))
