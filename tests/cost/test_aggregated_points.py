"""Servers that do both phases against measured ones, and against servers of one phase.

Points: the aggregated runs of `planner/files/measurement_sets/serving_points.csv` (its source: SOURCES.md there).
"""

import numpy as np
import pytest
from benchmark_evidence import known_runs
from cost_figures import gpu, model
from serving_decks import (
    BUDGET,
    DeckFigures,
    aggregated_deck,
    context_of,
    deck_of,
    levels_of,
    one_length,
    split_deck,
)

from planner.cost import CostContext
from planner.cost.serving import Buckets, DecodeServers, MixedServers, PrefillServers, server_shapes
from planner.domain import CostSettings, Load, Metric, NamedRun, Pool

ANSWER = 1024
BOUNDS_MS = (20, 30, 50)
# best split over best aggregated rate of a GPU at bounds on TPOT (facts on aggregated serving)
MEASURED = {
    ("H200", 1024): (0.40, 0.50, 3.4),
    ("H200", 8192): (0.68, 0.70, 1.45),
    ("DGX-B200", 1024): (0.81, 0.34, 3.8),
    ("DGX-B200", 8192): (0.84, 0.74, 1.7),
}


def points() -> list[NamedRun]:
    """Runs of the table with so many requests in flight."""
    return [
        entry
        for entry in known_runs()
        if "serving_points" in entry.run.file and entry.run.load is Load.CLOSED_LOOP and entry.run.concurrency
    ]


@pytest.fixture(scope="module")
def predicted() -> list[tuple[NamedRun, DeckFigures]]:
    """The aggregated points with what servers of both phases say of them."""
    aggregated = [entry for entry in points() if not entry.run.disaggregated and not entry.reason]
    figures = [(entry, deck_of(entry)) for entry in aggregated]
    answered = [(entry, deck) for entry, deck in figures if deck is not None]
    assert len(answered) >= 150
    return answered


class TestAccuracy:
    """As near as is stated of the closed loops that the factors were fitted with, for points that were left out: mean
    errors of 15 % of rates and 14 % of TPOT, median error of 30 % of TTFT. These were not left out."""

    def test_rates(self, predicted: list[tuple[NamedRun, DeckFigures]]) -> None:
        """Reached: 11.4 %."""
        measured = [dict(entry.run.measured)[Metric.OUTPUT_RATE] for entry, _ in predicted]
        errors = np.array([deck.output for _, deck in predicted]) / measured - 1
        assert np.abs(errors).mean() <= 0.15
        assert abs(np.median(errors)) <= 0.05

    def test_tpot(self, predicted: list[tuple[NamedRun, DeckFigures]]) -> None:
        """Reached: 11.7 %."""
        measured = [dict(entry.run.measured)[Metric.TPOT] for entry, _ in predicted]
        errors = measured / np.array([deck.tpot_ms for _, deck in predicted]) - 1
        assert np.abs(errors).mean() <= 0.14

    def test_ttft(self, predicted: list[tuple[NamedRun, DeckFigures]]) -> None:
        """Reached: 26 %."""
        measured = [dict(entry.run.measured)[Metric.TTFT] for entry, _ in predicted]
        errors = measured / np.array([deck.ttft_ms for _, deck in predicted]) - 1
        assert np.median(np.abs(errors)) <= 0.30


def fp8(name: str) -> CostContext:
    """DeepSeek-R1 in FP8, which drafts nothing."""
    return CostContext(gpu=gpu(name), model=model("deepseek-r1"), settings=CostSettings(two_micro_batches=False))


def of_any_shape(name: str, prompt: int, tpot_ms: float) -> tuple[float, float]:
    """Best rates of a GPU (requests/s) split and aggregated, whatever shapes: prefill and both phases on parts of a
    node, decode on up to eight nodes, pools of any ratio."""
    context, load = fp8(name), one_length(prompt, ANSWER)
    buckets, levels = Buckets.of(load, [(0, 1)]), levels_of(load, tpot_ms)
    on_a_node = server_shapes(context, [4, 8], lambda shape: shape.pp == 1)
    on_nodes = server_shapes(context, [4, 8, 16, 24, 32, 48, 64], lambda shape: shape.pp == 1)
    prefill = PrefillServers.of(context, [(shape, BUDGET, False) for shape in on_a_node], buckets)
    decode = DecodeServers.of(context, [(shape, False) for shape in on_nodes], buckets, ANSWER)
    both = MixedServers.of(context, [(shape, BUDGET) for shape in on_a_node], buckets, ANSWER)
    begun = (prefill.full_rps(buckets)[:, 0] / prefill.devices).max()
    answered = (decode.batches(buckets, levels)[1][:, 0] / decode.devices).max()
    aggregated = (both.full_rps(buckets, levels)[1][:, 0] / both.devices).max()
    return float(1 / (1 / begun + 1 / answered)), float(aggregated)


