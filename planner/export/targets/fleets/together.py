"""The objects of all of a fleet's exports hold together: sound each, and no two of a kind with one name."""

from collections.abc import Mapping

from planner.errors import ExportError
from planner.export.checking.crds import CrdSchemas
from planner.export.checking.faults import faults_text, name_faults
from planner.export.checking.structure import read_manifests


def check_together(files: Mapping[str, str], schemas: CrdSchemas | None = None) -> None:
    """Look at all files of a fleet (path -> text).

    Raises:
        ExportError: an object follows no schema, or has the name of another of its kind.
    """
    manifests = read_manifests(files, schemas)
    faults = tuple(dict.fromkeys((*manifests.faults, *name_faults(manifests.sound))))
    if faults:
        raise ExportError(faults_text(faults), hint="Rename a service, or set deploy.name; nothing was written.")
