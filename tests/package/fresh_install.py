"""`make package`: wheel and sdist are built, and each is installed into a fresh environment as `planner docs planning`
says: the dependencies first, held to the hashes of the lock, then torch, then the package without dependencies.

torch is whatever build pip finds in its pinned version: not every machine reaches the index of its CPU builds. Takes a
minute or two and needs the package index. The suite has a small form: test_package.py.
"""

import os
import sys
import tempfile
from pathlib import Path

from building import ROOT, build, environment, faults_of, plan_elsewhere, run, sdist_names
from locking import DEPENDENCIES_LOCK, TORCH

QUIET = ("install", "--quiet", "--disable-pip-version-check")
LOCKED = ("--no-deps", "--only-binary=:all:", "--require-hashes", "--requirement")


def main() -> None:
    """Build, look, install, plan. A failure says what was run and what it answered."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        wheel, sdist = build(folder / "dist")
        faults = faults_of(wheel)
        assert not faults, faults
        assert "pyproject.toml" in sdist_names(sdist)
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        env["PIP_CONSTRAINT"] = str(ROOT / "constraints.txt")
        python = environment(folder / "venv")
        run(python, "-m", "pip", *QUIET, *LOCKED, DEPENDENCIES_LOCK, cwd=folder, env=env)
        run(python, "-m", "pip", *QUIET, TORCH, cwd=folder, env=env)
        for package in (wheel, sdist):
            run(python, "-m", "pip", *QUIET, "--force-reinstall", "--no-deps", package, cwd=folder, env=env)
            run(python, "-m", "pip", "check", cwd=folder, env=env)
            answer = plan_elsewhere(python, folder / f"beside-{package.suffix.strip('.')}", env)
            assert "site-packages" in answer, answer
            size_mb = package.stat().st_size / 1e6
            print(f"{package.name}: {size_mb:.2f} MB, installed, planned: {answer.split()[0]}")  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
