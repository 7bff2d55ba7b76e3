"""What Prometheus must say before a roll-out goes on: that all engines answer which serve now, and no others; and that
times are within the levels.

| symbol | meaning | unit |
|---|---|---|
| R_i | attention groups of island i that are scraped: the series of the gauge of running requests | 1 |
| r_i | those that the plan has | 1 |
| q | of times to the first token, or per output token, of the islands that serve a bucket: the levels' statistic | s |

Before the next stage R_i = r_i of every island, no other island of the plan is scraped, and q is within the bound of
the bucket's longest prompt. A prefill server of vLLM counts the time to its own token: the way of the cache and a step
of decode come after it, so that its q is a little below the user's.
"""

from collections.abc import Iterator, Mapping, Sequence

from planner.domain import EngineProfile, Phase, Plan, SloSettings
from planner.domain.rollouts import GateQuery
from planner.domain.serving.observed import EDGE, ISLAND
from planner.export.objects.operating.monitoring import island_labels, plan_label
from planner.export.objects.operating.queries import PART_OF_ON_SERIES, EngineMetrics, complete_metrics
from planner.units import MS_PER_S


def gate_queries(plan: Plan, profile: EngineProfile, window: str, *, levels: bool) -> tuple[GateQuery, ...]:
    """Of what a plan has running; `levels`: of times over the window, too."""
    metrics, pods = complete_metrics(profile), f'{PART_OF_ON_SERIES}="{plan_label(plan)}"'
    labels = {island: label for label, island in island_labels(plan).items()}
    rows = tuple(_ready(plan, metrics, pods, labels))
    return (*rows, *_levels(plan, metrics, pods, labels, window)) if levels else rows


def _ready(plan: Plan, metrics: EngineMetrics, pods: str, labels: Mapping[str, str]) -> Iterator[GateQuery]:
    for island in plan.islands:
        if island.parallel is None or island.id not in labels:
            continue
        groups = island.parallel.dp * island.parallel.replicas
        yield GateQuery(
            name=f"attention groups of {island.id} that answer",
            query=f'count({metrics.running}{{{pods},{ISLAND}="{labels[island.id]}"}})',
            at_least=groups,
            at_most=groups,
            counts=True,
        )
    others = "|".join(labels.values())
    yield GateQuery(
        name="attention groups that should have stopped",
        query=f'count({metrics.running}{{{pods},{ISLAND}!~"{others}"}})',
        at_most=0,
        counts=True,
    )


def _levels(
    plan: Plan, metrics: EngineMetrics, pods: str, labels: Mapping[str, str], window: str
) -> Iterator[GateQuery]:
    slo = plan.scenario.slo
    told_by = Phase.DECODE if metrics.ttft_at_decode else Phase.PREFILL
    for name, metric, phase, place in (("TTFT", metrics.ttft, told_by, 0), ("TPOT", metrics.tpot, Phase.DECODE, 1)):
        buckets = sorted({(pool.start, pool.end) for pool in plan.outlook.pools if pool.serves(phase)})
        for start, end in buckets:
            bound_ms = slo.bounds(end - 1)[place]
            islands = [
                labels[pool.island]
                for pool in plan.outlook.pools
                if pool.serves(phase) and (pool.start, pool.end) == (start, end) and pool.island in labels
            ]
            if bound_ms is not None and islands:
                yield GateQuery(
                    name=f"{name} {slo.statistic} of {start}-{end - 1} tokens (s)",
                    query=_time(metric, f'{pods},{ISLAND}=~"{"|".join(islands)}"', slo, window),
                    at_most=bound_ms / MS_PER_S,
                )


def _time(metric: str, pods: str, slo: SloSettings, window: str) -> str:
    if slo.percentile is None:
        parts: Sequence[str] = [f"sum(rate({metric}_{part}{{{pods}}}[{window}]))" for part in ("sum", "count")]
        return " / ".join(parts)
    classes = f"sum by ({EDGE}) (rate({metric}_bucket{{{pods}}}[{window}]))"
    return f"histogram_quantile({slo.percentile / 100:g}, {classes})"
