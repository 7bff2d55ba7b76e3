"""Islands parted into sets of few roles: as few sets as hold them, islands that hand each other KV cache together.

symbol    meaning                                                          unit    source
n, N      serving islands; sets, N = ceil(n / most roles)                  1       the set's schema
w[i, j]   KV cache between islands i and j, as a part of the plan's        1e-9    flows of the plan; without a network
                                                                                   sum over ranges q s[p] s[d] l
q, l      a range's probability and the middle of its lengths              1, tokens
s[p]      share of the range that an island takes in its phase             1
K[i, s]   sum over j in set s of w[i, j]                                   1e-9

The sum of w within sets is to be large. A heavy pair of both phases begins each set (two islands of one phase where
the other has run out); the others join where K is largest; then moves and swaps go on as long as one gains. The best of
several ends counts: the first set's pair differs, and every other time a pair counts for less that hands much to sets
that have begun. The last island of its phase stays in its set, so as many sets serve both phases as can. The largest
sum is not proven: that is graph partitioning, and hard. Whole numbers, so that sums are exact and the same plan gives
the same bytes.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from planner.domain import PHASES, Phase, Plan
from planner.export.islands import ServingIsland

FEWEST_ROLES, MOST_ROLES = 2, 10
_ALL_WEIGHT = 1_000_000_000  # parts of all weight
_BEGINNINGS, _MOST_BEGUN = 48, 2400  # islands begun with, in all: beginnings become fewer above fifty

_Matrix = list[list[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSet:
    """Islands of one set, in the plan's order. Its prefill islands hand over `handed` of the plan's KV cache, of which
    `retained` goes to decode islands of the set (both 0..1)."""

    islands: tuple[ServingIsland, ...]
    handed: float
    retained: float

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Those that it serves, prefill first."""
        return tuple(phase for phase in PHASES if any(island.phase is phase for island in self.islands))


