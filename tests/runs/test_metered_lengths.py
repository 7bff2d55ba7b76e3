"""Workloads from engines' metrics: what a plan for them loses beside one for the trace, and what is no metrics."""

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import planner
from planner.domain import LengthProfile
from planner.domain.serving.observed import Traffic, TrafficSeries
from planner.errors import InputError
from planner.files import load_workload
from planner.files.sections import top_level
from planner.files.tables.workloads import workload_document, workload_from_document
from planner.runs.live.lengths import workload_from_answers

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))

from engine_expositions import EDGES

_HISTOGRAMS = (
    (Traffic.PROMPTS, Traffic.PROMPTS_SUM, Traffic.PROMPTS_SERIES),
    (Traffic.ANSWERS, Traffic.ANSWERS_SUM, Traffic.ANSWERS_SERIES),
)
Edges = Sequence[float]


def series(
    prompts: Sequence[float],
    answers: Sequence[float],
    shares: Sequence[float] | None = None,
    *,
    engine: str = "vllm",
    plan: str = "p",
    edges: Edges = (),
    servers: int = 1,
    **values: float,
) -> list[TrafficSeries]:
    """What a deployment tells of requests of these lengths; `values`: of quantities by name."""
    weights = np.full(len(prompts), 1 / len(prompts)) if shares is None else np.array(shares)

    def one(quantity: Traffic, value: float, edge: float | None = None) -> TrafficSeries:
        return TrafficSeries(
            quantity=quantity, engine=engine, plan=plan, model="m", value=float(value), edge_tokens=edge, file="a"
        )

    rows = [one(Traffic[name], value) for name, value in {"ARRIVALS": 2.0, "REQUESTS": 7200, **values}.items()]
    for lengths, (bucket, total, count) in zip((prompts, answers), _HISTOGRAMS, strict=True):
        tokens = np.array(lengths, dtype=float)
        for edge in (*(edges or EDGES[engine]), math.inf):
            rows += [one(bucket, weights[tokens <= edge].sum(), float(edge)), one(count, servers, float(edge))]
        rows.append(one(total, (tokens * weights).sum()))
    return rows


def of_trace(profile: LengthProfile, engine: str) -> list[TrafficSeries]:
    """Answers as their means, all that a workload file tells."""
    return series(profile.input_tokens, profile.output_tokens, profile.probabilities, engine=engine)


def promised(profile: LengthProfile) -> float:
    """By a small plan (requests/s)."""
    document = workload_document(replace(profile, counts=None, burstiness=None))
    return planner.plan(inventory={"H200": 4, "H20": 4}, workload=document, model="qwen3-30b-a3b").throughput_rps


# ragpulse's answers depend on its prompts, which metrics do not tell
@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("azure-conv-2023", -0.01, 0.005), ("azure-code-2023", -0.005, 0.005), ("ragpulse-week", 0.0, 0.04)],
)
def test_a_plan_for_metrics_promises_nearly_what_one_for_the_trace_does(name: str, low: float, high: float) -> None:
    trace = load_workload(name)
    assert isinstance(trace, LengthProfile)
    truth = promised(trace)
    for engine in ("vllm", "sglang"):
        metered = workload_from_answers(of_trace(trace, engine))
        error = promised(metered.profile) / truth - 1
        assert low <= error <= high, engine


def test_what_is_told_becomes_a_workload_that_reads_back() -> None:
    metered = workload_from_answers(
        series([150, 900, 1900], [3, 40, 80], PROMPT_TOKENS=100.0, COMPUTED=70.0, ARRIVALS=2.5), name="mine"
    )
    profile = metered.profile
    assert (metered.engine, metered.model, profile.name, profile.requests) == ("vllm", "m", "mine", 7200)
    assert profile.arrival_rps == 2.5
    assert profile.mean_input_tokens == pytest.approx(2950 / 3)
    assert profile.mean_output_tokens == pytest.approx(41)
    assert profile.max_output_tokens == 100
    assert metered.hit_share == pytest.approx(0.3)
    assert any("`cost: {kv_cache_rate: 0.300}`" in note for note in metered.notes)
    assert any("independent" in note for note in metered.notes)
    read, _ = workload_from_document(top_level(workload_document(profile), "test"), Path())
    assert read == profile


