"""Run folders: reading a plan back."""

import re
from pathlib import Path

from planner.domain import Plan
from planner.errors import InputError
from planner.files.documents import read_bytes, read_text
from planner.files.folders import PLAN_FILE, SEARCH_FOLDER
from planner.files.plan_reader import decode_plan

MANIFESTS = "manifests"
ENGINE_LABEL = re.compile(r"app\.kubernetes\.io/name: ['\"]?(vllm|sglang)\b")
USUAL_ENGINE = "vllm"


def holds_run(folder: Path) -> bool:
    """Whether there is a plan in `folder`, whatever it is worth."""
    return (folder / PLAN_FILE).exists()


def load_run(path: Path) -> Plan:
    """The plan of a run folder, or of a plan.json. Raises InputError where it is missing or not a plan."""
    file = path
    try:
        file = path / PLAN_FILE if path.is_dir() else path
        text = file.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise InputError(
            f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}.",
            hint="Give a run folder that `planner plan` wrote, or its plan.json.",
        ) from None
    return decode_plan(text, file)


def search_files(folder: Path) -> dict[str, bytes]:
    """What a finished search left in a run folder besides the plan: relative path -> content."""
    place = folder / SEARCH_FOLDER
    names = sorted(path.name for path in place.iterdir()) if place.is_dir() else []
    return {f"{SEARCH_FOLDER}/{name}": read_bytes(place / name) for name in names}


def engine_of(folder: Path) -> str:
    """The engine that the manifests of a run folder are for; the usual one where they do not tell."""
    for path in sorted((folder / MANIFESTS).glob("*.yaml")) if folder.is_dir() else []:
        found = ENGINE_LABEL.search(read_text(path))
        if found:
            return found.group(1)
    return USUAL_ENGINE
