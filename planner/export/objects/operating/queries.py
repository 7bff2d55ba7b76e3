"""What an island is asked: one expression a quantity, from the names of its engine's metrics.

All are means over the window before the moment asked for, so that an answer over a range of time can be averaged. The
pods' labels are on every series: the PodMonitor puts them there.

| quantity | expression |
|---|---|
| rates, histograms | sum over the island's engines of `rate(...)`; a class of a histogram keeps its edge `le` |
| computed prompt tokens | the engine's own count, or all less those that a cache had |
| running, waiting | mean over attention groups of the gauge's mean |
| busy, backlog | mean over attention groups of the share of samples in which the gauge is above 0 |

What each engine calls its metrics, by version.

| what | vLLM | SGLang |
|---|---|---|
| requests | those that ended, by reason | those that ended |
| prompt tokens | of all, cached and handed over included | the same |
| TTFT, prefill server | from arrival there: queue and prefill | none |
| TTFT, decode server | from arrival there: the cache's way, a place, a step | the user's: both are asked at once |
| TPOT | of a request, mean over its answer | of a token; of a request from 0.5.23 on |

TensorRT-LLM's are as vLLM's, from 1.3 on: before, it counts no tokens and no requests that run. It has no histograms of
lengths, so that no workload can be read of them.

Sources: vllm/v1/metrics/loggers.py and stats.py of vLLM 0.18.0, 0.31.0 and 0.33.0; sglang/srt/observability/
metrics_collector.py and managers/tokenizer_manager.py of SGLang 0.5.18, 0.5.21 and 0.5.23; tensorrt_llm/metrics/
collector.py of TensorRT-LLM's main branch at 050f80de (2026), at /prometheus/metrics.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from planner.domain import EngineProfile
from planner.domain.serving.observed import EDGE, ISLAND, PART_OF, PLAN, Quantity
from planner.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineMetrics:
    """Names of counters, gauges and histograms (without `_bucket`); `switch` says what turns them on. `computed` counts
    prompt tokens that no cache had, where `computed_label` says which; `cached` those that one had. `ttft_at_decode`:
    where phases are split, the decode server tells the user's TTFT and the prefill server none. `other_tpots`, `caches`
    (share in use) and `preempted` (requests that lost theirs) are asked of deployments without a plan, whose version is
    not known: of several names the first that has series. `path`: where they are scraped; `since`: the first version
    with all of them. Names are empty where an engine has none.
    """

    requests: str
    prompt_tokens: str
    generated_tokens: str
    ttft: str
    tpot: str
    running: str
    waiting: str
    prompt_lengths: str
    answer_lengths: str
    switch: str
    cached: str
    other_tpots: tuple[str, ...]
    caches: tuple[str, ...]
    preempted: str
    computed: str = ""
    computed_label: str = ""
    ttft_at_decode: bool = False
    path: str = "/metrics"
    since: tuple[int, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All of them, histograms by the name of their sum."""
        plain = (self.requests, self.prompt_tokens, self.generated_tokens, self.running, self.waiting)
        histograms = (self.ttft, self.tpot, self.prompt_lengths, self.answer_lengths)
        return (*plain, self.computed or self.cached, *(f"{name}_sum" for name in histograms if name))


