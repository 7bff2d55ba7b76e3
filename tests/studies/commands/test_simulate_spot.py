"""`planner simulate spot`: what it writes and prints, how much spot load is carried, and what it refuses."""

from pathlib import Path

import pytest
from command_line import Command
from openb_files import read_rows, write_rows
from reference_data import reference_path

from planner.errors import EXIT_BAD_INPUT, EXIT_DONE

SMALL = ("--machines", 12, "--days", 2, "--warm-up-days", 0.5, "--seeds", "1-2", "--processes", 1, "--quiet")
JOB = {
    "job": "j",
    "class": "spot",
    "submit_s": 0,
    "pods": 1,
    "gpus": 2,
    "cpus": 8,
    "duration_s": 7200,
    "checkpoint_s": 600,
    "standby": "",
}
NODE = {"gpu_model": "A10", "gpu_capacity_num": 4, "cpu_num": 64, "node_name": "0"}


def run_of(planner: Command, *options: object) -> dict[str, bytes]:
    answer = planner("simulate", "spot", *SMALL, *options, "--out", "spot")
    assert answer.status == EXIT_DONE, answer.err
    return {
        path.relative_to("spot").as_posix(): path.read_bytes() for path in Path("spot").rglob("*") if path.is_file()
    }


def test_a_comparison_with_a_curve_is_written(planner: Command) -> None:
    files = run_of(planner, "--spot-load", 0.2, "--curve", "0.1,0.2,0.4", "--most-evictions-per-job", 0.4)
    pictures = {f"figures/{kind}.png" for kind in ("allocation", "standby", "comparison", "curve")}
    assert set(files) == {"spot.csv", "series.csv", "curve.csv", "report.html", "summary.md", *pictures}
    rows = read_rows("spot/spot.csv")
    assert [(row["policy"], row["spot_load"], row["seed"]) for row in rows[:4]] == [
        ("spotgpu", "0.2", "1"),
        ("spotgpu", "0.2", "2"),
        ("spotgpu", "0.1", "1"),
        ("spotgpu", "0.1", "2"),
    ]
    assert len(rows) == 2 * 3 * 2
    for row in rows:
        parts = sum(float(row[name]) for name in ("goodput_gpu_h", "lost_gpu_h", "ending_gpu_h"))
        assert float(row["spot_gpu_h"]) == pytest.approx(parts)
    series = read_rows("spot/series.csv")
    assert len(series) == 2 * 2 * 48
    assert {row["spot_load"] for row in series} == {"0.2"}
    for row in series:
        held = sum(float(row[name]) for name in ("hp_gpus", "spot_gpus", "idle_gpus"))
        assert held == pytest.approx(96, abs=0.5)
    curve = read_rows("spot/curve.csv")
    assert [(row["policy"], row["asked_gpus"]) for row in curve[:3]] == [
        ("spotgpu", "9.6"),
        ("spotgpu", "19.2"),
        ("spotgpu", "38.4"),
    ]
    page = files["summary.md"].decode()
    assert "carries up to" in page or "none of the spot loads tried is carried" in page
    assert "at most 0.4 evictions a spot job" in page
    assert files["figures/curve.png"].startswith(b"\x89PNG")


def test_the_same_seeds_give_the_same_bytes_and_nothing_is_replaced_unasked(planner: Command) -> None:
    first = run_of(planner, "--no-figures")
    assert set(first) == {"spot.csv", "series.csv", "report.html", "summary.md"}
    again = planner("simulate", "spot", *SMALL, "--out", "spot")
    assert again.status == EXIT_BAD_INPUT
    assert "already holds a result" in again.err
    assert run_of(planner, "--no-figures", "--force") == first
    assert run_of(planner, "--no-figures", "--no-check", "--force") == first
    assert run_of(planner, "--no-figures", "--seeds", "3-4", "--force") != first
    assert "figures/allocation.png" in run_of(planner, "--force", "--curve", "0.1")
    assert run_of(planner, "--no-figures", "--force") == first


def test_json_holds_means_changes_and_answers(planner: Command) -> None:
    answer = planner("simulate", "spot", *SMALL, "--curve", "0.1,0.3", "--most-lost-percent", 90, "--json")
    assert answer.status == EXIT_DONE
    found = answer.json
    assert [one["policy"] for one in found["policies"]] == ["spotgpu", "random"]
    means = found["policies"][0]["means"]["spot_completion_mean_h"]
    assert means["seeds"] == 2
    assert means["half"] > 0
    assert found["policies"][1]["change_percent"]["lost_gpu_h"]["mean"] == 0
    assert found["limits"] == {"lost_percent": 90, "least_done_percent": 90}
    assert found["curve"][0]["due_done_percent"]["seeds"] == 2
    assert "carries up to 29 GPUs of spot load (30 % of its GPUs" in found["answers"][0]
    assert "the most that was tried" in found["answers"][0]


