"""What can make a plan fail although its numbers are right: bursts, lost nodes, estimates, odds below even."""

import math
from collections.abc import Iterator
from statistics import NormalDist

from planner.domain import Plan
from planner.report.kit.bands import banded_rate
from planner.report.kit.markdown import escaped
from planner.report.kit.quantities import counted, percent, significant

LITTLE_LEFT = 0.5
"""Share of the capacity below which what a lost node leaves is a risk to name."""
_OUTER = NormalDist().inv_cdf(0.9)


def risks(plan: Plan) -> list[str]:
    """A sentence or two each, the gravest first; escaped Markdown."""
    if plan.throughput_rps <= 0:
        return []
    return [*_lost_nodes(plan), *_bursts(plan), *_odds(plan), *_estimated_prices(plan)]


def _lost_nodes(plan: Plan) -> Iterator[str]:
    """Pools whose loss stops much of the service."""
    counts = {pool.island: pool.count for pool in plan.outlook.pools}
    for loss in sorted(plan.outlook.losses, key=lambda loss: loss.rate_rps):
        share = loss.rate_rps / plan.throughput_rps
        if share >= LITTLE_LEFT:
            continue
        left = "nothing" if loss.rate_rps <= 0 else f"{percent(share)} of the capacity"
        count = counts[loss.island]
        taken = f"{loss.servers} of its {counted(count, 'server')}"
        if loss.servers == count:
            taken = "its only server" if count == 1 else f"all of its {count} servers"
        yield (
            f"**Single point of failure: a lost {'node' if loss.nodes == 1 else f'set of {loss.nodes} nodes'} of "
            f"{escaped(loss.island)} leaves {left}** ({significant(max(loss.rate_rps, 0.0))} requests/s), as it takes "
            f"{taken}. `survive` plans for what has to remain."
        )


def _bursts(plan: Plan) -> Iterator[str]:
    buckets = plan.outlook
    if not buckets.levels_set:
        return
    if buckets.bursts_bind and buckets.burst_rps is not None:
        yield (
            f"**Bursts: of the promise of {significant(buckets.promise_rps)} requests/s only "
            f"{significant(buckets.burst_rps)} remain where requests bunch as in the trace** "
            f"({percent(buckets.burst_rps / buckets.promise_rps)}); the higher figure is for independent arrivals."
        )
    elif buckets.burst_rps is None:
        yield (
            "**Bursts are not known**: the workload has no arrival times, so the promise is for independent arrivals; "
            "requests that bunch leave less of it."
        )


def carried_odds(plan: Plan) -> float | None:
    """How likely the GPUs serve the promised rate, by the band of the plan's rate taken as log-normal; None where there
    is no band."""
    banded = banded_rate(plan)
    if banded is None or banded.low <= 0 or banded.high <= banded.low:
        return None
    middle, spread = (math.log(banded.low * banded.high) / 2, math.log(banded.high / banded.low) / (2 * _OUTER))
    return 1.0 - NormalDist(middle, spread).cdf(math.log(plan.outlook.promise_rps))


def _odds(plan: Plan) -> Iterator[str]:
    odds, banded = carried_odds(plan), banded_rate(plan)
    if odds is None or banded is None or odds >= 0.5:
        return
    yield (
        f"**By its own band the promise of {significant(plan.outlook.promise_rps)} requests/s is below even odds**: "
        f"the GPUs serve as much with a probability of {percent(odds)} (P10\u2013P90 of the capacity: {banded.range}). "
        "Measure before you rely on it, or plan for less."
    )


def _estimated_prices(plan: Plan) -> Iterator[str]:
    """List prices that nobody publishes, where the answer counts money."""
    row = plan.scenario.objective.kind.row
    guessed = [item for item in plan.scenario.inventory.items if item.price_estimated]
    if not guessed:
        return
    names = ", ".join(f"{escaped(item.gpu.name)} ({item.price_usd_per_gpu_hour:g} USD/hour)" for item in guessed)
    if row.rents or row.priced:
        yield f"**Prices that nobody publishes help to decide the answer**: estimates for {names}. Give your own."
    elif any(plan.fleet[item.gpu.name] for item in guessed):
        yield f"Prices that nobody publishes are in all sums of money here: estimates for {names}."
