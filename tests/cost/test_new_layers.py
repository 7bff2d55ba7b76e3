"""Rates of models whose layers no fit has seen, against measured ones: aggregated runs by SGLang and vLLM."""

import statistics
from functools import cache

import pytest
from benchmark_evidence import given_runs

from planner.cost.benchmarks.prediction import figures
from planner.domain import Metric, NamedRun


@cache
def silicon_runs() -> tuple[NamedRun, ...]:
    return tuple(
        entry
        for entry in given_runs()
        if "silicon" in entry.run.file
        and not entry.run.doubt
        and not entry.run.disaggregated
        and entry.run.engine != "trtllm"
    )


# (model, precision or GPU), its runs, mean error of the rate (what was reached), of TPOT
REACHED = {
    ("qwen3.5-397b-a17b", ""): (137, 0.065, 0.065),
    ("glm-5", "fp8"): (32, 0.08, 0.08),
    ("minimax-m2.5", ""): (228, 0.075, 0.075),
    # weights that are unpacked: without `expert_reads` 40 and 47 %
    ("kimi-k2.5", "int4"): (35, 0.12, 0.06),
    ("gpt-oss-120b", "H200"): (31, 0.055, 0.055),
}


@pytest.mark.parametrize(("name", "which"), REACHED)
def test_rates_are_near_the_measured_ones(name: str, which: str) -> None:
    count, of_rate, of_tpot = REACHED[name, which]
    runs = [
        entry
        for entry in silicon_runs()
        if entry.run.model == name and which in ("", entry.run.gpu, entry.run.precision.text)
    ]
    assert len(runs) == count
    judged = figures(runs)
    for metric, most in ((Metric.OUTPUT_RATE, of_rate), (Metric.TPOT, of_tpot)):
        errors = [
            abs(figure.predicted / figure.measured - 1)
            for figure in judged
            if figure.metric is metric and figure.predicted is not None
        ]
        assert len(errors) == count
        assert statistics.fmean(errors) <= most, (name, metric, statistics.fmean(errors))


def test_every_run_fits_on_the_gpus_that_its_row_is_read_to_tell() -> None:
    """Qwen3-235B in 8 bits is on two H200 at least, where a row tells tp 1 alone."""
    runs = [entry for entry in given_runs() if "silicon" in entry.run.file and not entry.run.doubt]
    assert [figure.run.row for figure in figures(runs) if figure.predicted is None] == []
