"""What was found where a run was computed anew."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What a file of a run says, and what comes out of its question. `file`: relative to the folder that was verified.
    `key`: of a document, or a line, a row and a column; empty where it is the file as a whole."""

    file: str
    key: str
    written: str
    due: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """`files`: those that were looked at; `unchecked`: what was taken as it is, and why, a sentence each."""

    files: tuple[str, ...]
    differences: tuple[Difference, ...]
    unchecked: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether all that could be computed anew is as it is written."""
        return not self.differences
