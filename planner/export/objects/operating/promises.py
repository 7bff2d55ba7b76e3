"""What a plan promises, as constants beside what is measured. Times in s, rates in requests/s.

| rule | meaning |
|---|---|
| planner:promised_requests:rate | of an island, at the plan's promise |
| planner:promised_ttft_seconds | of a bucket, P50 and the percentile of the levels, at the load that `load` names |
| planner:promised_tpot_seconds | the same |
| planner:bucket_ttft_seconds, ..._tpot_seconds | measured, over the islands of the bucket |
| planner:bucket_..._seconds:over_promise | measured over promised, at the promise |

Where phases are split, TTFT is measured at the decode servers if these tell the user's own (SGLang); else it is that of
the prefill servers and on top the mean of the decode servers', which is the cache's way and the first step of decode
(vLLM): quantiles cannot be added, and the second part varies little.
"""

from collections.abc import Iterator
from typing import Any

from planner.domain import BucketLatency, LoadPoint, Phase, Plan
from planner.domain.serving.observed import EDGE, ISLAND, PLAN, Quantity
from planner.export.islands import ServingIsland
from planner.export.objects.names import label_value
from planner.units import MS_PER_S

Rule = dict[str, Any]
_LOADS = (LoadPoint.DEMAND, LoadPoint.PROMISE)
_NAMES = {Phase.PREFILL: ("ttft", Quantity.TTFT), Phase.DECODE: ("tpot", Quantity.TPOT)}


def promised_share(plan: Plan) -> float:
    """The promise over the throughput, which islands' rates are told at; 1 where nothing is served."""
    if not plan.throughput_rps:
        return 1.0
    return plan.outlook.promise_rps / plan.throughput_rps


def _quantiles(plan: Plan) -> tuple[tuple[str, str], ...]:
    """Quantiles with the times that the plan promises at them; of bounds of the mean, the median alone."""
    late = plan.scenario.slo.late_share
    return (("0.5", "p50_ms"), *(() if late is None else ((f"{1 - late:g}", "late_ms"),)))


def island_rules(plan: Plan, name: str, islands: tuple[ServingIsland, ...]) -> Iterator[Rule]:
    """Of every island: its quantiles, its promised rate, and the measured rate over it."""
    for stem, histogram in _NAMES.values():
        for quantile, _ in _quantiles(plan):
            yield _rule(
                f"planner:island_{stem}_seconds",
                f'histogram_quantile({quantile}, {histogram.value}{{{PLAN}="{name}"}})',
                {"quantile": quantile},
            )
    for island in islands:
        label = label_value(island.slug)
        promised = _number(island.rate_rps * promised_share(plan))
        yield _rule("planner:promised_requests:rate", f"vector({promised})", {PLAN: name, ISLAND: label})
    yield _rule(
        "planner:requests:over_promise",
        f'{Quantity.REQUESTS.value}{{{PLAN}="{name}"}} / on ({PLAN}, {ISLAND}) planner:promised_requests:rate',
        {},
    )


def bucket_rules(plan: Plan, name: str, islands: tuple[ServingIsland, ...], *, ttft_at_decode: bool) -> Iterator[Rule]:
    """Of every bucket with a promise: the promise, what is measured, and their ratio."""
    rows = [row for row in plan.outlook.latencies if row.load in _LOADS]
    for row in rows:
        stem, _ = _NAMES[row.phase]
        for quantile, key in _quantiles(plan):
            promised = getattr(row, key)
            if promised is not None:
                labels = _bucket_labels(row, name) | {"load": row.load.value, "quantile": quantile}
                yield _rule(f"planner:promised_{stem}_seconds", f"vector({_number(promised / MS_PER_S)})", labels)
    for row in rows:
        if row.load is LoadPoint.PROMISE:
            tellers = told_by(plan, row, ttft_at_decode=ttft_at_decode)
            later = frozenset() if ttft_at_decode else decoding_later(plan, row)
            yield from _measured(plan, row, name, _pattern(islands, tellers), _pattern(islands, later))


def _pattern(islands: tuple[ServingIsland, ...], ids: frozenset[str]) -> str:
    return "|".join(sorted(label_value(island.slug) for island in islands if island.id in ids))


def _measured(plan: Plan, row: BucketLatency, name: str, tellers: str, later: str) -> Iterator[Rule]:
    """`later`: those whose own TTFT comes on top."""
    stem, histogram = _NAMES[row.phase]
    if not tellers:
        return
    series = f'{histogram.value}{{{PLAN}="{name}",{ISLAND}=~"{tellers}"}}'
    for quantile, key in _quantiles(plan):
        labels = _bucket_labels(row, name) | {"quantile": quantile}
        measured = f"planner:bucket_{stem}_seconds"
        expression = f"histogram_quantile({quantile}, sum by ({EDGE}) ({series}))"
        yield _rule(measured, expression + (f" + {_mean_ttft(name, later)}" if later else ""), labels)
        if promised := getattr(row, key):
            matchers = ",".join(f'{label}="{value}"' for label, value in sorted(labels.items()))
            ratio = f"{measured}{{{matchers}}} / {_number(promised / MS_PER_S)}"
            yield _rule(f"{measured}:over_promise", ratio, labels)


def _mean_ttft(name: str, islands: str) -> str:
    pods = f'{PLAN}="{name}",{ISLAND}=~"{islands}"'
    count = f'{Quantity.TTFT.value}{{{pods},{EDGE}="+Inf"}}'
    return f"scalar(sum({Quantity.TTFT_SUM.value}{{{pods}}}) / sum({count}))"


def told_by(plan: Plan, row: BucketLatency, *, ttft_at_decode: bool) -> frozenset[str]:
    """Islands whose histogram tells of a bucket: those of its phase; of TTFT, where decode servers tell it, those that
    decode its prompts and no others. Empty where no island does that."""
    phase = Phase.DECODE if ttft_at_decode else row.phase
    pools = [pool for pool in plan.outlook.pools if pool.serves(phase)]
    touching = [pool for pool in pools if pool.start < row.end and row.start < pool.end]
    apart = all(row.start <= pool.start and pool.end <= row.end for pool in touching)
    return frozenset(pool.island for pool in touching) if apart else frozenset()


def decoding_later(plan: Plan, row: BucketLatency) -> frozenset[str]:
    """Islands that decode what prefill servers of a TTFT's bucket hand over; none of those that do both."""
    pools = plan.outlook.pools
    touching = [pool for pool in pools if pool.start < row.end and row.start < pool.end]
    ids = frozenset(pool.island for pool in touching if pool.phase is Phase.DECODE)
    return ids if row.phase is Phase.PREFILL else frozenset()


def _bucket_labels(row: BucketLatency, name: str) -> dict[str, str]:
    return {PLAN: name, "planner_phase": row.phase.value, "planner_bucket": f"{row.start}-{row.end - 1}"}


def _rule(record: str, expression: str, labels: dict[str, str]) -> Rule:
    return {"record": record, "expr": expression, **({"labels": labels} if labels else {})}


def _number(value: float) -> str:
    return f"{value:.6g}"
