"""Measurement CSVs and calibration files: what is read, what is refused and how it is said."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from planner.cost import fit_calibration
from planner.domain import CostSource, Origin, Phase
from planner.errors import InputError
from planner.files import (
    load_calibration,
    load_measurements,
    load_published_measurements,
    load_scenario,
    measured_records,
    scenario_document,
    scenario_from_document,
    write_calibration,
)
from planner.files.tables.measurements import measurements_text, parse_measurements
from planner.workload import summarize

HEADER = "gpu,model,phase,tp,dp,ep,length,batch,ms"
GOOD = "H200,deepseek-v3,decode,1,16,16,4096,64,40.5"


@pytest.fixture
def csv(tmp_path: Path) -> Callable[..., Path]:
    def write(*rows: str, header: str = HEADER) -> Path:
        path = tmp_path / "measured.csv"
        path.write_text("\n".join((header, *rows)) + "\n", encoding="utf-8")
        return path

    return write


def test_a_row_is_a_step(csv: Callable[..., Path]) -> None:
    (found,) = load_measurements(csv(GOOD))
    assert (found.gpu, found.phase, found.ep, found.batch, found.ms) == ("H200", Phase.DECODE, 16, 64, 40.5)
    assert (found.pp, found.two_micro_batches, found.kv_bytes, found.fitted, found.row) == (1, None, None, True, 1)


def test_published_measurements_survive_text() -> None:
    rows = load_published_measurements()
    assert parse_measurements(measurements_text(rows), "text") == rows


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (GOOD.replace("40.5", "nan"), "row 2: ms must be a positive number, got 'nan'"),
        (GOOD.replace("40.5", "-3"), "row 2: ms must be a positive number, got '-3'"),
        (GOOD.replace("40.5", "0"), "row 2: ms must be a positive number, got '0'"),
        (GOOD.replace("40.5", "inf"), "row 2: ms must be a positive number"),
        (GOOD.replace("40.5", "fast"), "row 2: ms must be a positive number"),
        (GOOD.replace(",64,", ",-64,"), "row 2: batch must be a positive number"),
        (GOOD.replace(",4096,", ",0,"), "row 2: length must be a whole number of at least 1"),
        (GOOD.replace("decode", "train"), "row 2: phase must be prefill or decode"),
        (GOOD.replace("1,16,16", "1.5,16,16"), "row 2: tp must be a whole number"),
        (GOOD.replace("1,16,16", "1,16,7"), r"row 2: ep must be tp x dp \(16\), or 1"),
        (GOOD + ",7", "row 2: must have 9 cells, got 10"),
        (GOOD.replace("H200", ""), "row 2: gpu must be a name"),
    ],
)
def test_a_faulty_row_is_named(csv: Callable[..., Path], row: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        load_measurements(csv(GOOD, row))


def test_all_faulty_rows_are_told_at_once_up_to_five(csv: Callable[..., Path]) -> None:
    faulty = GOOD.replace("40.5", "nan")
    with pytest.raises(InputError) as told:
        load_measurements(csv(GOOD, faulty, GOOD, *[faulty] * 7))
    for number in (2, 4, 5, 6, 7):
        assert f"row {number}:" in told.value.message
    assert "row 8" not in told.value.message
    assert "And 3 more rows" in told.value.message


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("gpu,model,phase,tp,dp,ep,length,batch", "missing: ms"),
        (HEADER + ",colour", "unknown: colour"),
        (HEADER + ",ms", "twice"),
    ],
)
def test_the_header_is_checked(csv: Callable[..., Path], header: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        load_measurements(csv(GOOD, header=header))


def test_a_header_alone_is_no_measurement(csv: Callable[..., Path]) -> None:
    with pytest.raises(InputError, match="at least one measurement"):
        load_measurements(csv())


def test_names_and_ep_are_checked_against_the_records(csv: Callable[..., Path]) -> None:
    for row, said in (
        (GOOD.replace("H200", "H201"), "row 1: there is no GPU type 'H201'"),
        (GOOD.replace("deepseek-v3", "deepseek-v9"), "row 1: there is no model 'deepseek-v9'"),
        (GOOD.replace("1,16,16", "1,16,1"), "row 1: ep must be 16 for deepseek-v3"),
    ):
        rows = load_measurements(csv(row))
        with pytest.raises(InputError, match=said):
            measured_records(rows, "measured.csv")


class TestCalibrationFiles:
    def test_a_written_fit_reads_back(self, csv: Callable[..., Path], tmp_path: Path) -> None:
        rows = load_measurements(csv(GOOD, GOOD.replace("64,40.5", "128,61")))
        gpus, models = measured_records(rows, "measured.csv")
        fit = fit_calibration(rows, gpus, models, name="mine")
        path = tmp_path / "mine.calibration.yaml"
        write_calibration(fit, path)
        assert load_calibration(path) == fit.calibration
        assert fit.calibration.factors[0].origin is Origin.USER
        with pytest.raises(InputError, match="exists already"):
            write_calibration(fit, path)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("name: x\nfactors: {a: {name: warp, family: hopper, value: 1}}\n", "factors.a.name must be one of"),
            (
                "name: x\nfactors: {a: {name: kernels_decode, family: hopper, value: 1.5, unit: '1', source: s}}\n",
                "factors.a.value must be a number",
            ),
            ("name: x\nfactors: {}\n", "at least one factor"),
            ("name: x\nfactor: {}\n", "factor is not a known key"),
        ],
    )
    def test_faults_are_named(self, tmp_path: Path, text: str, said: str) -> None:
        path = tmp_path / "c.yaml"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=said):
            load_calibration(path)


class TestScenarios:
    BASE = "name: s\nmodel: deepseek-v3\nworkload: azure-code-2023\ninventory: {H200: 64}\n"

    def scenario(self, folder: Path, cost: str) -> Path:
        path = folder / "s.yaml"
        path.write_text(self.BASE + f"cost: {cost}\n", encoding="utf-8")
        return path

    def test_a_profile_and_a_calibration_stand_in_the_record(self, csv: Callable[..., Path], tmp_path: Path) -> None:
        rows = load_measurements(csv(GOOD))
        gpus, models = measured_records(rows, "measured.csv")
        write_calibration(fit_calibration(rows, gpus, models, name="mine"), tmp_path / "c.yaml")
        cost = "{source: tabulated, profile: measured.csv, calibration: c.yaml}"
        read = load_scenario(self.scenario(tmp_path, cost), summarize)
        assert read.cost.source is CostSource.TABULATED
        assert read.cost.profile == rows
        assert {one.name for one in read.inputs} >= {"measured.csv", "c.yaml"}
        again = scenario_from_document(scenario_document(read), origin="x", base=tmp_path, summarize=summarize)
        assert replace(again, inputs=()) == replace(read, inputs=())

    @pytest.mark.parametrize(
        ("cost", "said"),
        [
            ("{source: tabulated}", "cost.profile must be given"),
            ("{profile: measured.csv}", "cost.source must be tabulated"),
            ("{source: guessed}", "cost.source must be one of"),
            ("{mode: reference, source: tabulated, profile: measured.csv}", "cost.mode must be default"),
            ("{calibration: none.yaml}", "cost.calibration: .*none.yaml"),
        ],
    )
    def test_contradictions_are_refused(self, csv: Callable[..., Path], tmp_path: Path, cost: str, said: str) -> None:
        csv(GOOD)
        with pytest.raises(InputError, match=said):
            load_scenario(self.scenario(tmp_path, cost), summarize)
