"""Who executes the jobs of a batch: one method, so that other machines can take the place of local processes."""

from collections.abc import Generator, Sequence
from typing import Protocol

from planner.runs.batches.jobs import Job, Outcome


class Executor(Protocol):
    """Executes jobs.

    An implementation yields one outcome a job, in the order in which they end, failures among them: a job whose worker
    dies is a failure of its own. Closing the generator, or an interrupt in it, ends what is under way; then run folders
    are whole or not there, and searches have their journals.
    """

    def run(self, jobs: Sequence[Job], /) -> Generator[Outcome, None, None]:
        """Outcomes as they come."""
