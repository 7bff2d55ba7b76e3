"""The engines' packages for the judges: one folder an engine and version, under build/, which git ignores.

    python tests/export/engine_parsers/installing.py                # the versions that the planner exports for
    python tests/export/engine_parsers/installing.py sglang-0.5.23  # one of them

Versions are pinned in `pins/`, not in constraints.txt: the engines want other versions than the planner's own
environment (torch, transformers, protobuf), and none of them is a dependency of the planner. Nothing that they depend
on is installed by itself: what the parsers import is listed. torch, numpy and the like come from the planner's
environment. Of an engine's own wheel the compiled kernels, most of its size, are left out: no parser runs them.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_CACHE = _HERE.parents[2] / "build" / "engine-parsers"
_COMPILED = (".so", ".cu", ".cuh", ".h", ".hpp", ".cpp", ".cubin")
_MARK = "installed"
EXPORTED = ("vllm-0.33.0", "sglang-0.5.23", "trtllm-1.2.1")
"""The versions that the planner writes flags and images for."""
DYNAMOS = ("dynamo.vllm-1.6.1", "dynamo.sglang-1.6.1", "dynamo.trtllm-1.6.1")
"""Dynamo's workers and the versions of the engines that they bring."""
LISTED = ("trtllm-1.2.1",)
"""Versions without packages that can be had: their judges have a list of what they take."""
_WITHIN = {"dynamo.trtllm-1.6.1": "dynamo.vllm-1.6.1"}
"""Dynamo's own package has the parts for all engines."""


def folder(version: str) -> Path:
    """Where the packages of `version` (as vllm-0.33.0) lie, or would lie."""
    return _CACHE / _WITHIN.get(version, version)


def missing(version: str) -> str:
    """Why the judge of `version` cannot run; empty where it can."""
    mark = folder(version) / _MARK
    if version in LISTED:
        return ""
    if mark.is_file() and mark.read_text(encoding="utf-8") == _pins(version):
        return ""
    return f"{version} is not installed for its parser: run `make engine-parsers`, which needs the package index"


def install(version: str) -> None:
    """Puts the pinned packages of `version` into its folder, anew."""
    engine, *others = _pins(version).split()
    _CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_CACHE) as scratch:
        wheels, packages = Path(scratch, "wheels"), Path(scratch, "packages")
        _pip("download", "--dest", str(wheels), engine)
        _unpack(next(wheels.glob("*.whl")), packages)
        _pip("install", "--no-compile", "--target", str(packages), *others)
        Path(packages, _MARK).write_text(_pins(version), encoding="utf-8")
        shutil.rmtree(folder(version), ignore_errors=True)
        packages.rename(folder(version))


def _pins(version: str) -> str:
    return Path(_HERE, "pins", f"{_WITHIN.get(version, version)}.txt").read_text(encoding="utf-8")


def _pip(command: str, *words: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
    pip = (sys.executable, "-m", "pip", command, "--quiet", "--no-deps", "--disable-pip-version-check")
    subprocess.run((*pip, *words), env=environment, check=True)


def _unpack(wheel: Path, target: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target, [name for name in archive.namelist() if not name.endswith(_COMPILED)])


def main(versions: list[str]) -> None:
    """Installs what is not there yet, and tells how long it took."""
    for version in versions or (*EXPORTED, *DYNAMOS):
        start = time.monotonic()
        if missing(version):
            install(version)
            print(f"{version}: installed in {time.monotonic() - start:.0f} s")  # noqa: T201
        else:
            print(f"{version}: there already")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
