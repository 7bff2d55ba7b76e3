"""Waiting before one replica that takes prompts in steps, or sequences in places.

| symbol | meaning | unit |
|---|---|---|
| u | utilisation of the replica | 1 |
| w[k] | share of its busy time on prompts of kind k | 1 |
| m[k] | places of a step (all ranks) or of a decode batch (all groups) | 1 |
| T[k] | time between two starts of steps (prefill: t / pp), or that a sequence stays (decode) | ms |
| c | servers: mean places over prompts, sum_k w m/T / sum_k w/T | 1 |
| S[k] = c T[k] / m[k] | service time on one of c servers | ms |
| b | chance that a step is under way: min(1, u sum_k w m); half-empty steps last as long as full ones | 1 |

Ranks share experts, so they start steps together: a prompt waits for the step under way to end, b sum_k w T/2 on
average, P(> x) = b sum_k w (1 - x/T)+, and then in an M/G/c queue for a place. One place (c = 1): M/G/1 holds the rest
of the step already, but for quantiles where rare prompts are very long. Quantiles of both are added, which overstates
the whole. Arrivals are Poisson.
Not in it: pauses of short prompts' ranks while another rank takes a longer step.

The M/G/c queue:

| symbol | meaning | unit |
|---|---|---|
| c | servers, need not be whole | 1 |
| rho | utilisation: arrival rate times service time / c | 1 |
| a = c rho | offered load | 1 |
| B, C | Erlang B and C: chance that all servers are busy without, with a queue | 1 |
| S | mean service time | ms |
| cs2 | squared coefficient of variation of the service times; that of the gaps between arrivals, Poisson's, is 1 | 1 |
| W | wait in the queue | ms |

B = a^c e^-a / c! / Q(c + 1, a), Q the regularised upper incomplete gamma function: no sum, no overflow
C = B / (1 - rho (1 - B))
E[W] = C S / (c (1 - rho)) (1 + cs2) / 2: exact for M/M/c and M/G/1 (Pollaczek-Khinchine), else approximate
P(W > x) = C exp(-x / eta), eta = E[W] / C: exact for M/M/c
Sources: Erlang 1917; Allen, Probability, Statistics and Queueing Theory, 1990, section 5.3.5 (Allen-Cunneen); Whitt,
Approximations for the GI/G/m Queue, 1993 (tail).
"""

from dataclasses import dataclass

import numpy as np

from planner.cost.arrays import Array, Numbers, as_array


def erlang_c(servers: Numbers, utilisation: Numbers) -> Array:
    """Chance that an arrival has to wait; 1 from utilisation 1 on. Arrays broadcast; `servers` > 0."""
    from scipy.special import gammaincc, gammaln  # noqa: PLC0415  (slow to load, needed under service levels only)

    c, rho = as_array(servers), np.clip(as_array(utilisation), 0.0, 1.0)
    load = c * rho
    # No load: its logarithm is -inf, and nobody waits.
    with np.errstate(divide="ignore"):
        alone = np.exp(c * np.log(load) - load - gammaln(c + 1))
    blocked = alone / gammaincc(c + 1, load)
    # At full load the quotient comes out about 1, by rounding above it, too.
    return np.asarray(np.minimum(blocked / (1 - rho * (1 - blocked)), 1.0))


def mean_wait(
    servers: Numbers,
    utilisation: Numbers,
    service_ms: Numbers,
    *,
    service_variation: Numbers = 0.0,
) -> Array:
    """Mean wait in the queue of all arrivals (ms); inf from utilisation 1 on. `service_variation`: cs2."""
    delay = _delay(servers, utilisation, service_ms, service_variation)
    return np.asarray(erlang_c(servers, utilisation) * delay)


def wait_quantile(
    servers: Numbers,
    utilisation: Numbers,
    service_ms: Numbers,
    *,
    misses: Numbers,
    service_variation: Numbers = 0.0,
) -> Array:
    """The wait that only a share `misses` of all arrivals exceeds (ms); 0 where no more than these wait at all."""
    waits = erlang_c(servers, utilisation)
    delay = _delay(servers, utilisation, service_ms, service_variation)
    over = np.log(np.maximum(waits / as_array(misses), 1.0))
    # Where nobody waits the delay may be infinite, and inf times 0 is no number.
    return np.asarray(np.where(over > 0, delay * np.maximum(over, 1e-300), 0.0))


def _delay(servers: Numbers, utilisation: Numbers, service_ms: Numbers, service_variation: Numbers) -> Array:
    """eta: mean wait of those who wait."""
    spare = as_array(servers) * np.maximum(1 - as_array(utilisation), 0.0)
    variation = (1.0 + as_array(service_variation)) / 2
    with np.errstate(divide="ignore"):
        return np.asarray(as_array(service_ms) * variation / spare)


