"""`planner replan`: a deployed run changed, its steps written; bad input refused, nothing written."""

import json
import shutil
from pathlib import Path

import pytest
import yaml
from command_line import Command

from planner.errors import EXIT_BAD_INPUT, EXIT_DONE, EXIT_INFEASIBLE
from planner.files import load_run


@pytest.fixture(scope="session")
def replanned(planned: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run changed for longer prompts and answers, with GPUs lent meanwhile, written once."""
    from planner import files
    from planner.runs.replanning.asking import ChangeQuestion, change_plan, publish_change
    from planner.runs.replanning.inputs import deployed_manifests, new_scenario

    saved, out = load_run(planned), tmp_path_factory.mktemp("replanned") / "new"
    scenario = new_scenario(saved, workload="azure-conv-2023")
    changed = change_plan(saved, ChangeQuestion(scenario=scenario, meanwhile={"H20": 48, "H200": 48}))
    stands = deployed_manifests(saved, planned)
    published = publish_change(changed, deployed=stands.files, target=stands.target, engine=stands.engine)
    files.write_run(out, published.files)
    return out


@pytest.fixture
def new(replanned: Path, here: Path) -> Path:
    """A copy of that run in the current folder."""
    shutil.copytree(replanned, here / "new")
    return Path("new")


def test_the_command_writes_run_change_and_steps(planner: Command, run: Path) -> None:
    answer = planner("replan", run, "--inventory", "H200=32,H20=16", "--out", "less")
    assert answer.status == EXIT_DONE
    assert "servers run on" in answer.out
    assert "the levels hold in every step" in answer.out
    plan = load_run(Path("less"))
    assert {item.gpu.name: item.count for item in plan.scenario.inventory.items} == {"H20": 16, "H200": 32}
    document = json.loads(Path("less/changes.json").read_text())
    assert document["roll_out"]["holds"] is True
    assert len(document["roll_out"]["steps"]) == len(list(Path("less/steps").iterdir()))
    assert Path("less/change.md").read_text().startswith("# Change of tiny\n")
    assert planner("replan", run, "--inventory", "H200=32,H20=16", "--out", "less").status == EXIT_BAD_INPUT
    assert answer.out.endswith("Written to less; its steps, with their commands, to less/steps\n")
    words = ("replan", run, "--inventory", "H200=32,H20=16", "--no-replay", "--out", "script", "--target", "script")
    without = planner(*words)
    assert "no manifests of the steps were written" in without.err
    assert without.out.endswith("Written to script\n")
    assert [path.name for path in Path("script/steps").iterdir()] == ["NOT-WRITTEN.txt"]
    again = planner("replan", run, "--set", "inventory.H20=16", "--out", "less", "--force", "--no-replay", "--json")
    assert again.status == EXIT_DONE
    assert again.json["roll_out"]["holds"] is None
    assert again.json["folder"] == "less"


def test_a_changed_run_is_a_run_as_any_other(planner: Command, new: Path) -> None:
    assert planner("export", "--check", new / "manifests", new).status == EXIT_DONE
    assert planner("report", new).status == EXIT_DONE
    assert planner("replay", new, "--trace", "lengths", "--requests", 500, "--seeds", 1).status == EXIT_DONE
    again = planner("replan", new, "--no-replay", "--out", "same")
    assert again.status == EXIT_DONE
    assert "100 %" in again.out
    assert not Path("same/steps").exists()


def test_steps_hold_what_the_document_says(new: Path) -> None:
    document = json.loads((new / "changes.json").read_text())
    steps = document["roll_out"]["steps"]
    assert [path.name[:2] for path in sorted((new / "steps").iterdir())] == [f"{s['number']:02}" for s in steps]
    assert all(step["during_rps"] >= document["roll_out"]["floor_rps"] for step in steps)
    assert all(step["replayed"] for step in steps)
    for folder in (new / "steps").iterdir():
        for path in folder.glob("*.yaml"):
            assert all(body["kind"] for body in yaml.safe_load_all(path.read_text()) if body)
    html = (new / "change.html").read_text()
    assert "roll-out" in html
    assert "rate-over-change" in html


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--least-share", "1.5"], "less than or equal to 1"),
        (["--set", "inventory.H20"], "must be KEY=VALUE"),
        (["--workload", "no-such-workload"], "no-such-workload"),
        (["--scenario", "absent.yaml"], "absent.yaml"),
        (["--lost", "H999=8"], "must be a GPU type or an island"),
        (["--lost", "H20=8", "--lost", "H20=8"], "got H20 twice"),
        (["--lost", "node-7"], "node-7"),
        (["--storage-gb-s", "0"], "storage_gb_s"),
        (["--inventory", "H20=0"], "--inventory"),
        (["--set", "model=qwen3-30b-a3b"], "model must be"),
        (["--cluster", "absent.yaml"], "absent.yaml"),
        (["--keep", "2"], "less than or equal to 1"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    planner: Command, run: Path, arguments: list[str], words: str
) -> None:
    answer = planner("replan", run, "--out", "new", *arguments)
    assert answer.status == EXIT_BAD_INPUT
    assert words in answer.err
    assert not Path("new").exists()


def test_the_deployed_run_is_not_written_over(planner: Command, run: Path) -> None:
    answer = planner("replan", run, "--out", run, "--force")
    assert answer.status == EXIT_BAD_INPUT
    assert "is the deployed plan's own folder" in answer.err


def test_a_table_cannot_be_changed_server_by_server(planner: Command, table_run: Path) -> None:
    answer = planner("replan", table_run, "--out", "new")
    assert answer.status == EXIT_BAD_INPUT
    assert "Set routing.form to buckets" in answer.err


def test_a_share_that_cannot_be_left_is_infeasible(planner: Command, run: Path) -> None:
    answer = planner(
        "replan", run, "--workload", "azure-conv-2023", "--least-share", 1, "--out", "new", "--lost", "H20=8"
    )
    assert answer.status == EXIT_INFEASIBLE
    assert not Path("new").exists()


def test_the_scenarios_own_limits_count_unless_an_option_says_otherwise(planner: Command, run: Path) -> None:
    fewer = ("replan", run, "--inventory", "H200=32,H20=16", "--meanwhile", "H20=32", "--no-replay", "--out", "new")
    limited = (*fewer, "--set", "changes.limits.most_gpus=0")
    answer = planner(*limited)
    assert answer.status == EXIT_INFEASIBLE
    assert "limits of change (most_gpus 0)" in answer.err
    assert planner(*limited, "--most-gpus", 64).status == EXIT_DONE
    assert load_run(Path("new")).scenario.changes.limits.most_gpus == 0


def test_manifests_that_are_not_the_plans_are_no_base(planner: Command, run: Path) -> None:
    (path,) = (run / "manifests").glob("*-h200-*.yaml")
    path.write_text(path.read_text().replace("replicas: 4", "replicas: 3"))
    answer = planner("replan", run, "--inventory", "H200=32,H20=16", "--out", "new")
    assert answer.status == EXIT_BAD_INPUT
    assert "must be manifests of the plan" in answer.err
