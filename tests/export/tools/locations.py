"""Where the programs lie that `make manifest-tools` gets: one folder a tool in `.tools/`, which git ignores.

A test that needs one calls `require`. Without it the test is skipped; in CI it fails, unless the package index could
not be reached when the tool was to be installed, which `installing` notes.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

_HERE = Path(__file__).resolve().parent
TOOLS = _HERE.parents[2] / ".tools"
PINS = _HERE / "pins"
UNREACHABLE = TOOLS / "unreachable"
"""Lists the tools whose packages could not be had, one a line."""
MARK = "installed"
PROGRAMS: Mapping[str, str] = MappingProxyType(
    {"helm": "kubectl", "kubectl": "kubectl", "shellcheck": "shellcheck", "haproxy": "haproxy"}
)
"""Program and the tool that brings it; the others are Python packages: aiperf, cel, checkov, dynamo, routers."""
ROUTER_MODULES: Mapping[str, str] = MappingProxyType(
    {"sglang-router": "sglang_router.launch_router", "vllm-router": "vllm_router.launch_router"}
)


def folder(tool: str) -> Path:
    """Where `tool` lies, or would lie; of Python packages the folder that PYTHONPATH has to name."""
    return TOOLS / tool


def pins(tool: str) -> str:
    """What is installed for `tool`, one pinned package a line."""
    return Path(PINS, f"{tool}.txt").read_text(encoding="utf-8")


def program(name: str) -> Path:
    """A program of `PROGRAMS`; a HAProxy that the machine has already is taken."""
    installed = folder(PROGRAMS[name]) / "bin" / name
    others = shutil.which(name) if name == "haproxy" and not installed.exists() else None
    return Path(others) if others else installed


def missing(tool: str) -> str:
    """Why `tool` (a folder of `.tools/`) cannot be used; empty where it can."""
    mark = folder(tool) / MARK
    if mark.is_file() and mark.read_text(encoding="utf-8") == pins(tool):
        return ""
    if tool == "haproxy" and program(tool).is_file():
        return ""
    return f"{tool} is not installed: run `make manifest-tools`, which needs the package index"


def require(*tools: str) -> None:
    """Skips the test where one of `tools` is not there; in CI (CI=true) it fails, unless the tool could not be had."""
    reasons = {tool: missing(tool) for tool in tools if missing(tool)}
    if not reasons:
        return
    unreachable = UNREACHABLE.read_text(encoding="utf-8").split() if UNREACHABLE.is_file() else []
    if os.environ.get("CI") == "true" and not set(reasons) <= set(unreachable):
        pytest.fail("; ".join(reasons.values()))
    pytest.skip("; ".join(reasons.values()))


def router_programs() -> dict[str, list[str]]:
    """The words that start each router: haproxy, sglang-router and vllm-router, whose packages need the variables of
    `router_environment`."""
    modules = {name: [sys.executable, "-m", module] for name, module in ROUTER_MODULES.items()}
    return {"haproxy": [str(program("haproxy"))], **modules}


def router_environment() -> dict[str, str]:
    """This process's variables, with the routers' packages before all others."""
    return {**os.environ, "PYTHONPATH": str(folder("routers"))}


def load_generator() -> tuple[str, ...]:
    """The words that start AIPerf, with its packages before all others."""
    return ("env", f"PYTHONPATH={folder('aiperf')}", sys.executable, "-m", "aiperf")
