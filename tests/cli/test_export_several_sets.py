"""`planner export --target disaggregatedset` of a run with more islands than one set takes, and what reads it back."""

import shutil
from pathlib import Path

import pytest
import yaml
from command_line import Command

FIRST, SECOND = "disaggregatedset-1.yaml", "disaggregatedset-2.yaml"
MANY = """\
name: many
model: deepseek-v3
workload: normal-500-2000
inventory: {H200: 64, H20: 96}
ranges: {width: 1024}
search: {method: random, iterations: 1, batch_size: 3, min_island_size: 5}
routing: {form: table}
"""


@pytest.fixture(scope="module")
def planned_many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of more than ten serving islands, written once."""
    from planner.runs import Job, run_job

    folder = tmp_path_factory.mktemp("many")
    (folder / "many.yaml").write_text(MANY)
    run_job(Job(scenario=folder / "many.yaml", folder=folder / "run"))
    return folder / "run"


@pytest.fixture
def many(planned_many: Path, here: Path) -> Path:
    """A copy of that run in the current folder."""
    shutil.copytree(planned_many, here / "many")
    return Path("many")


@pytest.fixture
def made(planner: Command, many: Path) -> Path:
    """Its manifests."""
    assert planner("export", many, "--target", "disaggregatedset", "--out", "made").status == 0
    return Path("made")


def test_sets_are_written_with_a_warning_of_what_is_lost(planner: Command, many: Path) -> None:
    answer = planner("export", many, "--target", "disaggregatedset", "--out", "made", "--json")
    assert answer.status == 0, answer.err
    assert [Path(name).name for name in answer.json["files"]] == [
        FIRST,
        SECOND,
        "services.yaml",
        "routing.yaml",
        "network-policies.yaml",
        "router.yaml",
        "disruption-budgets.yaml",
        "kustomization.yaml",
        "Dockerfile",
        "requirements.txt",
        "README.md",
        "export.record",
    ]
    islands = planner("import", many, "--json").json["islands"]
    assert 10 < len(islands) <= 20
    told = f"{FIRST}: the plan's {len(islands)} islands take 2 sets, which roll out each by itself"
    assert answer.json["warnings"][0].startswith(told)
    assert f"warning: {told}" in " ".join(answer.err.split())
    again = planner("export", many, "--target", "disaggregatedset", "--out", "again")
    assert again.status == 0
    made, repeated = (
        {path.name: path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}
        for folder in ("made", "again")
    )
    assert made == repeated


def test_they_pass_the_check_and_are_read_back_to_the_run(planner: Command, many: Path, made: Path) -> None:
    answer = planner("export", "--check", made, many)
    assert (answer.status, answer.err) == (0, "")
    of_run, of_files = planner("import", many, "--json"), planner("import", made, "--json")
    assert of_files.json == of_run.json | {"target": "disaggregatedset"}
    assert planner("diff", many, made, "--exit-code").status == 0


def test_a_set_left_out_is_told(planner: Command, many: Path, made: Path) -> None:
    name = yaml.safe_load((made / SECOND).read_text())["metadata"]["name"]
    (made / SECOND).unlink()
    answer = planner("export", "--check", made, many)
    assert answer.status == 2
    assert f"{SECOND}, DisaggregatedSet {name}: must be there as the plan says, got nothing." in answer.out
    assert planner("import", made).status == 2


def test_a_role_moved_to_the_other_set_is_told_in_both(planner: Command, many: Path, made: Path) -> None:
    first, second = (yaml.safe_load((made / name).read_text()) for name in (FIRST, SECOND))
    role = first["spec"]["roles"].pop()
    second["spec"]["roles"].append(role)
    for name, body in ((FIRST, first), (SECOND, second)):
        (made / name).write_text(yaml.safe_dump(body))
    answer = planner("export", "--check", made, many)
    assert answer.status == 2
    for name, body in ((FIRST, first), (SECOND, second)):
        told = f"{name}, DisaggregatedSet {body['metadata']['name']}, spec.roles[{role['name']}]: must be"
        assert any(line.startswith(told) for line in answer.out.splitlines()), answer.out


def test_a_role_of_more_copies_is_told_in_its_set(planner: Command, many: Path, made: Path) -> None:
    body = yaml.safe_load((made / SECOND).read_text())
    name, copies = body["spec"]["roles"][0]["name"], body["spec"]["roles"][0]["spec"]["replicas"]
    body["spec"]["roles"][0]["spec"]["replicas"] = copies + 1
    (made / SECOND).write_text(yaml.safe_dump(body))
    answer = planner("export", "--check", made, many)
    assert answer.status == 2
    told = f"{SECOND}, DisaggregatedSet {body['metadata']['name']}, spec.roles[{name}].spec.replicas: must be {copies}"
    assert told in answer.out
