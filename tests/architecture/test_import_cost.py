"""`import planner` costs next to nothing."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {"torch", "botorch", "gpytorch", "ax", "pulp", "highspy", "matplotlib", "pandas", "scipy", "typer"}


def _run(code: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


def _cpu_s(code: str) -> float:
    """CPU time of a fresh interpreter that runs `code`: the least of several, so that a busy machine matters little."""
    return min(float(_run(f"{code}\nimport time; print(time.process_time())")) for _ in range(4))


def test_importing_takes_under_0_3_s_of_cpu() -> None:
    assert _cpu_s("import planner") - _cpu_s("") < 0.3


def test_importing_loads_no_heavy_library() -> None:
    loaded = {name.partition(".")[0] for name in _run("import sys, planner; print(*sys.modules)").split()}
    assert "planner" in loaded
    assert loaded & HEAVY == set()


def test_reading_facts_loads_no_solver_and_no_learner() -> None:
    code = "import sys; from planner.cost import prefill_time; from planner import files; files.load_gpu_specs(); "
    loaded = {name.partition(".")[0] for name in _run(code + "print(*sys.modules)").split()}
    assert loaded & {"torch", "botorch", "ax", "pulp", "matplotlib"} == set()


def test_every_door_opens() -> None:
    code = "import planner; print(*[callable(getattr(planner, name)) for name in planner.__all__])"
    assert set(_run(code).split()) == {"True"}
