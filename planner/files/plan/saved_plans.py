"""plan.json as a scenario draws on it: layouts to begin with, islands that run now. Of any version."""

import json
from pathlib import Path

from planner.errors import InputError
from planner.files.disk.documents import parse_json, read_text
from planner.files.disk.opening import MOST_OF_A_LIST
from planner.files.plan.digests import KEY, REMEDY, SCHEMA_VERSION, require_unedited
from planner.files.sections import Section


def read_saved_plan(path: Path) -> Section:
    """Its top level. Raises InputError where it is no JSON object, or was edited; earlier plans have no digests."""
    text = read_text(path, most=MOST_OF_A_LIST)
    section = parse_json(text, file=str(path))
    document = json.loads(text)
    if KEY in document:
        require_unedited(document, str(path))
    elif document.get("schema_version") == SCHEMA_VERSION:
        raise InputError(f"{path}: {KEY}: must be there, is missing: the file was edited.", hint=REMEDY)
    return section
