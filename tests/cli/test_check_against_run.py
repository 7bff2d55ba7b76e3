"""`planner export --check DIR RUN`: folders that are sound in every object and are not the run's."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Command

NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: prod\n"


@pytest.fixture
def folder(planner: Command, run: Path) -> Path:
    """Manifests of the run, target lws."""
    assert planner("export", run, "--out", "folder").status == 0
    return Path("folder")


def edit(folder: Path, change: Callable[[str], str]) -> None:
    """Change the first file that the change does something to."""
    for path in sorted(folder.iterdir()):
        if change(path.read_text()) != path.read_text():
            path.write_text(change(path.read_text()))
            return
    raise AssertionError("the edit changes no file")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda body: re.sub("gpu-memory-utilization=[0-9.]+", "gpu-memory-utilization=0.5", body), "n: must be '0."),
        (lambda body: body.replace("nvidia.com/gpu: ", "amd.com/gpu: "), "limits.amd.com/gpu: must be left out"),
        (lambda body: body.replace("- --port=", "- --config=/x\n          - --port=", 1), "--config: must be left out"),
        (lambda body: re.sub('"inventory": {"([^"]+)": [0-9]+', r'"inventory": {"\1": 9999', body), "plan.inventory."),
    ],
)
def test_what_the_plan_does_not_say_ends_in_2(
    planner: Command, run: Path, folder: Path, change: Callable[[str], str], told: str
) -> None:
    edit(folder, change)
    answer = planner("export", run, "--check", folder)
    assert answer.status == 2
    assert told in answer.out


def test_objects_of_others_are_named_and_pass(planner: Command, run: Path, folder: Path) -> None:
    (folder / "namespace.yaml").write_text(NAMESPACE)
    answer = planner("export", run, "--check", folder)
    assert answer.status == 0
    assert "Not checked" in answer.out
    assert "namespace.yaml, Namespace prod" in answer.out
    assert planner("export", run, "--check", folder, "--json").json["not_looked_at"] == [
        "namespace.yaml, Namespace prod"
    ]
