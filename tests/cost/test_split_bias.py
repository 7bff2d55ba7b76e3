"""Split against aggregated serving where both were measured: what we predict of the same runs.

A cell is what was measured in both forms: GPU type, network, precision, drafts and lengths, under a bound on TPOT.
Measured is the best rate of a GPU of each form, those of both phases counted; predicted the best of the same runs, each
by itself with its own pools and requests in flight: published configurations are not the best ones, and those of
neither form may be compared with our own best.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median, quantiles

import pytest
from benchmark_evidence import given_runs
from serving_decks import deck_of

from planner.cost import judged_runs
from planner.cost.benchmarks.engines import habits
from planner.domain import BenchmarkRun, Load, Metric, NamedRun
from planner.domain.serving.routing import SPLIT_BIAS

BOUNDS_MS = (10, 15, 20, 30, 50, 75, 100)
Case = tuple[object, ...]


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One run: output tokens/s of each of its GPUs, measured and predicted."""

    case: Case
    split: bool
    tpot_ms: float
    measured: float
    predicted: float


def case_of(entry: NamedRun) -> Case:
    """What both forms must have in common; DeepSeek-R1 and V3 are one network."""
    run = entry.run
    assert entry.model is not None
    lengths = (round(run.input_tokens, -2), round(run.output_tokens, -2))
    return (run.gpu, entry.model.hidden_size, entry.model.layers, run.precision, lengths)


def of_both_forms(of: Callable[[BenchmarkRun], bool]) -> list[NamedRun]:
    """The runs in closed loops of all cases that were measured in both forms."""
    usable = [
        entry
        for entry in given_runs()
        if not entry.reason and not entry.run.doubt and entry.run.load is Load.CLOSED_LOOP and entry.run.decode.gpus
        if {Metric.OUTPUT_RATE, Metric.TPOT} <= set(dict(entry.run.measured)) and of(entry.run)
    ]
    forms: dict[Case, set[bool]] = defaultdict(set)
    for entry in usable:
        forms[case_of(entry)].add(entry.run.disaggregated)
    return [entry for entry in usable if len(forms[case_of(entry)]) == 2]


def share_of_decode(run: BenchmarkRun) -> float:
    """Rates are told of the GPUs of decode: what of them is each GPU's."""
    return run.decode.gpus / (run.decode.gpus + (run.prefill.gpus if run.prefill else 0))


def compared(entries: Iterable[NamedRun], predicted: Mapping[tuple[str, int], float]) -> list[Compared]:
    """The runs that have an answer; `predicted`: output tokens/s of each GPU by file and row."""
    return [
        Compared(
            case=case_of(entry),
            split=entry.run.disaggregated,
            tpot_ms=measured[Metric.TPOT],
            measured=measured[Metric.OUTPUT_RATE] * share_of_decode(entry.run),
            predicted=predicted[entry.run.file, entry.run.row],
        )
        for entry in entries
        if (entry.run.file, entry.run.row) in predicted
        for measured in (dict(entry.run.measured),)
    ]


def cells(runs: Iterable[Compared]) -> Iterator[tuple[float, float]]:
    """(measured, predicted) rate of the best split run over that of the best aggregated one."""
    by_case: dict[Case, list[Compared]] = defaultdict(list)
    for run in runs:
        by_case[run.case].append(run)
    for members in by_case.values():
        for bound_ms in BOUNDS_MS:
            within = [run for run in members if run.tpot_ms <= bound_ms]
            split, aggregated = ([run for run in within if run.split is form] for form in (True, False))
            if split and aggregated:
                yield (
                    max(run.measured for run in split) / max(run.measured for run in aggregated),
                    max(run.predicted for run in split) / max(run.predicted for run in aggregated),
                )


def test_both_forms_are_on_one_scale() -> None:
    """As closed loops of the engines' kernels and paces: the better form in 9 of 10 cells, and neither is favoured."""
    entries = of_both_forms(lambda _: True)
    predicted = {
        (figure.run.file, figure.run.row): figure.predicted * share_of_decode(figure.run)
        for figure in judged_runs(entries)
        if figure.metric is Metric.OUTPUT_RATE and figure.predicted is not None
    }
    cell_ratios = list(cells(compared(entries, predicted)))
    assert len(cell_ratios) >= 85
    assert sum((measured > 1) == (of_us > 1) for measured, of_us in cell_ratios) >= 0.9 * len(cell_ratios)
    assert median(of_us / measured for measured, of_us in cell_ratios) == pytest.approx(1, abs=0.05)


def test_the_bias_towards_split_pools_is_what_plans_have() -> None:
    """Plans price servers with queues (`serving_decks`), and those that do both phases a little low."""
    entries = of_both_forms(lambda run: "serving_points" in run.file and run.concurrency is not None)
    decks = {
        (entry.run.file, entry.run.row): deck.output
        for entry in entries
        for deck in (deck_of(entry, engine=habits(entry.run.engine).name),)
        if deck is not None
    }
    cell_ratios = list(cells(compared(entries, decks)))
    assert len(cell_ratios) >= 45
    ratios = [of_us / measured for measured, of_us in cell_ratios]
    assert median(ratios) - 1 == pytest.approx(SPLIT_BIAS, abs=0.02)
    low, _, high = quantiles(ratios, n=4)
    assert (low, high) == pytest.approx((0.9, 1.2), abs=0.1)
    assert sum((measured > 1) == (of_us > 1) for measured, of_us in cell_ratios) >= 0.85 * len(cell_ratios)
