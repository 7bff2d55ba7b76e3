"""What a plan is changed for: the scenario that it was made for, with what is new about it."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from planner import files
from planner.domain import Plan, Scenario
from planner.domain.changes import ChangeLimits, ChangeSettings
from planner.errors import InputError
from planner.files.scenario.settings import Setting, with_settings
from planner.runs.replanning.own_pods import without_own_pods
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
    present, kept = _at_least_one(inventory, settings)
    changed = _without(_changed(saved, scenario, workload, present, cluster, kept), gone)
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
