"""What goes wrong in a search: evaluations that break off, proposers that raise, interrupts, seeds without a point."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from search_cases import Bowl, Remembering, inventory, islands, search

from planner.domain import Evaluation, Layout, Proposal, SearchMethod
from planner.errors import SolverError
from planner.proposing.search import optimize
from planner.proposing.search.baselines import GeneticProposer

COUNTS = {"H200": 64, "GB200-NVL72": 72}
WISHES = {"H200": (5, 0.4), "GB200-NVL72": (3, 0.8)}
SETTINGS = search(SearchMethod.GENETIC, iterations=4, batch_size=5)
FLEET = inventory(COUNTS)


class Brittle(Bowl):
    """Breaks off at the evaluations of these numbers."""

    def __init__(self, broken: Sequence[int], error: str = "made up") -> None:
        super().__init__(WISHES)
        self.broken, self.error, self.count = broken, error, 0

    def __call__(self, layouts: Sequence[Layout], /) -> list[Evaluation]:
        found = super().__call__(layouts)
        for place, one in enumerate(found):
            if self.count in self.broken:
                found[place] = replace(one, throughput_rps=0.0, failed=True, error=f"{self.error} {self.count % 2}")
            self.count += 1
        return found


def test_a_search_goes_on_past_broken_evaluations() -> None:
    result = optimize(FLEET, SETTINGS, Brittle([0, 7, 8]))
    assert [trial.index for trial in result.record.trials if trial.failed] == [0, 7, 8]
    assert {trial.error for trial in result.record.trials if trial.failed} == {"made up 0", "made up 1"}
    assert len(result.record.trials) == 20
    assert result.unanswered == 3
    assert result.best is not None
    assert not result.record.trials[result.record.best_trial].failed


@pytest.mark.parametrize(("broken", "limit", "ends"), [
    (range(8), 0.5, True),
    (range(7), 0.2, False),  # fewer than eight do not end a search
    (range(1, 20, 2), 0.5, False),  # a half is not more than a half
    (range(1, 20, 2), 0.4, True),
    (range(20), 1.0, False),
])  # fmt: skip
def test_too_many_broken_evaluations_end_it(broken: Sequence[int], limit: float, ends: bool) -> None:
    settings = replace(SETTINGS, failure_limit=limit)
    if not ends:
        assert len(optimize(FLEET, settings, Brittle(broken)).record.trials) == 20
        return
    with pytest.raises(SolverError) as caught:
        optimize(FLEET, settings, Brittle(broken))
    failed = len([k for k in broken if k < 20])
    words = ("evaluations broke off", "search.failure_limit", f"{limit:g}", "most often: made up")
    assert all(word in caught.value.message for word in words)
    assert int(caught.value.message.split()[1]) <= failed
    assert caught.value.exit_status == 1
    assert "search.failure_limit" in caught.value.hint


def test_the_most_frequent_reason_is_told() -> None:
    with pytest.raises(SolverError, match=r"10 of 10 .* most often: made up [01]"):
        optimize(FLEET, SETTINGS, Brittle(range(20)))
    with pytest.raises(SolverError, match=r"8 of 15 .* most often: made up 0"):
        optimize(FLEET, replace(SETTINGS, failure_limit=0.53), Brittle([0, 2, 4, 6, 8, 10, 11, 12]))


def breaking(monkeypatch: pytest.MonkeyPatch, rounds: Sequence[int]) -> None:
    """A genetic proposer that raises in these rounds."""
    propose = GeneticProposer.propose

    def broken(self: GeneticProposer, count: int, iteration: int, rng: np.random.Generator) -> list[dict[str, float]]:
        if iteration in rounds:
            raise ArithmeticError("no children")
        return propose(self, count, iteration, rng)

    monkeypatch.setattr(GeneticProposer, "propose", broken)


def test_a_proposer_that_raises_is_replaced_by_chance_for_its_round(monkeypatch: pytest.MonkeyPatch) -> None:
    breaking(monkeypatch, [1, 2])
    record = optimize(FLEET, SETTINGS, Bowl(WISHES)).record
    by_round = [{t.generator for t in record.trials if t.iteration == k} for k in range(4)]
    assert by_round[1] == by_round[2] == {"random"}
    assert "genetic" in by_round[3]
    assert [bool(one.note) for one in record.rounds] == [False, True, True, False]
    assert all(word in record.rounds[1].note for word in ("chance", "genetic", "ArithmeticError: no children"))


def test_three_rounds_without_a_proposer_end_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    breaking(monkeypatch, [1, 2, 3])
    with pytest.raises(SolverError) as caught:
        optimize(FLEET, SETTINGS, Bowl(WISHES))
    assert all(word in caught.value.message for word in ("3 rounds running", "ArithmeticError: no children"))
    assert "search.method" in caught.value.hint


@pytest.mark.parametrize("answers", [0, 1, 7])
def test_an_interrupt_ends_with_the_best_so_far(answers: int) -> None:
    left = answers

    def judge(layouts: Sequence[Layout], /) -> Iterator[Evaluation]:
        nonlocal left
        for one in Bowl(WISHES)(layouts):
            if not left:
                raise KeyboardInterrupt
            left -= 1
            yield one

    journal = Remembering()
    result = optimize(FLEET, SETTINGS, judge, journal=journal)
    whole = optimize(FLEET, SETTINGS, Bowl(WISHES))
    assert result.record.interrupted
    assert result.record.trials == whole.record.trials[:answers]
    assert (result.best is None) == (answers == 0)
    assert optimize(FLEET, SETTINGS, Bowl(WISHES), journal=journal) == whole


def test_a_seed_without_a_point_is_judged_as_it_is_and_as_its_nearest() -> None:
    """The divider spends every GPU of a type; the proposer learns from the neighbour alone."""
    odd, even = islands(("H200", 30), ("H200", 30)), islands(("H200", 32), ("H200", 32))
    seeds = (
        Proposal(parameters=(), layout=odd, generator="exact"),
        Proposal(parameters=(), layout=even, generator="earlier"),
    )
    first, second, third, *_ = optimize(FLEET, SETTINGS, Bowl(WISHES), seeds=lambda: seeds).record.trials
    assert (first.layout, first.parameters, first.generator) == (odd, (), "exact")
    assert (second.layout, second.generator) == (even, "exact")
    assert dict(second.parameters)["islands_H200"] == 2
    assert third.generator == "spread"


def test_seeds_run_on_over_rounds_and_are_asked_for_once() -> None:
    asked: list[int] = []
    layouts = [islands(("H200", size), ("H200", 64 - size)) for size in range(2, 20, 2)]

    def seeds() -> list[Proposal]:
        asked.append(1)
        return [Proposal(parameters=(), layout=one, generator="earlier") for one in layouts]

    settings = replace(SETTINGS, encoding=search().encoding.DIRECT)
    journal = Remembering()
    whole = optimize(FLEET, settings, Bowl(WISHES), seeds=seeds, journal=journal)
    assert [t.layout for t in whole.record.trials[:9]] == layouts
    assert [t.generator == "earlier" for t in whole.record.trials] == [True] * 9 + [False] * 11
    assert asked == [1]
    for known, times in ((0, 2), (3, 3), (8, 3), (13, 3), (len(journal.entries), 3)):
        assert optimize(FLEET, settings, Bowl(WISHES), seeds=seeds, journal=journal.upto(known)) == whole
        assert len(asked) == times, "a search that has planted them all asks for none"
