"""What a plan is changed for: the scenario that it was made for, with what is new about it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from planner import files
from planner.domain import Plan, Scenario
from planner.files.scenario.settings import Setting, with_settings
from planner.workload import summarize


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

    Its objects keep the names that the deployed ones have. InputError where a value cannot be used.
    """
    chosen = (
        *([Setting("workload", _path_or_name(workload))] if workload is not None else ()),
        *([Setting("inventory", inventory)] if inventory is not None else ()),
        *([Setting("cluster", str(Path(cluster).absolute()))] if cluster is not None else ()),
        *settings,
    )
    if scenario is not None:
        return _called_as(files.load_scenario(Path(scenario), summarize, chosen), saved)
    if not chosen:
        return saved.scenario
    document = with_settings(_document(saved.scenario, inventory), chosen, f"plan {saved.scenario.name}")
    origin = f"plan {saved.scenario.name} with {', '.join(setting.key for setting in chosen)}"
    changed = files.scenario_from_document(document, origin=origin, base=Path.cwd(), summarize=summarize)
    return _called_as(replace(changed, inputs=(*saved.scenario.inputs, *changed.inputs)), saved)


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
