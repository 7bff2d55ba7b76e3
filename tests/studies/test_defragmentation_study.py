"""The churned cluster: counted from outside, the same bytes again, and what defragmentation may and may not change."""

from collections import Counter, defaultdict
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.defragmentation import simulate_churn
from planner.defragmentation.churn import ChurnedCluster, churned
from planner.domain.soundness import require_sound
from planner.domain.turnover import ChurnRun, ChurnTask
from planner.errors import InconsistentPlanError, InputError
from planner.studies.defragmentation.page import churn_page, churn_pictures, exact_words
from planner.studies.defragmentation.study import (
    RUNS_FILE,
    compare_exact,
    exact_csv,
    run_churn,
    run_exact,
    runs_csv,
    series_csv,
)
from planner.studies.defragmentation.workload import (
    POOL,
    ChurnWorkload,
    DefragmentationStudy,
    ExactComparison,
    draw_tasks,
    turnover,
)

SMALL = ChurnWorkload(nodes=24, load=0.85, days=2, warm_up_days=0.5)


def simulated(workload: ChurnWorkload, seed: int, every: float | None) -> ChurnRun:
    return simulate_churn(turnover(workload, seed), seed, every)


def task_of(number: int, gpus: int, **more: object) -> ChurnTask:
    fields = {"cpus": 8 * gpus, "submit_h": 0.0, "life_h": 1.0}
    return ChurnTask(number=number, gpus=gpus, **(fields | more))  # type: ignore[arg-type]


def test_tasks_hold_the_load_that_was_asked_for() -> None:
    workload = ChurnWorkload(nodes=400, days=10)
    tasks = draw_tasks(workload, 1)
    first = [task for task in tasks if task.submit_h == 0]
    assert sum(task.gpus for task in first) / 3200 == pytest.approx(0.87, abs=0.01)
    later = [task for task in tasks if task.submit_h > 0]
    asked = sum(task.gpus * task.life_h for task in later) / (240 * 3200)
    assert asked == pytest.approx(0.87, rel=0.08)
    assert sum(task.locked for task in tasks) / len(tasks) == pytest.approx(0.4, abs=0.03)
    groups = Counter(task.group for task in tasks if task.group)
    assert max(groups.values()) <= workload.group


def test_best_fit_by_hand() -> None:
    """Idle 8, 3, 5 (even nodes are pool 0): the fullest node that fits, by GPUs, CPUs, pool and group."""
    cluster = ChurnedCluster(turnover(replace(SMALL, nodes=3), 0).nodes)
    cluster.put(task_of(1, 5, group="g-7"), 1)
    cluster.put(task_of(2, 3, cpus=190), 2)
    assert cluster.best(task_of(3, 2)) == 1
    assert cluster.best(task_of(4, 2, group="g-7")) == 0  # not beside its group; node 2 has 2 CPUs left
    assert cluster.best(task_of(5, 4)) == 0
    assert cluster.best(task_of(6, 2, node_selector=((POOL, "1"),))) == 1
    assert cluster.best(task_of(7, 4, node_selector=((POOL, "1"),))) == -1
    cluster.drop(cluster.on_node[1][1])
    assert cluster.idle_gpus == [8, 8, 5]
    cluster.put(task_of(8, 8), 0)
    with pytest.raises(InconsistentPlanError, match="task 2 cannot be moved"):
        cluster.move(2, 0)


@given(st.integers(0, 50), st.sampled_from((None, 6.0)))
@settings(max_examples=12)
def test_a_state_never_contradicts_itself(seed: int, every: float | None) -> None:
    workload = replace(SMALL, nodes=10, load=0.95, days=1, warm_up_days=0)
    run = simulated(workload, seed, every)
    assert all(
        0 <= sample.held_gpus <= 80 and sample.placeable <= sample.empty <= sample.not_full for sample in run.series
    )
    cluster = churned(turnover(workload, seed), "churned")
    require_sound(cluster, "churned")
    labels = {node.name: dict(node.labels) for node in cluster.nodes}
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    for pod in cluster.pods:
        assert all(labels[pod.node][key] == value for key, value in pod.node_selector)
        groups[pod.node][pod.anti_affinity] += bool(pod.anti_affinity)
    assert max((count for counts in groups.values() for count in counts.values()), default=0) <= 1


