"""A workload from what engines tell of their requests: classes of lengths, rates, and what prefix caches held."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from planner import export, files
from planner.domain import LengthProfile
from planner.domain.serving.observed import MODEL, PART_OF, MeteredWorkload, Traffic, TrafficSeries
from planner.errors import InputError
from planner.files.sections import MOST_TOKENS
from planner.runs.live.prometheus import Prometheus
from planner.workload.histograms import mean_bounds, tilted_lengths
from planner.workload.tallies import length_facts

FEW_REQUESTS = 1000
"""Of which ten are above P99."""

MOSTLY = 0.9
"""Of a window: below it is told which part rates are of."""

ONE_TOKEN_SHARE = 0.3
"""Of answers: more than people ask for, and what every request leaves on a prefill server."""

_ROUNDING = 1e-3
"""Of all requests: rates of two classes of one histogram differ by what a scrape rounds."""

_NOTHING = 1e-9  # of all requests: what sums of rates leave

_Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Classes:
    """A histogram of lengths: `edges` in whole tokens, one more than `shares`. `open_share`: of requests beyond its
    last edge, which now end at `edges[-1]`; `merged`: edges that not all engines have."""

    edges: tuple[int, ...]
    shares: tuple[float, ...]
    mean: float
    open_share: float
    open_edge: int
    merged: int


def metered_workload(
    source: Sequence[Path] | Prometheus,
    engine: str = "",
    name: str = "metered",
    longest: int | None = None,
    *,
    window: str = "",
    selector: str = "",
) -> MeteredWorkload:
    """The workload that files of answers tell, or a Prometheus of the last so long (`window`, 1h), of the series with
    these labels; `engine`: of that alone.

    Raises InputError as `Prometheus.answers`, `files.read_traffic` and `workload_from_answers`, and for a window or
    labels beside files.
    """
    if isinstance(source, Prometheus):
        series = files.read_traffic(source.answers(queries_of(engine, window or "1h", selector)))
    elif window or selector:
        raise InputError(
            "--window, --selector: must be left out with answer files, which tell their own.", hint="Leave them out."
        )
    else:
        series = files.load_traffic(source)
    return workload_from_answers(series, engine, name, longest)


def queries_of(engine: str = "", window: str = "1h", selector: str = "") -> dict[str, str]:
    """What a Prometheus is asked, by name, of one engine or of all. InputError for a window or labels that are none."""
    queries: dict[str, str] = {}
    for each in (engine,) if engine else export.TRAFFIC_ENGINES:
        queries |= export.traffic_queries(each, window, selector)
    return queries


def workload_from_answers(
    series: Sequence[TrafficSeries], engine: str = "", name: str = "metered", longest: int | None = None
) -> MeteredWorkload:
    """The workload that series of one deployment tell: lengths of most entropy within the histograms' classes.

    `engine`: of that one's series alone; `longest`: tokens that no request exceeds, as the model's context.

    Raises:
        InputError: no series, those of several deployments, no histogram or none with a request, a histogram without
            its last class or whose classes do not grow, or a mean that its classes do not allow.
    """
    engine, plan, model = _deployment(series, engine)
    rows = [row for row in series if (row.engine, row.plan, row.model) == (engine, plan, model)]
    prompts = _classes(rows, engine, (Traffic.PROMPTS, Traffic.PROMPTS_SUM, Traffic.PROMPTS_SERIES), longest)
    answers = _classes(rows, engine, (Traffic.ANSWERS, Traffic.ANSWERS_SUM, Traffic.ANSWERS_SERIES), longest)
    values = {row.quantity: row.value for row in rows if row.edge_tokens is None}
    ended = round(values.get(Traffic.REQUESTS, 0.0))
    lengths, probabilities = tilted_lengths(prompts.edges, prompts.shares, prompts.mean, f"{engine}: prompt lengths")
    of_answers = tilted_lengths(answers.edges, answers.shares, answers.mean, f"{engine}: answer lengths")
    profile = LengthProfile(
        name=name,
        input_tokens=lengths,
        probabilities=probabilities,
        output_tokens=(),
        mean_output_tokens=answers.mean,
        max_output_tokens=math.ceil(max(answers.edges[-1], answers.mean)),
        requests=ended or None,
        arrival_rps=values.get(Traffic.ARRIVALS) or None,
    )
    hit_share = _hit_share(values)
    notes = tuple(_notes(prompts, answers, ended, hit_share, values.get(Traffic.COVERED, 1.0)))
    return MeteredWorkload(
        profile=profile,
        engine=engine,
        model=model,
        answers=length_facts(dict(zip(*of_answers, strict=True))),
        hit_share=hit_share,
        source=f"Metrics of {engine}{f', plan {plan}' if plan else ''}{f', model {model}' if model else ''}, "
        f"read by planner workload from-metrics. {' '.join(notes)}",
        notes=notes,
    )


def _deployment(series: Sequence[TrafficSeries], engine: str) -> _Key:
    """Engine, plan and model that all series are of."""
    keys = sorted({(row.engine, row.plan, row.model) for row in series if engine in ("", row.engine)})
    if len(keys) == 1:
        return keys[0]
    if not keys:
        names = [export.traffic_metrics(each).requests for each in ((engine,) if engine else export.TRAFFIC_ENGINES)]
        raise InputError(
            f"Metrics: must have {' or '.join(names)}, have none.",
            hint="Name the Prometheus that scrapes the engines, a longer --window, or other labels with --selector.",
        )
    shown = "; ".join(f"{each}, plan {plan or 'without a label'}, model {model or '?'}" for each, plan, model in keys)
    raise InputError(
        f"Metrics: must be of one deployment, are of {len(keys)}: {shown}.",
        hint=f"Choose one with --engine, or --selector '{PART_OF}=\"PLAN\"' or '{MODEL}=\"MODEL\"'.",
    )


def _classes(
    rows: Sequence[TrafficSeries], engine: str, quantities: tuple[Traffic, Traffic, Traffic], longest: int | None
) -> _Classes:
    """The histogram of prompts or answers."""
    bucket, total, count = quantities
    cumulative = _by_edge(rows, bucket)
    sums = [row.value for row in rows if row.quantity is total]
    metric = _metric(engine, bucket)
    if not cumulative or not sums:
        raise InputError(
            f"{metric}_bucket, {metric}_sum: must be among the metrics, "
            f"{'are not' if not cumulative else 'the sum is not'}.",
            hint=f"{export.traffic_metrics(engine).switch} Then wait for two scrapes.",
        )
    if math.inf not in cumulative:
        raise InputError(
            f'{metric}_bucket: must have the class le="+Inf", ends at {max(cumulative):g}.',
            hint="Do not drop series of it when they are scraped.",
        )
    if not cumulative[math.inf] > 0:
        raise InputError(
            f"{metric}: must count a request that ended in the window, counts none.",
            hint="Take a longer --window, or a time with load.",
        )
    engines = _by_edge(rows, count)
    common = {edge: rate for edge, rate in cumulative.items() if engines.get(edge) == engines.get(math.inf)}
    mean = sums[0] / cumulative[math.inf]
    return _closed(common, mean, len(cumulative) - len(common), metric, longest)


def _by_edge(rows: Sequence[TrafficSeries], quantity: Traffic) -> dict[float, float]:
    """Sums over the ways in which engines write an edge, as 1 and 1.0."""
    values: dict[float, float] = {}
    for row in rows:
        if row.quantity is quantity and row.edge_tokens is not None:
            values[row.edge_tokens] = values.get(row.edge_tokens, 0.0) + row.value
    return values


def _metric(engine: str, bucket: Traffic) -> str:
    metrics = export.traffic_metrics(engine)
    return metrics.prompt_lengths if bucket is Traffic.PROMPTS else metrics.answer_lengths


def _closed(cumulative: Mapping[float, float], mean: float, merged: int, metric: str, longest: int | None) -> _Classes:
    """Shares of classes of whole tokens, the last of which ends."""
    of_all = cumulative[math.inf]
    edges, below = [0], [0.0]
    for edge, rate in sorted(cumulative.items()):
        share = rate / of_all
        if share < below[-1] - _ROUNDING or share > 1 + _ROUNDING:
            raise InputError(
                f"{metric}_bucket: classes must not shrink as le grows, that of {edge:g} does.",
                hint="Take a longer --window; choose servers of one version with --selector.",
            )
        share = min(1.0, max(share, below[-1]))
        last_tokens = math.floor(edge) if math.isfinite(edge) else MOST_TOKENS
        if last_tokens > edges[-1]:
            edges.append(last_tokens)
            below.append(share)
        else:  # no length lies between: an edge of 0, or two within a token
            below[-1] = share
    shares = [after - before for before, after in pairwise(below)]
    while shares[-1] <= _NOTHING:
        shares.pop()
        edges.pop()
    return _with_end(edges, shares, mean, metric, longest, merged, open_end=len(edges) == len(below))


def _with_end(
    edges: list[int], shares: list[float], mean: float, metric: str, longest: int | None, merged: int, *, open_end: bool
) -> _Classes:
    """The classes with the last edge that is known or, of the open class, assumed."""
    start = edges[-2]
    if longest is not None and longest <= start:
        raise InputError(
            f"--longest: must be above {start:,} tokens, which {metric} has requests beyond, got {longest:,}.",
            hint="Give the context that the engines run with.",
        )
    if longest is not None:
        edges[-1] = min(edges[-1], longest)
    elif open_end:
        edges[-1] = min(MOST_TOKENS, _next_edge(start))
        while mean > mean_bounds(edges, shares)[1] and edges[-1] < MOST_TOKENS:
            edges[-1] = min(MOST_TOKENS, 2 * edges[-1])
    return _Classes(
        edges=tuple(edges),
        shares=tuple(share / math.fsum(shares) for share in shares),
        mean=mean,
        open_share=shares[-1] if open_end else 0.0,
        open_edge=start,
        merged=merged,
    )


def _next_edge(edge: int) -> int:
    """The edge behind one of vLLM's 1, 2, 5, 10, ...: the context of its model ends before."""
    return edge * 5 // 2 if str(edge).startswith("2") else max(1, edge * 2)