NODE = 8
# prefill workers and their dp, decode workers and their dp, requests in flight: split decks of FP8 without drafts that
# the table has of one of both GPU types
SPLIT = {
    1024: (
        (1, 1, 3, 1, 4),
        (1, 1, 3, 1, 32),
        (1, 1, 3, 1, 128),
        (1, 1, 1, 1, 4),
        (2, 8, 5, 8, 2048),
        (2, 8, 5, 8, 5152),
    ),
    8192: (
        *((1, 1, 6, 1, 4), (1, 1, 7, 1, 9), (1, 1, 7, 1, 28), (2, 1, 3, 1, 32), (1, 1, 3, 1, 48), (2, 1, 3, 1, 64)),
        *((1, 8, 1, 8, 128), (1, 1, 1, 8, 128), (1, 1, 1, 8, 256), (5, 1, 3, 8, 768), (5, 8, 3, 8, 768)),
    ),
}
AGGREGATED = ((1, 1), (1, 4), (1, 16), (1, 32), (1, 64), (1, 128), (8, 64))  # dp, requests in flight


def worker(dp: int, workers: int = 1) -> Pool:
    """Workers of a node."""
    return Pool(tp=NODE // dp, dp=dp, ep=NODE, workers=workers)


def best_within(decks: list[DeckFigures], tpot_ms: float) -> float:
    return max(deck.output for deck in decks if deck.tpot_ms <= tpot_ms)


def of_decks(name: str, prompt: int) -> tuple[list[DeckFigures], list[DeckFigures]]:
    """What the decks of the table come to, split and aggregated; its prompts and answers are a tenth shorter."""
    context, lengths = fp8(name), (0.9 * prompt, 0.9 * ANSWER)
    split = [
        split_deck(context, worker(dp, workers), worker(other, others), *lengths, flying)
        for workers, dp, others, other, flying in SPLIT[prompt]
    ]
    aggregated = [aggregated_deck(context, worker(dp), *lengths, flying) for dp, flying in AGGREGATED]
    return split, [deck for deck in aggregated if deck is not None]


class TestSplitOrAggregated:
    """Best split over best aggregated rate of a GPU, measured / of any shape / of the decks that were run:

    | GPU, prompt | TPOT <= 20 ms | <= 30 ms | <= 50 ms |
    |---|---|---|---|
    | H200, 1K | 0.40 / 1.04 / 0.63 | 0.50 / 3.0 / 0.97 | 3.4 / 2.2 / 0.44 |
    | H200, 8K | 0.68 / 1.4 / 1.9 | 0.70 / 2.2 / 0.86 | 1.45 / 1.9 / 1.02 |
    | B200, 1K | 0.81 / 1.2 / 1.00 | 0.34 / 3.4 / 0.67 | 3.8 / 1.5 / 3.9 |
    | B200, 8K | 0.84 / 1.4 / 0.88 | 0.74 / 2.4 / 1.47 | 1.7 / 1.5 / 1.35 |

    Of any shape the sign is that of the measured ratio in 4 of 12 cells, those at 50 ms: where pools may have any ratio
    and decode may spread over eight nodes, to split is never worse. The measured decks at tight bounds are few: between
    20 and 37 ms none of B200 at 1K is split, and those below have a prefill node that is all but idle beside three of
    decode. Of the decks that were run (those of the other GPU type where the table lacks them) the sign is right in 9,
    though three of these lie within 4 % of 1. Wrong are three whose decks come out just inside or outside a bound: H200
    at 1K and 50 ms (the deck with 2048 requests, of B200, takes 53 ms), H200 at 8K and 20 ms (48 requests take 17 ms in
    place of the measured 22), B200 at 8K and 30 ms (128 requests on one node a phase, of H200, take 30 ms).
    """

    def test_of_any_shape_to_split_is_never_worse(self) -> None:
        ratios = {
            (name, prompt, bound): split / aggregated
            for name, prompt in MEASURED
            for bound in BOUNDS_MS
            for split, aggregated in (of_any_shape(name, prompt, bound),)
        }
        assert min(ratios.values()) > 1
        alike = [MEASURED[name, prompt][BOUNDS_MS.index(bound)] > 1 for name, prompt, bound in ratios]
        assert sum(alike) == 4

    def test_of_the_decks_that_were_run_nine_signs_of_twelve_are_right(self) -> None:
        alike = []
        for (name, prompt), measured in MEASURED.items():
            split, aggregated = of_decks(name, prompt)
            for bound, ratio in zip(BOUNDS_MS, measured, strict=True):
                predicted = best_within(split, bound) / best_within(aggregated, bound)
                alike.append((predicted > 1) == (ratio > 1))
        assert sum(alike) >= 9

    def test_where_both_were_measured_on_one_gpu_type_all_signs_are_right(self) -> None:
        """DGX-B200, FP8, 1K: every deck of the table, predicted one by one."""
        same = [
            (entry, deck)
            for entry in points()
            if (entry.run.gpu, entry.run.precision.expert_bytes, entry.run.precision.mtp_tokens) == ("DGX-B200", 1.0, 0)
            if entry.run.decode.gpus and entry.run.input_tokens < 2000 and entry.run.output_tokens < 2000
            for deck in (deck_of(entry),)
            if deck is not None
        ]
        assert len(same) >= 19
        for bound, ratio in zip(BOUNDS_MS, MEASURED["DGX-B200", 1024], strict=True):
            best = [
                best_within([deck for entry, deck in same if entry.run.disaggregated is split], bound)
                for split in (True, False)
            ]
            assert (best[0] / best[1] > 1) == (ratio > 1)

    def test_memory_of_a_run_is_what_benchmarks_give(self) -> None:
        entry = points()[0]
        assert context_of(entry).gpu.device_gb > entry.gpu.device_gb
