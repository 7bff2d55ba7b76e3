"""Pages written beside what they are of; one of the same thing may replace another."""

from html import escape
from pathlib import Path

from planner.errors import InputError
from planner.files.disk.folders import PAGE_FILE, PLAN_FILE
from planner.files.disk.opening import is_folder
from planner.files.disk.single_files import refuse_existing, write_file

_HEAD_BYTES = 4096
"""The mark of what a page is of stands so near to its beginning."""


def page_of(run: Path) -> Path:
    """Where the page of a run belongs: in its folder, or beside a plan of another name, under that name."""
    if is_folder(run):
        return run / PAGE_FILE
    return run.with_name(PAGE_FILE) if run.name == PLAN_FILE else run.with_suffix(".html")


def write_page(path: Path, content: bytes, *, source: str, force: bool = False) -> None:
    """Write a page, whole or not at all; one that says that it is of the same `source` is replaced, any other file only
    with `force`. InputError where it may not or cannot be written."""
    if not (source and _is_of(path, source)):
        refuse_existing(path, force=force)
    try:
        write_file(path, content, force=True)
    except InputError as error:
        hint = "Give --out FOLDER to write the report elsewhere, or --no-page for the summary alone."
        raise InputError(error.message, hint=hint) from None


def _is_of(path: Path, source: str) -> bool:
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
    except OSError:
        return False
    return f'<meta name="planner-source" content="{escape(source)}">'.encode() in head
