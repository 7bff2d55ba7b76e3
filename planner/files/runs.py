"""Run folders: reading a plan back."""

from pathlib import Path

from planner.domain import Plan
from planner.errors import InputError
from planner.files.folders import PLAN_FILE
from planner.files.plan_reader import decode_plan


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
