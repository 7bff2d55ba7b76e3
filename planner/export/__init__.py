"""Export: a plan in, deployment manifests out. The door is `render`; it knows no disk."""

from planner.export.checks import check_manifests
from planner.export.engines import ENGINES
from planner.export.manifests import render
from planner.export.options import ExportOptions
from planner.export.targets import TARGETS

__all__ = ["ENGINES", "TARGETS", "ExportOptions", "check_manifests", "render"]