def role_sets(plan: Plan, islands: Sequence[ServingIsland]) -> tuple[RoleSet, ...]:
    """All of `islands`, two at least, in the fewest sets of 2 to 10.

    The sets that keep most KV cache come first, then those whose first islands do.
    """
    kv = _handed_over(plan, islands)
    prefill = [island.phase is Phase.PREFILL for island in islands]
    owner = _parted(kv, prefill, -(-len(islands) // MOST_ROLES))
    members: dict[int, list[int]] = defaultdict(list)
    for index, number in enumerate(owner):
        members[number].append(index)
    sets = [_role_set(islands, kv, inside) for inside in members.values()]
    return tuple(sorted(sets, key=lambda role_set: -role_set.retained))


def _role_set(islands: Sequence[ServingIsland], kv: _Matrix, inside: Sequence[int]) -> RoleSet:
    total = max(1, sum(map(sum, kv)) // 2)
    givers = [index for index in inside if islands[index].phase is Phase.PREFILL]
    return RoleSet(
        islands=tuple(islands[index] for index in inside),
        handed=sum(sum(kv[index]) for index in givers) / total,
        retained=sum(kv[index][other] for index in givers for other in inside) / total,
    )


def _handed_over(plan: Plan, islands: Sequence[ServingIsland]) -> _Matrix:
    """w, symmetric; all zero where nothing is routed."""
    index = {island.id: number for number, island in enumerate(islands)}
    amounts: dict[tuple[int, int], float] = defaultdict(float)
    for flow in plan.flows:
        amounts[index[flow.prefill], index[flow.decode]] += flow.gb_s
    for prefill, decode, amount in () if plan.flows else _routed(plan):
        amounts[index[prefill], index[decode]] += amount
    total = sum(amounts.values())
    kv = [[0] * len(islands) for _ in islands]
    for (first, second), amount in amounts.items():
        kv[first][second] = kv[second][first] = round(amount / total * _ALL_WEIGHT) if total > 0.0 else 0
    return kv


def _routed(plan: Plan) -> Iterator[tuple[str, str, float]]:
    """Prefill island, decode island, and q s[p] s[d] l of a range: each phase chooses its islands by itself."""
    spans: dict[tuple[int, int], dict[Phase, list[tuple[str, float]]]] = defaultdict(lambda: {p: [] for p in PHASES})
    weights: dict[tuple[int, int], float] = {}
    for route in plan.routing:
        span = (route.range_start, route.range_end)
        spans[span][route.phase].append((route.island, route.share))
        weights[span] = route.probability * (route.range_start + route.range_end) / 2
    for span, phases in spans.items():
        for prefill, prefill_share in phases[Phase.PREFILL]:
            for decode, decode_share in phases[Phase.DECODE]:
                yield prefill, decode, weights[span] * prefill_share * decode_share


def _parted(kv: _Matrix, prefill: Sequence[bool], count: int) -> list[int]:
    """The set of each island, numbered from 0."""
    tries = max(1, min(_BEGINNINGS, _MOST_BEGUN // len(kv))) if count > 1 else 1
    ends = [_ended(kv, prefill, count, attempt / tries, apart=attempt % 2 == 0) for attempt in range(tries)]
    return max(ends, key=lambda end: end.within).owner


def _ended(kv: _Matrix, prefill: Sequence[bool], count: int, first: float, *, apart: bool) -> "_Sets":
    """The sets that come of a beginning; see `_begin`."""
    sets = _Sets(kv=kv, prefill=prefill, count=count)
    _begin(sets, first, apart=apart)
    for island in sorted((i for i, owner in enumerate(sets.owner) if owner < 0), key=lambda i: -sum(kv[i])):
        room = [number for number in range(count) if sets.size(number) < MOST_ROLES]
        sets.put(island, max(room, key=lambda number: sets.sums[island][number]))
    while any([_improve(sets, island) for island in range(len(kv))]):  # noqa: C419  # every island has its turn
        pass  # ends: what improves adds to a whole number that has a bound
    return sets


@dataclass(slots=True, kw_only=True)
class _Sets:
    """Sets in the making: `owner` of each island (-1: none yet), `sums` K, `members` by phase (is it prefill) and
    set."""

    kv: _Matrix
    prefill: Sequence[bool]
    count: int
    owner: list[int] = field(init=False)
    sums: _Matrix = field(init=False)
    members: dict[bool, list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.owner = [-1] * len(self.kv)
        self.sums = [[0] * self.count for _ in self.kv]
        self.members = {side: [0] * self.count for side in (True, False)}

    def size(self, number: int) -> int:
        """Islands of a set."""
        return self.members[True][number] + self.members[False][number]

    @property
    def within(self) -> int:
        """Twice the sum of w within sets."""
        return sum(row[number] for row, number in zip(self.sums, self.owner, strict=True))

    def spare(self, island: int) -> bool:
        """Whether its set has another island of its phase."""
        return self.members[self.prefill[island]][self.owner[island]] > 1

    def put(self, island: int, number: int) -> None:
        """Bring an island to a set, from where it was."""
        for place, sign in ((self.owner[island], -1), (number, 1)):
            if place >= 0:
                self.members[self.prefill[island]][place] += sign
                for row, amount in zip(self.sums, self.kv[island], strict=True):
                    row[place] += sign * amount
        self.owner[island] = number


def _begin(sets: _Sets, first: float, *, apart: bool) -> None:
    """Two islands into each set. `first` (from 0, below 1): where the first set's pair stands among all by weight;
    `apart`: what a pair hands to sets that have begun counts against it."""
    for number in range(sets.count):
        free = [island for island, owner in enumerate(sets.owner) if owner < 0]
        pairs = sorted(
            ((first, other) for first in free if sets.prefill[first] for other in free if not sets.prefill[other]),
            key=lambda pair: apart * (sum(sets.sums[pair[0]]) + sum(sets.sums[pair[1]])) - sets.kv[pair[0]][pair[1]],
        )
        for island in pairs[0 if number else int(first * len(pairs))] if pairs else free[:FEWEST_ROLES]:
            sets.put(island, number)


def _improve(sets: _Sets, island: int) -> bool:
    """Moves or swaps `island` where that gains most; whether any did."""
    home = sets.owner[island]
    gain, number, other = max(_changes(sets, island), key=lambda change: change[0], default=(0, home, None))
    if gain <= 0:
        return False
    sets.put(island, number)
    if other is not None:
        sets.put(other, home)
    return True


def _changes(sets: _Sets, island: int) -> Iterator[tuple[int, int, int | None]]:
    """What `island` may do: the gain, the set that it goes to, and who comes in its place (None: nobody)."""
    home, sums, kv, spare = sets.owner[island], sets.sums[island], sets.kv[island], sets.spare(island)
    if spare and sets.size(home) > FEWEST_ROLES:
        for number in range(sets.count):
            if number != home and sets.size(number) < MOST_ROLES:
                yield sums[number] - sums[home], number, None
    for other, number in enumerate(sets.owner):
        if number == home or (sets.prefill[other] != sets.prefill[island] and not (spare and sets.spare(other))):
            continue
        theirs = sets.sums[other]
        yield sums[number] - sums[home] + theirs[home] - theirs[number] - 2 * kv[other], number, other
