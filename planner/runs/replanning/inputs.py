"""What a plan is changed for: the scenario that it was made for, with what is new about it; and what stands of it."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from planner import export, files
from planner.domain import Cluster, Plan, Pod, Scenario
from planner.domain.changes import ChangeLimits, ChangeSettings
from planner.errors import ExportError, InputError
from planner.files.scenario.settings import Setting, with_settings
from planner.runs.deployments import DEFAULT_TARGET, render_plan
from planner.runs.exports import CheckedExport, check_export
from planner.workload import summarize

_INVENTORY = "inventory."
_BOUNDS = {"storage_gb_s": (1e-6, 1e4), "start_s": (0.0, 86_400.0), "drain_s": (0.0, 86_400.0)}


def new_scenario(
    saved: Plan,
    scenario: str | Path | None = None,
    *,
    workload: str | Path | None = None,
    inventory: object = None,
    cluster: str | Path | None = None,
    settings: Sequence[Setting] = (),
) -> Scenario:
    """The scenario of the new plan: a file or a shipped one, else the saved plan's own, some keys of it set anew.

    Its objects keep the names that the deployed ones have, and its cluster lacks the pods of these. InputError where a
    value cannot be used.
    """
    if isinstance(inventory, Mapping) and inventory and not any(inventory.values()):
        raise InputError(
            f"inventory: must leave at least one GPU, got {', '.join(f'{gpu}=0' for gpu in inventory)}.",
            hint="Name every type that is left, as in --inventory H200=8,H20=0.",
        )
    gone = set(_gone(inventory, settings))
    present, other_settings = _at_least_one(inventory, settings)
    changed = _without(_changed(saved, scenario, workload, present, cluster, other_settings), gone)
    return changed if changed is saved.scenario else without_own_pods(_called_as(changed, saved), saved)


def _changed(
    saved: Plan,
    scenario: str | Path | None,
    workload: str | Path | None,
    inventory: object,
    cluster: str | Path | None,
    settings: Sequence[Setting],
) -> Scenario:
    chosen = (
        *([Setting("workload", _path_or_name(workload))] if workload is not None else ()),
        *([Setting("inventory", inventory)] if inventory is not None else ()),
        *([Setting("cluster", str(Path(cluster).absolute()))] if cluster is not None else ()),
        *settings,
    )
    if scenario is not None:
        return files.load_scenario(Path(scenario), summarize, chosen)
    if not chosen:
        return saved.scenario
    document = with_settings(_document(saved.scenario, inventory), chosen, f"plan {saved.scenario.name}")
    origin = f"plan {saved.scenario.name} with {', '.join(setting.key for setting in chosen)}"
    changed = files.scenario_from_document(document, origin=origin, base=Path.cwd(), summarize=summarize)
    return replace(changed, inputs=(*saved.scenario.inputs, *changed.inputs))


def _gone(inventory: object, settings: Sequence[Setting]) -> Iterator[str]:
    """GPU types of which none are left: a scenario cannot say that, and a plan that runs must."""
    if isinstance(inventory, Mapping):
        yield from (str(gpu) for gpu, count in inventory.items() if _none(count))
    yield from (s.key.removeprefix(_INVENTORY) for s in settings if s.key.startswith(_INVENTORY) and _none(s.value))


def _none(count: object) -> bool:
    return count == 0 and isinstance(count, int) and not isinstance(count, bool)


def _at_least_one(inventory: object, settings: Sequence[Setting]) -> tuple[object, tuple[Setting, ...]]:
    """Both with a GPU of each type that is gone, until they are read."""
    if isinstance(inventory, Mapping):
        inventory = {gpu: 1 if _none(count) else count for gpu, count in inventory.items()}
    return inventory, tuple(
        replace(s, value=1) if s.key.startswith(_INVENTORY) and _none(s.value) else s for s in settings
    )


def _without(scenario: Scenario, gone: Collection[str]) -> Scenario:
    if not gone:
        return scenario
    items = (replace(item, count=0) if item.gpu.name in gone else item for item in scenario.inventory.items)
    return replace(scenario, inventory=replace(scenario.inventory, items=tuple(items)))


def _path_or_name(workload: str | Path) -> str:
    """A file by its full path, as the scenario may lie elsewhere."""
    path = Path(workload)
    return str(path.absolute()) if path.is_file() else str(workload)


def _document(scenario: Scenario, inventory: object) -> dict[str, object]:
    """The scenario as a mapping; labels of nodes only of GPU types that stay."""
    document = files.scenario_document(scenario)
    labels = document["node_selectors"]
    assert isinstance(labels, dict), "labels stand by GPU type"
    stays = {g: row for g, row in labels.items() if g in inventory} if isinstance(inventory, Mapping) else labels
    return {**document, "node_selectors": stays}


def _called_as(scenario: Scenario, saved: Plan) -> Scenario:
    """Manifests of it have the names of the deployed ones, so that they are the same objects."""
    deployed = saved.scenario.deploy.name or saved.scenario.name
    if scenario.deploy.name or scenario.name == deployed:
        return scenario
    return replace(scenario, deploy=replace(scenario.deploy, name=deployed))


def change_settings(defaults: ChangeSettings, **seconds: float | None) -> ChangeSettings:
    """Times of a change: storage_gb_s, start_s, drain_s; None where the scenario's own, `defaults`, count. InputError
    where one is none of these, or out of bounds."""
    chosen = {key: value for key, value in seconds.items() if value is not None}
    for key in seconds:
        if key not in _BOUNDS:
            raise InputError(f"{key}: must be one of {', '.join(_BOUNDS)}.", hint="Choose one of these.")
    for key, value in chosen.items():
        low, high = _BOUNDS[key]
        if not low <= value <= high:
            raise InputError(f"{key}: must be from {low:g} to {high:g}, got {value:g}.", hint="Leave it out.")
    return replace(defaults, **chosen)


def change_limits(
    defaults: ChangeLimits,
    most_gpus: int | None,
    keep: float | None,
    horizon_hours: float | None,
    *,
    turns_only: bool | None,
) -> ChangeLimits:
    """How far a change may go; None where the scenario's own limits, `defaults`, count. InputError where one is out of
    bounds."""
    if most_gpus is not None and most_gpus < 0:
        raise InputError(f"most_gpus: must be from 0 on, got {most_gpus}.", hint="Leave it out for no limit.")
    if keep is not None and not 0 <= keep <= 1:
        raise InputError(f"keep: must be a share of the servers from 0 to 1, got {keep:g}.", hint="Try 0.8.")
    if horizon_hours is not None and not 0 < horizon_hours < math.inf:
        raise InputError(f"horizon_hours: must be above 0, got {horizon_hours:g}.", hint="Leave it out for no limit.")
    return replace(
        defaults,
        most_gpus=defaults.most_gpus if most_gpus is None else most_gpus,
        least_running_on=defaults.least_running_on if keep is None else keep,
        turns_only=defaults.turns_only if turns_only is None else turns_only,
        horizon_hours=defaults.horizon_hours if horizon_hours is None else horizon_hours,
    )


def without_own_pods(scenario: Scenario, saved: Plan) -> Scenario:
    """The scenario whose cluster lacks the pods of the plan that runs, known by the names of its objects.

    InputError where they run on other nodes than those that the plan's placement gives to their island.
    """
    cluster = scenario.cluster
    pods = {} if cluster is None or not cluster.pods else dict(_pods_of(saved, cluster))
    if cluster is None or not pods:
        return scenario
    _require_nodes(saved, pods)
    others = tuple(pod for pod in cluster.pods if pod not in pods)
    return replace(scenario, cluster=replace(cluster, pods=others))


def _pods_of(saved: Plan, cluster: Cluster) -> Iterator[tuple[Pod, str]]:
    """Pods of the plan with GPUs, and their islands. Controllers add to the name of their object."""
    plan = export.plan_label(saved)
    names = {f"{plan}-{label}-": island for label, island in export.island_labels(saved).items()}
    for pod in cluster.pods:
        island = next((island for name, island in names.items() if pod.name.startswith(name)), None)
        if island is not None and pod.gpu_count:
            yield pod, island


def _require_nodes(saved: Plan, pods: dict[Pod, str]) -> None:
    if saved.placement is None:
        return
    nodes_of: dict[str, set[str]] = {}
    for part in saved.placement.parts:
        nodes_of.setdefault(part.island, set()).add(part.node)
    for pod, island in pods.items():
        nodes = nodes_of.get(island, set())
        if pod.node not in nodes:
            raise InputError(
                f"cluster: pod {pod.key} of island {island} must run on the nodes that the plan gives to it, "
                f"{', '.join(sorted(nodes)) or 'none'}, got {pod.node}.",
                hint="Which servers would run on is not known then: change the plan without its cluster and placement "
                "(the plan as it was before `planner place`).",
            )


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
    of_run = None if run is None or not _has_some(run) else _of_folder(saved, run)
    usual = of_run.record.engine if of_run is not None else files.engine_of(run) if run is not None else ""
    engine, kind = engine or usual, "" if of_run is None else of_run.record.target
    if of_run is not None and target in ("", kind) and engine == of_run.record.engine:
        return Deployed(files=of_run.manifests, target=kind, engine=engine)
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