def _hit_share(values: Mapping[Traffic, float]) -> float | None:
    """Of prompt tokens, those that a cache had."""
    tokens, computed = values.get(Traffic.PROMPT_TOKENS), values.get(Traffic.COMPUTED)
    if not tokens or computed is None:
        return None
    return min(0.999, max(0.0, 1 - computed / tokens))


def _notes(prompts: _Classes, answers: _Classes, ended: int, hit_share: float | None, covered: float) -> list[str]:
    """What was assumed, and how wrong it may be."""
    notes = [
        "Lengths lie in the classes of histograms, spread so that entropy is greatest with their mean: quantiles are "
        "known to the width of a class.",
        "Lengths of prompts and answers count as independent, as metrics tell each alone; how arrivals bunch is not "
        "told. The longest answer is the edge of its class.",
        "Plans for shipped traces, metered like this, promised 1.5 % less to 11 % more than for the traces themselves; "
        "most where answers depend on prompts.",
    ]
    for what, classes in (("prompts", prompts), ("answers", answers)):
        if classes.open_share > 0:
            notes.append(
                f"{classes.open_share:.2%} of the {what} are above the last edge, {classes.open_edge:,} tokens: they "
                f"count as falling off like the others, up to {classes.edges[-1]:,} (--longest says the context)."
            )
        if classes.merged:
            notes.append(
                f"Engines differ in {classes.merged} edges of classes of {what}, as other versions or contexts do: "
                "edges that all have count."
            )
    one_token = answers.shares[0] if answers.edges[1] == 1 else 0.0
    if one_token >= ONE_TOKEN_SHARE:
        notes.append(
            f"{one_token:.0%} of the answers have one token: where phases are split, prefill servers count every "
            "request once more; choose decode servers with --selector."
        )
    if covered < MOSTLY:
        notes.append(f"Engines were scraped in {covered:.0%} of the window: rates are of that time.")
    if 0 < ended < FEW_REQUESTS:
        notes.append(f"Only {ended:,} requests ended in the window: P99 is of {max(1, ended // 100)}.")
    if hit_share:
        notes.append(
            f"Caches had {hit_share:.1%} of the prompts' tokens, which a scenario says as `cost: {{kv_cache_rate: "
            f"{hit_share:.3f}}}`: it holds for the caches and the router that there are."
        )
    return notes