def test_the_open_class_falls_off_up_to_the_context() -> None:
    rows = series([150, 900, 7000], [5, 5, 5], edges=(100, 1000, 5000))
    assumed = workload_from_answers(rows)
    assert assumed.profile.input_tokens[-1] < 10_000
    assert assumed.profile.mean_input_tokens == pytest.approx(8050 / 3)
    assert any("33.33% of the prompts are above the last edge, 5,000 tokens" in note for note in assumed.notes)
    given = workload_from_answers(rows, longest=8192)
    assert 8000 < given.profile.input_tokens[-1] <= 8192
    with pytest.raises(InputError, match="--longest: must be above 5,000 tokens"):
        workload_from_answers(rows, longest=5000)


def test_an_open_class_that_begins_far_below_the_mean_reaches_as_far_as_it_must() -> None:
    metered = workload_from_answers(series([50, 60_000], [5, 5], edges=(100, 1000)))
    assert metered.profile.mean_input_tokens == pytest.approx(30_025)


def test_edges_that_not_all_engines_have_do_not_count() -> None:
    """A server of another context has fewer classes: its requests are in none of the others'."""
    wide = series([150, 900, 15_000], [5, 5, 5], edges=(100, 1000, 10_000, 20_000))
    narrow = series([150, 900, 9000], [5, 5, 5], edges=(100, 1000, 10_000))
    summed: dict[tuple[Traffic, float | None], TrafficSeries] = {}
    for row in (*wide, *narrow):
        key = (row.quantity, row.edge_tokens)
        summed[key] = replace(row, value=row.value + (summed[key].value if key in summed else 0.0))
    metered = workload_from_answers(list(summed.values()), longest=40_000)
    masses = dict(zip(metered.profile.input_tokens, metered.profile.probabilities, strict=True))
    assert math.fsum(p for x, p in masses.items() if x > 10_000) == pytest.approx(1 / 6)
    assert any("Engines differ in 1 edges of classes of prompts" in note for note in metered.notes)


def without(rows: list[TrafficSeries], *quantities: Traffic, edge: float | None = None) -> list[TrafficSeries]:
    return [row for row in rows if row.quantity not in quantities or (edge is not None and row.edge_tokens != edge)]


def shrinking(rows: list[TrafficSeries]) -> list[TrafficSeries]:
    return [
        replace(row, value=0.1) if (row.quantity, row.edge_tokens) == (Traffic.PROMPTS, 5000) else row for row in rows
    ]


GOOD = series([150, 900, 1900], [3, 40, 80])
SGLANG = series([150, 900, 1900], [3, 40, 80], engine="sglang")
EVERY_BUCKET = (Traffic.PROMPTS, Traffic.PROMPTS_SUM, Traffic.ANSWERS, Traffic.ANSWERS_SUM)


@pytest.mark.parametrize(
    ("rows", "engine", "words"),
    [
        ([], "", "must have vllm:request_success_total or sglang:num_requests_total, have none"),
        (GOOD, "sglang", "must have sglang:num_requests_total, have none"),
        ([*GOOD, *series([9], [9], plan="q")], "", "must be of one deployment, are of 2: vllm, plan p, model m; vllm"),
        ([*GOOD, *SGLANG], "", "of 2: sglang, plan p, model m; vllm, plan p"),
        (without(GOOD, Traffic.PROMPTS, edge=math.inf), "", r'must have the class le="\+Inf", ends at 100000'),
        (without(SGLANG, *EVERY_BUCKET), "", r"sglang:prompt_tokens_histogram_bucket.*Start SGLang with --enable-met"),
        (without(GOOD, *EVERY_BUCKET), "", "Start vLLM without --disable-log-stats"),
        (without(GOOD, Traffic.ANSWERS_SUM), "", "vllm:request_generation_tokens_sum: .*the sum is not"),
        (shrinking(GOOD), "", "classes must not shrink as le grows"),
        ([replace(row, value=0.0) for row in GOOD], "", "must count a request that ended in the window"),
        (
            [replace(row, value=9e6) if row.quantity is Traffic.PROMPTS_SUM else row for row in GOOD],
            "",
            "the mean, sum",
        ),
    ],
)
def test_metrics_that_tell_no_lengths_are_refused(rows: list[TrafficSeries], engine: str, words: str) -> None:
    with pytest.raises(InputError) as refused:
        workload_from_answers(rows, engine)
    assert refused.match(words)


def test_answers_of_one_token_are_told() -> None:
    metered = workload_from_answers(series([900, 900, 150, 150], [1, 1, 300, 300]))
    assert any("prefill servers count every request once more" in note for note in metered.notes)