OVERLOADS = {
    "four times what fits": ("--machines", 20, "--days", 4, "--curve", "0.1,1,2"),
    "no evictions": ("--machines", 20, "--days", 3, "--hp-diurnal", 0, "--standby-share", 0, "--curve", "0.2,0.8,1.6"),
    "few are done": (
        *("--machines", 20, "--days", 3, "--warm-up-days", 2, "--spot-hours", 40),
        *("--most-slowdown", 3, "--curve", "0.2,0.8,1.6"),
    ),
}


@pytest.mark.parametrize("options", OVERLOADS.values(), ids=OVERLOADS)
def test_hopeless_overload_is_never_carried(planner: Command, options: tuple[object, ...]) -> None:
    """Guaranteed jobs hold more than half of the GPUs: 80 % of them in spot jobs, and more, cannot be done."""
    answer = planner(
        *("simulate", "spot", "--seeds", "1", "--policy", "spotgpu", "--processes", 1),
        *("--quiet", "--json", "--no-check", *options),
    )
    assert answer.status == EXIT_DONE, answer.err
    words = answer.json["answers"][0]
    assert "a backlog (" in words
    assert "most that was tried" not in words
    for point in answer.json["curve"]:
        if point["spot_load"] >= 0.8:
            assert point["due_done_percent"]["mean"] < 70
            assert f"carries up to {point['asked_gpus']:.0f} GPUs" not in words


def test_given_jobs_and_nodes(planner: Command) -> None:
    """One node of 4 GPUs: the spot job gives way after 1 000 s and loses 400 s of 2 GPUs."""
    write_rows("nodes.csv", [NODE])
    high = JOB | {"job": "h", "class": "hp", "submit_s": 1000, "gpus": 4, "cpus": 32, "duration_s": 3600}
    write_rows("jobs.csv", [JOB, high | {"checkpoint_s": "", "standby": "100-200;300-3600"}])
    options = ("--nodes", "nodes.csv", "--jobs", "jobs.csv", "--days", 1, "--warm-up-days", 0, "--seeds", 1)
    answer = planner("simulate", "spot", *options, "--policy", "spotgpu", "--json", "--quiet")
    assert answer.status == EXIT_DONE, answer.err
    assert answer.json["spot_load"] is None
    means = {name: found["mean"] for name, found in answer.json["policies"][0]["means"].items() if found}
    assert (means["evictions"], means["spot_done"], means["hp_done"], means["resumes"]) == (2, 1, 1, 1)
    assert means["goodput_gpu_h"] == pytest.approx(4)


