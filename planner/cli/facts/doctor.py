"""`planner doctor`: does the installation work? Each check with what it saw, and what to do where it fails."""

import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Annotated

import typer

from planner import files, pipeline, report
from planner.cli import screen
from planner.errors import EXIT_FAILURE
from planner.files.disk.names import tested_versions
from planner.files.sections import top_level
from planner.plans.provenance import DISTRIBUTION
from planner.workload import summarize

LEAST_PYTHON = (3, 11)
EXTRAS: Mapping[str, tuple[str, ...]] = {
    "notebook": ("ipykernel", "ipywidgets", "tqdm"),
    "dask": ("dask", "distributed", "cryptography"),
    "report": ("plotly",),
    "rehearse": ("tornado",),
    "kubernetes": ("kubernetes",),
    "mcp": ("mcp",),
}
"""What comes with each optional part; the planner works without."""
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_TINY = {
    "name": "doctor",
    "model": "deepseek-v3",
    "workload": "normal-500-2000",
    "inventory": {"H200": 32, "H20": 32},
    "ranges": {"width": 4096},
}


class Health(StrEnum):
    """Of one thing that was looked at. A note is no fault: it works, or is not needed."""

    GOOD = "good"
    NOTE = "note"
    FAULT = "fault"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was looked at, what was seen, and the remedy where there is something to do."""

    subject: str
    health: Health
    seen: str
    remedy: str = ""


def examine(encoding: str) -> Iterator[Finding]:
    """Every finding, one after the other; nothing is left on the disk. `encoding`: of the terminal."""
    terminal = partial(_terminal, encoding)
    for check in (_python, _packages, _data, _solver, _threads, _folders, _figures, terminal, _extras):
        try:
            yield from check()
        except Exception as error:  # noqa: BLE001  (whatever is broken is a finding, and the next check is made)
            yield Finding(
                subject=getattr(check, "__name__", "terminal").strip("_"),
                health=Health.FAULT,
                seen=f"{type(error).__name__}: {error}",
                remedy="Install the package again; if that does not help, report it as a defect.",
            )


def _python() -> Iterator[Finding]:
    recent = sys.version_info[:2] >= LEAST_PYTHON
    yield Finding(
        subject="python",
        health=Health.GOOD if recent else Health.FAULT,
        seen=f"{platform.python_version()} at {sys.executable}",
        remedy="" if recent else f"Install Python {'.'.join(map(str, LEAST_PYTHON))} or newer.",
    )


def _packages() -> Iterator[Finding]:
    """All that the planner asks for is there; versions other than those it is tested with are a note."""
    needed = _needed()
    missing = [name for name in needed if _version(name) is None]
    if missing:
        yield Finding(
            subject="packages",
            health=Health.FAULT,
            seen=f"missing: {', '.join(missing)}",
            remedy=f"pip install {' '.join(missing)}",
        )
        return
    others = [
        f"{name} {_version(name)} (tested with {tested})"
        for name, tested in tested_versions().items()
        if name in needed and (_version(name) or "").partition("+")[0] != tested
    ]
    state = f"{len(needed)} needed, all there"
    if others:
        remedy = "If something fails, install the tested versions: pip install -c constraints.txt, from the sources."
        yield Finding(subject="packages", health=Health.NOTE, seen=f"{state}; {'; '.join(others)}", remedy=remedy)
    else:
        yield Finding(subject="packages", health=Health.GOOD, seen=state)


def _needed() -> list[str]:
    """Names of the distributions that the planner's own says it needs."""
    try:
        lines = distribution(DISTRIBUTION).requires or []
    except PackageNotFoundError:  # run from its sources, without being installed
        return sorted(tested_versions())
    names = (re.match(r"[\w.-]+", line) for line in lines if "extra ==" not in line)
    return [match.group().lower() for match in names if match]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _data() -> Iterator[Finding]:
    """Every file of facts that is shipped can be read."""
    readers: dict[str, tuple[object, Callable[[str], object]]] = {
        "models": (files.shipped_models(), files.load_model),
        "workloads": (files.shipped_workloads(), files.load_workload),
    }
    counts = [f"{len(files.load_gpu_specs())} GPU types", f"{len(files.engine_profiles())} engine versions"]
    for kind, (names, read) in readers.items():
        loaded = [read(name) for name in names]  # type: ignore[attr-defined]
        counts.append(f"{len(loaded)} {kind}")
    scenarios = [files.load_scenario(path, summarize) for path in files.shipped_scenarios().values()]
    yield Finding(
        subject="shipped data",
        health=Health.GOOD,
        seen=f"{', '.join(counts)}, {len(scenarios)} scenarios: all readable",
    )


