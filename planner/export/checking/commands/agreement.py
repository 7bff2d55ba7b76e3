"""What files have to say alike: the one that says otherwise than most is at fault, not those that come after it."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Value = TypeVar("Value", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement(Generic[Value]):
    """What most of the files say, and the first of those."""

    value: Value
    file: str


def agreement(rows: Sequence[tuple[str, Value]], among: Value | None = None) -> Agreement[Value]:
    """What `rows` (file, what it says; at least one) agree on. Each file has one vote for each thing that it says, of
    equals `among` goes first, then what is said first."""
    votes = Counter(value for _, value in dict.fromkeys(rows))
    value = max(votes, key=lambda candidate: (votes[candidate], candidate == among))
    return Agreement(value=value, file=next(file for file, came in rows if came == value))
