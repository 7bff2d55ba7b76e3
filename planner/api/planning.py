"""Plans made, from keyword arguments or a scenario file; plans and whatever else lies in a folder, read."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from planner import files, pipeline
from planner.api.deployments import PlannedDeployment
from planner.api.fleets import PlannedFleet, listed_services, load_fleet_folder, planned_fleet
from planner.api.progress import Listener, search_bar
from planner.api.tables import counts_of, with_levels
from planner.api.workloads import document_of
from planner.domain import Plan, Scenario
from planner.errors import InputError
from planner.files.scenario.fleets import fleet_from_document
from planner.files.scenario.offers import prices_of
from planner.files.scenario.settings import Setting
from planner.workload import summarize

if TYPE_CHECKING:
    import pandas as pd

    from planner.api.compared import VerifiedRun
    from planner.api.replays import ReplayedPlan


def plan_of(plan: "PlannedDeployment | Plan | str | Path") -> PlannedDeployment:
    """A plan at hand from one, from its record, or from a run folder. Raises InputError for anything else."""
    if isinstance(plan, PlannedDeployment):
        return plan
    if isinstance(plan, Plan):
        return PlannedDeployment(plan)
    if isinstance(plan, str | Path):
        from planner import files, pipeline

        return PlannedDeployment(pipeline.recheck(files.load_run(Path(plan)), str(plan)))
    raise InputError(
        f"plan: must be a plan or the path of a run folder, got {type(plan).__name__}.",
        hint="As planner.load('runs/mixed-fleet').",
    )


def replay(plan: "PlannedDeployment | str | Path", *trace_and_rate: Any, **settings: Any) -> "ReplayedPlan":
    """Requests through a plan one by one, in virtual time: does its promise hold?

    >>> planner.replay(plan, "lengths", "0.9x", requests=2000, seeds=3)
    >>> planner.replay("runs/mixed-fleet", "trace.csv", arrivals="trace")

    `plan`: a plan, or the path of a run folder; all else as `plan.replay` takes it. Raises InputError.
    """
    return plan_of(plan).replay(*trace_and_rate, **settings)


def export(plan: "PlannedDeployment | str | Path", path: str | Path, target: str = "", **options: Any) -> Path:
    """Write the manifests of a plan into the folder `path`, and give that folder back.

    >>> planner.export(plan, "manifests", target="lws", engine="vllm")

    `plan`: a plan, or the path of a run folder; all else as `plan.export` takes it. Raises ExportError where the target
    cannot express the plan, InputError for unknown names and a folder that is not empty.
    """
    return plan_of(plan).export(path, target, **options)


def verify(run: str | Path, *, scenario: str | Path | None = None, search: bool = False) -> "VerifiedRun":
    """A run folder computed anew from its question: does every figure of every file follow?

    >>> planner.verify("runs/mixed-fleet").agrees
    >>> planner.verify("runs/mixed-fleet").frame          # file, key, what is written, what comes out

    `run`: a run folder, its plan.json, or a folder of a schedule, a watch, a batch or a sweep. `scenario`: the file
    that it was planned from (looked for where it is not given). `search`: a search is repeated, not only judged anew.

    Raises InputError where a document was edited and its digests tell.
    """
    from planner.api.compared import VerifiedRun
    from planner.runs.verifying.folders import verify as verified

    return VerifiedRun(verified(Path(run), scenario=None if scenario is None else Path(scenario), search=search))


@overload
def plan(
    *,
    inventory: "Mapping[str, int] | pd.Series[int] | pd.DataFrame | str",
    workload: "str | Path | Mapping[str, object] | Any",
    model: str | Path | Mapping[str, object] = "deepseek-v3",
    seed: int | None = None,
    name: str = "plan",
    progress: Listener = None,
    **sections: Any,
) -> PlannedDeployment:
    """Of one service."""


@overload
def plan(
    *,
    services: Sequence[Mapping[str, Any]],
    inventory: "Mapping[str, int] | pd.Series[int] | pd.DataFrame | str",
    seed: int | None = None,
    name: str = "fleet",
    progress: Listener = None,
    **sections: Any,
) -> PlannedFleet:
    """Of several services."""


def plan(
    *,
    services: Sequence[Mapping[str, Any]] | None = None,
    inventory: "Mapping[str, int] | pd.Series[int] | pd.DataFrame | str",
    workload: "str | Path | Mapping[str, object] | Any" = None,
    model: "str | Path | Mapping[str, object] | None" = None,
    seed: int | None = None,
    name: str = "",
    progress: Listener = None,
    **sections: Any,
) -> PlannedDeployment | PlannedFleet:
    """Plan from keyword arguments.

    >>> plan = planner.plan(
    ...     inventory={"H200": 64, "H20": 128},
    ...     workload="azure-code-2023",
    ...     model="deepseek-v3",
    ...     slo={"ttft_ms": 4000, "tpot_ms": 60, "percentile": 99},
    ...     prices_usd_per_gpu_hour={"H200": 3.5, "H20": 1.2},
    ... )

    `inventory`: GPUs per type (a mapping, a Series by type, a frame with a column of types and one of counts, or a text
    as `H100=8,H20=16`), or the word cluster. `workload`: a shipped name, a workload file, a trace, or what
    `planner.workload` gives. `model`: a shipped name, its id on Hugging Face, a config.json, or what `planner.model`
    gives. Both may also be the document itself, as a mapping. `sections` are a scenario's other keys (`slo`,
    `objective`, `prices_usd_per_gpu_hour`, `ranges`, `cost`, `cluster`, `search` ...), as in a scenario file; `planner
    docs keys` has them all. Levels may be typed: `ttft="3s"`, `tpot="60ms"`, `percentile=95`. `seed` overrides
    `search.seed`. `progress`: False for no bar, or a function of evaluations done, of how many, and the best rate so
    far (requests/s).

    `services`: several on one inventory, each a mapping of its own keys (`name`, `model`, `workload`, `slo`, `demand`,
    `weight`, `priority`, `shares`, `batch` ...); what is said beside them holds for all of them. Then a `PlannedFleet`
    comes back.

    >>> fleet = planner.plan(
    ...     inventory={"H200": 16, "H20": 16}, workload="azure-conv-2023", ttft="1s", tpot="30ms",
    ...     services=[
    ...         {"name": "chat", "model": "qwen3-30b-a3b-fp8", "demand": 20},
    ...         {"name": "oss", "model": "gpt-oss-20b", "demand": 20},
    ...     ],
    ... )

    Raises InputError for what cannot be used, InfeasibleError where nothing serves the workload.
    """
    origin = "planner.plan(...)"
    if services is not None:
        common = {key: value for key, value in (("workload", workload), ("model", model)) if value is not None}
        listed = listed_services(services, origin)
        document = _fleet_document(origin, listed, inventory, {**common, **sections}, seed)
        document = {"name": name or "fleet", **document}
        read = fleet_from_document(document, origin=origin, base=Path.cwd(), summarize=summarize)
        return planned_fleet(read, progress)
    question: dict[str, Any] = {"inventory": inventory, "workload": workload, "model": model or "deepseek-v3"}
    scenario = scenario_of(origin=origin, seed=seed, name=name or "plan", **question, **sections)
    return _planned(scenario, progress)


def _fleet_document(
    origin: str, services: Sequence[Mapping[str, Any]], inventory: Any, sections: Mapping[str, Any], seed: int | None
) -> dict[str, Any]:
    """The document of a fleet: what holds for all services, and each of them; levels that a service is given by
    themselves (`ttft`, `tpot`, `percentile`) stand over those of all."""
    common = _plain_sections(sections, origin)
    rows = [_plain_sections(row, f"{origin}: services[{place}]") for place, row in enumerate(services)]
    levels = common.get("slo")
    for row, typed in zip(rows, services, strict=True):
        if isinstance(levels, Mapping) and isinstance(row.get("slo"), Mapping) and "slo" not in typed:
            row["slo"] = {**levels, **row["slo"]}
    document = {"inventory": _plain(counts_of(inventory, f"{origin}: inventory")), **common, "services": rows}
    search = document.setdefault("search", {})
    if seed is not None and isinstance(search, Mapping):
        document["search"] = {**search, "seed": seed}
    return document


def _plain_sections(sections: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """Keys of a service, or of all, as a scenario file would hold them."""
    document = {key: _plain(_section(key, value, origin)) for key, value in with_levels(sections, origin).items()}
    if "workload" in document:
        document["workload"] = _plain(document_of(sections["workload"]))
    if "model" in document:
        document["model"] = _plain(_one_model(sections["model"], f"{origin}: model"))
    return document


def scenario_of(
    *,
    origin: str,
    inventory: Any,
    workload: Any,
    model: Any = "deepseek-v3",
    seed: int | None = None,
    name: str = "plan",
    **sections: Any,
) -> Scenario:
    """The scenario of keyword arguments, as `plan` takes them; `origin`: what errors call them."""
    document = {
        "name": name,
        "model": _plain(_one_model(model, f"{origin}: model")),
        "workload": _plain(document_of(workload)),
        "inventory": _plain(counts_of(inventory, f"{origin}: inventory")),
        **{key: _plain(_section(key, value, origin)) for key, value in with_levels(sections, origin).items()},
    }
    search = document.setdefault("search", {})
    if seed is not None and isinstance(search, Mapping):
        document["search"] = {**search, "seed": seed}
    return files.scenario_from_document(document, origin=origin, base=Path.cwd(), summarize=summarize)


def _planned(scenario: Scenario, progress: Listener) -> PlannedDeployment:
    with search_bar(scenario.name, progress) as heard:
        return PlannedDeployment(pipeline.plan(scenario, heard, odds=True))


def _one_model(model: Any, key: str) -> Any:
    if isinstance(model, list | tuple | set):
        raise InputError(
            f"{key} must be one model, got {len(model)}.",
            hint="Several on one inventory: services=[{...}, {...}], each with its model. Else plan each by itself, "
            "then planner.compare(first, second).",
        )
    return getattr(model, "document", model)


def _section(key: str, value: object, origin: str) -> object:
    """Prices may be a Series or a frame as the inventory may; a cluster may be at hand."""
    if key == "prices_usd_per_gpu_hour" and isinstance(value, str):
        return prices_of(f"{origin}: {key}", value)
    if key == "prices_usd_per_gpu_hour":
        return counts_of(value, f"{origin}: {key}")
    return getattr(value, "document", value) if key == "cluster" else value


def _plain(value: object) -> object:
    """The value as a scenario file would hold it; what cannot stand there is left for the reader to refuse."""
    if isinstance(value, Mapping):
        return dict(value)
    return str(value) if isinstance(value, Path) else value


def plan_scenario(
    path: str | Path,
    *,
    progress: Listener = None,
    change: Callable[[Scenario], Scenario] = lambda scenario: scenario,
    settings: Mapping[str, Any] | None = None,
) -> PlannedDeployment:
    """Plan a scenario file, or a shipped scenario by name.

    >>> plan = planner.plan_scenario("mixed-fleet", settings={"inventory.H20": 96})

    `settings`: keys of it set anew; `change` may alter the scenario after reading. `progress` as of `planner.plan`.
    Raises InputError where the file cannot be used, naming its keys; InfeasibleError.
    """
    chosen = tuple(Setting(key=key, value=value) for key, value in (settings or {}).items())
    return _planned(change(files.load_scenario(Path(path), summarize, chosen)), progress)


def load_plan(path: str | Path) -> PlannedDeployment:
    """A saved plan: a run folder or its plan.json. Raises InputError where it is none, or contradicts itself.

    >>> plan = planner.load_plan("runs/mixed-fleet")
    """
    return plan_of(Path(path))


def load(path: str | Path) -> Any:
    """What a command or `.save` wrote there: a plan (or its plan.json), a fleet, schedule, watch, sweep or batch.

    >>> plan = planner.load("runs/mixed-fleet")

    Raises InputError where it is none of these, was edited, or contradicts itself.
    """
    folder = Path(path)
    if not files.is_there(folder):
        raise InputError(
            f"{path}: there is no such file or folder.",
            hint=f"Paths are relative to {Path.cwd()}; planner.plan(...).save(path) writes one.",
        )
    if not files.is_folder(folder) or files.holds_run(folder):
        return load_plan(folder)
    return _of_folder(folder)


def _of_folder(folder: Path) -> Any:
    from planner.api.comparisons import PlannedBatch, SweptScenario
    from planner.api.schedules import load_schedule
    from planner.api.watches import load_watch
    from planner.files.plan.batches.indexes import holds_batch, holds_sweep
    from planner.files.plan.fleet_document import holds_fleet
    from planner.files.plan.stored_schedules import holds_schedule
    from planner.files.plan.watch_folders import holds_watch
    from planner.runs.batches.batches import read_batch
    from planner.runs.batches.sweeps import read_sweep

    if holds_fleet(folder):
        return load_fleet_folder(folder)
    if holds_schedule(folder):
        return load_schedule(folder)
    if holds_watch(folder):
        return load_watch(folder)
    if holds_sweep(folder):
        return SweptScenario(read_sweep(folder), folder)
    if holds_batch(folder):
        return PlannedBatch(read_batch(folder), folder)
    raise InputError(
        f"{folder}: must be the folder of a plan, a fleet, a schedule, a watch, a sweep or a batch; it holds none.",
        hint="Give the folder that holds plan.json, fleet.json, schedule.json, watch.jsonl, sweep.json or batch.json.",
    )