def test_what_defragmentation_brings_and_what_it_leaves() -> None:
    """The same tasks: as many GPUs are held where nobody waits; nodes with idle GPUs are fewer, empty ones more."""
    never, often = (simulated(replace(SMALL, load=0.75), 3, every) for every in (None, 3.0))
    assert never.figures.waiting_gpus == often.figures.waiting_gpus == 0
    assert [sample.held_gpus for sample in never.series] == [sample.held_gpus for sample in often.series]
    assert often.figures.not_full < never.figures.not_full
    assert often.figures.placeable > never.figures.placeable
    assert (never.figures.runs, never.figures.moves, never.figures.reduction_percent) == (0, 0, None)
    late = [sample for sample in often.series if sample.hour > 12]
    assert often.figures.runs == 12  # of the 36 hours that count
    assert often.figures.moves == sum(sample.moves for sample in late) > 0
    assert often.figures.vacated == sum(sample.vacated for sample in late)
    assert often.figures.moves_per_node == pytest.approx(often.figures.moves / often.figures.vacated)
    assert 0 < (often.figures.reduction_percent or 0) < 100


def test_waits_are_those_of_tasks_without_room() -> None:
    """One node's worth of load too much: tasks wait, and the mean wait says so."""
    run = simulated(ChurnWorkload(nodes=4, load=1.0, days=2, warm_up_days=0, life_hours=12), 0, None)
    assert run.figures.waiting_gpus > 0
    assert (run.figures.host_wait_h or 0) > 0


def test_the_same_tables_in_any_number_of_processes() -> None:
    study = DefragmentationStudy(
        workload=replace(SMALL, nodes=8, days=1, warm_up_days=0), every_hours=(None, 6.0), seeds=(0, 1)
    )
    alone, at_once = list(run_churn(study)), list(run_churn(study, processes=2))
    assert (runs_csv(alone), series_csv(alone)) == (runs_csv(at_once), series_csv(at_once))
    assert runs_csv(alone).count(b"\n") == 5
    page = churn_page(study, alone, figures={"Placeable": RUNS_FILE})
    assert "| never | every 6 h |" in page
    drawn = {name: draw() for name, draw in churn_pictures(alone).items()}
    assert [axes.get_ylabel() for axes in drawn["placeable"].axes] == ["requests of 8 GPUs", "moves"]
    means = [bar.get_width() for bar in drawn["rhythms"].axes[3].patches]
    assert means == [0, sum(run.figures.moves for run in alone[2:]) / 2]


def test_ipc_beside_the_exact_optimum() -> None:
    study = DefragmentationStudy(workload=SMALL, exact_nodes=10, exact_seeds=tuple(range(6)))
    rows = list(run_exact(study))
    for row in rows:
        assert row.proven
        assert row.exact_in_use <= row.ipc_in_use <= row.in_use
        if row.excess == 0 and row.exact_moves is not None:
            assert row.exact_moves <= row.ipc_moves
    assert sum(row.excess == 0 for row in rows) >= 5
    assert exact_csv(rows).count(b"\n") == 7
    assert rows[2] == compare_exact(replace(SMALL, nodes=10), 2)


def test_the_words_about_the_optimum() -> None:
    row = ExactComparison(
        seed=0, nodes=25, in_use=9, ipc_in_use=8, exact_in_use=7, ipc_moves=2, exact_moves=4, proven=True
    )
    words = exact_words([row, replace(row, ipc_in_use=7, proven=False)])
    assert "IPC leaves as few nodes in use as the optimum on 1; at most 1 more. 1 optimum not proven" in words


@pytest.mark.parametrize(
    ("study", "fault"),
    [
        (DefragmentationStudy(every_hours=(0.5,)), "every hours: must be from 1"),
        (DefragmentationStudy(every_hours=()), "every hours: must be at least one"),
        (DefragmentationStudy(seeds=(1, 1)), "seeds: must be at least one, each once"),
        (DefragmentationStudy(workload=ChurnWorkload(load=1.5)), "load must be above 0"),
        (DefragmentationStudy(workload=ChurnWorkload(nodes=1)), "nodes must be 2 to"),
        (DefragmentationStudy(workload=ChurnWorkload(days=1, warm_up_days=1)), "warm-up days must be"),
        (DefragmentationStudy(workload=ChurnWorkload(life_hours=1e-3)), "at most 1,000,000 tasks"),
    ],
)
def test_what_cannot_be_compared_is_refused(study: DefragmentationStudy, fault: str) -> None:
    with pytest.raises(InputError, match=fault):
        list(run_churn(study))


@pytest.mark.study
def test_the_full_study() -> None:
    """200 nodes, a week, five seeds: every run lowers the nodes with an idle GPU; the exact optimum is near."""
    study = DefragmentationStudy(seeds=tuple(range(5)), exact_seeds=tuple(range(20)))
    runs = list(run_churn(study, processes=2))
    daily = [run.figures for run in runs if run.every_hours == 24]
    assert all((figures.reduction_percent or 0) > 5 for figures in daily)
    rows = list(run_exact(study, processes=2))
    assert max(row.excess for row in rows) <= 1
    assert sum(row.excess == 0 for row in rows) >= 15
