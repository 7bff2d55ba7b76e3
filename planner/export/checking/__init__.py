"""The last look at finished manifests, those of a plan before they leave and any folder afterwards."""

from planner.export.checking.crds import CrdSchemas, read_crds
from planner.export.checking.differences import Compared, compare
from planner.export.checking.faults import check_manifests, find_faults, tells_fleet
from planner.export.checking.structure import FoundManifests, known_kinds, read_manifests

__all__ = [
    "Compared",
    "CrdSchemas",
    "FoundManifests",
    "check_manifests",
    "compare",
    "find_faults",
    "known_kinds",
    "read_crds",
    "read_manifests",
    "tells_fleet",
]
