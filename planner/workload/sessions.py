"""Sessions drawn from told marginals: a trace of conversations or agents' runs, each turn on what was said before.

| symbol | meaning | unit |
|---|---|---|
| r, T | sessions that begin in a second (Poisson); length of the trace | 1/s, s |
| N | turns of a session: geometric from 1 on, or all alike | 1 |
| S, D | tokens of a system prompt; how many there are | tokens, 1 |
| z | the i-th most frequent of them has a share in proportion to i^-z | 1 |
| m_1, m_j | tokens of the first message and of later ones, a user's or a tool's answer | tokens |
| a_j | tokens of answer j, which takes w a_j seconds | tokens |
| u_j | pause between answer j - 1 and turn j, a tool's with the share of tools, else a user's | s |
| b | tokens of a block | tokens |

Prompt j has S + m_1 + ... + m_j + a_1 + ... + a_(j-1) tokens and comes w a_(j-1) + u_j seconds after prompt j - 1. Its
whole blocks have ids: of the system prompt, those whose tokens are all its own, they are the same in all sessions that
have it; behind them they are the session's. So what was said before has the ids that it had.

Messages, answers and pauses are lognormal with a mean and a coefficient of variation c: sigma^2 = ln(1 + c^2), mu = ln
mean - sigma^2 / 2. A session ends before a prompt that would have more than `most_tokens` with its answer.

Sessions begin `_LEAD` mean lengths of one before the trace does, so that it is as busy at its beginning as at its end;
of those that run at either end only the turns in between are in it.
"""

import math
from array import array
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from planner.domain import PromptBlocks, RequestTrace
from planner.domain.workload import SessionTurns
from planner.errors import InputError

_LEAD = 6.0  # a geometric session is longer than so many mean lengths once in 400
_MOST_TOKENS = 2**30  # of a message, so that sums stay whole numbers of 64 bits
MOST_REQUESTS = 5_000_000
MOST_BLOCKS = 100_000_000

