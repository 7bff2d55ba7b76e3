"""Benchmark runs: what somebody measured of a whole deployment under load, with its conditions."""

from dataclasses import dataclass, field
from enum import StrEnum

from planner.domain.gpu import GpuSpec
from planner.domain.layout import ParallelConfig, Phase
from planner.domain.model.spec import ModelSpec


class Load(StrEnum):
    """How a run was loaded, and hence what its figures mean.

    `closed_loop`: so many requests kept in flight. `saturated`: requests always waiting. `static_batch`: a batch
    started together and run to its end. `first_token`: the prefill of one batch. `prefill_step`, `decode_step`: steps
    of one phase alone.
    """

    CLOSED_LOOP = "closed loop"
    SATURATED = "saturated"
    STATIC_BATCH = "static batch"
    PROMPT_BATCH = "first token"
    PREFILL_STEP = "prefill step"
    DECODE_STEP = "decode step"


class Metric(StrEnum):
    """What was measured, with its unit. Rates per GPU count the GPUs of the pool that the metric belongs to."""

    OUTPUT_RATE = "output_tokens_per_s_per_gpu"
    INPUT_RATE = "input_tokens_per_s_per_gpu"
    TTFT = "ttft_p50_ms"
    TPOT = "tpot_p50_ms"
    LATENCY = "latency_ms"
    STEP = "step_ms"

    @property
    def is_time(self) -> bool:
        """Whether less is better: a time, not a rate."""
        return self.value.endswith("_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Equal workers. A worker has `dp` attention groups of `tp` GPUs; experts are spread over `ep` of its GPUs.

    `ep` 1: experts are split like dense weights (tensor parallel).
    """

    tp: int
    dp: int = 1
    ep: int = 1
    workers: int = 1

    @property
    def worker_gpus(self) -> int:
        """GPUs of one worker."""
        return self.tp * self.dp

    @property
    def gpus(self) -> int:
        """GPUs of all workers."""
        return self.worker_gpus * self.workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Bytes per element of dense weights, experts and cached elements; tokens drafted a step. `text`: what the source
    says. `doubt`: why the run cannot be predicted, a sentence; empty where nothing speaks against it. Neither decides
    whether two are the same.
    """

    weight_bytes: float = 1.0
    expert_bytes: float = 1.0
    kv_bytes: float = 1.0
    mtp_tokens: int = 0
    text: str = field(default="", compare=False)
    doubt: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkRun:
    """One run, with all that was measured in it: (metric, value) pairs.

    Requests of `input_tokens` in and `output_tokens` out (means). `concurrency`: requests in flight (closed loop) or
    the batch of all GPUs (static, first token); `batch_per_rank`: of steps, where the source gives it. `prefill` is
    None in an aggregated deployment: `decode` then is the pool that does both. `mtp_gain`: tokens that a pass yields
    with drafted ones, where the run tells it. `row`: of the file, the first after the header is 1.
    `file_metric`, `file_scale`: what its file calls its one figure, and the figure there over that in `measured`.
    `doubt`: why nothing may be concluded from the run, a sentence: it is neither judged nor fitted to.
    """

    row: int
    gpu: str
    model: str
    load: Load
    decode: Pool
    input_tokens: float
    output_tokens: float
    measured: tuple[tuple[Metric, float], ...]
    prefill: Pool | None = None
    concurrency: float | None = None
    batch_per_rank: float | None = None
    engine: str = ""
    engine_version: str = ""
    precision: Precision = Precision()
    mtp_gain: float | None = None
    year: int | None = None
    file: str = ""
    source: str = ""
    file_metric: str = ""
    file_scale: float = 1.0
    doubt: str = ""

    @property
    def disaggregated(self) -> bool:
        """Whether prefill and decode have GPUs of their own."""
        return self.prefill is not None

    @property
    def prompts_alone(self) -> bool:
        """Whether its requests are answered with one token, in a loop: then it takes in prompts, and nothing else."""
        return self.output_tokens == 1 and self.load in (Load.CLOSED_LOOP, Load.SATURATED) and not self.disaggregated


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRun:
    """A run with the records of its GPU type and model; or, where one is None, the `reason`: a sentence.

    `hint` says what would help.
    """

    run: BenchmarkRun
    gpu: GpuSpec | None
    model: ModelSpec | None
    reason: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedFigure:
    """One measured figure beside the predicted one; None with the `reason` where nothing can be said.

    `low` and `high`: P10 and P90 of what may be measured, in the metric's unit. `kind`: of figure, `slices`: what the
    run is one of, by dimension (GPU, model, engine, phase and so on). `left_out`: what a fit without the
    run's configuration predicted, `peer`: what the peer's tables say, each where it is on record.
    """

    run: BenchmarkRun
    metric: Metric
    measured: float
    predicted: float | None
    kind: str
    slices: tuple[tuple[str, str], ...]
    low: float | None = None
    high: float | None = None
    left_out: float | None = None
    peer: float | None = None
    reason: str = ""

    @property
    def rate_error(self) -> float:
        """Predicted rate over the measured one, less 1 (of a time: the inverse); 1 where nothing is said.

        Of a run that the fit has seen the prediction left out of it counts, where one is on record.
        """
        return self._rate_error(self.predicted if self.left_out is None else self.left_out)

    @property
    def peer_error(self) -> float:
        """As `rate_error`, of the peer."""
        return self._rate_error(self.peer)

    def _rate_error(self, prediction: float | None) -> float:
        if prediction is None:
            return 1.0
        return (self.measured / prediction if self.metric.is_time else prediction / self.measured) - 1

    @property
    def slice(self) -> str:
        """All that the figure is one of, in words."""
        return ", ".join((self.kind, *(word for _, word in self.slices)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceError:
    """How far rates are off in one slice of figures: mean and median of the absolute errors, each at most 1, and bias.

    `bias` is the median error: positive where predicted rates are too high. `unanswered`: figures without a prediction.
    `covered`, `interval`: as in `Accuracy`, None without bands. `peer`: mean error of the peer over the `peer_points`
    figures that its tables have an answer to, `beside_peer`: ours over the same; None where there are none.
    """

    dimension: str
    name: str
    points: int
    mean: float
    median: float
    bias: float
    unanswered: int = 0
    covered: float | None = None
    interval: float | None = None
    peer_points: int = 0
    beside_peer: float | None = None
    peer: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Predictions judged: by slice, worst first in `worst`; `pairs` of GPU types at equal work, `in_order` of them.

    Only pairs count whose measured rates differ by more than 15 %. `covered`: share of the figures within their bands,
    `interval`: mean interval score of these (in logarithms; the less the better).
    """

    figures: tuple[JudgedFigure, ...]
    slices: tuple[SliceError, ...]
    worst: tuple[JudgedFigure, ...]
    pairs: int
    in_order: int
    covered: float
    interval: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedRun:
    """A benchmark run that would tell of a decision: a closed loop on one copy of the model.

    `parallel`: its degrees, `batch_size` as of a server of that phase. Requests of `input_tokens` in and
    `output_tokens` out tell about `phase` nearly alone; `concurrency` in flight, `requests` in all.
    `predicted_tokens_per_s` of the copy: of prompts in prefill and else of answers; `spread`: how far off that may be
    (standard deviation of its log). `hours`: of the copy's GPUs, which cost `cost_usd`. `worth_rps`: of the regret,
    beyond the runs proposed before it.
    """

    gpu: str
    phase: Phase
    parallel: ParallelConfig
    batch_size: int
    input_tokens: int
    output_tokens: int
    concurrency: int
    requests: int
    predicted_tokens_per_s: float
    spread: float
    hours: float
    cost_usd: float
    worth_rps: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuringAdvice:
    """What to measure before deciding on pools.

    `label`: the best by what is known now, of `decisions` that were compared, each the best where servers are otherwise
    or of one GPU type alone. `expected_rps`: its mean over the draws; `regret_rps`: what deciding now is expected to
    lose against knowing every pace. `usd_per_rps_hour`: what a request/s costs at the plan's rent, 0 where nothing has
    a price. `days`: of operation that runs are ranked for. `runs`: the most useful first; `considered`: how
    many they were chosen from.
    """

    label: str
    decisions: int
    draws: int
    days: float
    expected_rps: float
    regret_rps: float
    usd_per_rps_hour: float
    runs: tuple[ProposedRun, ...]
    considered: int

    @property
    def worth_rps(self) -> float:
        """What all runs together are expected to save (requests/s)."""
        return sum(run.worth_rps for run in self.runs)

    def share(self, amount_rps: float) -> float:
        """A part of the regret; 0 where there is none."""
        return amount_rps / self.regret_rps if self.regret_rps > 0 else 0.0

    def usd_per_day(self, amount_rps: float) -> float | None:
        """What so many requests/s cost a day; None where nothing has a price."""
        return 24 * self.usd_per_rps_hour * amount_rps if self.usd_per_rps_hour else None

    def days_to_pay(self, run: ProposedRun) -> float | None:
        """Days of operation after which a run has paid for itself; None where nothing has a price."""
        worth = self.usd_per_day(run.worth_rps)
        return run.cost_usd / worth if worth else None
