"""What the numbers of an answer rest on: files with their digests, estimates with their measurements, seeds, versions.

| part | what it is |
|---|---|
| planner | its version, and with it what is settled in it |
| question | the arguments of the call, and the command line that gives the same answer |
| inputs | every file that a run was made from, with its SHA-256; `scenario` is the scenario itself |
| estimates | GPU type and phase: from which measurements its rates are, and the band that these leave |
| calibration | the factors of the cost model |
| solver | who solved, with which seed, in which versions |
| prices | USD per GPU and hour, as given or of the price list among the inputs |
| replay | what was drawn: requests, seeds, arrivals |
| unverified | whether the plan was read from a file without digests, so that nobody can tell whether it was edited |
| model | the file of the model, and where its figures are from |
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from planner.files.disk.folders import PLAN_FILE
from planner.files.disk.opening import MOST_OF_A_LIST, is_folder, read_bytes
from planner.files.models.models import find_model
from planner.plans.provenance import planner_version
from planner.runs.comparisons import runs_in

_DRAWN = ("trace", "router", "arrivals", "requests", "seeds", "rate_rps")


def provenance_of(
    tool: str, arguments: Mapping[str, Any], command: str, answer: Any, root: Path, runs: Sequence[str]
) -> dict[str, Any]:
    """The parts that an answer has. `runs`: the run folders, below `root`, that it was made from, or is."""
    parts: dict[str, Any] = {
        "planner": planner_version(),
        "question": {"arguments": dict(arguments), "command": command},
    }
    if tool == "model_show":
        files = [asdict(item) for item in find_model(arguments["model"], root)[1]]
        return parts | {"model": {"files": files, **{key: answer[key] for key in ("uri", "source", "assumed")}}}
    if tool == "replay":
        parts["replay"] = {key: answer[key] for key in _DRAWN if key in answer}
    return parts | {"runs": [_of_plan(run, root) for name in runs for run in runs_in(root / name)]}


def _of_plan(run: Path, root: Path) -> dict[str, Any]:
    """What the plan of a run folder, or its plan.json, says that it was made from."""
    file = run / PLAN_FILE if is_folder(run) else run
    plan = json.loads(read_bytes(file, most_bytes=MOST_OF_A_LIST))
    provenance = plan["provenance"]
    return {
        "run": file.parent.relative_to(root).as_posix(),
        "inputs": [{"name": name, "sha256": digest} for name, digest in provenance["inputs_sha256"]],
        "estimates": provenance.get("estimates", []),
        "calibration": {"name": provenance.get("calibration", ""), "cost_mode": provenance["cost_mode"]},
        "solver": {"name": provenance["solver"], "seed": provenance["seed"], "libraries": provenance["libraries"]},
        "prices": plan["scenario"].get("prices_usd_per_gpu_hour", {}),
        "planner": provenance["planner"],
        "unverified": provenance.get("unverified", False),
    }
