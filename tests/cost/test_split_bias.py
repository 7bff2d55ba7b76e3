"""SPLIT_BIAS out of the published measurements: what both forms of serving did on the same GPUs, and what we predict.

A cell is what was measured in both forms: GPU type, precision, drafts and lengths, under a bound on TPOT. Measured is
the best rate per GPU, those of both phases counted; predicted that of the best servers, divisible and without queues.
"""

import csv
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from statistics import median, quantiles

import pytest

from planner.domain import PURE_FORMS, Phase, ServingForm
from planner.domain.serving.routing import SPLIT_BIAS
from planner.evaluation.buckets.prices import BucketPrices
from planner.files import scenario_from_document
from planner.workload import question_of, summarize

POINTS = Path(__file__).parents[2] / Path("planner/files/measurement_sets/serving_points.csv")
BOUNDS_MS = (10, 15, 20, 30, 50, 75, 100)
FP4_BYTES = 0.5625  # of an expert's weight with its scales
MEAN_OF_LONGEST = 0.9
GPUS = 64  # divisible, so that any number does

Case = tuple[str, str, str, int, int]  # GPU type, precision, drafts, prompt and answer


def measured() -> dict[Case, dict[int, dict[ServingForm, float]]]:
    """Best output tokens/s per GPU of each form, by case and bound."""
    best: dict[Case, dict[int, dict[ServingForm, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in csv.DictReader(POINTS.read_text().splitlines()):
        if not (row["output_tokens_per_s_per_gpu"] and row["tpot_p50_ms"]):
            continue
        rate, form = float(row["output_tokens_per_s_per_gpu"]), ServingForm.AGGREGATED
        if row["disaggregated"] == "True":
            prefill, decode = (int(row[f"{phase}_gpus"] or 0) for phase in ("prefill", "decode"))
            if not (prefill and decode):
                continue
            rate, form = rate * decode / (prefill + decode), ServingForm.SPLIT
        case = (row["gpu"], row["precision"], row["mtp"], int(row["isl"]), int(row["osl"]))
        for bound in BOUNDS_MS:
            if float(row["tpot_p50_ms"]) <= bound:
                cell = best[case][bound]
                cell[form] = max(cell.get(form, 0.0), rate)
    return best


def predicted(case: Case, bound_ms: float) -> dict[ServingForm, float]:
    """Requests/s per GPU of each form; 0 where the engine starts no such server."""
    gpu, precision, drafts, prompt, answer = case
    mean = int(prompt * MEAN_OF_LONGEST)
    lengths = {"kind": "normal", "name": "fixed", "mean": mean, "standard_deviation": 1, "low": mean - 3}
    answers = {"high": mean + 3, "mean_output_tokens": answer * MEAN_OF_LONGEST, "max_output_tokens": answer}
    document = {
        "name": "cell",
        "model": "deepseek-r1",
        "workload": {**lengths, **answers},
        "inventory": {gpu: GPUS},
        "ranges": {"cells": 1},
        "routing": {"most": 1},
        "slo": {"tpot_ms": bound_ms},
        "cost": {"mtp_tokens": 1, "mtp_acceptance": 0.8} if drafts == "True" else {},
    }
    scenario = scenario_from_document(document, origin="test", base=Path(), summarize=summarize)
    if precision == "fp4":
        scenario = replace(scenario, model=replace(scenario.model, expert_bytes=FP4_BYTES))
    prices = BucketPrices(question_of(scenario))
    prefill, decode, both = (float(prices.column(gpu, phase).best_per_gpu()[0]) for phase in Phase)
    split = 1 / (1 / prefill + 1 / decode) if prefill and decode else 0.0
    return {ServingForm.SPLIT: split, ServingForm.AGGREGATED: both}


def test_the_bias_towards_split_pools_is_what_measurements_say() -> None:
    ratios = []
    for case, bounds in measured().items():
        for bound_ms, rates in bounds.items():
            if len(rates) < len(PURE_FORMS):
                continue
            expected = predicted(case, bound_ms)
            if all(expected.values()):
                won = rates[ServingForm.SPLIT] / rates[ServingForm.AGGREGATED]
                ratios.append(expected[ServingForm.SPLIT] / expected[ServingForm.AGGREGATED] / won)
    assert len(ratios) == 49
    assert median(ratios) - 1 == pytest.approx(SPLIT_BIAS, abs=0.02)
    low, _, high = quantiles(ratios, n=4)
    assert (low, high) == pytest.approx((0.8, 1.9), abs=0.3)
