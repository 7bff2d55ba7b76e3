"""Rates that are so sure: what public runs reached within a bound on TPOT, against predictions that had not seen them.

| symbol | meaning | unit |
|---|---|---|
| T(c), R(c) | TPOT and output rate at c requests in flight, by runs of a configuration; lines between |  ms, tokens/s |
| R(L) | highest rate within a TPOT of L | tokens/s |
| eps(s) | pace of decode that is exceeded with probability s, of its band | 1 |

At pace eps a prediction says R(L) = eps R'(eps L), R' being the left-out prediction: servers that are slower have
fewer requests in flight at the same bound. So plans under doubt price levels (`planner.evaluation.doubts`).
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from benchmark_evidence import given_runs, judged_known

import planner
from planner.cost import judged_runs, with_records
from planner.cost.residuals.band_draws import errors_of
from planner.cost.residuals.pace_draws import normal_scores
from planner.domain import Band, JudgedFigure, Metric
from planner.files import load_left_out

GUIDES = Path(planner.__file__).parent / "cli/docs/guides"
LEVELS, FEWEST = 3, 3
"""Bounds on TPOT held to each configuration, and runs of one that tell of a curve."""

Curve = list[tuple[float, float]]


@cache
def judged(every: bool) -> tuple[JudgedFigure, ...]:
    """Figures with what was predicted without their configuration."""
    figures = judged_runs(given_runs()) if every else judged_known()
    return with_records(figures, left_out=load_left_out(), peer={})


def by_configuration(figures: Sequence[JudgedFigure]) -> Iterator[list[tuple[JudgedFigure, JudgedFigure]]]:
    """(TPOT, rate) of the closed loops of each configuration, by requests in flight."""
    runs: dict[int, dict[Metric, JudgedFigure]] = defaultdict(dict)
    for figure in figures:
        if figure.left_out is not None and figure.low is not None:
            runs[id(figure.run)][figure.metric] = figure
    groups: dict[object, dict[float, tuple[JudgedFigure, JudgedFigure]]] = defaultdict(dict)
    for metrics in runs.values():
        run = next(iter(metrics.values())).run
        pair = metrics.get(Metric.TPOT), metrics.get(Metric.OUTPUT_RATE)
        if run.concurrency is None or run.disaggregated or pair[0] is None or pair[1] is None:
            continue
        key = (run.gpu, run.model, run.engine, run.engine_version, run.precision, run.decode, run.file)
        groups[(*key, run.input_tokens, run.output_tokens, run.mtp_gain)][run.concurrency] = pair[0], pair[1]
    for rows in groups.values():
        if len(rows) >= FEWEST:
            yield [rows[concurrency] for concurrency in sorted(rows)]


def rate_within(curve: Curve, bound_ms: float) -> float:
    times, best = [t for t, _ in curve], np.maximum.accumulate([rate for _, rate in curve])
    if bound_ms < times[0]:
        return 0.0
    return float(np.exp(np.interp(math.log(bound_ms), np.log(times), np.log(best))))


def exceeded(band: Band, sure: float) -> float:
    """eps."""
    return float(errors_of(band, normal_scores(np.array([1.0 - sure])))[0])


def held(figures: Sequence[JudgedFigure], sure: float, *, by_levels: bool = True) -> list[bool]:
    """Whether what was measured is at least what was so sure, of every configuration at each bound."""
    outcomes = []
    for rows in by_configuration(figures):
        measured = sorted((tpot.measured, rate.measured) for tpot, rate in rows)
        predicted = sorted((tpot.left_out or 0.0, rate.left_out or 0.0) for tpot, rate in rows)
        low_ms = 1.3 * max(measured[0][0], predicted[0][0])
        high_ms = min(measured[-1][0], predicted[-1][0]) / 1.05
        if low_ms >= high_ms:
            continue
        tpot = rows[len(rows) // 2][0]
        predicted_ms, band_ms = tpot.predicted or math.nan, (tpot.low or math.nan, tpot.high or math.nan)
        eps = exceeded(Band(low=predicted_ms / band_ms[1], high=predicted_ms / band_ms[0], basis=""), sure)
        for bound_ms in np.geomspace(low_ms, high_ms, LEVELS):
            within = eps * bound_ms if by_levels else bound_ms
            outcomes.append(rate_within(measured, bound_ms) >= eps * rate_within(predicted, within))
    return outcomes


def share(figures: Sequence[JudgedFigure], sure: float, *, by_levels: bool = True) -> float:
    outcomes = held(figures, sure, by_levels=by_levels)
    return sum(outcomes) / len(outcomes)


def test_what_is_80_percent_sure_holds_so_often() -> None:
    figures = judged(every=False)
    assert len(held(figures, 0.8)) > 60
    assert 0.75 <= share(figures, 0.8) <= 0.85
    assert 0.85 <= share(figures, 0.9) <= 0.95
    # a band of rates that forgets the level is believed too often
    assert share(figures, 0.8, by_levels=False) < 0.75


@pytest.mark.study
def test_so_it_does_of_all_machines_at_hand() -> None:
    figures = judged(every=True)
    sure, forgetting = (
        [round(100 * share(figures, level, by_levels=by_levels)) for level in (0.8, 0.9)] for by_levels in (True, False)
    )
    assert 0.75 <= share(figures, 0.8) <= 0.85
    assert 0.42 <= share(figures, 0.5) <= 0.58
    guide = " ".join((GUIDES / "doubt.md").read_text(encoding="utf-8").split())
    assert f"of {len(held(figures, 0.8))} rates within a bound on TPOT, {sure[0]} % were at least" in guide
    assert f"80 % sure, and {sure[1]} % what was 90 % sure" in guide
    assert f"would have held {forgetting[0]} % and {forgetting[1]} %" in guide
