"""The evaluator: many sizes at once, each once, and the same as one by one."""

from collections.abc import Sequence
from typing import Any

import pytest
from pipeline_scenarios import small

from planner.cost import tabulate, tabulate_sizes
from planner.domain import Evaluation, GpuSpec, IslandClass, Layout, PerformanceTable, Question
from planner.evaluation import evaluator as evaluation
from planner.evaluation.evaluator import Evaluator
from planner.evaluation.judging import judge
from planner.proposing.feasibility import require_room
from planner.workload import question_of

FLEET = small({"H200": 32, "H20": 64})
ASKED = question_of(FLEET)
LOAD = ASKED.workload


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, tuple[int, ...]]]:
    """What the cost stage is asked for, call by call."""
    calls: list[tuple[str, tuple[int, ...]]] = []

    def listen(gpu: GpuSpec, sizes: Sequence[int], **rest: Any) -> object:
        calls.append((gpu.name, tuple(sizes)))
        return tabulate_sizes(gpu, sizes, **rest)

    monkeypatch.setattr(evaluation, "tabulate_sizes", listen)
    return calls


def layout(*islands: tuple[str, int]) -> Layout:
    return Layout.of(IslandClass(gpu=gpu, size=size) for gpu, size in islands)


BATCH = [
    layout(("H200", 16), ("H200", 16), ("H20", 32), ("H20", 32)),
    layout(("H200", 24), ("H200", 8), ("H20", 64)),
    layout(("H200", 16), ("H200", 8), ("H20", 48)),
]


def test_a_batch_asks_once_a_type_for_what_is_new(asked: list[tuple[str, tuple[int, ...]]]) -> None:
    evaluator = Evaluator(ASKED)
    first = list(evaluator(BATCH))
    assert sorted((gpu, sorted(sizes)) for gpu, sizes in asked) == [("H20", [32, 48, 64]), ("H200", [8, 16, 24])]
    asked.clear()
    again = list(evaluator([*BATCH, layout(("H200", 12), ("H20", 64))]))
    assert asked == [("H200", (12,))]
    assert again[:3] == first


def test_rows_are_those_of_single_sizes() -> None:
    evaluator = Evaluator(ASKED)
    list(evaluator(BATCH))
    for item in FLEET.inventory.items:
        for size in (8, 24, 32, 48):
            alone = tabulate(item.gpu, size, model=FLEET.model, workload=LOAD, settings=FLEET.cost)
            assert evaluator.row(IslandClass(gpu=item.gpu.name, size=size)) == alone


def test_one_by_one_or_together_makes_no_difference() -> None:
    together, alone = (
        Evaluator(ASKED),
        Evaluator(ASKED),
    )
    assert list(together(BATCH)) == [alone.evaluate(one) for one in BATCH]


def test_each_answer_is_handed_out_as_soon_as_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[Layout] = []

    def listen(table: PerformanceTable, one: Layout, question: Question) -> Evaluation:
        judged.append(one)
        return judge(table, one, question)

    monkeypatch.setattr(evaluation, "judge", listen)
    for count, found in enumerate(Evaluator(ASKED)(BATCH), start=1):
        assert judged == BATCH[:count]
        assert found.layout == BATCH[count - 1]


def test_what_is_known_costs_nothing_and_a_repeat_is_judged_once() -> None:
    evaluator = Evaluator(ASKED)
    first, repeat = evaluator([BATCH[0], BATCH[0]])
    assert first == repeat
    assert first.cpu_s > 0
    assert repeat.cpu_s == 0
    assert evaluator.evaluate(BATCH[0]).cpu_s == 0


def test_room_is_sought_from_the_largest_size_in_few_calls(asked: list[tuple[str, tuple[int, ...]]]) -> None:
    require_room(Evaluator(ASKED))
    assert asked[0][1][0] in (32, 64)
    assert len(asked) <= 2
    asked.clear()
    tiny = small({"H200": 300}, model="deepseek-v3", workload="normal-500-2000")
    evaluator = Evaluator(Question(scenario=tiny, workload=LOAD))
    require_room(evaluator)
    sizes = [size for _, piece in asked for size in piece]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 300
