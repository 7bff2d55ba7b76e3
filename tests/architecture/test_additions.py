"""Each sort of thing can be added in at most three places: it is, in a copy of the project, and then used."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from additions import ADDITIONS, RECIPES, TINY, Addition
from plain_pictures import copied_pictures, unpainted
from source_tree import ROOT

import planner

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn1,96000,393216,8,G2\nn2,104000,393216,2,T4\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n" + "".join(
    f"p{k},4000,8192,1,{milli},,{k},{k + 9}\n" for k, milli in enumerate([1000, 500, 500, 1000])
)
MOST_PLACES = 3


@pytest.mark.parametrize("addition", ADDITIONS, ids=lambda addition: addition.name)
def test_three_places_are_enough(addition: Addition) -> None:
    assert len(addition.places) <= MOST_PLACES


def test_what_is_added_is_used(tmp_path: Path) -> None:
    """All of them in one copy, as they would come to stand beside each other; one process for all uses."""
    copy = tmp_path / "project"
    for name in ("planner", "gpu_specs", "workloads"):
        shutil.copytree(ROOT / name, copy / name)
    shutil.copy(ROOT / "pyproject.toml", copy)
    (copy / "nodes.csv").write_text(NODES)
    (copy / "pods.csv").write_text(PODS)
    with copied_pictures():
        planner.plan(**TINY).save(copy / "run")  # type: ignore[arg-type]
    for addition in ADDITIONS:
        for path, edit in addition.edits.items():
            edit(copy / path)
    head = f"import planner\nassert planner.__file__.startswith({str(copy)!r}), planner.__file__\n"
    uses = "".join(f"# {addition.name}\nprint({addition.name!r}, flush=True)\n{addition.use}" for addition in ADDITIONS)
    used = subprocess.run(
        [sys.executable, "-c", head + uses],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(copy), unpainted(os.environ)["PYTHONPATH"]])},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert used.returncode == 0, f"{used.stdout[-2000:]}{used.stderr}"


@pytest.mark.parametrize("addition", ADDITIONS, ids=lambda addition: addition.name)
def test_the_guide_names_these_places(addition: Addition) -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    row = re.search(rf"^\| {addition.name} \| (.*) \|$", guide, re.MULTILINE)
    named = re.findall(r"`((?:planner|gpu_specs|workloads)/[^`]+)`", row[1])
    assert len(named) == len(addition.places)
    for place in addition.places:
        folder = place.rstrip("/").rpartition("/")[0]
        assert place in named or any("NAME" in name and name.startswith(f"{folder}/") for name in named)


@pytest.mark.parametrize("addition", RECIPES, ids=lambda addition: addition.name)
def test_the_recipe_shows_every_line_that_is_written(addition: Addition, tmp_path: Path) -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    start = guide.index(f"### A{'n' * (addition.name[0] in 'aeio')} {addition.name}\n")
    recipe = guide[start : guide.find("\n#", start + 1)]
    shown = {
        line.strip() for block in re.findall(r"```\w+\n(.*?)```", recipe, re.DOTALL) for line in block.splitlines()
    }
    for path, edit in addition.edits.items():
        assert path in recipe
        shutil.copytree((ROOT / path).parent, tmp_path / path, ignore=shutil.ignore_patterns("__pycache__"))
        folder = tmp_path / path
        before = {line.strip() for file in folder.iterdir() if file.is_file() for line in file.read_text().splitlines()}
        edit(folder / Path(path).name)
        written = {line.strip() for line in (folder / Path(path).name).read_text().splitlines()}
        assert written - before - shown == set()
