"""How bounds on TTFT and TPOT cap batches and utilisation, of an island that serves one range or many.

| symbol | meaning | unit |
|---|---|---|
| p | share of requests that a bound must hold for; None: it holds for the mean | 1 |
| u | utilisation cap of a replica: rate = u times what it could serve | 1 |
| w[j] | share of its busy time that goes to range j; 0: it does not serve it | 1 |
| slack | what the other parts of TTFT leave for the wait, the least of the ranges served | ms |

TTFT = wait + prefill + KV transfer + first decode step. The wait must fit into what the other three leave: `queueing`
gives the largest u. A percentile's misses, 1 - p, are shared evenly by the queue before prefill and the one for a place
in a decode batch: at most (1 - p)/2 of the requests find no place there. For the mean, the wait for a place may take
PLACE_SHARE of the TTFT bound. First decode step: the TPOT bound, FIRST_STEP_MS without one.
TPOT: for the mean, over the mean answer at the range's midpoint; for a percentile, at the end of a mean answer to the
range's longest prompt. KV transfer: what lies on one GPU of the group, over the sender's own NIC, or what the path of
a placed island leaves of it.

Of ranges that share one queue the answer is the largest utilisation at which the wait in the mixture keeps within the
slack: the table's `utilisation_limits` are the same for a range alone. Many mixtures are asked at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.cost import attention
from planner.cost.arrays import Array, ceil_divide
from planner.cost.device import CostContext
from planner.cost.efficiency import efficiency_of
from planner.cost.grid import Degrees
from planner.cost.queueing import Queue
from planner.domain import PHASES, Phase, PhasePerformance, SloSettings, Workload, kv_gb
from planner.domain.service import range_bounds

FIRST_STEP_MS = 50.0
PLACE_SHARE = 0.05
_BYTE_PER_MS = 1e6  # of 1 GB/s
ANSWERS_VARY = 1.0  # squared coefficient of variation of the time in a decode batch: exponential


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceBounds:
    """Bounds per range, shape (1, ranges), inf where there is none (ms); `misses`: 1 - p, None for the mean."""

    ttft_ms: Array
    tpot_ms: Array
    misses: float | None

    @classmethod
    def of(cls, slo: SloSettings | None, workload: Workload) -> "ServiceBounds | None":
        """The bounds on the ranges of `workload`; None where nothing is bounded."""
        if slo is None or not slo.bounds_anything:
            return None
        pairs = [range_bounds(slo, span) for span in workload.ranges]
        ttft, tpot = (np.array([[np.inf if b is None else b for b in column]]) for column in zip(*pairs, strict=True))
        return cls(ttft_ms=ttft, tpot_ms=tpot, misses=None if slo.percentile is None else 1 - slo.percentile / 100)

    @property
    def wait_misses(self) -> float | None:
        """Share of requests that may miss the bound in one of the two queues."""
        return None if self.misses is None else self.misses / 2

    @property
    def first_step_ms(self) -> Array:
        """Time set aside for the first decode step."""
        return np.asarray(np.where(np.isfinite(self.tpot_ms), self.tpot_ms, FIRST_STEP_MS))

    @property
    def place_wait_ms(self) -> Array:
        """Time set aside for the mean wait for a place in a decode batch; 0 where few enough wait at all."""
        if self.misses is not None:
            # The quantile itself bounds how many wait: those who do not, wait for nothing.
            return np.where(np.isfinite(self.ttft_ms), 0.0, np.inf)
        return np.asarray(PLACE_SHARE * self.ttft_ms)

    @property
    def bounds_ttft(self) -> bool:
        """Whether the TTFT of some range is bounded."""
        return bool(np.isfinite(self.ttft_ms).any())

    @property
    def bounds_tpot(self) -> bool:
        """Whether the TPOT of some range is bounded."""
        return bool(np.isfinite(self.tpot_ms).any())

    def prefill_slack_ms(self, service_ms: Array) -> Array:
        """What a prefill of `service_ms`, transfer included, leaves for the wait; negative where it takes too long."""
        set_aside = self.first_step_ms if self.misses is not None else self.first_step_ms + self.place_wait_ms
        with np.errstate(invalid="ignore"):
            return np.where(np.isinf(self.ttft_ms), np.inf, self.ttft_ms - service_ms - set_aside)


def prefill_limits(bounds: ServiceBounds, degrees: Degrees, prompts: Array, ms: Array, service_ms: Array) -> Array:
    """u of steps of `prompts` prompts a rank that take `ms`; 0 where even an idle replica is too slow."""
    queue = _alone(degrees.dp * np.maximum(prompts, 1), ms / degrees.pp)
    limits = queue.largest_utilisation(bounds.prefill_slack_ms(service_ms), bounds.wait_misses)
    return np.asarray(np.where(np.isfinite(ms), limits, 0.0))


def decode_limits(bounds: ServiceBounds, degrees: Degrees, batch: Array, tpot_ms: Array, tokens: Array) -> Array:
    """u of a decode batch of `batch` sequences a group, answers of `tokens` tokens."""
    queue = _alone(degrees.dp * np.maximum(batch, 1), tokens * tpot_ms, in_steps=False, variation=ANSWERS_VARY)
    slack = np.broadcast_to(bounds.place_wait_ms, batch.shape)
    return queue.largest_utilisation(slack, bounds.wait_misses)


def _alone(places: Array, interval_ms: Array, *, in_steps: bool = True, variation: float = 0.0) -> Queue:
    """A replica that serves one range."""
    places, interval_ms = (a[..., None] for a in np.broadcast_arrays(places, interval_ms))
    return Queue(
        places=places, interval_ms=interval_ms, shares=np.ones(places.shape), in_steps=in_steps, variation=variation
    )


def mixture(
    phase: Phase, places: list[float], interval_ms: list[float], shares: list[float], tokens: float = 1.0
) -> Queue:
    """One replica that serves several ranges, `shares` of its busy time each (they sum to 1).

    `interval_ms`: time between starts of steps (prefill), TPOT (decode, answers of `tokens` tokens).
    """
    decode = phase is Phase.DECODE
    return Queue(
        places=np.array(places),
        interval_ms=np.array(interval_ms) * (tokens if decode else 1.0),
        shares=np.array(shares),
        in_steps=not decode,
        variation=ANSWERS_VARY if decode else 0.0,
    )


def largest_batch_within(tpot_ms: Callable[[Array], Array], largest: Array, smallest: Array, bound_ms: Array) -> Array:
    """Largest whole batch in smallest..largest whose TPOT is at most the bound, 0 where there is none.

    TPOT grows with the batch; NaN (no answer) counts as small: a source answers from some batch on.
    """

    def holds(batch: Array) -> NDArray[np.bool_]:
        return ~(tpot_ms(np.maximum(batch, 1)) > bound_ms)

    low = np.where((largest >= smallest) & holds(smallest), smallest, 0)
    high = np.where(low > 0, largest, 0)
    while (low < high).any():
        middle = np.ceil((low + high) / 2)
        enough = holds(middle)
        low, high = np.where(enough, middle, low), np.where(enough, high, middle - 1)
        high = np.maximum(low, high)  # cells that are done must not cross
    answered = np.isfinite(tpot_ms(np.maximum(low, 1)))
    return np.asarray(np.where(answered, low, 0))


def transfer_ms(context: CostContext, length: Array, degrees: Degrees) -> Array:
    """Time in which the cache of a prompt of `length` tokens leaves its GPUs, each over its own NIC."""
    gpu, model, settings = context.gpu, context.model, context.settings
    path = 1.0 if settings.reach is None else settings.reach.path
    bytes_per_ms = gpu.nic_gb_s * efficiency_of(gpu, settings.calibration).nic(Phase.PREFILL) * path * _BYTE_PER_MS
    layer_share = ceil_divide(model.layers, degrees.pp) / model.layers
    return np.asarray(attention.cache_bytes_per_sequence(model, length, degrees.tp) * layer_share / bytes_per_ms)


def nic_s(context: CostContext, prompts: Array, devices: Array) -> Array:
    """Seconds that handing over the cache of a prompt takes of the NICs of servers of so many `devices`, shape
    (servers,), of what KV caches may have of them; `prompts`: tokens, shape (ranges,). Shape (servers, ranges), 0
    where no network is given. One copy of the cache goes over all NICs of a server, whatever its ranks keep."""
    network, reach = context.network, context.settings.reach
    if network is None:
        return np.zeros((len(devices), len(prompts)))
    gb_s = context.gpu.nic_gb_s * network.nic_share * (1.0 if reach is None else reach.path)
    handed = np.array([kv_gb(context.model, prompt) for prompt in prompts.tolist()])
    return np.asarray(handed / (devices[:, None] * gb_s))


_NEGLIGIBLE = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """An island's work in one phase: `busy[j]`, shares of its busy time (of any sum), and its slack (ms)."""

    phase: Phase
    performance: PhasePerformance
    busy: tuple[float, ...]
    slack_ms: float


