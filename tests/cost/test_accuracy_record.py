"""What is on record of the fit to the points at hand: left-out predictions, the bands made of them, errors by slice."""

import csv
import math
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
from benchmark_evidence import known_runs

from planner.cost import accuracy, judged_runs, predict_ms, without_fit
from planner.cost.bands import BAND_TABLE, DENSE, MOE, BandRow, LeftOut
from planner.cost.benchmarks.accuracy import CARRIED_BANDS, MEASURED_BANDS, FigureBand, pool_of
from planner.domain import Accuracy, JudgedFigure, Load, Metric, NamedRun, Phase
from planner.domain.efficiency import ANY_FAMILY
from planner.files import load_left_out, load_published_measurements, measured_records
from planner.files.tables.measurements import LEFT_OUT

FIRST_NEW_YEAR = 2025
WORSE = 0.02
# mean errors of rates that the factors in force had when they were fitted, of the points that they were fitted to
RECORDED = {
    "saturated throughput": 0.111,
    "static batch": 0.176,
    "decode steps": 0.163,
    "disaggregated decode TPOT": 0.171,
    "saturated prefill": 0.306,
    "aggregated rate": 0.115,
    "aggregated TTFT": 0.398,
    "aggregated TPOT": 0.114,
    "A100": 0.08,
    "DGX-B200": 0.22,
    "DGX-B300": 0.26,
    "GB200-NVL72": 0.24,
    "H100": 0.31,
    "H200": 0.15,
    "MI300X": 0.18,
    "MI355X": 0.17,
    "MoE": 0.21,
    "dense": 0.12,
}


@pytest.fixture(scope="module")
def runs() -> tuple[NamedRun, ...]:
    return known_runs()


@pytest.fixture(scope="module")
def seen(runs: tuple[NamedRun, ...]) -> Accuracy:
    return accuracy(judged_runs(runs))


@pytest.fixture(scope="module")
def unseen(runs: tuple[NamedRun, ...]) -> Accuracy:
    return accuracy(without_fit(judged_runs(runs), load_left_out()))


def rows() -> Iterator[dict[str, str]]:
    with Path(LEFT_OUT).open(encoding="utf-8", newline="") as stream:
        yield from csv.DictReader(stream)


def mean_error(figures: list[JudgedFigure]) -> float:
    return float(np.mean([min(1.0, abs(figure.rate_error)) for figure in figures]))


def of_kind(judged: Accuracy, kind: str) -> list[JudgedFigure]:
    return [figure for figure in judged.figures if figure.kind == kind]


def band_rows(residuals: Iterable[tuple[str, float]]) -> dict[str, FigureBand]:
    """Rows of the table from (kind, ln of measured over predicted rate), by pooled kind."""
    by_kind: dict[str, list[float]] = {}
    for kind, residual in residuals:
        by_kind.setdefault(pool_of(kind), []).append(residual)
    ends = {kind: [round(float(np.quantile(logs, end)), 3) for end in (0.1, 0.9)] for kind, logs in by_kind.items()}
    return {
        kind: FigureBand(log_low=low, log_high=high, points=len(by_kind[kind])) for kind, (low, high) in ends.items()
    }


class TestErrors:
    def test_left_out_figures_are_as_near_as_said(self, unseen: Accuracy) -> None:
        published = [
            figure
            for figure in unseen.figures
            if figure.run.load is not Load.CLOSED_LOOP and (figure.run.year or FIRST_NEW_YEAR) >= FIRST_NEW_YEAR
        ]
        assert mean_error(published) <= 0.155
        assert mean_error(of_kind(unseen, "aggregated rate")) <= 0.15
        assert mean_error(of_kind(unseen, "aggregated TPOT")) <= 0.14
        ttft = [abs(figure.rate_error) for figure in of_kind(unseen, "aggregated TTFT")]
        assert np.median(ttft) <= 0.30
        prefill = [abs(figure.rate_error) for figure in of_kind(unseen, "saturated prefill")]
        assert np.median(prefill) <= 0.23

    def test_no_vendor_is_favoured(self, unseen: Accuracy) -> None:
        for amd in (True, False):
            logs = [
                math.log1p(figure.rate_error)
                for figure in unseen.figures
                if figure.predicted is not None
                and figure.run.gpu.startswith("MI") == amd
                and figure.metric is not Metric.TTFT
            ]
            assert abs(math.expm1(float(np.mean(logs)))) <= 0.05

    def test_gpu_types_are_in_order(self, unseen: Accuracy) -> None:
        assert unseen.pairs >= 30
        assert unseen.in_order >= 0.93 * unseen.pairs

    def test_no_slice_is_worse_than_on_record(self, seen: Accuracy) -> None:
        errors = {s.name: s.mean for s in seen.slices}
        worse = {name: errors[name] for name, recorded in RECORDED.items() if errors[name] > recorded + WORSE}
        assert worse == {}


