"""What an island is asked: one expression a quantity, from the names of its engine's metrics.

All are means over the window before the moment asked for, so that an answer over a range of time can be averaged. The
pods' labels are on every series: the PodMonitor puts them there.

| quantity | expression |
|---|---|
| rates, histograms | sum over the island's engines of `rate(...)`; a class of a histogram keeps its edge `le` |
| computed prompt tokens | the engine's own count, or all less those that a cache had |
| running, waiting | mean over attention groups of the gauge's mean |
| busy, backlog | mean over attention groups of the share of samples in which the gauge is above 0 |
"""

from collections.abc import Mapping

from planner.domain.serving.observed import EDGE, ISLAND, PLAN, Quantity
from planner.export.objects.operating.engine_metrics import EngineMetrics

WINDOW = "5m"
SCRAPE = "15s"
ISLAND_ON_SERIES, PHASE_ON_SERIES, PART_OF_ON_SERIES = ISLAND, "planner_phase", "app_kubernetes_io_part_of"
"""What Prometheus makes of the pods' labels planner/island, planner/phase and app.kubernetes.io/part-of."""


def expressions(metrics: EngineMetrics, plan: str, window: str = WINDOW) -> dict[Quantity, str]:
    """The expression of every quantity, by island; `plan` is the plan's name in objects."""
    pods = f'{PART_OF_ON_SERIES}="{plan}"'

    def rate(metric: str, *, by: str = ISLAND, more: str = "") -> str:
        return f"sum by ({by}) (rate({metric}{{{pods}{',' if more else ''}{more}}}[{window}]))"

    def gauge(metric: str) -> str:
        return f"avg by ({ISLAND}) (avg_over_time({metric}{{{pods}}}[{window}]))"

    def above_none(metric: str) -> str:
        return f"avg by ({ISLAND}) (avg_over_time(({metric}{{{pods}}} > bool 0)[{window}:{SCRAPE}]))"

    classes = f"{ISLAND}, {EDGE}"
    return {
        Quantity.REQUESTS: rate(metrics.requests),
        Quantity.PROMPT_TOKENS: rate(metrics.prompt_tokens),
        Quantity.COMPUTED: _computed(metrics, rate(metrics.prompt_tokens), pods, window),
        Quantity.GENERATED: rate(metrics.generated_tokens),
        Quantity.TTFT: rate(f"{metrics.ttft}_bucket", by=classes),
        Quantity.TTFT_SUM: rate(f"{metrics.ttft}_sum"),
        Quantity.TPOT: rate(f"{metrics.tpot}_bucket", by=classes),
        Quantity.TPOT_SUM: rate(f"{metrics.tpot}_sum"),
        Quantity.RANKS: f"count by ({ISLAND}) ({metrics.running}{{{pods}}})",
        Quantity.RUNNING: gauge(metrics.running),
        Quantity.WAITING: gauge(metrics.waiting),
        Quantity.BUSY: above_none(metrics.running),
        Quantity.BACKLOG: above_none(metrics.waiting),
    }


def _computed(metrics: EngineMetrics, all_tokens: str, pods: str, window: str) -> str:
    if metrics.computed:
        return f"sum by ({ISLAND}) (rate({metrics.computed}{{{pods},{metrics.computed_label}}}[{window}]))"
    cached = f"sum by ({ISLAND}) (rate({metrics.cached}{{{pods}}}[{window}]))"
    return f"{all_tokens} - ({cached} or 0 * {all_tokens})"  # no cached token, no series


def recorded_query(plan: str) -> str:
    """One query for all that the rules have recorded of a plan."""
    names = "|".join(quantity.value for quantity in Quantity)
    return f'{{__name__=~"{names}",{PLAN}="{plan}"}}'


def plain_queries(metrics: EngineMetrics, plan: str, window: str = WINDOW) -> Mapping[Quantity, str]:
    """The same without the rules: each expression with the name and the label that a rule would give."""
    return {
        quantity: f'label_replace(label_replace({expression}, "{PLAN}", "{plan}", "", ""), '
        f'"__name__", "{quantity.value}", "", "")'
        for quantity, expression in expressions(metrics, plan, window).items()
    }
