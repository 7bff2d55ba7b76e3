"""The wheel by itself: its contents, and that it plans where the repository is not. `make package` is the full form."""

import os
import re
import site
import sys
import sysconfig
import venv
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from building import DISTRIBUTION, ROOT, build, faults_of, metadata, plan_elsewhere, run, sdist_names, wheel_names

import planner
from planner.plans import provenance

THIRD_PARTY = "planner/files/reference/THIRD_PARTY.md"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return build(tmp_path_factory.mktemp("dist"), "--no-isolation")


def test_the_wheel_holds_what_is_needed_and_nothing_else(built: tuple[Path, Path]) -> None:
    wheel, _ = built
    assert wheel.name.startswith(f"{DISTRIBUTION}-{planner.__version__}-py3")
    assert faults_of(wheel) == []
    assert {name.split("/")[0] for name in wheel_names(wheel)} == {
        "planner",
        f"{DISTRIBUTION}-{planner.__version__}.dist-info",
    }


def test_every_data_file_of_the_package_is_in_the_wheel(built: tuple[Path, Path]) -> None:
    folder = ROOT / "planner"
    there = {f"planner/{path.relative_to(folder).as_posix()}" for path in folder.rglob("*") if path.is_file()}
    raw = {name for name in there if "/results/" in name}  # of long runs, for the page that they make
    assert raw
    assert raw.isdisjoint(wheel_names(built[0]))
    assert {name for name in there - raw if "__pycache__" not in name} <= set(wheel_names(built[0]))


def test_the_sdist_builds_the_same_wheel(built: tuple[Path, Path], tmp_path: Path) -> None:
    names = sdist_names(built[1])
    assert {"pyproject.toml", "README.md", "LICENSE", "planner/__init__.py", "gpu_specs/H200.yaml"} <= set(names)
    assert not any(name.startswith((".venv", "runs/")) or name.endswith(".pyc") for name in names)


def test_the_licences_of_what_others_made_are_in_the_wheel(built: tuple[Path, Path]) -> None:
    """Where an installer looks for licences; each data set and each program that is packed is told of."""
    with zipfile.ZipFile(built[0]) as archive:
        texts = {name: archive.read(name) for name in archive.namelist()}
    folder = f"{DISTRIBUTION}-{planner.__version__}.dist-info/licenses/"
    licences = {name.removeprefix(folder): text.decode() for name, text in texts.items() if name.startswith(folder)}
    plotly = "planner/files/chart_library/LICENSE"
    assert set(licences) == {"LICENSE", THIRD_PARTY, plotly}
    assert "Apache License" in licences["LICENSE"]
    for text, owner in ((licences[plotly], "Plotly Technologies Inc."), (licences[THIRD_PARTY], "zhengchao wang")):
        assert re.search(
            rf"^Copyright \(c\) [\d-]+ {re.escape(owner)}\n\nPermission is hereby granted", text, re.MULTILINE
        )
        assert "WITHOUT WARRANTY OF ANY KIND" in text
    rows = [line for line in licences[THIRD_PARTY].splitlines() if line.startswith("| `")]
    expression = re.search("^License-Expression: (.*)$", metadata(built[0]), re.MULTILINE)
    assert expression is not None
    data = [yaml.safe_load(text) for name, text in texts.items() if name.startswith("planner/_shipped/workloads/")]
    licensed = {document["name"]: document["licence"] for document in data if document.get("licence")}
    assert len(licensed) >= 8
    for name, licence in licensed.items():
        (row,) = [row for row in rows if f"`{name}`" in row]
        assert licence in row
        assert licence in expression[1].split(" AND ")
    for name in texts:
        if name.endswith((".gz", ".js.xz", ".min.js", "_schema.json")) and name != "planner/files/plan_schema.json":
            assert any(path in name for row in rows for path in re.findall("`(planner/[^`]+)`", row)), name


def test_the_metadata_say_what_it_is(built: tuple[Path, Path]) -> None:
    text = metadata(built[0])
    fields = dict(re.findall(r"^(Name|Version|Requires-Python|License-Expression): (.*)$", text, re.MULTILINE))
    assert fields["Name"] == provenance.DISTRIBUTION == DISTRIBUTION.replace("_", "-")
    assert "Classifier: Typing :: Typed" in text
    extras = set(re.findall(r"^Provides-Extra: (.*)$", text, re.MULTILINE))
    assert {"notebook", "dask", "report", "dev"} <= extras


def test_the_wheel_plans_from_elsewhere(built: tuple[Path, Path], tmp_path: Path) -> None:
    """An environment of its own, which sees the dependencies that are installed here and not the repository."""
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    python = tmp_path / "venv" / "bin" / "python"
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(tmp_path / "venv")}))
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    pip = (sys.executable, "-m", "pip", "--python", python)
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", built[0], cwd=tmp_path, env=env)
    (packages / "installed_here.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    answer = plan_elsewhere(python, tmp_path / "elsewhere", env).split()
    assert answer[:2] == [planner.__version__, "True"]
    assert answer[2].startswith(str(tmp_path))


def test_planner_itself_is_not_the_name_on_the_index() -> None:
    assert provenance.DISTRIBUTION != "planner"
    assert version("numpy")
