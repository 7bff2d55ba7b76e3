"""`planner simulate preemption`: what it writes, that a seed gives the same bytes, and what it refuses."""

from collections import Counter
from pathlib import Path

import pytest
from command_line import Command
from openb_files import read_rows

from planner.errors import EXIT_BAD_INPUT, EXIT_DONE
from planner.studies.preemption.page import HIT_COLUMNS, LATENCY_COLUMNS

SMALL = ("simulate", "preemption", "--nodes", 10, "--cycles", 2, "--scale-ups", 6, "--quiet")
UNTIMED = (*SMALL, "--no-latency", "--no-figures")


def test_the_study_is_written(planner: Command) -> None:
    answer = planner(*SMALL, "--repetitions", 2, "--seed", 3, "--out", "p")
    assert answer.status == EXIT_DONE
    files = {path.relative_to("p").as_posix() for path in Path("p").rglob("*") if path.is_file()}
    assert files == {
        "report.html",
        "hit_rates.csv",
        "latency.csv",
        "summary.md",
        "figures/hit_rates.png",
        "figures/latency.png",
    }
    rows = read_rows("p/hit_rates.csv")
    assert tuple(rows[0]) == HIT_COLUMNS
    assert len(rows) == 2 * 3 * 2 * 2  # placements, methods, modes, workloads
    assert {(row["nodes"], row["seed"], row["preemptions"]) for row in rows} == {("10", "3", "6")}
    aware = [row for row in rows if row["method"] != "standard" and row["mode"] == "independent"]
    assert aware
    assert {(row["hits"], row["failures"], row["decisions"]) for row in aware} == {("6", "0", "2")}
    times = read_rows("p/latency.csv")
    assert tuple(times[0]) == LATENCY_COLUMNS
    assert [(row["workload"], row["method"]) for row in times] == [
        (name, method) for name in "BC" for method in ("standard", "naive", "imp", "masks")
    ]
    assert all(0 < float(row["p50_us"]) <= float(row["p90_us"]) for row in times)
    page = Path("p/summary.md").read_text()
    for said in ("2,225", "44.5", "figures/latency.png", "only there can all of them be hits", "never the same twice"):
        assert said in page
    for said in ("GPUs of newcomers", "only there can all of them be hits", "Written to p"):
        assert said in answer.out


def test_a_seed_gives_the_same_bytes(planner: Command) -> None:
    for folder, seed in (("one", 5), ("two", 5), ("other", 6)):
        assert planner(*UNTIMED, "--seed", seed, "--out", folder).status == EXIT_DONE
    assert {path.name for path in Path("one").iterdir()} == {"hit_rates.csv", "report.html", "summary.md"}
    for name in ("hit_rates.csv", "report.html", "summary.md"):
        assert Path("one", name).read_bytes() == Path("two", name).read_bytes()
    assert Path("one/hit_rates.csv").read_bytes() != Path("other/hit_rates.csv").read_bytes()


def test_several_seeds_hold_each_of_their_own(planner: Command) -> None:
    both = planner(*UNTIMED, "--seeds", "5-6", "--json").json["hit_rates"]
    alone = planner(*UNTIMED, "--seed", 6, "--json").json["hit_rates"]
    assert [row for row in both if row["seed"] == 6] == alone
    assert len(both) == 2 * len(alone)


def test_sizes_placements_methods_and_modes_are_chosen(planner: Command) -> None:
    chosen = ("--nodes", 5, "--initial", "packed", "--initial", "mixed", "--method", "naive", "--method", "masks")
    found = planner(*UNTIMED, *chosen, "--mode", "sequential", "--workload", "0:1", "--json").json
    assert found["scale_ups"] == {"B": 0, "C": 6}
    assert {(row["nodes"], row["initial"], row["method"], row["mode"]) for row in found["hit_rates"]} == {
        (nodes, initial, method, "sequential")
        for nodes in (10, 5)
        for initial in ("packed", "mixed")
        for method in ("naive", "masks")
    }
    assert found["latency"] == []


def test_large_clusters_say_what_they_leave_out(planner: Command) -> None:
    large = ("simulate", "preemption", "--nodes", 201, "--cycles", 1, "--scale-ups", 2, "--no-latency", "--quiet")
    answer = planner(*large, "--out", "p", "--no-figures")
    assert "hits of imp are not counted above 200 nodes" in answer.out
    assert "hits of imp are not counted above 200 nodes" in Path("p/summary.md").read_text()
    assert {row["method"] for row in read_rows("p/hit_rates.csv")} == {"standard", "masks"}