def write_jobs(**change: object) -> None:
    write_rows("nodes.csv", [NODE])
    write_rows("jobs.csv", [JOB, JOB | {"job": "bad"} | change])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"checkpoint_s": 0}, "jobs.csv: row 2, column checkpoint_s must be seconds, above 0"),
        ({"checkpoint_s": -60}, "jobs.csv: row 2, column checkpoint_s must be seconds, above 0"),
        ({"checkpoint_s": ""}, "jobs.csv: row 2, column checkpoint_s"),
        ({"duration_s": -1}, "jobs.csv: row 2, column duration_s must be seconds, above 0"),
        ({"duration_s": "nan"}, "jobs.csv: row 2, column duration_s"),
        ({"submit_s": -1}, "jobs.csv: row 2, column submit_s must be seconds, 0 or more"),
        ({"class": "lp"}, "jobs.csv: row 2, column class must be hp or spot, got 'lp'"),
        ({"gpus": 1.5}, "jobs.csv: row 2, column gpus must be a whole number"),
        ({"gpus": 8}, "jobs.csv: row 2, job bad: its 1 pods of 8 GPUs"),
        ({"class": "hp", "standby": "0-100;50-200"}, "jobs.csv: row 2, job bad: standby must be windows in order"),
        ({"class": "hp", "standby": "0-7201"}, "jobs.csv: row 2, job bad: standby must lie within the job"),
        ({"class": "hp", "standby": "100"}, "jobs.csv: row 2, column standby must be windows in seconds"),
        ({"standby": "0-100"}, "jobs.csv: row 2, job bad: standby must be empty for a spot job"),
        ({"job": "j"}, "jobs.csv: row 2, column job must be a name of its own, got 'j', as in row 1"),
        ({"job": ""}, "jobs.csv: row 2, column job must be a name"),
    ],
)
def test_bad_jobs_are_refused_by_row(planner: Command, change: dict[str, object], said: str) -> None:
    write_jobs(**change)
    answer = planner("simulate", "spot", "--nodes", "nodes.csv", "--jobs", "jobs.csv", "--out", "spot", "--quiet")
    assert answer.status == EXIT_BAD_INPUT
    assert said in answer.err
    assert not Path("spot").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"gpu_capacity_num": 0}, "nodes.csv: row 2, column gpu_capacity_num must be a whole number, at least 1"),
        ({"cpu_num": "many"}, "nodes.csv: row 2, column cpu_num"),
        ({"node_name": "0"}, "nodes.csv: row 2, column node_name must be a name of its own"),
    ],
)
def test_bad_nodes_are_refused_by_row(planner: Command, change: dict[str, object], said: str) -> None:
    write_rows("nodes.csv", [NODE, NODE | {"node_name": "1"} | change])
    answer = planner("simulate", "spot", "--nodes", "nodes.csv", "--quiet")
    assert answer.status == EXIT_BAD_INPUT
    assert said in answer.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--policy", "worst"), "policy: must be spotgpu or random"),
        (("--policy", "random", "--policy", "random"), "--policy: must name each policy once"),
        (("--policy", "spotgpu", "--baseline", "random"), "--baseline: must be one of the policies that run"),
        (("--spot-load", 0), "spot load: must be above 0"),
        (("--spot-load", 3), "spot load: must be above 0 and at most 2"),
        (("--curve", "0.2,0.1"), "--curve: must be at most 50 spot loads above 0 and at most 2, ascending"),
        (("--curve", "0.1,x"), "--curve"),
        (("--hp-load", 1.2), "permanent load: must be from 0 to 1"),
        (("--hp-peak", 0.4), "guaranteed peak: must be from 0.55 to 1, got 0.4"),
        (("--checkpoint-hours", "0-1"), "--checkpoint-hours: must be hours above 0"),
        (("--checkpoint-hours", "8-1"), "--checkpoint-hours"),
        (("--standby-share", -1), "standby share: must be from 0 to 1"),
        (("--days", 0), "days: must be above 0"),
        (("--warm-up-days", 2), "days: must be above 0 and above the warm-up"),
        (("--sample-minutes", 0), "sample: must be seconds above 0"),
        (("--seeds", "2-1"), "--seeds"),
        (("--sample-minutes", 1e-9), "sample: must cut the days into at most 1,000,000 stretches"),
        (("--days", 1e9, "--hp-diurnal", 0, "--spot-load", 1e-6), "stretches; 1e+09 days"),
        (("--most-lost-percent", 5), "--most-lost-percent: limits the answer of --curve, got no --curve"),
        (("--most-slowdown", 2), "--most-slowdown: limits"),
        (("--least-done-percent", 95), "--least-done-percent: limits"),
        (("--nodes", "none.csv"), "--machines: goes without --nodes"),
    ],
)
def test_bad_options_write_nothing(planner: Command, options: tuple[object, ...], said: str) -> None:
    answer = planner("simulate", "spot", *SMALL, *options, "--out", "spot")
    assert answer.status == EXIT_BAD_INPUT
    assert said in answer.err
    assert not Path("spot").exists()


def test_a_load_does_not_go_with_given_jobs(planner: Command) -> None:
    write_jobs(gpus=1)
    options = ("--nodes", "nodes.csv", "--jobs", "jobs.csv", "--quiet")
    for option, value in (("--spot-load", 0.1), ("--curve", "0.1"), ("--hp-load", 0.55), ("--checkpoint-hours", "1-8")):
        answer = planner("simulate", "spot", *options, option, value)
        assert answer.status == EXIT_BAD_INPUT
        assert f"{option}: goes with drawn jobs only" in answer.err


def test_jobs_after_the_end_are_told(planner: Command) -> None:
    write_rows("nodes.csv", [NODE])
    write_rows("jobs.csv", [JOB, JOB | {"job": "late", "submit_s": 200_000}])
    options = ("--nodes", "nodes.csv", "--jobs", "jobs.csv", "--quiet", "--seeds", 1, "--processes", 1)
    answer = planner("simulate", "spot", *options, "--days", 2)
    assert answer.status == EXIT_DONE
    assert "1 of 2 jobs come after the 2 days and are left out" in answer.err
    assert "mean of 1 seed\n" in answer.out
    assert "points" in answer.out  # shares differ by points, as in summary.md
    assert "left out" not in planner("simulate", "spot", *options, "--days", 3).err


def test_alibabas_nodes_are_read(planner: Command) -> None:
    options = ("--days", 0.2, "--warm-up-days", 0.05, "--seeds", 1, "--policy", "spotgpu", "--json", "--quiet")
    nodes = reference_path("spot_gpu_2026/node_info.csv")
    answer = planner("simulate", "spot", "--nodes", nodes, *options)
    assert answer.status == EXIT_DONE, answer.err
    assert (answer.json["nodes"], answer.json["gpus"]) == (4278, 10412)


@pytest.mark.parametrize("weights", ["", "0:1", "1", "1:0", "2:1,2:3", "1:inf", "x:1", "1:-1"])
def test_weights_that_are_none_are_refused(planner: Command, weights: str) -> None:
    answer = planner("simulate", "spot", *SMALL, "--spot-sizes", weights)
    assert answer.status == EXIT_BAD_INPUT
    assert "--spot-sizes: must be whole numbers from 1, each once, with weights above 0" in answer.err
