"""A cluster's life: pods that come and go on it, and which rhythm of defragmentation is worth its moves."""

from dataclasses import replace
from math import inf

import pytest
from drawn_clusters import churned
from small_clusters import TAINT, cluster, node, pod

from planner.defragmentation import simulate_churn, turnover_of
from planner.domain.defragmentation import DefragmentationSettings, MoveBudget
from planner.domain.turnover import ChurnFigures, ChurnTask, RhythmChoice, RhythmSettings, Turnover
from planner.errors import InputError
from planner.replay.measures.columns import spread
from planner.report.cluster.rhythms import rhythms_csv, rhythms_summary
from planner.runs import defragmenting
from planner.runs.defragmenting import compare_rhythms

USED = churned(24, 1, 0.8, fit="random")
SETTINGS = RhythmSettings(every_hours=(None, 12.0, 3.0), seeds=(0, 1, 2, 3), days=3, life_hours=48)


def compared(**changes: object) -> RhythmChoice:
    return compare_rhythms(USED, replace(SETTINGS, **changes), DefragmentationSettings())  # type: ignore[arg-type]


def test_a_life_by_hand() -> None:
    """`p` and `q` share a node's worth of GPUs on two nodes. Moved together after the first hour, one node is free for
    the nine hours that are left; `q` goes in the fifth, and the other node has only `p` then. `r` waits for a whole
    node: without moves until `q` has gone."""
    nodes = (node("a"), node("b"))
    p, q = (ChurnTask(number=at, submit_h=0.0, life_h=life, gpus=4, cpus=8) for at, life in ((1, 100.0), (2, 4.5)))
    r = ChurnTask(number=3, submit_h=2.5, life_h=100.0, gpus=8, cpus=8)
    life = Turnover(nodes=nodes, placed=((p, "a"), (q, "b")), coming=(r,), hours=10)
    never, once = (simulate_churn(life, 0, every) for every in (None, 100.0))
    assert [sample.empty for sample in never.series] == [0] * 10
    assert [sample.waiting_gpus for sample in never.series] == [0, 0, 4, 8, 4, *[0] * 5]
    assert (never.figures.host_wait_h, never.figures.moves, never.figures.moves_per_node) == (2.0, 0, None)
    assert [sample.empty for sample in once.series] == [0, 1, 0.5, *[0] * 7]  # from the run on, until `r` comes
    assert [sample.waiting_gpus for sample in once.series] == [0] * 10
    assert (once.figures.host_wait_h, once.figures.moves, once.figures.moved_gpus, once.figures.runs) == (0.0, 1, 4, 1)
    assert once.figures.reduction_percent == 50.0
    assert once.figures.empty_gpus == 1.2
    warm = simulate_churn(replace(life, warm_up_h=2), 0, 100.0).figures
    assert (warm.hours, warm.moves, warm.empty, warm.reduction_percent) == (8, 0, 0.5 / 8, None)


def test_copies_keep_the_cluster_as_full_and_as_it_is() -> None:
    """Little's law: as many come an hour as live there over their mean life; sizes, rules and locks are the pods'."""
    pods = [item for item in USED.pods if item.gpu_count]
    life = turnover_of(USED, 3, hours=1000, life_hours=10.0)
    assert [place for _, place in life.placed] == [item.node for item in pods]
    assert len(life.coming) == pytest.approx(100 * len(pods), rel=0.03)
    asked = sum(task.gpus * task.life_h for task in life.coming) / 1000
    assert asked == pytest.approx(sum(item.gpu_count for item in pods), rel=0.08)
    drawn = {(task.gpus, task.cpus, task.locked, task.node_selector, task.group) for task in life.coming}
    assert drawn <= {(p.gpu_count, p.cpu_count, p.locked, p.node_selector, p.anti_affinity) for p in pods}
    assert (
        life == turnover_of(USED, 3, hours=1000, life_hours=10.0) != turnover_of(USED, 4, hours=1000, life_hours=10.0)
    )


def test_tasks_that_are_given_come_and_those_there_have_what_is_left_of_such_lives() -> None:
    """A pod that is met is a long one in proportion to its length, at any point of it: here 1 h or 9 h, mean 4.1 h."""
    small = cluster([node("a", 8, taints=(TAINT,))], [pod(f"p{at}", "a", [at]) for at in range(8)])
    tasks = [ChurnTask(number=at, submit_h=at, life_h=life, gpus=1, cpus=1) for at, life in ((1, 1.0), (2, 9.0))]
    lives = [
        task.life_h
        for seed in range(300)
        for task, _ in turnover_of(small, seed, hours=5, life_hours=inf, tasks=tasks).placed
    ]
    assert sum(lives) / len(lives) == pytest.approx((0.1 * 1 + 0.9 * 9) / 2, rel=0.05)
    coming = turnover_of(small, 0, hours=5, life_hours=inf, tasks=tasks).coming
    assert [(task.submit_h, task.number, task.taints) for task in coming] == [(1, 9, {TAINT}), (2, 10, {TAINT})]
    with pytest.raises(InputError, match=r"row 3 .9 GPUs .* fits on none"):
        turnover_of(small, 0, hours=5, life_hours=1, tasks=[replace(tasks[0], number=3, gpus=9)])
    with pytest.raises(InputError, match="must have pods with GPUs"):
        turnover_of(cluster([node("a")], [pod("s", "a", [], gpu_share=0.5)]), 0, hours=5, life_hours=1)


def test_pods_with_parts_of_gpus_stay_and_count() -> None:
    small = cluster([node("a", 4), node("b", 4)], [pod("s", "a", [], gpu_share=0.5), pod("p", "b", [0])])
    life = turnover_of(small, 0, hours=1, life_hours=1e9)
    assert [item.name for item in life.staying] == ["s"]
    assert simulate_churn(life, 0, None).series[0].held_gpus == 2


