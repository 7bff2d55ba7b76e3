"""`planner simulate queue`: waits and energy of a trace at its own times, and what it refuses."""

from pathlib import Path

import pytest
from command_line import Command
from openb_files import read_rows, trace_nodes, trace_pods, write_rows

from planner.errors import EXIT_BAD_INPUT, EXIT_DONE

POLICIES = ("--policy", "fgd", "--policy", "adaptive")
TRACE = ("--nodes", "nodes.csv", "--pods", "pods.csv")


@pytest.fixture(autouse=True)
def trace(here: Path) -> None:
    """A pod a minute, each for an hour, on few nodes: more than fit at once."""
    write_rows("nodes.csv", trace_nodes(20))
    pods = [pod | {"creation_time": 60 * k, "deletion_time": 60 * k + 3600} for k, pod in enumerate(trace_pods(180))]
    write_rows("pods.csv", pods)


def test_pods_wait_and_run_and_the_figures_are_written(planner: Command) -> None:
    answer = planner("simulate", "queue", *TRACE, *POLICIES, "--stretch", 4, "--out", "q", "--json")
    assert answer.status == EXIT_DONE
    assert [row["policy"] for row in answer.json] == ["fgd", "adaptive"]
    for row in answer.json:
        assert row["ran"] + row["failed"] + row["waiting"] == 180
        assert row["waited"] > 0
        assert row["wait_max_s"] >= row["wait_p95_s"] >= 0
        assert row["energy_kwh"] > 0
    written = read_rows("q/queue.csv")
    assert [int(row["ran"]) for row in written] == [row["ran"] for row in answer.json]


def test_without_a_queue_what_does_not_fit_fails(planner: Command) -> None:
    waiting = planner("simulate", "queue", *TRACE, "--policy", "fgd", "--stretch", 4, "--json").json[0]
    none = ("--longest-wait-s", 0)
    failing = planner("simulate", "queue", *TRACE, "--policy", "fgd", "--stretch", 4, *none, "--json").json[0]
    assert failing["waited"] == failing["waiting"] == 0
    assert failing["failed"] > waiting["failed"]
    assert "Pods that come, wait and leave" in planner("simulate", "queue", *TRACE, "--policy", "bestfit").out


@pytest.mark.parametrize(
    ("options", "said"),
    [(("--policy", "fgd", "--stretch", 0), "stays"), (("--policy", "worst"), "worst")],
)
def test_bad_options_write_nothing(planner: Command, options: tuple[object, ...], said: str) -> None:
    answer = planner("simulate", "queue", *TRACE, *options, "--out", "q")
    assert answer.status == EXIT_BAD_INPUT
    assert said in answer.err
    assert not Path("q").exists()


def test_a_trace_without_times_is_refused(planner: Command) -> None:
    write_rows("pods.csv", trace_pods(20))
    answer = planner("simulate", "queue", *TRACE, "--policy", "fgd")
    assert answer.status == EXIT_BAD_INPUT
    assert "creation" in answer.err


def test_where_none_waits_nobody_stands_in_front_of_anybody(planner: Command) -> None:
    """A pod that fits nowhere fails at once; the small one behind it runs."""
    big = trace_pods(9)[8] | {"name": "big", "gpu_spec": "T4", "creation_time": 0, "deletion_time": 10}
    small = trace_pods(2)[1] | {"name": "small", "gpu_spec": "", "creation_time": 0, "deletion_time": 10}
    write_rows("pods.csv", [big, small])
    options = ("--policy", "fgd", "--no-backfill", "--longest-wait-s", 0, "--json")
    answer = planner("simulate", "queue", *TRACE, *options)
    assert (answer.json[0]["ran"], answer.json[0]["failed"]) == (1, 1)
    assert "1 of 2 pods fit on no node" in answer.err


@pytest.mark.parametrize("stretch", ["1e307", "nan"])
def test_stays_beyond_measure_are_refused(planner: Command, stretch: str) -> None:
    answer = planner("simulate", "queue", *TRACE, "--policy", "fgd", "--stretch", stretch)
    assert answer.status == EXIT_BAD_INPUT
    assert "--stretch" in answer.err


def test_times_beyond_measure_are_refused(planner: Command) -> None:
    write_rows("pods.csv", [pod | {"creation_time": "-1e308", "deletion_time": 10} for pod in trace_pods(3)])
    answer = planner("simulate", "queue", *TRACE, "--policy", "fgd")
    assert answer.status == EXIT_BAD_INPUT
    assert "pods.csv: row 1" in answer.err
