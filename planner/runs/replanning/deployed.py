"""The manifests that stand: those of the run folder, else those that its plan would get."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from planner import export, files
from planner.domain import Plan
from planner.errors import ExportError, InputError
from planner.runs.deployments import DEFAULT_TARGET, render_plan, routed_as

_FOLDER, _TARGET = "manifests", "planner/target"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """Manifests (name -> text; none where there can be none), their target and engine."""

    files: Mapping[str, str]
    target: str
    engine: str


def deployed_manifests(saved: Plan, run: Path | None = None, *, target: str = "", engine: str = "") -> Deployed:
    """Of the run folder where it has some for that target and engine: pods that were carried over once stay as they
    are. InputError where those are not of the plan any more."""
    engine = engine or (files.engine_of(run) if run is not None else "")
    there = _of_folder(saved, run) if run is not None else {}
    kind = _target_of(there)
    if there and target in ("", kind) and run is not None and engine == files.engine_of(run):
        return Deployed(files=there, target=kind, engine=engine)
    chosen = target or kind or saved.scenario.deploy.target or DEFAULT_TARGET
    try:
        rendered = render_plan(saved, target=chosen, engine=engine)
    except (ExportError, InputError):  # what is published says why
        return Deployed(files={}, target=chosen, engine=engine)
    return Deployed(files=rendered.files, target=chosen, engine=engine)


def _of_folder(saved: Plan, run: Path) -> dict[str, str]:
    folder = run / _FOLDER
    if not files.is_folder(folder) or not any(folder.glob("*.yaml")):
        return {}
    there = files.load_manifests(folder)
    faults = export.find_faults(there, routed_as(saved, there))
    if faults:
        raise InputError(
            f"{folder}: must be manifests of the plan: {faults[0]}",
            hint=f"Export it again: planner export {run} --out {folder} --force.",
        )
    return there


def _target_of(there: Mapping[str, str]) -> str:
    manifests = (manifest for manifest, _ in export.read_manifests(there).sound)
    return next((m.annotations[_TARGET] for m in manifests if _TARGET in m.annotations), "")
