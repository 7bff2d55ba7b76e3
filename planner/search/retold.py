"""A finished search told again: the layouts of its record, to be judged anew without choosing them anew."""

from planner.domain import Proposal, Proposed, SearchRecord
from planner.domain.search_record import Forgetful


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
