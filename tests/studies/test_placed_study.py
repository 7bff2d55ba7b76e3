"""What `objective: placed` is worth: means and intervals by hand, and what the guide tells of the raw results."""

import csv
from pathlib import Path

import pytest
from scipy import stats

from planner.files.scenario.objective_sections import PLACED_LAYOUTS, PLACED_ROUNDS
from planner.report.kit.markdown import table
from planner.studies.papers.results import ResultsFolder
from planner.studies.placed import clusters, study
from planner.studies.placed.page import HEADER, gain_page, gain_rows, told_gain
from planner.studies.placed.study import GainRun, by_cluster, gain_on, gains_csv, mean_gain, runs_of

RESULTS = Path(study.__file__).with_name("results")
GUIDE = Path(study.__file__).parents[2] / "cli" / "docs" / "guides" / "placement.md"
WORTHWHILE = 0.01
"""Of the mean gain's interval: where it begins above this, the objective is the default."""


def run(cluster: str, seed: int, solved: float, placed: float) -> GainRun:
    return GainRun(
        cluster=cluster,
        seed=seed,
        idle_gpus=8,
        unplaced_rps=10.0,
        solved_rps=solved,
        placed_rps=placed,
        solved_cpu_s=1.0,
        placed_cpu_s=2.0,
    )


def test_the_gain_by_hand() -> None:
    runs = [run("a", 0, 5, 10), run("a", 1, 10, 10), run("b", 0, 0, 4), run("b", 1, 0, 0)]
    assert [one.gain for one in runs] == [0.5, 0.0, 1.0, 0.0]
    gain = mean_gain(runs)
    assert gain is not None
    assert gain.mean == pytest.approx((0.25 + 0.5) / 2)
    assert gain.half == pytest.approx(stats.t.ppf(0.975, 1) * 0.125)
    assert "2 of 4 plans are better, none is worse" in told_gain(runs)
    with pytest.raises(ValueError, match="worse"):
        told_gain([run("a", 0, 5, 4)])
    assert runs_of(csv.DictReader(gains_csv(runs).decode().splitlines())) == runs


def test_a_run_is_never_worse_than_the_solved_plan_it_begins_with() -> None:
    kind = next(kind for kind in clusters.KINDS if kind.name == "nearly-full")
    once = gain_on(kind, 0, 1, 1)
    assert 0 < once.solved_rps <= once.placed_rps


@pytest.fixture(scope="module")
def runs() -> list[GainRun]:
    return runs_of(ResultsFolder(RESULTS).table("gain"))


def test_the_guide_tells_it_as_its_table_has_it(runs: list[GainRun]) -> None:
    text = GUIDE.read_text(encoding="utf-8")
    assert told_gain(runs) in text
    assert table(HEADER, gain_rows(by_cluster(runs).values()), "lrrrr") in text
    assert f"in {PLACED_ROUNDS} rounds of {PLACED_LAYOUTS} layouts" in text
    assert gain_page(runs).startswith("# Objective placed")


def test_the_default_is_what_the_results_say(runs: list[GainRun]) -> None:
    """Ten kinds and five seeds each; none is worse; the interval of the mean lies above 1 %."""
    groups = by_cluster(runs)
    assert [kind.name for kind in clusters.KINDS] == list(groups)
    assert (min(kind.nodes for kind in clusters.KINDS), max(kind.nodes for kind in clusters.KINDS)) == (8, 24)
    assert all([one.seed for one in group] == [0, 1, 2, 3, 4] for group in groups.values())
    assert all(one.gain >= -1e-9 for one in runs)
    gain = mean_gain(runs)
    assert gain is not None
    assert gain.half is not None
    assert gain.mean - gain.half > WORTHWHILE
    assert "It is the default because the interval lies above 1 %." in " ".join(GUIDE.read_text("utf-8").split())
