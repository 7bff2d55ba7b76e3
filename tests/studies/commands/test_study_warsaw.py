"""`planner study warsaw`: what it writes and prints; `--reading` of `planner simulate serving`."""

from pathlib import Path

import pytest
from command_line import Command
from openb_files import read_rows

import planner as package
from planner.errors import EXIT_BAD_INPUT, EXIT_DONE, InputError
from planner.studies.serving.policies.named import POLICIES
from planner.studies.serving.reconciled.calibration import distance
from planner.studies.serving.reconciled.readings import PUBLISHED, law_as_read, settings_as_read
from planner.studies.serving.records import Reading
from planner.studies.serving.warsaw import DNNS

TINY = ("study", "warsaw", "--scale", 0.001, "--quiet")


def test_every_reading_that_was_run_is_written(planner: Command) -> None:
    answer = planner(*TINY, "--trials", 2, "--seeds", "3-4", "--out", "w")
    assert answer.status == EXIT_DONE, answer.err
    rows = read_rows("w/calibration.csv")
    assert [row["stage"] for row in rows[-2:]] == ["middle", "chance"]
    assert [int(row["trial"]) for row in rows] == list(range(len(rows)))
    for row in rows:
        figures = [float(row[figure.name]) for figure in PUBLISHED]
        assert float(row["distance"]) == pytest.approx(distance(figures), rel=1e-6)
    runs = [(row["reading"], row["seed"], row["policy"]) for row in read_rows("w/readings.csv")]
    assert runs == [(of.value, seed, policy) for of in Reading for seed in "34" for policy in POLICIES]
    misses = read_rows("w/misses.csv")
    assert len(misses) == 2 * 2 * len(DNNS)
    assert all(int(row["missed_at_first"]) <= int(row["missed"]) <= int(row["requests"]) for row in misses)
    for said in (f"The nearest of {len(rows)} readings", "Published figures", "Findings that hold", "Written to w"):
        assert said in answer.out
    alone = planner(*TINY, "--trials", 0, "--seeds", 3, "--json").json
    assert set(alone) == {"readings", "misses"}
    firsts = [row for row in read_rows("w/readings.csv") if row["seed"] == "3"]
    assert alone["readings"] == firsts


def test_a_reading_is_settings_and_arrivals(planner: Command) -> None:
    """The words typed besides hold over the reading's."""
    plain = ("simulate", "serving", "--scale", 0.002, "--policy", "rr", "--processes", 1, "--quiet", "--json")
    found = {of.value: planner(*plain, "--reading", of.value).json for of in Reading}
    assert found["literal"] == planner(*plain).json
    settings = settings_as_read(Reading.PUBLISHED)
    assert found["published"]["settings"]["absence"] == "each"
    assert found["published"]["settings"]["horizon_s"] == settings.horizon_s
    changed = planner(*plain, "--reading", "published", "--set", "absence=nowhere", "--spikes", "none").json
    assert changed["settings"]["absence"] == "nowhere"
    assert changed["settings"]["horizon_s"] == settings.horizon_s
    assert changed["runs"] != found["published"]["runs"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--reading", "published", "--mix", "llm"), "--reading: goes without --mix, got both"),
        (("--set", "absence=often"), "--set absence: must be one of nowhere, no-idle, each, got 'often'"),
    ],
)
def test_what_does_not_go_together_is_refused(planner: Command, options: tuple[str, ...], said: str) -> None:
    answer = planner("simulate", "serving", *options)
    assert answer.status == EXIT_BAD_INPUT
    assert said in " ".join(answer.err.split())


def test_a_notebook_has_both_readings() -> None:
    study = package.study("serving", reading="published", minutes=30, scale=0.002, policies=("rr",), seeds=(1,))
    (run,) = study.records["runs"]
    late_s = settings_as_read(Reading.PUBLISHED).late_start_s
    assert float(run.run.requests.start_s.min()) >= late_s
    assert law_as_read(Reading.PUBLISHED).minutes == 30
    with pytest.raises(InputError, match="reading must be one of literal, published, got 'mine'"):
        package.study("serving", reading="mine")


def test_nothing_is_written_over(planner: Command) -> None:
    Path("w").mkdir()
    Path("w/readings.csv").write_text("mine")
    assert planner(*TINY, "--trials", 0, "--out", "w").status == EXIT_BAD_INPUT
    assert Path("w/readings.csv").read_text() == "mine"