class TestBands:
    def test_they_cover_four_in_five_and_are_narrow_enough_to_plan_with(self, unseen: Accuracy) -> None:
        inside, half_widths = [], []
        for figure in unseen.figures:
            if figure.left_out is None or figure.low is None or figure.high is None or figure.predicted is None:
                continue
            around_left_out = figure.left_out / figure.predicted
            inside.append(figure.low * around_left_out <= figure.measured <= figure.high * around_left_out)
            half_widths.append((figure.high - figure.low) / 2 / figure.predicted)
        assert len(inside) >= 600
        assert 0.73 <= np.mean(inside) <= 0.87
        assert np.median(half_widths) <= 0.25

    def test_those_of_figures_are_made_of_the_left_out_ones(self, runs: tuple[NamedRun, ...]) -> None:
        measured = {(f.run.file.rsplit("/", 1)[-1], f.run.row, str(f.metric)): f for f in judged_runs(runs)}
        for column, table in (("without_configuration", MEASURED_BANDS), ("without_group", CARRIED_BANDS)):
            residuals = []
            for row in rows():
                figure = measured.get((row["file"], int(row["row"]), row["metric"]))
                if figure is not None:
                    log = math.log(figure.measured / float(row[column]))
                    residuals.append((row["kind"], -log if figure.metric.is_time else log))
            for kind, band in band_rows(residuals).items():
                assert table[kind].points == band.points
                assert table[kind].log_low <= band.log_low + 1e-9
                assert table[kind].log_high >= band.log_high - 1e-9
                if column == "without_configuration":
                    assert table[kind] == band

    def test_those_of_plans_are_made_of_the_left_out_ones(self, runs: tuple[NamedRun, ...]) -> None:
        for column, left_out in (("without_configuration", LeftOut.RUN), ("without_group", LeftOut.GROUP)):
            residuals = plan_residuals(runs, column)
            for row in BAND_TABLE:
                if row.left_out is left_out:
                    low, high, points = quantiles_of(residuals, row)
                    assert (row.log_low, row.log_high, row.points) == pytest.approx((low, high, points), abs=6e-4)


def plan_residuals(runs: tuple[NamedRun, ...], column: str) -> list[tuple[str, str, str, float]]:
    """(kind of model, phase or `either`, family, ln of measured over predicted rate) of new engines."""
    by_place = {(n.run.file.rsplit("/", 1)[-1], n.run.row): n for n in runs}
    steps = load_published_measurements()
    gpus, _ = measured_records(steps, "published")
    residuals = []
    for row in rows():
        predicted = float(row[column])
        if row["metric"] == "step_ms":
            m = next(step for step in steps if step.row == int(row["row"]))
            if m.fitted:
                residuals.append((MOE, str(m.phase), gpus[m.gpu].family, math.log(predicted / m.ms)))
            continue
        named = by_place[row["file"], int(row["row"])]
        assert named.gpu is not None
        assert named.model is not None
        if named.run.year is not None and named.run.year < FIRST_NEW_YEAR:
            continue
        log = math.log(dict(named.run.measured)[Metric(row["metric"])] / predicted)
        log = -log if Metric(row["metric"]).is_time else log
        if phase := phase_of(row["kind"], dense=named.model.experts is None):
            residuals.append((DENSE if named.model.experts is None else MOE, phase, named.gpu.family, log))
    return residuals


def phase_of(kind: str, *, dense: bool) -> str:
    """The phase that a figure tells of; `either` of figures of whole deployments; nothing of others."""
    if dense:
        return "either" if kind in ("saturated throughput", "static batch") else ""
    alone = {"disaggregated decode TPOT": "decode", "decode steps": "decode"}
    alone |= {"saturated prefill": "prefill", "prefill steps": "prefill"}
    return alone.get(kind) or ("either" if kind in ("aggregated TPOT", "saturated throughput") else "")


def quantiles_of(residuals: list[tuple[str, str, str, float]], row: BandRow) -> tuple[float, float, int]:
    def logs(phase: str) -> list[float]:
        return [
            log
            for kind, of, family, log in residuals
            if (kind, of) == (row.kind, phase) and row.family in (family, ANY_FAMILY)
        ]

    of_slice = logs("either") if row.kind == DENSE else logs(str(row.phase))
    if row.kind == MOE and row.phase is Phase.DECODE and row.family != ANY_FAMILY and len(of_slice) < 8:
        of_slice += logs("either")
    return float(np.quantile(of_slice, 0.1)), float(np.quantile(of_slice, 0.9)), len(of_slice)


def test_the_ten_step_times_stay_near() -> None:
    steps = load_published_measurements()
    gpus, models = measured_records(steps, "published")
    errors = [abs(m.ms / predict_ms(m, gpus[m.gpu], models[m.model]) - 1) for m in steps if m.fitted]
    assert len(errors) == 10
    assert np.mean(errors) <= 0.10