def admitted_shares(mixtures: Sequence[Mixture], mean_output_tokens: float, misses: float | None) -> list[float]:
    """The share of its time that an island of each mixture may work; 1 where it need not keep to anything.

    `misses`: the share of requests that may miss the bound in this queue; None: the bound holds for the mean.
    """
    shares = np.ones(len(mixtures))
    for phase in PHASES:
        members = [k for k, mixture in enumerate(mixtures) if mixture.phase is phase]
        if members:
            slack = np.array([mixtures[k].slack_ms for k in members])
            queue = _queue(phase, [mixtures[k] for k in members], max(1.0, mean_output_tokens))
            shares[members] = queue.largest_utilisation(slack, misses)
    return [float(share) for share in shares]


def _queue(phase: Phase, mixtures: Sequence[Mixture], tokens: float) -> Queue:
    """The queues of all mixtures of a phase, one a row."""
    busy = np.array([mixture.busy for mixture in mixtures])
    parallel = [mixture.performance.parallel for mixture in mixtures]
    groups = np.array([[float(config.dp if config else 1)] for config in parallel])
    stages = np.array([[float(config.pp if config and phase is Phase.PREFILL else 1)] for config in parallel])
    places = np.array([mixture.performance.batch_sizes for mixture in mixtures]) * groups
    times = np.array([mixture.performance.step_ms for mixture in mixtures]) / stages
    decode, served = phase is Phase.DECODE, busy > _NEGLIGIBLE
    return Queue(
        # Ranges that it does not serve have no times: any do, as their share is 0.
        places=np.where(served, places, 1.0),
        interval_ms=np.where(served, times, 1.0) * (tokens if decode else 1.0),
        shares=np.where(served, busy, 0.0) / busy.sum(axis=1, keepdims=True),
        in_steps=not decode,
        variation=ANSWERS_VARY if decode else 0.0,
    )