Floats = NDArray[np.float64]
Wholes = NDArray[np.int64]
_Number = TypeVar("_Number", np.int64, np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A lognormal distribution: its mean and coefficient of variation; 0: all alike."""

    mean: float
    cv: float = 0.0

    def draw(self, random: np.random.Generator, count: int) -> Floats:
        """So many values."""
        variance = math.log1p(self.cv * self.cv)
        return np.exp(random.normal(math.log(self.mean) - variance / 2, math.sqrt(variance), count))

    def tokens(self, random: np.random.Generator, count: int) -> Wholes:
        """So many values, whole and at least 1."""
        return np.clip(np.rint(self.draw(random, count)), 1, _MOST_TOKENS).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemPrompts:
    """Prompts that sessions share: tokens of each, how many there are, and the exponent of their frequencies."""

    tokens: int = 0
    distinct: int = 1
    zipf: float = 1.0

    def draw(self, random: np.random.Generator, count: int) -> Wholes:
        """The number of each session's, from 0 on."""
        weights = np.arange(1, self.distinct + 1, dtype=float) ** -self.zipf
        return random.choice(self.distinct, size=count, p=weights / weights.sum()).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionMarginals:
    """What sessions are like, see the table above. `answer_s_per_token`: w; `tool_share`: of later turns, those that a
    tool's answer begins; `is_geometric`: whether turns vary; `most_tokens`: of a prompt and its answer, below 2^31."""

    name: str
    sessions_per_s: float
    span_s: float
    mean_turns: float
    is_geometric: bool = True
    first_message: Spread
    message: Spread
    answer: Spread
    pause: Spread
    tool_pause: Spread
    tool_share: float = 0.0
    system: SystemPrompts = SystemPrompts()
    answer_s_per_token: float = 0.02
    most_tokens: int
    block_tokens: int
    seed: int = 0

    @property
    def mean_session_s(self) -> float:
        """From the first turn to the last."""
        pause = self.tool_share * self.tool_pause.mean + (1 - self.tool_share) * self.pause.mean
        return (self.mean_turns - 1) * (pause + self.answer_s_per_token * self.answer.mean)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turns:
    """All turns of all sessions, one session behind the other; a row each."""

    session: Wholes
    number: Wholes
    prompt: Wholes
    answer: Wholes
    pause_s: Floats
    arrival_s: Floats

    def rows_of(self, rows: "NDArray[np.bool_] | Wholes") -> "_Turns":
        return _Turns(
            session=self.session[rows],
            number=self.number[rows],
            prompt=self.prompt[rows],
            answer=self.answer[rows],
            pause_s=self.pause_s[rows],
            arrival_s=self.arrival_s[rows],
        )


def draw_sessions(marginals: SessionMarginals) -> RequestTrace:
    """The trace; the same marginals and seed give the same. Raises InputError where it would be too long, or empty."""
    random = np.random.default_rng(marginals.seed)
    lead_s = _LEAD * marginals.mean_session_s
    expected = marginals.sessions_per_s * (marginals.span_s + lead_s)
    _require_small(marginals, expected * marginals.mean_turns)
    sessions = int(random.poisson(expected))
    turns = _in_window(
        marginals, _turns(marginals, random, np.sort(random.uniform(-lead_s, marginals.span_s, sessions)))
    )
    _, first = np.unique(turns.session, return_index=True)
    turns.pause_s[first] = 0.0
    return RequestTrace(
        name=marginals.name,
        arrival_s=array("d", (turns.arrival_s - turns.arrival_s[0]).tobytes()),
        input_tokens=array("i", turns.prompt.astype(np.intc).tobytes()),
        output_tokens=array("i", turns.answer.astype(np.intc).tobytes()),
        blocks=_blocks(marginals, turns, marginals.system.draw(random, sessions)),
        sessions=SessionTurns(ids=numbered(turns.session), pause_s=array("d", turns.pause_s.tobytes())),
    )


def _in_window(marginals: SessionMarginals, turns: "_Turns") -> "_Turns":
    """Those of the trace, in order of arrival."""
    turns = turns.rows_of(_fitting(turns, marginals.most_tokens))
    turns = turns.rows_of((turns.arrival_s >= 0) & (turns.arrival_s < marginals.span_s))
    if not len(turns.session):
        raise InputError(
            f"Workload {marginals.name}: must have at least one turn; none came in {marginals.span_s:,.6g} s.",
            hint="Give a longer span_s, more sessions_per_s or more most_tokens.",
        )
    return turns.rows_of(np.argsort(turns.arrival_s, kind="stable"))


def _require_small(marginals: SessionMarginals, requests: float) -> None:
    growth = (marginals.mean_turns - 1) * (marginals.message.mean + marginals.answer.mean)
    prompt = marginals.system.tokens + marginals.first_message.mean + growth
    blocks = requests * min(prompt, marginals.most_tokens) / marginals.block_tokens
    if requests > MOST_REQUESTS or blocks > MOST_BLOCKS:
        raise InputError(
            f"Workload {marginals.name}: must have at most {MOST_REQUESTS:,} turns and {MOST_BLOCKS:,} blocks, those "
            f"before its beginning too; about {requests:,.3g} turns and {blocks:,.3g} blocks are told.",
            hint="Give a shorter span_s, fewer sessions_per_s, or more block_tokens.",
        )


def _turns(marginals: SessionMarginals, random: np.random.Generator, starts: Floats) -> _Turns:
    counts = _turn_counts(marginals, random, len(starts))
    session = np.repeat(np.arange(len(starts)), counts)
    begins = np.cumsum(counts) - counts
    number = np.arange(len(session)) - begins[session]
    message = marginals.message.tokens(random, len(session))
    message[begins] = marginals.first_message.tokens(random, len(starts))
    answer = marginals.answer.tokens(random, len(session))
    is_tool = random.random(len(session)) < marginals.tool_share
    tool_pause, pause = (spread.draw(random, len(session)) for spread in (marginals.tool_pause, marginals.pause))
    pause = np.where(is_tool, tool_pause, pause)
    pause[begins] = 0.0
    answered = np.roll(answer, 1)  # by the turn before
    answered[begins] = 0
    return _Turns(
        session=session,
        number=number,
        prompt=marginals.system.tokens + _summed(message + answered, begins, session),
        answer=answer,
        pause_s=pause,
        arrival_s=starts[session] + _summed(pause + marginals.answer_s_per_token * answered, begins, session),
    )


def _turn_counts(marginals: SessionMarginals, random: np.random.Generator, sessions: int) -> Wholes:
    if marginals.is_geometric:
        return random.geometric(1 / marginals.mean_turns, sessions).astype(np.int64)
    return np.full(sessions, round(marginals.mean_turns), dtype=np.int64)


def _summed(values: NDArray[_Number], begins: Wholes, session: Wholes) -> NDArray[_Number]:
    """Sums up to each turn, of its own session."""
    sums = np.cumsum(values, dtype=values.dtype)
    summed: NDArray[_Number] = sums - (sums[begins] - values[begins])[session]
    return summed


def _fitting(turns: _Turns, most_tokens: int) -> NDArray[np.bool_]:
    """Turns up to the first of their session that is too long, which is none of them."""
    too_long = np.flatnonzero(turns.prompt + turns.answer > most_tokens)
    end = np.full(int(turns.session.max(initial=0)) + 1, len(turns.session))
    np.minimum.at(end, turns.session[too_long], turns.number[too_long])
    return turns.number < end[turns.session]


def _blocks(marginals: SessionMarginals, turns: _Turns, system: Wholes) -> PromptBlocks:
    counts = turns.prompt // marginals.block_tokens
    ends = np.cumsum(counts)
    owner = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(owner)) - (ends - counts)[owner]
    shared = marginals.system.tokens // marginals.block_tokens
    session = turns.session[owner]
    session_ids = marginals.system.distinct * shared + session * int(counts.max()) + place
    ids = np.where(place < shared, system[session] * shared + place, session_ids)
    return PromptBlocks(
        block_tokens=marginals.block_tokens, ids=array("q", ids.tobytes()), ends=array("q", ends.tobytes())
    )


def numbered(session: Wholes) -> "array[int]":
    """Sessions by numbers from 0 on, in the order in which they first come."""
    _, first, place = np.unique(session, return_index=True, return_inverse=True)
    number = np.empty(len(first), dtype=np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    return array("q", number[place].tobytes())
