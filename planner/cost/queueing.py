"""Waiting before servers: M/G/c.

| symbol | meaning | unit |
|---|---|---|
| c | servers, need not be whole | 1 |
| rho | utilisation: arrival rate times service time / c | 1 |
| a = c rho | offered load | 1 |
| B, C | Erlang B and C: chance that all servers are busy without, with a queue | 1 |
| S | mean service time | ms |
| ca2, cs2 | squared coefficients of variation of the gaps between arrivals (1: Poisson) and of the service times | 1 |
| W | wait in the queue | ms |

B = a^c e^-a / c! / Q(c + 1, a), Q the regularised upper incomplete gamma function: no sum, no overflow
C = B / (1 - rho (1 - B))
E[W] = C S / (c (1 - rho)) (ca2 + cs2) / 2: exact for M/M/c and M/G/1 (Pollaczek-Khinchine), else approximate
P(W > x) = C exp(-x / eta), eta = E[W] / C: exact for M/M/c
Sources: Erlang 1917; Allen, Probability, Statistics and Queueing Theory, 1990, section 5.3.5 (Allen-Cunneen); Whitt,
Approximations for the GI/G/m Queue, 1993 (tail).
"""

import numpy as np

from planner.cost.arrays import Array, Numbers, as_array

POISSON = 1.0


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
    arrival_variation: Numbers = POISSON,
) -> Array:
    """Mean wait in the queue of all arrivals (ms); inf from utilisation 1 on. Variations are ca2 and cs2."""
    delay = _delay(servers, utilisation, service_ms, service_variation, arrival_variation)
    return np.asarray(erlang_c(servers, utilisation) * delay)


def wait_quantile(
    servers: Numbers,
    utilisation: Numbers,
    service_ms: Numbers,
    *,
    misses: Numbers,
    service_variation: Numbers = 0.0,
    arrival_variation: Numbers = POISSON,
) -> Array:
    """The wait that only a share `misses` of all arrivals exceeds (ms); 0 where no more than these wait at all."""
    waits = erlang_c(servers, utilisation)
    delay = _delay(servers, utilisation, service_ms, service_variation, arrival_variation)
    over = np.log(np.maximum(waits / as_array(misses), 1.0))
    # Where nobody waits the delay may be infinite, and inf times 0 is no number.
    return np.asarray(np.where(over > 0, delay * np.maximum(over, 1e-300), 0.0))


def _delay(
    servers: Numbers, utilisation: Numbers, service_ms: Numbers, service_variation: Numbers, arrival_variation: Numbers
) -> Array:
    """eta: mean wait of those who wait."""
    spare = as_array(servers) * np.maximum(1 - as_array(utilisation), 0.0)
    variation = (as_array(arrival_variation) + as_array(service_variation)) / 2
    with np.errstate(divide="ignore"):
        return np.asarray(as_array(service_ms) * variation / spare)
