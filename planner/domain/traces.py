"""How a trace was understood, and what it says: records for whoever shows them."""

from dataclasses import dataclass

from planner.domain.prefix import PrefixReuse


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
    answer; `in_order`: whether rows came in order of arrival.
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
class TraceSummary:
    """What a trace or a workload says. `mean_rps` is None without a clock or where all requests came at once; windows
    ascend; `simultaneous`: share of requests with the time of the one before. A workload that was summarised before
    knows neither its peaks and series nor how long single answers are.
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
    reading: TraceReading | None = None
    licence: str = ""
    citation: str = ""
