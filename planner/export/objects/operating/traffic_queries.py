"""What Prometheus is asked of the traffic of engines: arrivals, lengths, and what prefix caches held.

Series are of a plan (the label of its pods, where it was exported from here) and a model, which answers keep apart.
Where phases are split, a request ends at a prefill server and at a decode server: arrivals and lengths are of all but
prefill servers, and caches of all but decode servers, to which prompts are handed over. Pods without the label of a
phase count in both.

| what | expression |
|---|---|
| arrivals | requests that ended, and how many more run and wait than at the start, a second since the first scrape |
| a class of a histogram | sum over engines of `rate(...)`; beside it how many engines have the class |
"""

import re
from collections.abc import Iterator

from planner.domain.serving.observed import EDGE, ENGINE, MODEL, PART_OF, Traffic
from planner.errors import InputError
from planner.export.objects.operating.queries import (
    PHASE_ON_SERIES,
    EngineMetrics,
    computed_tokens,
    covered_share,
    engine_metrics,
    labelled,
    rate_of,
    require_window,
)
from planner.files import catalog

TRAFFIC_ENGINES = ("vllm", "sglang")
LOAD = (Traffic.ARRIVALS, Traffic.NEWEST)
"""What a watch needs."""

_MATCHER = r'\s*[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*"(?:[^"\\\n]|\\.)*"\s*'
_SELECTOR = re.compile(rf"{_MATCHER}(?:,{_MATCHER})*")
_BY = f"{PART_OF}, {MODEL}"


def require_selector(text: str) -> str:
    """Matchers of labels as PromQL has them in braces; empty: all series. InputError for another text."""
    if text and not _SELECTOR.fullmatch(text):
        raise InputError(
            f"--selector: must be matchers of labels as in PromQL's braces, got {text!r:.80}.",
            hint="Write --selector 'namespace=\"serving\"'.",
        )
    return text


def traffic_metrics(engine: str) -> EngineMetrics:
    """What an engine calls its metrics; those of traffic are called alike in all its versions. InputError for another
    engine."""
    if engine not in TRAFFIC_ENGINES:
        raise InputError(
            f"--engine: must be one of {', '.join(TRAFFIC_ENGINES)}, got {engine!r:.40}.", hint="Leave it out."
        )
    return engine_metrics(catalog.engine(engine))


def traffic_queries(
    engine: str, window: str, selector: str = "", quantities: tuple[Traffic, ...] = tuple(Traffic)
) -> dict[str, str]:
    """Name -> query, for each quantity. InputError for a window or a selector that is none."""
    seconds = require_window(window)
    expressions = _expressions(traffic_metrics(engine), window, seconds, require_selector(selector))
    return {
        f"{engine}_{quantity.name.lower()}": labelled(text, {ENGINE: engine, "__name__": quantity.value})
        for quantity, text in expressions
        if quantity in quantities
    }


def _expressions(metrics: EngineMetrics, window: str, seconds: float, selector: str) -> Iterator[tuple[Traffic, str]]:
    at_users, at_caches = (
        ",".join(filter(None, (selector, f'{PHASE_ON_SERIES}!="{phase}"'))) for phase in ("prefill", "decode")
    )

    def rate(metric: str, pods: str = at_users, *, by: str = _BY) -> str:
        return rate_of(metric, pods, window, by)

    def growth(gauge: str) -> str:
        return f"sum by ({_BY}) (delta({gauge}{{{at_users}}}[{window}])) / {seconds:g}"

    scraped = f"{metrics.running}{{{at_users}}}"
    ended = f"({rate(metrics.requests)} or 0 * sum by ({_BY}) ({scraped}))"  # no request yet, no series
    more = f"({growth(metrics.running)} + {growth(metrics.waiting)})"
    covered = covered_share(scraped, window, _BY)
    yield Traffic.ARRIVALS, f"clamp_min({ended} + ({more} or 0 * {ended}), 0) / {covered}"
    yield Traffic.COVERED, covered
    yield Traffic.NEWEST, f"max by ({_BY}) (timestamp({scraped}))"
    yield Traffic.REQUESTS, f"sum by ({_BY}) (increase({metrics.prompt_lengths}_count{{{at_users}}}[{window}]))"
    classes = f"{_BY}, {EDGE}"
    for name, bucket, total, series in (
        (metrics.prompt_lengths, Traffic.PROMPTS, Traffic.PROMPTS_SUM, Traffic.PROMPTS_SERIES),
        (metrics.answer_lengths, Traffic.ANSWERS, Traffic.ANSWERS_SUM, Traffic.ANSWERS_SERIES),
    ):
        yield bucket, rate(f"{name}_bucket", by=classes)
        yield total, rate(f"{name}_sum")
        yield series, f"count by ({classes}) (rate({name}_bucket{{{at_users}}}[{window}]))"
    yield Traffic.PROMPT_TOKENS, rate(metrics.prompt_tokens, at_caches)
    yield Traffic.COMPUTED, computed_tokens(metrics, at_caches, window, _BY)
