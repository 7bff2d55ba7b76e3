"""`planner import` and `planner diff` as a user calls them."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Answer, Command

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def manifests(run: Path) -> Path:
    """The run's manifests for vLLM in LeaderWorkerSets, as `planner export` writes them."""
    return Path(shutil.copytree(run / "manifests", "out"))


def first_set(folder: Path) -> Path:
    """The file of the first island."""
    return sorted(folder.glob("01-*.yaml"))[0]


def test_a_run_and_its_manifests_are_the_same_plan(planner: Command, run: Path, manifests: Path) -> None:
    of_run, of_files = planner("import", run, "--json"), planner("import", manifests, "--json")
    assert (of_run.status, of_files.status) == (0, 0)
    assert of_files.json == of_run.json | {"target": "lws"}
    plan = json.loads((run / "plan.json").read_text())
    serving = [i for i in plan["islands"] if i["phase"]]
    assert {i["id"] for i in of_files.json["islands"]} == {i["id"] for i in serving}
    assert sum(of_files.json["gpus"].values()) == sum(i["size"] for i in serving)
    assert planner("import", run / "plan.json", "--json").json == of_run.json


def test_the_page_lists_islands(planner: Command, manifests: Path) -> None:
    answer = planner("import", manifests)
    assert answer.status == 0
    assert "# Deployed plan tiny" in answer.out
    assert "engine vllm, target lws" in answer.out


def test_the_plan_goes_into_a_file_that_is_not_overwritten(planner: Command, manifests: Path) -> None:
    printed = planner("import", manifests, "--json", "--out", "mine.json")
    assert json.loads(Path("mine.json").read_text()) == printed.json
    again = planner("import", manifests, "--out", "mine.json")
    assert (again.status, "mine.json: exists already" in again.err) == (2, True)
    assert planner("import", manifests, "--out", "mine.json", "--force").status == 0


@pytest.mark.parametrize("target", ["lws", "script"])
def test_nothing_changes_between_a_run_and_its_manifests(planner: Command, run: Path, target: str) -> None:
    assert planner("export", run, "--target", target, "--out", "same").status == 0
    answer = planner("diff", run, "same", "--exit-code")
    assert (answer.status, "Nothing changes" in answer.out) == (0, True)


def test_of_two_runs_it_tells_which_is_faster_and_how_likely(planner: Command, run: Path, even_run: Path) -> None:
    old, new = (json.loads((folder / "plan.json").read_text()) for folder in (run, even_run))
    rates = planner("diff", run, even_run, "--json").json["rates"]
    assert (rates["old_rps"], rates["new_rps"]) == (old["throughput_rps"], new["throughput_rps"])
    assert (rates["old_band"], rates["new_band"]) == (old["rate_band"], new["rate_band"])
    assert 0 <= rates["probability_new_is_faster"] <= 1
    page = planner("diff", run, even_run).out
    assert re.search(r"Rate: [\d.,]+ \([\d.,]+–[\d.,]+\) → [\d.,]+ \([\d.,]+–[\d.,]+\) requests/s; ", page)
    assert re.search(r"(is faster by .* \(.*likely.*: .*%\)|predicted to serve the same)\.", page)


def test_manifests_tell_nothing_of_rates(planner: Command, run: Path, manifests: Path) -> None:
    assert planner("diff", run, manifests, "--json").json["rates"] is None


def test_another_engine_restarts_all_and_the_exit_code_says_so_if_asked(planner: Command, even_run: Path) -> None:
    for engine in ("vllm", "sglang"):
        assert planner("export", even_run, "--engine", engine, "--out", engine).status == 0
    assert planner("diff", "vllm", "sglang").status == 0
    answer = planner("diff", "vllm", "sglang", "--exit-code", "--json")
    assert answer.status == 1
    assert answer.json["everything_restarts_for"] == ["engine"]
    assert {i["fate"] for i in answer.json["islands"]} == {"restarted"}
    for row in answer.json["gpus"].values():
        assert row["started"] == row["stopped"] == row["old"] == row["new"]
        assert row["peak_starting_first"] == 2 * row["old"]


