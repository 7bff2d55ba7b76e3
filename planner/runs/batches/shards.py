"""A batch in parts that need not know of each other: each takes the jobs that fall to it by their content."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from planner.errors import InputError
from planner.runs.batches.jobs import Job

_DIGITS = 12
_MOST = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """Part `index` of `count`, counted from 0."""

    index: int
    count: int

    @property
    def name(self) -> str:
        """For names of files."""
        return f"{self.index}-of-{self.count}"

    def takes(self, job: Job) -> bool:
        """Whether a job, which knows its content, is this part's. Jobs of equal content are of one part."""
        return int(job.content[:_DIGITS], 16) % self.count == self.index

    def of(self, jobs: Sequence[Job]) -> list[Job]:
        """The jobs of this part, in their order."""
        return [job for job in jobs if self.takes(job)]


def read_shard(text: str) -> Shard:
    """`3/16`: the fourth of sixteen parts. Raises InputError."""
    match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
    index, count = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 0 <= index < count <= _MOST:
        raise InputError(
            f"--shard: must be I/N, part I of N counted from 0, got {text!r}.", hint="Write 0/4, 1/4, 2/4 and 3/4."
        )
    return Shard(index=index, count=count)
