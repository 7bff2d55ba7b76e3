"""What files have to say alike: the one that says otherwise than most is at fault, not those that come after it."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Said = TypeVar("Said", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement(Generic[Said]):
    """What most of the files say, and the first of those."""

    said: Said
    file: str


def agreement(rows: Sequence[tuple[str, Said]], among: Said | None = None) -> Agreement[Said]:
    """What `rows` (file, what it says; at least one) agree on. Each file has one vote for each thing that it says, of
    equals `among` goes first, then what is said first."""
    votes = Counter(said for _, said in dict.fromkeys(rows))
    said = max(votes, key=lambda one: (votes[one], one == among))
    return Agreement(said=said, file=next(file for file, came in rows if came == said))
