"""How often blocks of a trace's prompts were used before, and by whom: what several servers' caches would find.

A block of a prompt is found where one of the earlier prompts that it was part of went to the same server, and not too
long ago; as ids stand for all the text up to their block, the blocks before it are found then, too. So it is enough to
count, for windows of several lengths, how often a block was used in the window before, by how many sessions, and
whether by the own one (`domain.PrefixAffinity`; `cost.affinity` makes hit shares of it).

A window is as long as the tokens of all prompts in it, in whole blocks. Blocks of a prompt that were always used
together share one history, of the last `_MOST` uses: a step of the pass is a run of such blocks. Of a trace of more
than `_COUNTED` blocks only some prompts are counted, drawn alike, after all have been taken in: 2 CPU-s for Mooncake's
hour, and little more than to take them in for longer ones.

Where a trace tells no sessions (`sessions_of`), a prompt is the next turn of the session that last used the end of its
longest match. Where more than `_BRANCHES` prompts went on from there in ways of their own that is a system prompt, or a
document that many ask about, and the prompt begins a session.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from planner.domain import PrefixAffinity, PromptBlocks, RequestTrace, WeightSpread

WINDOWS = tuple(2**k for k in range(14, 30))
TIMES = tuple(2**j for j in range(7))
"""How often a block was used: at least so many times, of which rows are told."""
MOST_FAMILIES = 64

_MOST = TIMES[-1]
_COUNTED = 500_000
_BRANCHES = 8
_FEWEST_KEPT = 2**20
_PARTS = 1_000_000  # of a share, as of prefix reuse


class _History(NamedTuple):
    """Ends of the prompts that used a block (tokens of all before, last first), and of each session's last one."""

    uses: tuple[int, ...]
    sessions: tuple[tuple[int, int], ...]

    def then(self, session: int, end: int) -> "_History":
        others = tuple(pair for pair in self.sessions if pair[0] != session)
        return _History((end, *self.uses[: _MOST - 1]), ((session, end), *others[:_MOST]))


_NEVER = _History((), ())


class _Run(NamedTuple):
    """Blocks of a prompt that were always used together: what is found of the prompt where they are, and how far the
    least recently used one of them is (tokens since the end of its prompt)."""

    history: _History
    tokens: int
    offset: int


