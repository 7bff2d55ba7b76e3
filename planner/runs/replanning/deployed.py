"""The manifests that stand: those of the run folder, else those that its plan would get."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from planner import files
from planner.domain import Plan
from planner.errors import ExportError, InputError
from planner.runs.deployments import DEFAULT_TARGET, render_plan
from planner.runs.exports import CheckedExport, check_export

_FOLDER = "manifests"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """Manifests (name -> text; none where there can be none), their target and engine."""

    files: Mapping[str, str]
    target: str
    engine: str


def deployed_manifests(saved: Plan, run: Path | None = None, *, target: str = "", engine: str = "") -> Deployed:
    """Of the run folder where it has some for that target and engine: pods that were carried over once stay as they
    are. InputError where those are not of the plan any more."""
    there = None if run is None or not _has_some(run) else _of_folder(saved, run)
    usual = there.record.engine if there is not None else files.engine_of(run) if run is not None else ""
    engine, kind = engine or usual, "" if there is None else there.record.target
    if there is not None and target in ("", kind) and engine == there.record.engine:
        return Deployed(files=there.manifests, target=kind, engine=engine)
    chosen = target or kind or saved.scenario.deploy.target or DEFAULT_TARGET
    try:
        rendered = render_plan(saved, target=chosen, engine=engine)
    except (ExportError, InputError):  # what is published says why
        return Deployed(files={}, target=chosen, engine=engine)
    return Deployed(files=rendered.files, target=chosen, engine=engine)


def _has_some(run: Path) -> bool:
    folder = run / _FOLDER
    return files.is_folder(folder) and any(folder.glob("*.yaml"))


def _of_folder(saved: Plan, run: Path) -> CheckedExport:
    folder = run / _FOLDER
    checked = check_export(folder, saved)
    if checked.compared.faults:
        raise InputError(
            f"{folder}: must be manifests of the plan: {checked.compared.faults[0]}",
            hint=f"Export it again: planner export {run} --out {folder} --force.",
        )
    return checked