def _solver() -> Iterator[Finding]:
    """A plan whose layout HiGHS solves for."""
    before = time.process_time()
    scenario = files.scenario_from_document(_TINY, origin="planner doctor", base=Path.cwd(), summarize=summarize)
    plan = pipeline.plan(scenario)
    seconds = time.process_time() - before
    solver = plan.provenance.solver
    good = solver == "highs" and plan.throughput_rps > 0
    yield Finding(
        subject="a tiny plan",
        health=Health.GOOD if good else Health.FAULT,
        seen=f"{plan.throughput_rps:.0f} requests/s on 64 GPUs, solved by {solver} {_version('highspy')} in "
        f"{seconds:.1f} s of CPU",
        remedy="" if good else "pip install --force-reinstall highspy pulp",
    )


def _threads() -> Iterator[Finding]:
    chosen = {name: os.environ[name] for name in _THREADS if name in os.environ}
    many = [name for name, count in chosen.items() if count != "1"]
    yield Finding(
        subject="BLAS threads",
        health=Health.NOTE if many else Health.GOOD,
        seen=", ".join(f"{name}={count}" for name, count in chosen.items()) + f"; {os.cpu_count()} cores",
        remedy=f"Matrices are small, threads wait for each other: unset {' '.join(many)}." if many else "",
    )


def _folders() -> Iterator[Finding]:
    """Whether runs can be written here, and temporary files anywhere."""
    for subject, folder in (("this folder", Path.cwd()), ("temporary files", Path(tempfile.gettempdir()))):
        writable = os.access(folder, os.W_OK | os.X_OK)
        needed = subject != "this folder"
        yield Finding(
            subject=subject,
            health=Health.GOOD if writable else Health.FAULT if needed else Health.NOTE,
            seen=f"{folder} {'can' if writable else 'cannot'} be written to",
            remedy="" if writable else "Name a folder with --out, or set TMPDIR." if not needed else "Set TMPDIR.",
        )


def _figures() -> Iterator[Finding]:
    """A figure drawn and encoded, as reports do it."""
    before = time.process_time()
    cluster = files.cluster_from_section(top_level(_CLUSTER, "planner doctor"))
    picture = report.encode_figure(report.cluster_figure(cluster), "png")
    yield Finding(
        subject="figures",
        health=Health.GOOD if picture.startswith(b"\x89PNG") else Health.FAULT,
        seen=f"matplotlib {_version('matplotlib')} draws a PNG of {len(picture) // 1024 + 1} KiB in "
        f"{time.process_time() - before:.1f} s of CPU",
    )


_CLUSTER = {
    "name": "doctor",
    "shapes": {
        "h20": {
            "gpu": "H20",
            "gpus_per_numa": 4,
            "numa_nodes": [{"socket": 0, "cores": "0-7"}, {"socket": 1, "cores": "8-15"}],
            "cpus": 16,
            "memory_gb": 64,
        }
    },
    "nodes": [{"name": "n-1", "shape": "h20", "asw": "a-1"}],
}


def _terminal(encoding: str) -> Iterator[Finding]:
    unicode = encoding.lower().replace("-", "").startswith("utf")
    colours = "no colours (NO_COLOR)" if os.environ.get("NO_COLOR") else f"TERM={os.environ.get('TERM', '')}"
    yield Finding(
        subject="terminal",
        health=Health.GOOD if unicode else Health.NOTE,
        seen=f"{encoding or 'no encoding'}, {colours}",
        remedy="" if unicode else "Lines and signs are written as ASCII; for the full set: export LC_ALL=C.UTF-8.",
    )


def _extras() -> Iterator[Finding]:
    for extra, names in EXTRAS.items():
        missing = [name for name in names if _version(name) is None]
        yield Finding(
            subject=f"optional: {extra}",
            health=Health.NOTE if missing else Health.GOOD,
            seen=f"missing: {', '.join(missing)}"
            if missing
            else ", ".join(f"{name} {_version(name)}" for name in names),
            remedy=f"Only if you want it: pip install {' '.join(missing)}" if missing else "",
        )


def is_sound(findings: "list[Finding]") -> bool:
    """Whether nothing is broken."""
    return all(finding.health is not Health.FAULT for finding in findings)


def command(json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> None:
    """Check the installation: Python, packages, shipped data, the solver, figures; a tiny plan in seconds.

    Exit status 0 where everything works, 1 where something is broken; what to do stands beside it.
    """
    from dataclasses import asdict

    findings = list(examine(screen.encoding()))
    if json:
        screen.show_json({"sound": is_sound(findings), "findings": [asdict(finding) for finding in findings]})
    else:
        rows = [(finding.subject, finding.health.value, finding.seen) for finding in findings]
        screen.show_table("Installation", ("subject", "health", "seen"), rows)
        for finding in findings:
            if finding.remedy:
                screen.show_prose(f"{finding.subject}: {finding.remedy}")
        screen.show_text("Everything works." if is_sound(findings) else "Something is broken.")
    if not is_sound(findings):
        raise typer.Exit(EXIT_FAILURE)