def test_another_image_of_the_same_plan_restarts_every_island(planner: Command, run: Path, manifests: Path) -> None:
    assert planner("export", run, "--image", "NVIDIA=example/engine:v9.9.9", "--out", "other").status == 0
    answer = planner("diff", manifests, "other", "--exit-code", "--json")
    assert (answer.status, answer.json["pods_compared"], answer.json["everything_restarts_for"]) == (1, True, [])
    assert {i["fate"] for i in answer.json["islands"]} == {"restarted"}
    assert all(new == "example/engine:v9.9.9" for i in answer.json["islands"] for _, new in i["pods"].values())
    assert "containers.engine.image" in planner("diff", manifests, "other").out


def test_between_runs_pods_are_said_not_to_be_compared(planner: Command, run: Path, manifests: Path) -> None:
    for old, new in ((run, run), (run, manifests)):
        assert "Pods are not compared: a run tells nothing of images" in planner("diff", old, new).out
        assert planner("diff", old, new, "--json").json["pods_compared"] is False
    assert "Pods are not compared" not in planner("diff", manifests, manifests).out


def _edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def _refused(answer: Answer, *told: str) -> None:
    assert (answer.status, answer.out) == (2, "")
    assert answer.err.startswith("error: ")
    assert "Traceback" not in answer.err
    for text in told:
        assert text in answer.err


@pytest.mark.parametrize("command", ["import", "diff"])
def test_a_wrong_field_is_told_with_file_and_object(planner: Command, manifests: Path, command: str) -> None:
    file = first_set(manifests)
    _edit(file, "  replicas: ", "  replicaz: ")
    arguments = (manifests,) if command == "import" else (manifests, manifests)
    _refused(planner(command, *arguments), file.name, "LeaderWorkerSet tiny-", "'replicaz' was unexpected")


def _not_yaml(folder: Path) -> None:
    first_set(folder).write_text("a: [1\n")


def _not_text(folder: Path) -> None:
    first_set(folder).write_bytes(b"\xff\xfe")


def _alias(folder: Path) -> None:
    (folder / "bomb.yaml").write_text("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n")


def _link_out(folder: Path) -> None:
    Path("secret.yaml").write_text("kind: Secret\n")
    (folder / "link.yaml").symlink_to(Path("secret.yaml").resolve())


def _dead_link(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "loop.yaml").symlink_to("loop.yaml")
    first_set(folder).unlink()


def _large(folder: Path) -> None:
    with (folder / "large.yaml").open("wb") as file:
        file.truncate(65 * 2**20)


def _empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "notes.txt").write_text("nothing")


def _one_less(folder: Path) -> None:
    first_set(folder).unlink()


def _deep(folder: Path) -> None:
    (folder / "deep.yaml").write_text("[" * 5000 + "]" * 5000)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (_not_yaml, ("must be YAML",)),
        (_not_text, ("must be UTF-8 text",)),
        (_alias, ("bomb.yaml: line 2: must not have YAML aliases, has *a",)),
        (_link_out, ("link.yaml: must not be a link out of the folder",)),
        (_dead_link, ("must name a Service",)),
        (_large, ("must have at most 64 MiB together",)),
        (_empty, ("must hold manifests (.yaml, .yml, .json, .sh, .cfg, .lua), holds none",)),
        (_one_less, ("routing", "must name a Service")),
        (_deep, ("deep.yaml",)),
    ],
)
def test_folders_that_cannot_be_read_are_refused(
    planner: Command, manifests: Path, damage: object, told: tuple[str, ...]
) -> None:
    assert callable(damage)
    damage(manifests)
    _refused(planner("import", manifests), *told)


@pytest.mark.parametrize("path", ["nowhere", "tiny.yaml"])
def test_what_is_no_folder_is_refused(planner: Command, tiny: Path, path: str) -> None:
    assert tiny.exists()
    _refused(planner("import", path))
    _refused(planner("diff", path, path))


def test_links_within_the_folder_and_other_files_do_no_harm(planner: Command, manifests: Path) -> None:
    wanted = planner("import", manifests, "--json").json
    (manifests / "README.md").write_text("# hello")
    (manifests / "sub").mkdir()
    file = first_set(manifests)
    file.rename(manifests / "sub" / file.name)
    assert planner("import", manifests, "--json").json == wanted
    linked = Path("linked")
    linked.symlink_to(manifests, target_is_directory=True)
    assert planner("import", linked, "--json").json == wanted


def test_the_program_as_a_process(run: Path, manifests: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "planner", "diff", str(run), str(manifests), "--json", "--exit-code"],
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    assert f"`planner export RUN --check {manifests}` says whether the router's configuration is" in done.stderr
    assert json.loads(done.stdout)["differs"] is False
