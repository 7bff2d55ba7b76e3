"""`export.record` beside manifests: what they were made with, as sealed JSON under a name that kubectl passes over."""

from pathlib import Path
from typing import Any

from planner.domain import DeploySettings
from planner.domain.serving.deploy import ExportRecord
from planner.errors import InputError
from planner.files.disk.documents import read_text, read_yaml
from planner.files.disk.opening import is_folder, is_there
from planner.files.plan.digests import sealed_section, sealed_text
from planner.files.records import fields_of, read_record, record_document, record_keys
from planner.files.sections import Section

EXPORT_RECORD_FILE = "export.record"
SCHEMA_VERSION = 1
_OWN_KEYS = ("schema_version", "options", "carried")


def export_record_text(record: ExportRecord) -> bytes:
    """The file. Every option is in it, so that another version's defaults change nothing."""
    options = {
        item.key: item.plain(value)
        for item in fields_of(DeploySettings)
        if (value := getattr(record.options, item.name)) is not None
    }
    document = {
        "schema_version": SCHEMA_VERSION,
        **record_document(record),
        "options": options,
        **({"carried": {file: list(bodies) for file, bodies in record.carried.items()}} if record.carried else {}),
    }
    return sealed_text(document)


def load_export_record(folder: Path) -> ExportRecord:
    """The record of a folder of manifests.

    Raises InputError where the folder has none, as one of an earlier version, or where it was edited or is of another
    version's form.
    """
    path = folder / EXPORT_RECORD_FILE
    if is_folder(folder) and not is_there(path):
        raise InputError(
            f"{path}: must be there to tell with which options the manifests were written, is missing: an earlier "
            "version of the planner wrote them, or it was left behind.",
            hint=f"Export again and keep the file: planner export RUN --out {folder} --force, with the same options.",
        )
    return export_record_of(read_text(path), str(path))


def export_record_of(text: str, origin: str) -> ExportRecord:
    """The record that a file holds; InputError where it was edited or is of another version's form."""
    document = sealed_section(text, origin, hint="Export again, or restore the file.")
    if document.integer("schema_version", low=1) != SCHEMA_VERSION:
        raise document.fault("schema_version", f"{SCHEMA_VERSION}, which this version reads")
    options = read_record(DeploySettings, document.section("options"))
    carried = _carried(document)
    document.allow_only(*_OWN_KEYS, *record_keys(ExportRecord))
    return read_record(
        ExportRecord, _without(document, _OWN_KEYS), options=lambda _: options, carried=lambda _: carried
    )


def load_digests(path: Path) -> tuple[tuple[str, str], ...]:
    """Image -> digest, of a YAML file; what they must be is for whoever writes them. InputError for anything else."""
    document = read_yaml(path)
    return tuple((image, document.text(image)) for image in document.plain())


def _carried(document: Section) -> dict[str, tuple[dict[str, Any], ...]]:
    if "carried" not in document:
        return {}
    carried: dict[str, tuple[dict[str, Any], ...]] = {}
    for file, bodies in document.section("carried").plain().items():
        if not isinstance(bodies, list) or not all(isinstance(body, dict) for body in bodies):
            raise document.fault("carried", f"a list of objects for {file}")
        carried[file] = tuple(bodies)
    return carried


def _without(document: Section, keys: tuple[str, ...]) -> Section:
    return Section({key: value for key, value in document.plain().items() if key not in keys}, file=document.file)
