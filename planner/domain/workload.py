"""Workloads: what requests look like, first per exact length, then cut into ranges; how their prompts begin alike."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Annotated

from planner.domain.keys import Bounds, Key
from planner.domain.serving.caches.tiers import TierSettings
from planner.domain.slo import LONGEST_PROMPT, EndToken, FirstToken
from planner.errors import InputError

BLOCK_TOKENS = 512
"""Tokens of a block in Mooncake's traces, which gave the form its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptBlocks:
    """Prompts cut into blocks of `block_tokens` tokens, the last one perhaps shorter.

    Blocks of one id have the same text, and the same text before them. `ids` of all requests stand behind each other;
    those of request i end before `ends[i]`.
    """

    block_tokens: int
    ids: Sequence[int]
    ends: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTurns:
    """Which requests are turns of one conversation or one agent's run, a row for each request.

    `ids`: the session's number, from 0 on; its requests are its turns, in the order in which they came. `pause_s`:
    seconds from the end of the answer before until the turn comes, in which a user thinks or a tool runs; 0 of first
    turns. Where a trace tells arrivals alone, they count from the arrival before: `TraceReading.pauses` says so.
    """

    ids: Sequence[int]
    pause_s: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightSpread:
    """How unequal weights are, of shares q that sum to 1. `equal`: 1 / sum q^2, as many of equal weight would spread as
    evenly. `skew`: sum q^3 / (sum q^2)^1.5."""

    equal: float
    skew: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixAffinity:
    """How often blocks of prompts were used before, and by whom: what servers find that share the prompts out.

    Shares of all prompts' tokens, a column a window of `windows` tokens (of all prompts, in whole blocks; ascending),
    the last without bounds. Rows j: tokens whose block was used at least 2^j times in the window before (`uses`); by at
    least 2^j other sessions, and not by the own one (`others`); as `uses`, of prompts less than half of which was used
    in it (`loose`). `own`: used by the own session. Spreads: of `prompts` and of `sessions` by all their tokens, of
    sessions by those that an endless cache lacks (`fresh`). `families`: shares in the latter of prompts that begin with
    the same block, greatest first, 64 at most.
    """

    windows: tuple[int, ...]
    uses: tuple[tuple[float, ...], ...]
    own: tuple[float, ...]
    others: tuple[tuple[float, ...], ...]
    loose: tuple[tuple[float, ...], ...]
    prompts: WeightSpread
    sessions: WeightSpread
    fresh: WeightSpread
    families: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixReuse:
    """What one prefix cache would have found of a trace's prompts, by their length and its size.

    `shares[i][k]`: share of the tokens of prompts of `starts[i]` <= tokens < `starts[i + 1]` that a cache of
    `cache_tokens[k]` tokens holds when they come; the last column is of a cache without bounds. `prompt_tokens[i]`: all
    tokens of these prompts. Sizes and lengths ascend, shares grow with the size, 0 <= share < 1. `unevenness[i][k]`:
    mean square over squared mean of the share of a prompt that is not found, where some prompts are found whole and
    others not at all (at least 1; empty where that is not known). `affinity`: what several caches would have found,
    None where that is not known.
    """

    block_tokens: int
    cache_tokens: tuple[int, ...]
    starts: tuple[int, ...]
    prompt_tokens: tuple[int, ...]
    shares: tuple[tuple[float, ...], ...]
    unevenness: tuple[tuple[float, ...], ...] = ()
    affinity: PrefixAffinity | None = None

    @property
    def mean_shares(self) -> tuple[float, ...]:
        """Of all prompts' tokens, at every size and without bounds."""
        total = sum(self.prompt_tokens)
        columns = zip(*self.shares, strict=True)
        return tuple(sum(n * x for n, x in zip(self.prompt_tokens, column, strict=True)) / total for column in columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedReuse:
    """Share of all prompts' tokens that a cache finds which drops blocks that nobody used for so many seconds.

    `timeouts_s` ascend, and the shares with them; the cache has no other bound.
    """

    timeouts_s: tuple[float, ...]
    shares: tuple[float, ...]


class CacheRate(StrEnum):
    """`auto`: hit shares follow from the trace's reuse and the cache that a server has."""

    AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeHits:
    """Share of prompts of `start` <= tokens < `end` that is in the prefix cache."""

    start: FirstToken = 0
    end: EndToken = LONGEST_PROMPT
    share: Annotated[float, Bounds(low=0, below=1), Key("of a prompt, found in the prefix cache")]


KvCacheRate = float | CacheRate | tuple[RangeHits, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedPrefixes:
    """What `auto` draws on: the reuse of the trace, its mean prompt and answer (tokens) and its rate (requests/s, None:
    unknown).

    `gpus`: GPUs of each type whose servers share the prompts out, as a router of that `RouterPolicy` does; empty: one
    server each. `tiers`: where caches lie beside device memory, None where nowhere; `fleet_gpus`: those of all types,
    which share a remote store.
    """

    reuse: PrefixReuse
    mean_prompt: float
    arrival_rps: float | None
    gpus: tuple[tuple[str, int], ...] = ()
    tiers: TierSettings | None = None
    fleet_gpus: int = 0
    mean_answer: float = 1.0
    policy: str = "least_work"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartReuse:
    """Parts of prompts of one name (system prompt, passages): ids of all requests, and how many came before."""

    name: str
    ids: int
    again: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceReading:
    """How a file of requests was understood.

    `form` in words; `columns`: what, and the column's name; `rows` of the file; `dropped`: why, and how many; `began`:
    the first arrival in UTC, empty where the clock does not tell; `unanswered`: requests that stay without a token of
    answer; `in_order`: whether rows came in order of arrival; `pauses`: from when to when those of sessions count.
    """

    form: str
    columns: tuple[tuple[str, str], ...]
    rows: int
    dropped: tuple[tuple[str, int], ...] = ()
    clock: str = ""
    began: str = ""
    unanswered: int = 0
    in_order: bool = True
    parts: tuple[PartReuse, ...] = ()
    pauses: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTrace:
    """Requests as they arrived. Three columns of one length: seconds from the first arrival, tokens in, tokens out.

    `clock`: how the unit of the times was found, in words; empty where they tell it themselves (ISO 8601). `blocks`:
    of the prompts, where the trace has their hashes; `sessions`: where it tells turns. `reading`: how its file was
    understood; requests alike are alike whatever form they came in.
    """

    name: str
    arrival_s: Sequence[float]
    input_tokens: Sequence[int]
    output_tokens: Sequence[int]
    clock: str = ""
    blocks: PromptBlocks | None = None
    sessions: SessionTurns | None = None
    reading: TraceReading | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountDispersion:
    """How arrivals bunch: variance over mean of their number in windows of `windows_s` seconds (ascending); 1: Poisson.

    It stays as it is where requests of as many more users are laid over each other."""

    windows_s: tuple[float, ...]
    dispersion: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthProfile:
    """A probability mass over exact input lengths, and what is known of the answers.

    `input_tokens` ascend; `probabilities` sum to 1; `output_tokens[i]` is the mean answer to a prompt of
    `input_tokens[i]` tokens, empty where unknown. `arrival_rps` and `burstiness` (coefficient of variation of the
    gaps between arrivals) are None for a workload without a clock. `clock` is that of its trace. `prefix`: how its
    prompts begin alike, `counts`: how arrivals bunch; None where that is not known.
    """

    name: str
    input_tokens: tuple[int, ...]
    probabilities: tuple[float, ...]
    output_tokens: tuple[float, ...]
    mean_output_tokens: float
    max_output_tokens: int
    requests: int | None = None
    arrival_rps: float | None = None
    burstiness: float | None = None
    licence: str = ""
    citation: str = ""
    clock: str = ""
    prefix: PrefixReuse | None = None
    counts: CountDispersion | None = None

    @property
    def mean_input_tokens(self) -> float:
        """Expected prompt length (tokens)."""
        return sum(s * p for s, p in zip(self.input_tokens, self.probabilities, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthFacts:
    """Tokens of prompts or answers. `bins`: from, up to (not with it) and the share of requests, in powers of two."""

    mean: float
    p50: int
    p90: int
    p99: int
    most: int
    bins: tuple[tuple[int, int, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakRate:
    """The busiest window of `window_s` seconds: requests/s in it."""

    window_s: float
    rps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalSeries:
    """Requests in windows of `width_s` seconds, one behind the other from the first arrival on."""

    width_s: float
    requests: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """How many sessions a trace has, the turns of one, and the pauses before later turns (s)."""

    sessions: int
    mean_turns: float
    most_turns: int
    mean_pause_s: float
    p50_pause_s: float
    p90_pause_s: float
    p99_pause_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSummary:
    """What a trace or a workload says. `mean_rps` is None without a clock or where all requests came at once; windows
    ascend; `simultaneous`: share of requests with the time of the one before. A workload that was summarised before
    knows neither its peaks and series nor how long single answers are. `asked_tokens`: sizes of caches that were asked
    for, among those of `prefix`; `timed`, `sessions`: None where the trace does not tell.
    """

    name: str
    requests: int | None
    span_s: float | None
    mean_rps: float | None
    burstiness: float | None
    dispersion: tuple[tuple[float, float], ...]
    prompts: LengthFacts
    mean_answer: float
    longest_answer: int
    answers: LengthFacts | None = None
    peaks: tuple[PeakRate, ...] = ()
    series: ArrivalSeries | None = None
    simultaneous: float = 0.0
    prefix: PrefixReuse | None = None
    asked_tokens: tuple[int, ...] = ()
    timed: TimedReuse | None = None
    sessions: SessionFacts | None = None
    reading: TraceReading | None = None
    licence: str = ""
    citation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthRange:
    """Prompts of `start` <= tokens < `end`.

    Times are taken at `mean_input_tokens` (reference mode: at `midpoint`), memory at `longest_input_tokens`.
    `mean_output_tokens` is the mean answer to them, None where only the workload's is known.
    """

    start: int
    end: int
    midpoint: int
    probability: float
    mean_input_tokens: float
    longest_input_tokens: int
    mean_output_tokens: float | None = None

    @property
    def label(self) -> str:
        """The range in words, for tables and figures."""
        return f"{self.start}-{self.end - 1}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A profile cut into ranges of equal width; empty ranges are left out."""

    name: str
    ranges: tuple[LengthRange, ...]
    mean_input_tokens: float
    mean_output_tokens: float
    max_output_tokens: int

    @property
    def longest_prompt(self) -> int:
        """Longest prompt (tokens)."""
        return max(r.longest_input_tokens for r in self.ranges)


MOST_KEPT = 16
"""Of normal distributions, thousands of lengths each, that were worked out before."""


@lru_cache(maxsize=MOST_KEPT)
def truncated_normal(
    *,
    name: str,
    mean: float,
    standard_deviation: float,
    low: int,
    high: int,
    mean_output_tokens: float,
    max_output_tokens: int,
    licence: str = "",
    citation: str = "",
) -> LengthProfile:
    """A normal distribution of input lengths (tokens), cut to low..high and normalised there.

    Length s takes the mass of the cell from s - 1/2 to s + 1/2. `mean` and `standard_deviation` are those of
    the uncut distribution. Lengths without any mass in floating point are left out; InputError where none
    is left.
    """
    masses = [(s, _cell_mass((s - mean) / standard_deviation, 0.5 / standard_deviation)) for s in range(low, high + 1)]
    total = math.fsum(mass for _, mass in masses)
    cells = [(s, mass / total) for s, mass in masses if mass > 0.0 and mass / total > 0.0]
    if not cells:
        raise InputError(
            f"Workload {name}: a normal distribution of mean {mean:g} and standard_deviation "
            f"{standard_deviation:g} must have mass between low {low} and high {high}; it has none.",
            hint="Bring low and high nearer to the mean.",
        )
    return LengthProfile(
        name=name,
        input_tokens=tuple(s for s, _ in cells),
        probabilities=tuple(p for _, p in cells),
        output_tokens=(),
        mean_output_tokens=mean_output_tokens,
        max_output_tokens=max_output_tokens,
        licence=licence,
        citation=citation,
    )


def _cell_mass(z: float, half_width: float) -> float:
    # on the side of the smaller tail, where differences of erfc keep their digits
    near = abs(z)
    return 0.5 * (math.erfc((near - half_width) / math.sqrt(2.0)) - math.erfc((near + half_width) / math.sqrt(2.0)))