_HALVINGS = 30
_ONE_SERVER = 1 + 1e-9
_EXPONENTIAL = 1.0  # squared coefficient of variation: where services vary more, M/G/1 has a tail beyond exponential


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """What waits before one replica. Arrays have shape (..., kinds); `shares` sum to 1 over the kinds.

    `in_steps`: all places start together. `variation`: of the service time within a kind (squared coefficient).
    """

    places: Array
    interval_ms: Array
    shares: Array
    in_steps: bool = True
    variation: float = 0.0

    @property
    def servers(self) -> Array:
        """c, shape (...)."""
        return np.asarray((self.shares * self.places / self.interval_ms).sum(-1) / self._starts)

    @property
    def _starts(self) -> Array:
        return np.asarray((self.shares / self.interval_ms).sum(-1))

    def _service(self) -> tuple[Array, Array, Array]:
        """(c, mean S, cs2)."""
        rate = (self.shares * self.places / self.interval_ms).sum(-1)
        servers = rate / self._starts
        between = rate * (self.shares * self.interval_ms / self.places).sum(-1) - 1
        return servers, np.asarray(servers / rate), np.asarray(np.maximum(between, 0.0) + self.variation)

    def _under_way(self, utilisation: Array) -> Array:
        return np.asarray(np.minimum(1.0, utilisation * (self.shares * self.places).sum(-1)))

    def mean_ms(self, utilisation: Array) -> Array:
        """Mean wait, shape (...)."""
        servers, service, variation = self._service()
        queue = mean_wait(servers, utilisation, service, service_variation=variation)
        if not self.in_steps:
            return queue
        residual_ms = self._under_way(utilisation) * (self.shares * self.interval_ms).sum(-1) / 2
        return np.asarray(queue + np.where(servers > _ONE_SERVER, residual_ms, 0.0))

    def meets(self, utilisation: Array, slack_ms: Array, misses: float | None) -> Array:
        """Whether the mean wait, or that of all but a share `misses`, is at most `slack_ms`; shape (...)."""
        if misses is None:
            return np.asarray((slack_ms >= 0) & (self.mean_ms(utilisation) <= slack_ms))
        return self._within(utilisation, slack_ms, misses, self._for_a_place_ms(utilisation, misses))

    def _for_a_place_ms(self, utilisation: Array, misses: float) -> Array:
        """The wait in the queue that only a share `misses` exceeds (ms), shape (...)."""
        servers, service, variation = self._service()
        return wait_quantile(servers, utilisation, service, misses=misses, service_variation=variation)

    def _within(self, utilisation: Array, slack_ms: Array, misses: float, for_a_place_ms: Array) -> Array:
        """`meets`, by the wait for a place."""
        servers, _, variation = self._service()
        margin_ms = slack_ms - for_a_place_ms
        fits = (slack_ms >= 0) & (margin_ms >= 0)
        if not self.in_steps:
            return np.asarray(fits)
        # With one place the queue has the rest of the step in it: the two are not added, but each must do.
        allowed_ms = np.where((servers > _ONE_SERVER) | (variation > _EXPONENTIAL), margin_ms, slack_ms)
        return np.asarray(fits & (self._late(utilisation, allowed_ms) <= misses))

    def _late(self, utilisation: Array, wait_ms: Array) -> Array:
        """Chance that the step under way lasts longer than `wait_ms`."""
        with np.errstate(invalid="ignore"):
            longer = np.maximum(1 - wait_ms[..., None] / self.interval_ms, 0.0)
        return np.asarray(self._under_way(utilisation) * (self.shares * longer).sum(-1))

    def quantile_ms(self, utilisation: Array, misses: float) -> Array:
        """The wait that `meets` just accepts (ms), shape (...)."""
        for_a_place_ms = self._for_a_place_ms(utilisation, misses)  # whatever the slack
        high = np.ones(np.shape(utilisation)) * self.interval_ms.max(-1)
        for _ in range(_HALVINGS):
            # Doubled until it is enough, as no wait is the longest.
            enough = self._within(utilisation, high, misses, for_a_place_ms)
            if enough.all():
                break
            high = np.where(enough, high, 2 * high)
        low = np.zeros(high.shape)
        for _ in range(2 * _HALVINGS):
            middle = (low + high) / 2
            enough = self._within(utilisation, middle, misses, for_a_place_ms)
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        # The end that is known to be enough.
        return np.asarray(high)

    def largest_utilisation(self, slack_ms: Array, misses: float | None) -> Array:
        """Utilisation up to which `meets` holds, in [0, 1), shape (...); 1 where the slack is infinite."""
        low = np.zeros(np.shape(slack_ms))
        high = np.ones(np.shape(slack_ms))
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            enough = self.meets(middle, slack_ms, misses)
            low, high = np.where(enough, middle, low), np.where(enough, high, middle)
        # The end that is known to hold.
        return np.asarray(np.where(np.isinf(slack_ms), 1.0, low))

    def largest_at(self, slack_ms: float, misses: float | None) -> float:
        """`largest_utilisation` of one queue."""
        return float(self.largest_utilisation(np.asarray(slack_ms), misses))


def largest_share(queue: Queue, utilisation: float, slack_ms: float, misses: float | None) -> float:
    """Share in [0, 1] of the load `utilisation` at which the wait of `queue` stays within `slack_ms`."""
    if bool(queue.meets(np.asarray(utilisation), np.asarray(slack_ms), misses)):
        return 1.0
    return min(1.0, queue.largest_at(slack_ms, misses) / utilisation)


def predicted_wait(queue: Queue, utilisation: float, misses: float | None) -> tuple[float, float | None]:
    """(mean, quantile) of the wait (ms); no quantile without `misses`."""
    load = np.asarray(utilisation)
    return float(queue.mean_ms(load)), None if misses is None else float(queue.quantile_ms(load, misses))
