"""Doubt from the command line and notebooks: what is doubted, and the files that tell what comes of it."""

from planner.domain import Plan
from planner.domain.serving.doubt import DoubtedPlan, DoubtSettings
from planner.errors import InputError
from planner.files.records import record_document
from planner.files.scenario.doubts import read_doubt
from planner.files.sections import top_level
from planner.report.doubts.page import doubt_page, draws, swings
from planner.report.kit.markdown import page_text
from planner.runs.pages import page_bytes

NAMES = ("doubt.md", "doubt.html", "draws.csv", "swings.csv")


def doubt_settings(plan: Plan, **changes: object) -> DoubtSettings:
    """What the plan's scenario doubts, with what was said otherwise (None: nothing). Raises InputError for a value that
    cannot be."""
    values = record_document(plan.scenario.doubt)
    values |= {key: value for key, value in changes.items() if value is not None}
    return read_doubt(top_level(values, "doubt"), [item.gpu.name for item in plan.scenario.inventory.items])


def require_sure(name: str, sure: float) -> None:
    """Raises InputError where a probability is none, or says nothing."""
    if not 0 < sure < 1:
        raise InputError(f"{name}: must be above 0 and below 1, got {sure:g}.", hint="Try 0.8.")


def doubt_files(result: DoubtedPlan, settings: DoubtSettings) -> dict[str, bytes]:
    """Name -> content of the folder."""
    page = doubt_page(result, settings)
    return {
        "doubt.md": page_text(page).encode(),
        "doubt.html": page_bytes(page),
        "draws.csv": draws(result).csv(),
        "swings.csv": swings(result).csv(),
    }
