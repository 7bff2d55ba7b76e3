"""`planner cost accuracy` and `planner cost calibrate` on benchmark runs: rows, reasons, refusals."""

import csv
import json
import lzma
import shutil
from pathlib import Path

import pytest
from command_line import Command

from planner.errors import EXIT_BAD_INPUT, EXIT_DONE
from planner.files.benchmarks.benchmark_files import GIVEN_POINTS

KEYS = {"file", "row", "metric", "measured", "predicted", "low", "high", "slice", "reason"}
DATA = Path(__file__).parents[1] / "data"


@pytest.fixture
def serving() -> list[dict[str, str]]:
    path = next(path for path in GIVEN_POINTS if "serving" in path.name)
    with Path(path).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def write(rows: list[dict[str, str]], name: str = "points.csv") -> Path:
    with Path(name).open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return Path(name)


def test_every_point_and_metric_is_a_row(planner: Command, serving: list[dict[str, str]]) -> None:
    chosen = [row for row in serving if row["disaggregated"] == "False"][:4] + serving[:3]
    answer = planner("cost", "accuracy", write(chosen), "--json")
    assert answer.status == EXIT_DONE
    rows = answer.json
    assert all(set(row) >= KEYS for row in rows)
    aggregated = [row for row in rows if row["row"] <= 4]
    assert {row["metric"] for row in aggregated} == {"output_tokens_per_s_per_gpu", "ttft_p50_ms", "tpot_p50_ms"}
    assert len(aggregated) == 12
    banded = [row for row in rows if row["low"] is not None]
    # the rate of split runs alone has no band
    assert {row["row"] > 4 and "tokens" in row["metric"] for row in rows if row not in banded} <= {True}
    for row in banded:
        assert row["low"] < row["predicted"] < row["high"]
    first = next(row for row in rows if row["row"] == 1 and row["metric"] == "tpot_p50_ms")
    assert first["measured"] == float(chosen[0]["tpot_p50_ms"])


def test_a_point_that_cannot_be_predicted_stays_with_its_reason(
    planner: Command, serving: list[dict[str, str]]
) -> None:
    unknown = {**next(row for row in serving if row["disaggregated"] == "False"), "gpu": "H999"}
    rows = planner("cost", "accuracy", write([unknown]), "--json").json
    assert {row["rate_error"] for row in rows} == {1.0}
    assert {row["predicted"] for row in rows} == {None}
    assert all("there is no GPU type 'H999'" in row["reason"] for row in rows)
    assert "H999" in planner("cost", "accuracy", "points.csv").out


def test_a_precision_that_is_not_understood_is_a_reason(planner: Command, serving: list[dict[str, str]]) -> None:
    row = {**next(row for row in serving if row["disaggregated"] == "False"), "precision": "fp3"}
    rows = planner("cost", "accuracy", write([row]), "--json").json
    assert rows
    assert all("precision must be formats" in row["reason"] and "got 'fp3" in row["reason"] for row in rows)
    assert planner("cost", "calibrate", "points.csv").status == EXIT_BAD_INPUT


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("output_tokens_per_s_per_gpu", "0", "output_tokens_per_s_per_gpu"),
        ("output_tokens_per_s_per_gpu", "1e7", "concurrency"),
        ("isl", "-1", "isl"),
    ],
)
def test_bad_rows_are_named(
    planner: Command, serving: list[dict[str, str]], column: str, value: str, words: str
) -> None:
    row = next(row for row in serving if row["disaggregated"] == "False")
    answer = planner("cost", "accuracy", write([row, {**row, column: value}]))
    assert answer.status == EXIT_BAD_INPUT
    assert "points.csv" in answer.err
    assert "row 2" in answer.err
    assert words in answer.err


def test_rows_that_tell_nothing_are_left_aside_with_the_reason(planner: Command) -> None:
    """Of a hundred rows; how many are in doubt of all is tested with the files."""
    with lzma.open(next(path for path in GIVEN_POINTS if "silicon" in path.name), "rt", encoding="utf-8") as stream:
        header, *rows = stream.readlines()
    with lzma.open("silicon_points.csv.xz", "wt", encoding="utf-8") as stream:
        stream.writelines([header, *rows[1000:1100]])
    answer = planner("cost", "accuracy", "silicon_points.csv.xz")
    assert answer.status == EXIT_DONE
    assert "left aside, as nothing can be concluded from them: 15 runs; the first is row" in " ".join(
        answer.out.split()
    )
    assert " silicon_points.csv.xz: " in answer.out


@pytest.mark.usefixtures("few_points")
def test_the_scoreboard_needs_no_file(planner: Command) -> None:
    answer = planner("cost", "accuracy", "--figure", "judged.png")
    assert answer.status == EXIT_DONE
    assert "Farthest off" in answer.out
    assert Path("judged.png").read_bytes().startswith(b"\x89PNG")


