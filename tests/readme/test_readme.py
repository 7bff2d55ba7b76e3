"""README and guides are true: their scenarios are read, their files and pages exist. See also test_in_order."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from documentation import BLOCKS, README, ROOT, TEXT, blocks

pytestmark = pytest.mark.usefixtures("all_draws")

Planner = Callable[[str], str]


def file_stem(document: dict[str, object]) -> str:
    """A scenario has a name; what has none is a jobs file, an offer, or a section of a scenario."""
    kinds = {"jobs": "jobs", "gpus": "offer"}
    return str(document.get("name") or next((kinds[key] for key in kinds if key in document), min(document)))


def test_every_block_is_of_a_kind_that_is_checked() -> None:
    assert {kind for kind, _ in BLOCKS} == {"", "bash", "python", "text", "yaml"}


def test_the_scenarios_are_scenarios(planner: Planner, tmp_path: Path) -> None:
    for document in blocks("yaml"):
        (tmp_path / f"{file_stem(yaml.safe_load(document))}.yaml").write_text(document)
    (synth,) = (line for line in "".join(blocks("bash")).splitlines() if line.endswith("--out cluster.yaml"))
    planner(synth)
    sections = [b for b in blocks("yaml") if not {"name", "jobs", "gpus"} & yaml.safe_load(b).keys()]
    (tmp_path / "quickstart.yaml").write_text((ROOT / "workloads/scenarios/quickstart.yaml").read_text())
    with (tmp_path / "quickstart.yaml").open("a") as scenario:
        scenario.write("".join(f"\n{section}" for section in sections))
    planner("planner check quickstart.yaml")
    names = [document["name"] for document in map(yaml.safe_load, blocks("yaml")) if "name" in document]
    assert "my-fleet" in names
    for name in names:
        assert name in planner(f"planner check {name}.yaml")


def test_make_targets_do_what_the_set_up_says() -> None:
    setup = blocks("")[0]
    for target in re.findall(r"^make (\w+)", setup, re.MULTILINE):
        recipe = subprocess.run(
            ["make", "-n", "-B", target], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        expected = "planner plan workloads/scenarios/mixed-fleet.yaml" if target == "plan" else "pytest"
        assert expected in recipe
        assert "PIP_CONSTRAINT" in (ROOT / "Makefile").read_text()


def test_the_readme_is_a_page_of_200_lines() -> None:
    assert len(README.splitlines()) <= 200


def test_every_link_of_the_readme_leads_somewhere() -> None:
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if "://" not in link]
    assert len(links) > 5
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_files_that_texts_name_exist() -> None:
    shipped = {
        path
        for path in re.findall(r"`((?:planner|notebooks|workloads|gpu_specs)/[\w./-]+)`", TEXT)
        if "NAME" not in path
    }
    assert len(shipped) > 8
    assert [path for path in shipped if not (ROOT / path).exists()] == []


def test_versions_are_all_pinned() -> None:
    pinned = {
        re.split(r"==", line)[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line and not line.startswith("#")
    }
    project = (ROOT / "pyproject.toml").read_text()
    listed = re.search(r"dependencies = \[(.*?)\].*?dev = \[(.*?)\]", project, re.DOTALL)
    named = set(re.findall(r'"([\w-]+)"', (listed[1] + listed[2]).lower()))
    assert named - pinned == set()