def test_what_a_rhythm_brings_is_counted_on_the_same_tasks() -> None:
    """The rows again from the runs themselves: node-hours a day against never, moves a day, and their step."""
    choice = compared()
    runs = {
        every: [simulate_churn(turnover_of(USED, s, hours=72, life_hours=48.0), s, every).figures for s in range(4)]
        for every in SETTINGS.every_hours
    }
    last = choice.rhythms[0]
    others = runs[None]
    for row in choice.rhythms[1:]:
        mine, never = runs[row.every_hours], runs[None]
        freed = [24 * (a.empty - b.empty) for a, b in zip(mine, never, strict=True)]
        assert row.freed.mean == pytest.approx(sum(freed) / 4)
        assert row.moves.mean == pytest.approx(sum(a.moves for a in mine) / 12)
        assert row.freed_gpu_hours == pytest.approx(8 * row.freed.mean)
        assert row.twice_gpu_hours == pytest.approx(sum(a.moved_gpus for a in mine) / 48)
        gain = row.freed.mean - last.freed.mean
        step = None if gain <= 0 else (row.moves.mean - last.moves.mean) / gain
        assert row.step == (None if step is None else pytest.approx(step))
        more = spread([a.empty - b.empty for a, b in zip(mine, others, strict=True)])
        pays = row.twice_gpu_hours - last.twice_gpu_hours <= row.freed_gpu_hours - last.freed_gpu_hours
        assert row.worth is (step is not None and pays and (more.low or 0) > 0)
        last, others = (row, mine) if row.worth else (last, others)
    assert choice.recommended == last.every_hours is not None


def test_steps_count_from_the_last_rhythm_that_was_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: free nodes more than never (two seeds, one day) and moves. Every 12 h frees less than every 24 h, every
    3 h more than never beyond doubt, but not than every 6 h; neither is worth it, nor what a next step counts from."""
    lives = {
        None: ((0, 0), 0),
        24.0: ((10, 10), 24),
        12.0: ((5, 5), 100),
        6.0: ((11, 11.02), 36),
        3.0: ((12, 12.5), 40),
    }
    some = simulate_churn(turnover_of(USED, 0, hours=1, life_hours=1), 0, None).figures

    def life(*task: object) -> ChurnFigures:
        gains, moves = lives[task[-1]]  # type: ignore[index]
        return replace(some, hours=24, empty=gains[int(task[-2])], moves=moves, moved_gpus=moves)  # type: ignore[call-overload]

    monkeypatch.setattr(defragmenting, "_life", life)
    choice = compared(every_hours=tuple(lives), seeds=(0, 1), most_moves_per_node_hour=1.0)
    assert [row.worth for row in choice.rhythms] == [True, True, False, True, False]
    steps = [row.step for row in choice.rhythms]
    assert steps == [None, pytest.approx(0.1), None, pytest.approx(12 / 24.24), pytest.approx(4 / 29.76)]
    assert choice.recommended == 6.0


def test_without_a_limit_a_step_pays_in_gpu_hours_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What every 12 h frees beyond every 24 h are nodes of one GPU: 24 GPU-hours a day, for 100 held twice."""
    lives = {None: (0, 0, 0), 24.0: (10, 80, 24), 12.0: (11, 81, 424)}
    some = simulate_churn(turnover_of(USED, 0, hours=1, life_hours=1), 0, None).figures

    def life(*task: object) -> ChurnFigures:
        empty, gpus, moves = lives[task[-1]]  # type: ignore[index]
        empty += 0.01 * int(task[-2]) * bool(empty)  # type: ignore[call-overload]
        return replace(some, hours=24, empty=empty, empty_gpus=gpus, moves=moves, moved_gpus=moves)

    monkeypatch.setattr(defragmenting, "_life", life)
    assert [row.worth for row in compared(every_hours=tuple(lives), seeds=(0, 1)).rhythms] == [True, True, False]


def test_a_limit_of_none_recommends_never_and_the_words_say_so() -> None:
    dear, cheap = compared(most_moves_per_node_hour=0.0), compared()
    assert (dear.recommended, [row.worth for row in dear.rhythms]) == (None, [True, False, False])
    assert "Recommended: never." in rhythms_summary(dear)
    words = rhythms_summary(cheap)
    assert f"Recommended: every {cheap.recommended:g} h." in words
    assert "copies of its own pods, as many as keep it as full, which live 48 h on average: an assumption" in words
    assert rhythms_csv(cheap) == rhythms_csv(compared())
    assert rhythms_csv(cheap).count(b"\n") == 4


def test_budgets_bound_each_run() -> None:
    budget = DefragmentationSettings(budget=MoveBudget(most_moves=1))
    alone = compare_rhythms(USED, replace(SETTINGS, every_hours=(None, 24.0)), budget)
    assert alone.rhythms[1].moves.mean <= 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"every_hours": (24.0, None)}, "never and others"),
        ({"every_hours": (None,)}, "never and others"),
        ({"every_hours": (None, 6.0, 24.0)}, "fewer hours each"),
        ({"every_hours": (None, 0.5)}, "an hour apart"),
        ({"seeds": (0,)}, "seeds must be two or more"),
        ({"days": 0.9}, "room for two runs"),
        ({"days": 0.0}, "days must"),
        ({"life_hours": 0.0}, "hours of life must"),
        ({"most_moves_per_node_hour": -1.0}, "moves a node-hour must"),
        ({"most_moves_per_node_hour": inf}, "moves a node-hour must be finite"),
    ],
)
def test_rhythms_out_of_range(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        replace(SETTINGS, **changes)  # type: ignore[arg-type]
