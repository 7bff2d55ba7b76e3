"""Input that is not what it seems: endless, enormous, or in another unit; one paragraph and status 2, nothing left."""

import os
from pathlib import Path

import pytest
from command_line import TINY, Command

from planner.errors import EXIT_BAD_INPUT

MILLISECONDS = "timestamp,input_length,output_length\n0,10,2\n3000,20,3\n3536999,30,4\n"


@pytest.mark.parametrize("command", ["check", "plan", "export"])
def test_a_device_is_not_opened(planner: Command, here: Path, command: str) -> None:
    (here / "s.yaml").symlink_to("/dev/zero")
    rest = ("--out", "manifests") if command == "export" else ()
    answer = planner(command, "s.yaml", *rest)
    assert (answer.status, answer.out) == (EXIT_BAD_INPUT, "")
    assert "s.yaml: cannot be read: it is a device" in answer.err


def test_a_scenario_of_200_mb_is_refused_at_once(planner: Command, here: Path) -> None:
    (here / "s.yaml").write_text(TINY)
    os.truncate(here / "s.yaml", 200 * 2**20)
    answer = planner("check", "s.yaml")
    assert answer.status == EXIT_BAD_INPUT
    assert "s.yaml: must have at most 32 MiB, has 200" in answer.err


@pytest.mark.parametrize(
    "value", ['!!bool "maybe"', '!!int ""', '!!float ""', "!!timestamp x", "9" * 5000, "1" + "0" * 30]
)
def test_values_that_nobody_can_build(planner: Command, here: Path, value: str) -> None:
    (here / "s.yaml").write_text(TINY.replace("width: 2048", f"width: {value}"))
    answer = planner("check", "s.yaml")
    assert answer.status == EXIT_BAD_INPUT
    assert "s.yaml" in answer.err
    assert "width must be" in answer.err


def test_the_unit_of_times_is_asked_for_stated_and_told(planner: Command, here: Path) -> None:
    (here / "t.csv").write_text(MILLISECONDS)
    answer = planner("workload", "summarize", "t.csv")
    assert answer.status == EXIT_BAD_INPUT
    assert "--time-unit ms" in answer.err
    assert list(here.iterdir()) == [here / "t.csv"]
    facts = planner("workload", "summarize", "t.csv", "--time-unit", "ms", "--json").json
    assert (facts["clock"], facts["arrival_rps"]) == ("milliseconds, as stated", pytest.approx(2 / 3536.999))
    assert (
        "--time-unit: must be one of s, ms, us, ns" in planner("workload", "summarize", "t.csv", "--time-unit", "h").err
    )


def test_check_tells_what_was_assumed(planner: Command, here: Path) -> None:
    (here / "t.csv").write_text("timestamp,input_length,output_length\n0,10,2\n1,20,3\n")
    (here / "s.yaml").write_text(TINY.replace("normal-500-2000", "t.csv"))
    assert planner("check", "s.yaml", "--json").json["clock"].startswith("seconds since a start, assumed")
    stated = TINY.replace("normal-500-2000", "{kind: trace, file: t.csv, time_unit: ms}")
    (here / "s.yaml").write_text(stated)
    assert planner("check", "s.yaml", "--json").json["clock"] == "milliseconds, as stated"
    (here / "s.yaml").write_text(TINY)
    assert "clock" not in planner("check", "s.yaml", "--json").json
