"""Plans made or read: from keyword arguments, a scenario file, a run folder."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from planner import files, pipeline
from planner.api.deployments import PlannedDeployment
from planner.domain import (
    ReportProgress,
    Scenario,
    no_progress,
)
from planner.workload import summarize


def plan(
    *,
    inventory: Mapping[str, int] | str,
    workload: str | Path | Mapping[str, object],
    model: str | Path | Mapping[str, object] = "deepseek-v3",
    seed: int | None = None,
    name: str = "plan",
    progress: ReportProgress = no_progress,
    **sections: Any,
) -> PlannedDeployment:
    """Plan from keyword arguments.

    `inventory`: GPUs per type, or the word cluster; `workload`: a shipped name, a workload file or a trace CSV;
    `model`: a shipped name or a config.json; both may also be the document itself, as a mapping. `sections` are a
    scenario's other keys (`prices_usd_per_gpu_hour`, `ranges`, `cost`, `cluster`, `search` ...), as in a scenario file;
    `seed` overrides `search.seed`. Raises InputError and InfeasibleError.
    """
    document = {
        "name": name,
        "model": _plain(model),
        "workload": _plain(workload),
        "inventory": _plain(inventory),
        **sections,
    }
    search = document.setdefault("search", {})
    if seed is not None and isinstance(search, Mapping):
        document["search"] = {**search, "seed": seed}
    scenario = files.scenario_from_document(document, origin="planner.plan(...)", base=Path.cwd(), summarize=summarize)
    return PlannedDeployment(pipeline.plan(scenario, progress))


def _plain(value: object) -> object:
    """The value as a scenario file would hold it; what cannot stand there is left for the reader to refuse."""
    if isinstance(value, Mapping):
        return dict(value)
    return str(value) if isinstance(value, Path) else value


def plan_scenario(
    path: str | Path,
    *,
    progress: ReportProgress = no_progress,
    change: Callable[[Scenario], Scenario] = lambda scenario: scenario,
) -> PlannedDeployment:
    """Plan a scenario file; `change` may alter the scenario after reading."""
    return PlannedDeployment(pipeline.plan(change(files.load_scenario(Path(path), summarize)), progress))


def load_plan(path: str | Path) -> PlannedDeployment:
    """A saved plan: a run folder or its plan.json. Raises InputError where it is none, or contradicts itself."""
    return PlannedDeployment(pipeline.recheck(files.load_run(Path(path)), str(path)))
