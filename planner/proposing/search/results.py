"""What a search hands back."""

from dataclasses import dataclass, replace

from planner.domain import Evaluation, Proposal, Proposed, Round, SearchMethod, SearchRecord, Trial
from planner.domain.search_record import Forgetful


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """Every trial, the evaluation of the best layout (None where no layout serves the workload), and how many of the
    trials broke off."""

    record: SearchRecord
    best: Evaluation | None
    unanswered: int = 0

    def with_solved(self, evaluation: Evaluation, cost: Round) -> "SearchResult":
        """The result with one more trial, of a layout that was solved for; `cost` is its round (its number aside)."""
        trials, before = self.record.trials, self.best.throughput_rps if self.best else 0.0
        iteration = 1 + max((trial.iteration for trial in trials), default=-1)
        solved = Proposal(parameters=(), layout=evaluation.layout, generator=SearchMethod.EXACT.value)
        trial = trial_of(len(trials), iteration, solved, evaluation)
        better = evaluation.throughput_rps > before
        best_rps = max(evaluation.throughput_rps, before)
        record = replace(
            self.record,
            trials=(*trials, trial),
            best_trial=trial.index if better else self.record.best_trial,
            rounds=(*self.record.rounds, replace(cost, iteration=iteration, evaluations=1, best_rps=best_rps)),
            frontier=(trial.index,) if better and trial.goals else self.record.frontier,
        )
        return replace(self, record=record, best=evaluation if better else self.best)


def trial_of(index: int, iteration: int, proposal: Proposal, evaluation: Evaluation) -> Trial:
    """The trial of a proposal that was judged."""
    return Trial(
        index=index,
        iteration=iteration,
        parameters=proposal.parameters,
        layout=evaluation.layout,
        throughput_rps=evaluation.throughput_rps,
        generator=proposal.generator,
        error=evaluation.error,
        failed=evaluation.failed,
        goals=evaluation.goals,
    )


class Retold(Forgetful):
    """A journal that knows which layouts each round had and who chose them, and nothing of what they serve."""

    def __init__(self, record: SearchRecord) -> None:
        self._rounds: dict[int, list[Proposal]] = {}
        self._notes = {row.iteration: row.note for row in record.rounds}
        for trial in record.trials:
            proposal = Proposal(parameters=trial.parameters, layout=trial.layout, generator=trial.generator)
            self._rounds.setdefault(trial.iteration, []).append(proposal)

    def proposed(self, iteration: int) -> Proposed | None:
        """The layouts of a round; None where the record has none of it."""
        if iteration not in self._rounds:
            return None
        return Proposed(
            iteration=iteration,
            proposals=tuple(self._rounds[iteration]),
            generation_cpu_s=0.0,
            note=self._notes.get(iteration, ""),
        )
