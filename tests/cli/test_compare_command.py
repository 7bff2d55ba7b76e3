"""`planner compare`, and the head of `planner diff`: figures by hand from plan.json, warnings, files, widths."""

import csv
import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import TINY, Answer, Command

from planner import load_plan
from planner.plans.comparing import plan_figures
from planner.report.comparison.side_by_side import figure_cells

SLOWER = TINY.replace("H20: 32", "H20: 16")


@pytest.fixture(scope="module")
def folder_of_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of one question on other inventories, and one of another workload."""
    from plain_pictures import copied_pictures

    from planner.runs import Job, run_job

    folder = tmp_path_factory.mktemp("runs")
    texts = {"fast": TINY, "slow": SLOWER, "other": SLOWER.replace("normal-500-2000", "azure-code-2023")}
    with copied_pictures():
        for name, text in texts.items():
            (folder / f"{name}.yaml").write_text(text.replace("search: {method: random", "search: {method: exact"))
            run_job(Job(scenario=folder / f"{name}.yaml", folder=folder / "runs" / name))
    return folder / "runs"


def plan_of(run: Path) -> dict[str, Any]:
    """plan.json as it is."""
    return dict(json.loads((run / "plan.json").read_text()))


def rows_of(answer: Answer) -> dict[str, list[str]]:
    """The cells of the first table, by what the row is of."""
    lines = [line.strip("│ ").split("│") for line in answer.out.splitlines() if line.startswith("│")]
    return {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in lines}


def test_the_table_says_what_the_plans_say(planner: Command, folder_of_runs: Path) -> None:
    answer = planner("compare", folder_of_runs / "fast", folder_of_runs / "slow" / "plan.json")
    assert answer.status == 0
    rows, plans = rows_of(answer), [plan_of(folder_of_runs / name) for name in ("fast", "slow")]
    assert [float(cell) for cell in rows["requests/s"]] == pytest.approx([p["throughput_rps"] for p in plans], rel=1e-3)
    assert [float(cell) for cell in rows["promise"]] == pytest.approx(
        [p["buckets"]["promise_rps"] for p in plans], rel=1e-3
    )
    assert rows["USD/hour"] == ["160.00", "144.00"]  # 32 x 4 + 32 x 1, 32 x 4 + 16 x 1
    assert rows["H20"] == ["32", "16"]
    assert rows["H200"] == ["32", "32"]
    assert rows["pools"] == [str(len(p["buckets"]["pools"])) for p in plans]
    tokens = plans[0]["throughput_rps"] * 3600 * (1790 + 100)  # the workload's mean prompt and answer
    assert float(rows["USD/M tokens"][0]) == pytest.approx(160 / tokens * 1e6, rel=3e-3)
    assert "inventory.H20 | 32 | 16" in answer.out
    assert "Beware" not in answer.out


def test_likelihoods_and_differences_are_those_of_the_diff(planner: Command, folder_of_runs: Path) -> None:
    slow, fast = folder_of_runs / "slow", folder_of_runs / "fast"
    compared = planner("compare", slow, fast, "--json").json
    rates = planner("diff", slow, fast, "--json").json["rates"]
    assert compared["plans"][1]["better_than_first"] == rates["probability_new_is_faster"]
    assert sum(plan["best_probability"] for plan in compared["plans"]) == pytest.approx(1)
    assert compared["differences"] == [{"key": "inventory.H20", "values": ["16", "32"]}]


def test_a_folder_of_runs_warns_of_other_work(planner: Command, folder_of_runs: Path) -> None:
    answer = planner("compare", folder_of_runs)
    assert answer.status == 0
    assert "different workloads (normal-500-2000, azure-code-2023)" in answer.out.replace("\\", "")
    assert "none is called the fastest" in answer.out
    names = [plan["figures"]["name"] for plan in planner("compare", folder_of_runs, "--json").json["plans"]]
    assert names == ["fast", "other", "slow"]
    assert planner("report", folder_of_runs).out == answer.out


@pytest.mark.parametrize(
    ("order", "names"), [("price", ["slow", "fast"]), ("rate", ["fast", "slow"]), ("gpus", ["slow", "fast"])]
)
def test_runs_are_sorted_the_best_first(planner: Command, folder_of_runs: Path, order: str, names: list[str]) -> None:
    runs = [folder_of_runs / name for name in ("fast", "slow")]
    compared = planner("compare", *runs, "--sort", order, "--json").json
    assert [plan["figures"]["name"] for plan in compared["plans"]] == names


@pytest.mark.parametrize("width", [60, 80, 100])
def test_no_width_splits_a_figure(
    planner: Command, folder_of_runs: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """Every cell of the wide table stands whole in a narrow one, and no line is longer than the terminal."""
    wide = rows_of(planner("compare", folder_of_runs))
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", planner("compare", folder_of_runs).out)
    table = shown.splitlines()
    assert max(map(len, table)) <= width
    missing = [cell for cells in wide.values() for cell in cells if cell not in " ".join(shown.split())]
    assert missing == []


def test_the_figures_go_into_files(planner: Command, folder_of_runs: Path) -> None:
    runs = [folder_of_runs / name for name in ("fast", "slow")]
    assert planner("compare", *runs, "--csv", "a.csv", "--html", "a.html").status == 0
    rows = list(csv.DictReader(Path("a.csv").read_text().splitlines()))
    plans = [plan_of(run) for run in runs]
    assert [float(row["rate_rps"]) for row in rows] == pytest.approx([plan["throughput_rps"] for plan in plans])
    assert [row["fleet"] for row in rows] == ["32 H20, 32 H200", "16 H20, 32 H200"]
    page = Path("a.html").read_text()
    for figure in (f"{plan['throughput_rps']:.4g}" for plan in plans):
        assert figure in page
    again = planner("compare", *runs, "--csv", "a.csv")
    assert (again.status, "a.csv: exists already" in again.err) == (2, True)


def test_the_report_of_a_folder_is_written(planner: Command, folder_of_runs: Path) -> None:
    assert planner("report", folder_of_runs, "--out", "made").status == 0
    assert {path.name for path in Path("made").iterdir()} == {"comparison.md", "comparison.csv", "report.html"}


def test_the_diff_begins_with_the_changes(planner: Command, folder_of_runs: Path) -> None:
    old, new = (plan_of(folder_of_runs / name) for name in ("slow", "fast"))
    page = planner("diff", folder_of_runs / "slow", folder_of_runs / "fast").out
    rate = 100 * (new["throughput_rps"] / old["throughput_rps"] - 1)
    assert re.search(rf"\| requests/s \| [\d.]+ \| [\d.]+ \| \+{rate:.1f} % \|", page)
    assert "| USD/hour | 144.00 | 160.00 | +11.1 % |" in page  # 160 / 144
    assert "| H20 | 16 | 32 | +100.0 % |" in page
    assert page.index("| requests/s |") < page.index("Pools:")
    figures = planner("diff", folder_of_runs / "slow", folder_of_runs / "fast", "--json").json["figures"]
    assert figures["price_usd_per_hour"] == {"old": 144.0, "new": 160.0, "change": pytest.approx(1 / 9)}


def test_types_that_no_plan_uses_have_no_row(folder_of_runs: Path) -> None:
    """Of an offer of twenty types a plan rents a few."""
    figures = plan_figures(load_plan(folder_of_runs / "fast").record, "fast")
    offers = [replace(figures, fleet=(("H20", 0), ("H200", count), ("L4", 0))) for count in (0, 8)]
    assert {label: cells for label, cells in figure_cells(offers) if label in ("H20", "H200", "L4")} == {
        "H200": ("0", "8")
    }


def test_other_levels_and_forms_are_told(planner: Command, folder_of_runs: Path, table_run: Path) -> None:
    answer = planner("compare", folder_of_runs / "fast", table_run)
    assert "different routing forms (buckets, table)" in answer.out
    assert "routing.form | buckets | table" in answer.out


def test_what_cannot_be_compared_is_refused(planner: Command, folder_of_runs: Path) -> None:
    Path("empty").mkdir()
    shutil.copytree(folder_of_runs / "fast", "edited")
    plan = Path("edited/plan.json")
    text = plan.read_text()
    plan.write_text(re.sub(r'("throughput_rps": )\d', r"\g<1>9", text, count=1))
    for path, part in (("nowhere", "there is no such file"), ("empty", "holds no plan.json"), ("edited", "edited")):
        answer = planner("compare", path)
        assert (answer.status, answer.out) == (2, "")
        assert part in answer.err