class _Counts:
    """Tokens by row and by the shortest window that they are in, each as the difference to the window before."""

    def __init__(self, windows: Sequence[int]) -> None:
        self._windows = windows
        self.prompts = 0
        self.uses, self.others, self.loose = ([[0] * (len(windows) + 2) for _ in TIMES] for _ in range(3))
        self.own = [0] * (len(windows) + 2)

    def count(self, prompt: int, session: int, here: int, runs: Sequence[_Run]) -> None:
        """A prompt of so many tokens; `here`: tokens of all before it."""
        self.prompts += prompt
        windows, past = self._windows, len(self._windows) + 1
        columns = [self._columns(here + run.offset, run.history.uses) for run in runs]
        followed = past
        matched = deepest = 0
        for run, places in zip(runs, columns, strict=True):
            matched += run.tokens
            deepest = max(deepest, places[0])
            if 2 * matched >= prompt:
                followed = deepest
                break
        for run, places in zip(runs, columns, strict=True):
            reach = here + run.offset
            own_ends = [end for number, end in run.history.sessions if number == session]
            column = bisect_left(windows, reach - own_ends[0]) if own_ends else past
            others = self._columns(reach, [end for number, end in run.history.sessions if number != session])
            self.own[column] += run.tokens
            _add(self.uses, places, past, run.tokens)
            _add(self.loose, places, followed, run.tokens)
            _add(self.others, others, column, run.tokens)

    def _columns(self, reach: int, ends: Sequence[int]) -> list[int]:
        """The shortest window with 1, 2, 4, ... of the uses that ended there."""
        return [bisect_left(self._windows, reach - ends[times - 1]) for times in TIMES[: len(ends).bit_length()]]

    def shares(self, differences: Sequence[int]) -> tuple[float, ...]:
        """A row, by window and without bounds."""
        return tuple(tokens * _PARTS // self.prompts / _PARTS for tokens in list(accumulate(differences))[:-1])


def _add(rows: Sequence[list[int]], places: Iterable[int], end: int, tokens: int) -> None:
    for row, place in zip(rows, places, strict=False):
        if place < end:
            row[place] += tokens
            row[end] -= tokens


class _Past:
    """Histories of the blocks that were used within the longest window."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._histories: dict[int, _History] = {}
        self._limit = _FEWEST_KEPT

    def runs(self, ids: Sequence[int], block_tokens: int, findable: int) -> list[_Run]:
        """The leading blocks that are known, in runs; at most `findable` tokens are found."""
        histories, runs, begun = self._histories, list[_Run](), 0
        before: _History | None = None
        for number, block in enumerate(ids):
            history = histories.get(block)
            if history is not before and before is not None:
                runs.append(_run(before, begun, number, block_tokens, findable))
                begun = number
            before = history
            if history is None:
                return runs
        if before is not None:
            runs.append(_run(before, begun, len(ids), block_tokens, findable))
        return runs

    def use(self, ids: Sequence[int], session: int, end: int) -> None:
        """A prompt that ends there."""
        histories, last = self._histories, None
        then = _NEVER
        for block in ids:
            history = histories.get(block, _NEVER)
            if history is not last:
                then, last = history.then(session, end), history
            histories[block] = then
        if len(histories) > self._limit:
            self._histories = {b: history for b, history in histories.items() if history.uses[0] > end - self._longest}
            self._limit = max(_FEWEST_KEPT, 2 * len(self._histories))


def _run(history: _History, begun: int, ended: int, block_tokens: int, findable: int) -> _Run:
    tokens = min(ended * block_tokens, findable) - min(begun * block_tokens, findable)
    return _Run(history, tokens, (begun + ended) * block_tokens // 2)


def prefix_affinity(trace: RequestTrace, windows: Sequence[int] = WINDOWS) -> PrefixAffinity | None:
    """None of a trace without hashes of its blocks. Requests are in the order of arrival."""
    blocks = trace.blocks
    if blocks is None:
        return None
    sessions, counted = sessions_of(trace), _counted(blocks)
    past, counts, size = _Past(windows[-1]), _Counts(windows), blocks.block_tokens
    new: defaultdict[int, int] = defaultdict(int)
    every: defaultdict[int, int] = defaultdict(int)
    families: Counter[int] = Counter()
    here = start = 0
    for number, end in enumerate(blocks.ends):
        ids, prompt, session = blocks.ids[start:end], int(trace.input_tokens[number]), sessions[number]
        runs = past.runs(ids, size, prompt - 1)
        if counted[number]:
            counts.count(prompt, session, here, runs)
        lacking = prompt - sum(run.tokens for run in runs)
        new[session] += lacking
        every[session] += prompt
        families[ids[0]] += lacking
        here += len(ids) * size
        past.use(ids, session, here)
        start = end
    total = sum(new.values())
    return PrefixAffinity(
        windows=tuple(windows),
        uses=tuple(map(counts.shares, counts.uses)),
        own=counts.shares(counts.own),
        others=tuple(map(counts.shares, counts.others)),
        loose=tuple(map(counts.shares, counts.loose)),
        prompts=_spread(trace.input_tokens),
        sessions=_spread(every.values()),
        fresh=_spread(new.values()),
        families=tuple(tokens * _PARTS // total / _PARTS for _, tokens in families.most_common(MOST_FAMILIES)),
    )


def _counted(blocks: PromptBlocks) -> Sequence[bool]:
    """Which prompts are counted: all, or as many as have about `_COUNTED` blocks."""
    share, drawn = _COUNTED / max(1, len(blocks.ids)), np.random.default_rng(0)
    return [share >= 1 or bool(drawn.random() < share) for _ in blocks.ends]


def _spread(weights: Iterable[int]) -> WeightSpread:
    numbers = np.array(list(weights), dtype=float)
    shares = numbers / numbers.sum()
    squares = float((shares**2).sum())
    return WeightSpread(equal=round(1 / squares, 2), skew=round(float((shares**3).sum()) / squares**1.5, 4))


def sessions_of(trace: RequestTrace) -> Sequence[int]:
    """The session's number of each request, told or inferred from how prompts continue each other."""
    if trace.sessions is not None:
        return trace.sessions.ids
    blocks = trace.blocks
    assert blocks is not None, "asked for where prompts have blocks"
    ends = _ends_of_matches(blocks)
    branches = Counter(block for block in ends if block is not None)
    last: dict[int, int] = {}
    sessions: list[int] = []
    begun = start = 0
    for end, block in zip(blocks.ends, ends, strict=True):
        if block is None or branches[block] > _BRANCHES:
            session, begun = begun, begun + 1
        else:
            session = last[block]
        last |= dict.fromkeys(blocks.ids[start:end], session)
        sessions.append(session)
        start = end
    return sessions


def _ends_of_matches(blocks: PromptBlocks) -> list[int | None]:
    """The last block of each prompt that was used before it, with all before; None: not even the first."""
    ids, ends = np.asarray(blocks.ids), np.asarray(blocks.ends)
    starts = np.concatenate([[0], ends[:-1]])
    first = np.append(np.sort(np.unique(ids, return_index=True)[1]), len(ids))
    new = np.minimum(first[np.searchsorted(first, starts)], ends)
    return [int(ids[at - 1]) if at > start else None for at, start in zip(new, starts, strict=True)]