def test_runs_calibrate_their_place(planner: Command, serving: list[dict[str, str]]) -> None:
    chosen = [row for row in serving if row["gpu"] == "H200" and row["disaggregated"] == "False"][:6]
    for row in chosen:  # a machine that is a third slower than the published ones
        for column in ("input_tokens_per_s_per_gpu", "output_tokens_per_s_per_gpu"):
            row[column] = str(float(row[column]) / 1.5)
        for column in ("tpot_p50_ms", "tpot_p99_ms", "ttft_p50_ms", "ttft_p99_ms"):
            row[column] = str(float(row[column]) * 1.5)
    answer = planner("cost", "calibrate", write(chosen), "--out", "mine.calibration.yaml", "--json")
    assert answer.status == EXIT_DONE
    errors = answer.json["mean_absolute_error"]
    assert errors["after"] < 0.7 * errors["before"]
    assert errors["left_out"] < errors["before"]
    after = planner("cost", "accuracy", "points.csv", "--calibration", "mine.calibration.yaml", "--json").json
    before = planner("cost", "accuracy", "points.csv", "--json").json
    assert sum(abs(row["rate_error"]) for row in after) < sum(abs(row["rate_error"]) for row in before)
    again = planner("cost", "calibrate", "points.csv", "--out", "mine.calibration.yaml")
    assert (again.status, "exists already" in again.err) == (EXIT_BAD_INPUT, True)


def test_what_a_result_does_not_say_is_asked_for(planner: Command) -> None:
    source = next(path for path in DATA.rglob("*.json") if "glm5" in path.name)
    shutil.copy(source, "run.json")
    answer = planner("cost", "calibrate", "run.json")
    assert answer.status == EXIT_BAD_INPUT
    for flag in ("--gpu", "--tp", "--dp", "--ep", "--gpus", "--precision"):
        assert flag in answer.err
    assert not Path("run.calibration.yaml").exists()


def test_the_model_of_runs_is_one(planner: Command) -> None:
    Path("run.json").write_text(json.dumps({}), encoding="utf-8")
    answer = planner("cost", "calibrate", "run.json", "--model", "deepseek-v3", "--model", "kimi-k2")
    assert answer.status == EXIT_BAD_INPUT
    assert "--model: must name one model of the runs, got deepseek-v3, kimi-k2." in answer.err
    assert planner("cost", "calibrate").status == EXIT_BAD_INPUT


def test_figures_are_told_in_the_unit_of_their_file(planner: Command) -> None:
    path = next(path for path in GIVEN_POINTS if "published" in path.name)
    with Path(path).open(encoding="utf-8", newline="") as stream:
        points = list(csv.DictReader(stream))
    rows = planner("cost", "accuracy", path, "--json").json
    assert [row["row"] for row in rows] == list(range(1, len(points) + 1))
    for row, point in zip(rows, points, strict=True):
        assert row["metric"] == point["phase_or_metric"]
        assert row["measured"] == pytest.approx(float(point["measured"]), rel=1e-12)
        assert row["low"] < row["predicted"] < row["high"]


def test_phases_that_nothing_was_measured_of_stay_as_they_were(planner: Command) -> None:
    steps = "gpu,model,phase,tp,dp,ep,length,batch,ms,engine\n"
    Path("first.csv").write_text(steps + "H20,deepseek-v3,decode,1,32,32,4096,32,60,vllm\n", encoding="utf-8")
    Path("other.csv").write_text(steps + "H100,deepseek-v3,prefill,1,32,32,4096,4,5200,vllm\n", encoding="utf-8")
    rows = planner("cost", "accuracy", "first.csv", "other.csv", "--json").json
    assert [(row["file"], row["row"]) for row in rows] == [("first.csv", 1), ("other.csv", 1)]
    path = next(path for path in GIVEN_POINTS if "serving" in path.name)
    with Path(path).open(encoding="utf-8", newline="") as stream:
        pools = [row for row in csv.DictReader(stream) if row["gpu"] == "MI355X" and row["disaggregated"] == "True"]
    factors = planner(
        *("cost", "calibrate", "first.csv", "other.csv", write(pools[:2], "pools.csv")),
        *("--out", "mixed.yaml", "--json"),
    ).json["factors"]
    own = {"pace_decode.H20 deepseek-r1 vllm", "pace_prefill.H100 deepseek-r1 vllm"}
    assert own < set(factors)
    assert {name.partition(".")[2].split()[0] for name in set(factors) - own} == {"MI355X"}
    command = ("cost", "accuracy", "other.csv", "--json")
    before, after = planner(*command).json[0], planner(*command, "--calibration", "mixed.yaml").json[0]
    assert abs(after["rate_error"]) < 0.2 * abs(before["rate_error"])


def test_conditions_without_a_file_are_refused(planner: Command) -> None:
    answer = planner("cost", "accuracy", "--gpu", "H200")
    assert (answer.status, "FILE: must be given with conditions of runs" in answer.err) == (EXIT_BAD_INPUT, True)
