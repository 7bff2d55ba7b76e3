"""A plan as the files of its run folder."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from planner import export, files, report
from planner.domain import Cluster, DeploySettings, InputHash, PlacementSettings, Plan, Scenario
from planner.errors import ExportError, InputError
from planner.report.kit.tables import frame_csv
from planner.runs.deployments import DEFAULT_TARGET, render_plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """Relative path -> content, and what the reader must be told."""

    files: dict[str, bytes]
    warnings: tuple[str, ...] = ()


def require_deployable(scenario: Scenario, engine: str) -> None:
    """Refuse, before anything is searched, what `deploy` asks for and no manifests can have.

    Raises InputError and ExportError as `export.render` does.
    """
    settings = scenario.deploy
    if settings != DeploySettings():
        export.check_deployable(scenario, engine, settings.target or DEFAULT_TARGET, settings.router, settings)


def publish(plan: Plan, *, engine: str = "", figures: bool = True) -> Publication:
    """Every file of the run folder, its `figures` where they are wanted; nothing is written here.

    Where manifests cannot be made (a reference-mode plan may ask for degrees that no engine has, a model may lack a
    usable location), the run is published without them, and says so: a finished search is not thrown away.
    Raises InconsistentPlanError where anything fails to add up.
    """
    contents = {
        **files.plan_files(plan),
        "islands.csv": frame_csv(report.islands_frame(plan)),
        **({"pools.csv": frame_csv(report.pools_frame(plan))} if plan.outlook.pools else {}),
        **({"latency.csv": frame_csv(report.latency_frame(plan))} if plan.outlook.pools else {}),
        "routing.csv": frame_csv(report.routing_frame(plan)),
        "trials.csv": frame_csv(report.trials_frame(plan)),
        **({"flows.csv": frame_csv(report.flows_frame(plan))} if plan.flows else {}),
        **({"placement.csv": frame_csv(report.placement_frame(plan))} if plan.placement else {}),
        **({"sites.csv": frame_csv(report.sites_frame(plan))} if plan.placement else {}),
        **report.render(plan, drawn=figures),
    }
    try:
        # a scenario that says how it is deployed is told what that does to its promise
        rendered = render_plan(plan, engine=engine, price_router=plan.scenario.deploy != DeploySettings())
    except (ExportError, InputError) as error:
        note = f"no manifests were written: {error}"
        unwritten = {"manifests/NOT-WRITTEN.txt": f"{note}\n".encode()}
        return Publication(files=contents | unwritten, warnings=(*_strange_prices(plan), note))
    manifests = {f"manifests/{name}": content for name, content in rendered.folder.items()}
    # the rest stands in their comments
    return Publication(files=contents | manifests, warnings=(*_strange_prices(plan), *rendered.losses))


def _strange_prices(plan: Plan) -> tuple[str, ...]:
    """Prices of types that nobody knows: other types', or slips of the pen."""
    unused = plan.scenario.inventory.unused_prices
    shipped = files.load_gpu_specs() if unused else {}
    strangers = [gpu for gpu in unused if gpu not in shipped]
    return tuple(f"price not used: {gpu} is no GPU type that the planner knows" for gpu in strangers)


def scenario_on(
    saved: Plan, cluster: Cluster, settings: PlacementSettings, inputs: Iterable[InputHash] = ()
) -> Scenario:
    """The plan's own scenario with a cluster and its settings; `inputs`: the files that they were read from.

    Raises InputError where the plan was searched for on another cluster.
    """
    old = saved.scenario
    if old.objective.kind.row.placed and old.cluster != cluster:
        raise InputError(
            f"plan {old.name}: objective.kind placed: its layout was chosen for cluster "
            f"{old.cluster.name if old.cluster else '?'}, got {cluster.name}.",
            hint="Plan the scenario again with the other cluster, or set `objective: rate`, whose plans may be placed "
            "on any.",
        )
    if old.objective.kind.row.placed and settings.exchange:
        raise InputError(
            f"plan {old.name}: placement.exchange: does not go with objective.kind placed, which compares layouts "
            f"whose servers have other names, got {settings.exchange!r}.",
            hint="Leave it out, or set `objective: rate` and plan again.",
        )
    earlier = tuple(item for item in old.inputs if item not in set(inputs))
    return replace(old, cluster=cluster, placement=settings, inputs=(*earlier, *inputs))