def test_options_reach_the_methods(planner: Command) -> None:
    """Packed nodes: by start standard preemption frees neighbours; priorities alone leave sockets to chance."""
    packed = (*UNTIMED, "--initial", "packed", "--mode", "independent", "--json", "--cycles", 8)
    by_start = planner(*packed, "--tie", "start", "--method", "standard").json["hit_rates"]
    assert [row["hits"] for row in by_start] == [24, 24]
    best = planner(*packed, "--node-policy", "best", "--method", "standard").json
    assert best["node_policy"] == "best"
    assert best["hit_rates"] != planner(*packed, "--method", "standard").json["hit_rates"]
    effort = ("--qos", "best_effort", "--method", "masks")
    assert all(row["hits"] == 24 for row in planner(*packed, *effort, "--alpha", 0.9).json["hit_rates"])
    assert any(row["hits"] < 24 for row in planner(*packed, *effort, "--alpha", 1).json["hit_rates"])


def test_nothing_is_overwritten_unasked(planner: Command) -> None:
    assert planner(*UNTIMED, "--out", "p").status == EXIT_DONE
    before = Path("p/hit_rates.csv").read_bytes()
    again = planner(*UNTIMED, "--out", "p", "--seed", 9)
    assert again.status == EXIT_BAD_INPUT
    assert Path("p/hit_rates.csv").read_bytes() == before
    assert planner(*UNTIMED, "--out", "p", "--seed", 9, "--force").status == EXIT_DONE
    assert Path("p/hit_rates.csv").read_bytes() != before


def test_a_result_with_figures_and_times_gives_way_to_one_without(planner: Command) -> None:
    assert planner(*SMALL, "--repetitions", 1, "--out", "p").status == EXIT_DONE
    assert Path("p/figures").is_dir()
    answer = planner(*UNTIMED, "--out", "p", "--force")
    assert answer.status == EXIT_DONE, answer.err
    assert sorted(path.name for path in Path("p").iterdir()) == ["hit_rates.csv", "report.html", "summary.md"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--alpha", 1.5), "--alpha"),
        (("--alpha", -0.1), "--alpha"),
        (("--alpha", "nan"), "alpha"),
        (("--nodes", 0), "--nodes"),
        (("--nodes", 200_000), "--nodes"),
        (("--nodes", 10), "--nodes"),
        (("--cycles", 0), "--cycles"),
        (("--scale-ups", 0), "--scale-ups"),
        (("--workload", "1"), "--workload"),
        (("--workload", "0:0"), "--workload"),
        (("--workload", "1:-1"), "--workload"),
        (("--workload", "one:two"), "--workload"),
        (("--initial", "tidy"), "--initial"),
        (("--initial", "packed", "--initial", "packed"), "--initial"),
        (("--method", "guess"), "--method"),
        (("--mode", "random"), "--mode"),
        (("--tie", "name"), "--tie"),
        (("--node-policy", "worst"), "--node-policy"),
        (("--qos", "gold"), "--qos"),
        (("--qos", "single_numa"), "single_numa"),
        (("--seed", -1), "--seed"),
        (("--seeds", "3-1"), "--seeds"),
        (("--seeds", "1,1"), "--seeds"),
        (("--seed", 1, "--seeds", "2"), "--seeds"),
        (("--repetitions", 0), "--repetitions"),
    ],
)
def test_bad_options_write_nothing(planner: Command, options: tuple[object, ...], said: str) -> None:
    answer = planner(*SMALL, *options, "--out", "p")
    assert answer.status == EXIT_BAD_INPUT
    assert said in answer.err
    assert not Path("p").exists()


def test_progress_is_told_unless_quiet(planner: Command) -> None:
    loud = [word for word in UNTIMED if word != "--quiet"]
    assert "cycles" in planner(*loud).err
    assert planner(*UNTIMED).err == ""


ONCE = ("simulate", "preemption", "--nodes", 10, "--cycles", 1, "--scale-ups", 4, "--quiet", "--repetitions", 1)


def test_the_papers_figures_from_the_command_line(planner: Command) -> None:
    asked = ("--initial", "packed", "--timed", "C", "--timed-mode", "sequential", "--paper-figures", "--out", "p")
    assert planner(*ONCE, *asked).status == EXIT_DONE
    files = {path.relative_to("p").as_posix() for path in Path("p").rglob("*") if path.is_file()}
    assert {f"figure-{k}.csv" for k in ("08", "09", "10")} <= files
    assert {f"figures/figure-{k}.png" for k in ("08", "09", "10")} <= files
    assert {(row["workload"], row["mode"]) for row in read_rows("p/latency.csv")} == {("C", "sequential")}
    assert Counter(row["workload"] for row in read_rows("p/figure-10.csv")) == dict.fromkeys("ABCD", 15)
    assert "each search on what the scale-ups before it left" in Path("p/summary.md").read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--paper-figures",), "--paper-figures: needs --out"),
        (("--timed", "E"), "--timed: must be one of A, B, C, D, got 'E'"),
        (("--timed", "A", "--timed", "A"), "--timed"),
        (("--timed", "A", "--timed-mode", "sequential"), "sequential times workloads that are scaled up (B, C), got A"),
    ],
)
def test_what_cannot_be_timed_is_refused(planner: Command, options: tuple[str, ...], said: str) -> None:
    answer = planner(*ONCE, *options)
    assert (answer.status, answer.out) == (EXIT_BAD_INPUT, "")
    assert said in answer.err
