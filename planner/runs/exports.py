"""Exports held against what their records say: all of it is written again, and compared object by object."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from planner import export, files
from planner.domain import Plan
from planner.domain.serving.deploy import ExportRecord
from planner.errors import InputError
from planner.export.checking.carrying import engines_of, with_engines
from planner.export.objects.documents import yaml_text
from planner.plans.provenance import planner_version
from planner.runs.deployments import render_plan
from planner.runs.replanning.kustomizing import kustomization_files

MANIFESTS = "manifests/"
"""Where a run folder has its export."""
_DIGITS = 12
_LEVELS = 3
"""Folders above an export in which its run may lie: RUN/manifests, RUN/steps/01-start-1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedExport:
    """`manifests` and `recipes` of images of a folder (name -> text), its `record`, and what they differ in from the
    plan's export."""

    manifests: Mapping[str, str]
    recipes: Mapping[str, str]
    record: ExportRecord
    compared: export.Compared

    @property
    def names(self) -> tuple[str, ...]:
        """Of all files that were looked at."""
        return (*self.manifests, *self.recipes)

    @property
    def remedy(self) -> str:
        """What to do about differences."""
        ours = planner_version()
        if self.record.planner == ours:
            return "Mend these fields, or export the plan again with other options."
        return (
            f"Planner {self.record.planner} wrote the folder and this is {ours}, so differences may be the version's: "
            "export again with this one, and look at what changes (planner diff)."
        )


def run_above(folder: Path) -> Path | None:
    """The run folder that a folder of manifests lies in; None where it lies in none."""
    return next((above for above in folder.absolute().parents[:_LEVELS] if files.holds_run(above)), None)


def check_export(folder: Path, plan: Plan | None) -> CheckedExport:
    """The files of `folder` beside what their record makes of `plan` (None: no run is given, and the folder lies in
    none; steps of roll-outs need none).

    Raises InputError where the folder holds no manifests or no record, or was exported from another plan.
    """
    manifests, record = files.load_manifests(folder), files.load_export_record(folder)
    if record.step:
        planned = _texts(record)
    elif plan is None:
        raise InputError(
            f"{folder}: must be held against the plan that it was exported from (digest "
            f"{record.plan_digest[:_DIGITS]}), got none, and it lies in no run folder.",
            hint=f"planner export RUN --check {folder}",
        )
    else:
        planned = written_again(record, plan, str(folder))
    recipes = files.load_recipes(folder, planned.keys() - manifests.keys())
    compared = export.compare({**manifests, **recipes}, planned)
    return CheckedExport(manifests=manifests, recipes=recipes, record=record, compared=compared)


def written_again(record: ExportRecord, plan: Plan, origin: str) -> dict[str, str]:
    """File name -> text of manifests and of what images are built from, as the export of `plan` writes it with the
    record's options; `origin` names the folder in errors.

    Raises InputError where the record is of another plan, and what `render_plan` raises.
    """
    if record.plan_digest != (digest := files.plan_digest(plan)):
        raise InputError(
            f"{origin}, plan: must have been exported from the plan {plan.scenario.name}, whose digest is "
            f"{digest[:_DIGITS]}, was from {record.plan_digest[:_DIGITS]}.",
            hint="Give the run that it was exported from, or export this one again.",
        )
    running = engines_of(_texts(record))
    rendered = render_plan(
        plan,
        engine=record.engine,
        options=record.options,
        cells=record.cells,
        topology_objects=record.topology_objects,
        running=running,
    )
    texts = with_engines(rendered.files, running) if running else rendered.files
    return {**texts, **kustomization_files(texts), **rendered.images}


def with_carried(contents: Mapping[str, bytes], final: Mapping[str, str]) -> dict[str, bytes]:
    """Manifests of a run folder (path below it -> text) in which some engines are as they were started under an earlier
    plan, and the folder's record, which says so; `contents`: the run's files as its plan alone makes them."""
    changed = {path: text for path, text in final.items() if contents.get(path) != text.encode()}
    if not changed:
        return {}
    plain = engines_of({path: contents[path].decode() for path in changed})
    carried: dict[str, tuple[Mapping[str, object], ...]] = {}
    for island, workload in engines_of(changed).items():
        if plain[island].manifest.body != workload.manifest.body:
            file = workload.manifest.file.removeprefix(MANIFESTS)
            carried[file] = (*carried.get(file, ()), workload.manifest.body)
    path = f"{MANIFESTS}{files.EXPORT_RECORD_FILE}"
    record = replace(files.export_record_of(contents[path].decode(), path), carried=carried)
    return {name: text.encode() for name, text in changed.items()} | {path: files.export_record_text(record)}


def _texts(record: ExportRecord) -> dict[str, str]:
    """The carried objects as files."""
    return {file: yaml_text((), bodies) for file, bodies in record.carried.items()}
