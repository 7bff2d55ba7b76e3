"""What a running deployment tells of itself, and what that says beside the plan."""

from dataclasses import dataclass, field
from enum import StrEnum

from planner.domain.efficiency import Measurement
from planner.domain.layout import Phase
from planner.domain.workload import LengthFacts, LengthProfile

ISLAND = "planner_island"
PLAN = "planner_plan"
EDGE = "le"
"""Labels of every series: the island's label, the plan's name in objects; the upper edge of a histogram's class (s)."""

PART_OF = "app_kubernetes_io_part_of"
MODEL = "model_name"
ENGINE = "planner_engine"
"""Labels of traffic: the plan's name on the pods, the model as engines call it, and the engine."""


class Quantity(StrEnum):
    """Series of an island that the export's rules record, by name. `rate`: a second, over the rules' window.

    `TTFT` and `TPOT` are histograms (seconds; class edges in the label `le`), `_SUM` the sum of what they count.
    `COMPUTED`: prompt tokens that no cache had. `RANKS`: attention groups that are scraped; `RUNNING` and `WAITING`:
    requests of one, mean over them and time; `BUSY`: share of the time in which one has running requests, `BACKLOG` in
    which requests wait. `PREEMPTED`: requests that lost their cache, `CACHE`: its share in use; both are asked of
    deployments without a plan alone.
    """

    REQUESTS = "planner:requests:rate"
    PROMPT_TOKENS = "planner:prompt_tokens:rate"
    COMPUTED = "planner:computed_prompt_tokens:rate"
    GENERATED = "planner:generated_tokens:rate"
    TTFT = "planner:ttft_seconds_bucket:rate"
    TTFT_SUM = "planner:ttft_seconds_sum:rate"
    TPOT = "planner:tpot_seconds_bucket:rate"
    TPOT_SUM = "planner:tpot_seconds_sum:rate"
    RANKS = "planner:ranks:count"
    RUNNING = "planner:running_requests:avg"
    WAITING = "planner:waiting_requests:avg"
    BUSY = "planner:busy:share"
    BACKLOG = "planner:backlog:share"
    PREEMPTED = "planner:preempted_requests:rate"
    CACHE = "planner:cache:share"

    @property
    def is_histogram(self) -> bool:
        """Whether its series are classes of a histogram."""
        return self in (Quantity.TTFT, Quantity.TPOT)

    @property
    def is_recorded(self) -> bool:
        """Whether the export's rules record it, of plans."""
        return self not in (Quantity.PREEMPTED, Quantity.CACHE)

    @property
    def is_share(self) -> bool:
        """Whether its values lie between 0 and 1."""
        return self in (Quantity.BUSY, Quantity.BACKLOG, Quantity.CACHE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedSeries:
    """One series of an answer: its mean over the time from `start_s` to `end_s` (seconds since 1970) with `samples`.

    `island`: its label as it stands there; `edge_s`: of a class of a histogram, inf for the last; None of others.
    """

    quantity: Quantity
    plan: str
    island: str
    value: float
    edge_s: float | None = None
    samples: int = 1
    start_s: float = 0.0
    end_s: float = 0.0
    file: str = ""


class Traffic(StrEnum):
    """Series of what comes to a deployment, by name. A second, over a window, but for `REQUESTS`: how many ended in it.

    `ARRIVALS`: requests that ended, and by how much more are in the engines than at the window's start. `PROMPTS` and
    `ANSWERS` are histograms of lengths (tokens; class edges in the label `le`), `_SUM` the sum of what they count,
    `_SERIES` how many engines have the class. `COMPUTED`: prompt tokens that no cache had, of all `PROMPT_TOKENS`.
    `COVERED`: share of the window in which engines were scraped. `NEWEST`: when the last sample was taken (seconds
    since 1970).
    """

    ARRIVALS = "planner:arrivals:rate"
    REQUESTS = "planner:ended_requests:increase"
    PROMPTS = "planner:prompt_length_bucket:rate"
    PROMPTS_SUM = "planner:prompt_length_sum:rate"
    PROMPTS_SERIES = "planner:prompt_length_bucket:count"
    ANSWERS = "planner:answer_length_bucket:rate"
    ANSWERS_SUM = "planner:answer_length_sum:rate"
    ANSWERS_SERIES = "planner:answer_length_bucket:count"
    PROMPT_TOKENS = "planner:prompt_tokens:rate"
    COMPUTED = "planner:computed_prompt_tokens:rate"
    COVERED = "planner:window_covered:share"
    NEWEST = "planner:newest_sample:time"

    @property
    def is_histogram(self) -> bool:
        """Whether its series are of classes of a histogram."""
        return self in (self.PROMPTS, self.PROMPTS_SERIES, self.ANSWERS, self.ANSWERS_SERIES)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficSeries:
    """One series of traffic: its mean over the samples of the answer, the last of them at `end_s` (seconds since 1970
    by Prometheus' clock). `plan`: the label of its pods, empty where they have none; `edge_tokens`: of a class of a
    histogram, inf for the last."""

    quantity: Traffic
    engine: str
    plan: str
    model: str
    value: float
    edge_tokens: float | None = None
    end_s: float = 0.0
    file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeteredWorkload:
    """A workload made of an engine's metrics. `answers`: lengths of answers, as far as classes tell; `hit_share`: of
    the prompts' tokens, found in the caches that there are (None: not told); `notes`: what was assumed, a sentence
    each; `source` for the workload file."""

    profile: LengthProfile
    engine: str
    model: str
    answers: LengthFacts
    hit_share: float | None
    source: str
    notes: tuple[str, ...] = ()


class Verdict(StrEnum):
    """How a measured figure lies beside the promised one. `AS_PLANNED`: within the plan's band. `UNKNOWN`: nothing is
    promised there."""

    AS_PLANNED = "as planned"
    BETTER = "better"
    WORSE = "worse"
    UNKNOWN = "not promised"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedFigure:
    """One figure of an island, a bucket or the whole plan: promised and measured, in `unit`.

    `low`, `high`: where the measured one may lie by the plan's bands (None: it has none there, or none that bears on
    the figure). `basis`: what stands for what.
    """

    subject: str
    phase: Phase | None
    name: str
    unit: str
    promised: float | None
    measured: float
    low: float | None = None
    high: float | None = None
    verdict: Verdict = Verdict.UNKNOWN
    basis: str = ""

    @property
    def ratio(self) -> float | None:
        """Measured over promised."""
        return self.measured / self.promised if self.promised else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedIsland:
    """How one island was loaded. Shares of its time (None: its engine does not tell); `ranks`: attention groups that
    were scraped, of `planned_ranks`. `pace`: measured over predicted speed of its steps, where `measurement` could be
    taken; else `why_not`."""

    island: str
    gpu: str
    phase: Phase
    requests_rps: float
    planned_rps: float
    busy: float | None
    backlog: float | None
    running: float | None
    waiting: float | None
    ranks: float | None
    planned_ranks: int
    measurement: Measurement | None = None
    predicted_ms: float | None = None
    why_not: str = ""

    @property
    def pace(self) -> float | None:
        """Speed of its steps over the predicted one."""
        if self.measurement is None or self.predicted_ms is None:
            return None
        return self.predicted_ms / self.measurement.ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A running deployment beside its plan. `rate_rps`: of the whole mix, as it came; `start_s` and `end_s`: the time
    of the answers (seconds since 1970). `advice`: what to do next, the most urgent first."""

    plan: str
    rate_rps: float
    promise_rps: float
    capacity_rps: float
    start_s: float
    end_s: float
    samples: int
    figures: tuple[ComparedFigure, ...]
    islands: tuple[ObservedIsland, ...]
    advice: tuple[str, ...] = field(default=())
    notes: tuple[str, ...] = field(default=())

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """Step times that a calibration can be fitted to."""
        return tuple(island.measurement for island in self.islands if island.measurement is not None)