_VLLM = EngineMetrics(
    requests="vllm:request_success_total",
    prompt_tokens="vllm:prompt_tokens_total",
    generated_tokens="vllm:generation_tokens_total",
    ttft="vllm:time_to_first_token_seconds",
    tpot="vllm:request_time_per_output_token_seconds",
    running="vllm:num_requests_running",
    waiting="vllm:num_requests_waiting",
    prompt_lengths="vllm:request_prompt_tokens",
    answer_lengths="vllm:request_generation_tokens",
    switch="Start vLLM without --disable-log-stats.",
    cached="vllm:prefix_cache_hits_total",
    other_tpots=("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
    caches=("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    preempted="vllm:num_preemptions_total",
    computed="vllm:prompt_tokens_by_source_total",
    computed_label='source="local_compute"',
)
_SGLANG = EngineMetrics(
    requests="sglang:num_requests_total",
    prompt_tokens="sglang:prompt_tokens_total",
    generated_tokens="sglang:generation_tokens_total",
    ttft="sglang:time_to_first_token_seconds",
    tpot="sglang:request_time_per_output_token_seconds",
    running="sglang:num_running_reqs",
    waiting="sglang:num_queue_reqs",
    prompt_lengths="sglang:prompt_tokens_histogram",
    answer_lengths="sglang:generation_tokens_histogram",
    switch="Start SGLang with --enable-metrics, a version of before May 2026 with --collect-tokens-histogram, too.",
    cached="sglang:cached_tokens_total",
    other_tpots=("sglang:inter_token_latency_seconds",),
    caches=("sglang:token_usage",),
    preempted="sglang:num_retracted_reqs",
    ttft_at_decode=True,
)
_TPOT_OF_REQUESTS = (0, 5, 23)
_TRTLLM = EngineMetrics(
    requests="trtllm_request_success_total",
    prompt_tokens="trtllm_prompt_tokens_total",
    generated_tokens="trtllm_generation_tokens_total",
    ttft="trtllm_time_to_first_token_seconds",
    tpot="trtllm_time_per_output_token_seconds",
    running="trtllm_num_requests_running",
    waiting="trtllm_num_requests_waiting",
    prompt_lengths="",
    answer_lengths="",
    switch="Start TensorRT-LLM with return_perf_metrics and enable_iter_perf_stats.",
    cached="trtllm_prompt_cached_tokens_total",
    other_tpots=(),
    caches=("trtllm_kv_cache_utilization",),
    preempted="",
    path="/prometheus/metrics",
    since=(1, 3),
)
_BY_ENGINE: Mapping[str, EngineMetrics] = MappingProxyType({"vllm": _VLLM, "sglang": _SGLANG, "trtllm": _TRTLLM})


def engine_metrics(profile: EngineProfile) -> EngineMetrics:
    """What the engine of that name and version calls its metrics."""
    metrics, numbers = _BY_ENGINE[profile.name], _numbers(profile)
    if metrics is _SGLANG and (not numbers or numbers < _TPOT_OF_REQUESTS):
        return replace(metrics, tpot=metrics.other_tpots[0])
    return metrics


def _numbers(profile: EngineProfile) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", profile.version))


def complete_metrics(profile: EngineProfile) -> EngineMetrics:
    """The same. InputError where the version lacks some of them."""
    metrics = engine_metrics(profile)
    if _numbers(profile) < metrics.since:
        since = ".".join(map(str, metrics.since))
        raise InputError(
            f"Metrics of {profile}: must be those of {since} or later, which count tokens and requests under way.",
            hint=f"Plan for such a version (`planner engines {profile.name}` lists them), or do without metrics.",
        )
    return metrics


_WINDOW = re.compile(r"([1-9][0-9]{0,4})([smhd])")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def require_window(text: str) -> float:
    """Seconds of a length of time as PromQL has it. InputError for another text."""
    match = _WINDOW.fullmatch(text)
    if match is None:
        raise InputError(f"--window: must be a time such as 30m or 6h, got {text!r:.40}.", hint="Write 1h.")
    return int(match[1]) * _SECONDS[match[2]]


WINDOW = "5m"
SCRAPE = "15s"
ISLAND_ON_SERIES, PHASE_ON_SERIES, PART_OF_ON_SERIES = ISLAND, "planner_phase", PART_OF
"""What Prometheus makes of the pods' labels planner/island, planner/phase and app.kubernetes.io/part-of."""


def expressions(metrics: EngineMetrics, plan: str, window: str = WINDOW) -> dict[Quantity, str]:
    """The expression of every quantity, by island; `plan` is the plan's name in objects."""
    return _expressions(metrics, f'{PART_OF_ON_SERIES}="{plan}"', window, ISLAND)


def _expressions(metrics: EngineMetrics, pods: str, window: str, by: str) -> dict[Quantity, str]:
    """Of the series that the matchers `pods` choose, by a label (empty: all together)."""

    def rate(metric: str, *, classes: bool = False) -> str:
        return rate_of(metric, pods, window, ", ".join(filter(None, (by, EDGE * classes))))

    def gauge(metric: str) -> str:
        return f"avg by ({by}) (avg_over_time({metric}{{{pods}}}[{window}]))"

    def above_none(metric: str) -> str:
        return f"avg by ({by}) (avg_over_time(({metric}{{{pods}}} > bool 0)[{window}:{SCRAPE}]))"

    return {
        Quantity.REQUESTS: rate(metrics.requests),
        Quantity.PROMPT_TOKENS: rate(metrics.prompt_tokens),
        Quantity.COMPUTED: computed_tokens(metrics, pods, window, by),
        Quantity.GENERATED: rate(metrics.generated_tokens),
        Quantity.TTFT: rate(f"{metrics.ttft}_bucket", classes=True),
        Quantity.TTFT_SUM: rate(f"{metrics.ttft}_sum"),
        Quantity.TPOT: rate(f"{metrics.tpot}_bucket", classes=True),
        Quantity.TPOT_SUM: rate(f"{metrics.tpot}_sum"),
        Quantity.RANKS: f"count by ({by}) ({metrics.running}{{{pods}}})",
        Quantity.RUNNING: gauge(metrics.running),
        Quantity.WAITING: gauge(metrics.waiting),
        Quantity.BUSY: above_none(metrics.running),
        Quantity.BACKLOG: above_none(metrics.waiting),
    }


def rate_of(metric: str, pods: str, window: str, by: str) -> str:
    """A counter a second, of the series that matchers choose, by labels."""
    return f"sum by ({by}) (rate({metric}{{{pods}}}[{window}]))"


def computed_tokens(metrics: EngineMetrics, pods: str, window: str, by: str) -> str:
    """Prompt tokens a second that no cache had."""
    if metrics.computed:
        return rate_of(metrics.computed, f"{pods},{metrics.computed_label}", window, by)
    prompts, cached = (rate_of(metric, pods, window, by) for metric in (metrics.prompt_tokens, metrics.cached))
    return f"{prompts} - ({cached} or 0 * {prompts})"  # no cached token, no series


def recorded_query(plan: str) -> str:
    """One query for all that the rules have recorded of a plan."""
    names = "|".join(quantity.value for quantity in Quantity if quantity.is_recorded)
    return f'{{__name__=~"{names}",{PLAN}="{plan}"}}'


def plain_queries(metrics: EngineMetrics, plan: str, window: str = WINDOW) -> Mapping[Quantity, str]:
    """The same without the rules: each expression with the name and the label that a rule would give."""
    return {
        quantity: labelled(expression, {PLAN: plan, "__name__": quantity.value})
        for quantity, expression in expressions(metrics, plan, window).items()
    }


def labelled(expression: str, labels: Mapping[str, str]) -> str:
    """With labels that the answer is known by."""
    for label, value in labels.items():
        expression = f'label_replace({expression}, "{label}", "{value}", "", "")'
    return expression


def foreign_queries(engine: str, plan: str, deployment: str, pods: str, window: str) -> Mapping[Quantity, str]:
    """What to ask of a deployment that no plan wrote, by the labels that scraping gives: `pods` are matchers as
    `namespace="a",pod=~"b-.*"`. The answers have the labels of a plan's island: `plan` and `deployment`."""
    metrics = replace(_BY_ENGINE[engine], computed="")  # not all versions have it
    asked_for = _expressions(metrics, pods, window, "")
    tpots = (metrics.tpot, *metrics.other_tpots)
    for quantity, tail, by in ((Quantity.TPOT, "_bucket", EDGE), (Quantity.TPOT_SUM, "_sum", "")):
        asked_for[quantity] = _first_there(tpots, tail, by, pods, window)
    asked_for[Quantity.CACHE] = " or ".join(
        f"avg by () (avg_over_time({name}{{{pods}}}[{window}]))" for name in metrics.caches
    )
    if metrics.preempted:
        asked_for[Quantity.PREEMPTED] = rate_of(metrics.preempted, pods, window, "")
    covered = covered_share(f"{metrics.running}{{{pods}}}", window, "")
    for quantity in asked_for.keys() & _COUNTED:  # engines younger than the window count for as long as they run
        asked_for[quantity] = f"({asked_for[quantity]}) / {covered}"
    return {
        quantity: labelled(expression, {PLAN: plan, ISLAND: deployment, "__name__": quantity.value})
        for quantity, expression in asked_for.items()
    }


_COUNTED = frozenset(
    {Quantity.REQUESTS, Quantity.PROMPT_TOKENS, Quantity.COMPUTED, Quantity.GENERATED, Quantity.PREEMPTED}
)
_STEPS = 300
"""Of a window: to so much of it is known since when an engine is scraped."""


def covered_share(series: str, window: str, by: str) -> str:
    """The share of the window since the first sample of some series, by labels."""
    seconds = require_window(window)
    step = max(1, round(seconds / _STEPS))
    oldest = f"min by ({by}) (min_over_time(timestamp({series})[{window}:{step}s]))"
    return f"clamp((time() - {oldest}) / {seconds:g}, {1 / _STEPS:g}, 1)"


def _first_there(names: tuple[str, ...], tail: str, by: str, pods: str, window: str) -> str:
    """The first of several histograms that has series: two of them together would mix their classes."""
    alternatives = []
    for number, name in enumerate(names):
        rate = rate_of(f"{name}{tail}", pods, window, by)
        before = [f"unless on () count({other}_count{{{pods}}})" for other in names[:number]]
        alternatives.append(f"({' '.join([rate, *before])})")
    return " or ".join(alternatives)
