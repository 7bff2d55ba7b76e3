"""A plan as manifests: brought onto a router's grid first where the target routes by one.

A fleet as manifests: a folder for each deployment, which its own export writes, and one for what they share.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from planner import export, files
from planner.domain import DeploySettings, Plan, RouterGrid
from planner.domain.fleets import FleetPart, FleetPlan
from planner.domain.schedules import Schedule
from planner.domain.serving.deploy import HOUR_NAMES, KEDA, ExportRecord
from planner.errors import InputError
from planner.export.found import FoundWorkload
from planner.files.cluster.flextopo_files import flextopo_document
from planner.plans.provenance import planner_version
from planner.plans.router_grid import CELLS, MOST_CELLS, grid_of
from planner.replanning.days.autoscaled import level_share, spare_rps, usual_hours
from planner.runs import runbook
from planner.runs.replanning.kustomizing import kustomization_files
from planner.runs.replays.router_losses import routed_plan, router_loss

DEFAULT_TARGET = "lws"
WARNING_MARK = "# WARNING: "
MOST_COST = 0.03
"""Share of the plan's rate above which it is told what gives up less."""
WORTH_TELLING = 0.005
"""Share of the plan's rate that more cells must win back to be advised."""
FINER = 4
"""Times as many cells as the grid has, to see whether a finer one gives up less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """Manifests (file name -> text), the plan that they deploy, the grid that it was brought onto (None: as it is), the
    engine that they start, target and router, what the reader must be told, what the
    router gives up (`losses`, among the warnings), the `page` of commands, what `images` are built from that no
    registry has (path -> text), and what decided: the plan (`planned`), `options`, `cells`, `topology_objects`."""

    files: dict[str, str]
    plan: Plan
    grid: RouterGrid | None = None
    engine: str = ""
    target: str = ""
    router: str = export.NO_ROUTER
    warnings: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    page: str = ""
    images: Mapping[str, str] = field(default_factory=dict)
    planned: Plan
    options: DeploySettings
    cells: int
    topology_objects: bool

    @property
    def record(self) -> ExportRecord:
        """What decided, as it stands beside the manifests. Of plans that serve: not of every step on the way."""
        return ExportRecord(
            planner=planner_version(),
            plan_digest=files.plan_digest(self.planned),
            target=self.target,
            engine=self.engine,
            router=self.router,
            cells=self.cells,
            topology_objects=self.topology_objects,
            options=self.options,
        )

    @property
    def folder(self) -> dict[str, bytes]:
        """Name -> content of every file of the folder: the manifests and their order, what images are built from, the
        page on how to apply them, and the record."""
        texts = {**self.files, **kustomization_files(self.files), **self.images, runbook.FILE: self.page}
        encoded = {name: text.encode() for name, text in texts.items()}
        return encoded | {files.EXPORT_RECORD_FILE: files.export_record_text(self.record)}


def render_plan(
    plan: Plan,
    *,
    target: str = "",
    engine: str = "",
    options: export.ExportOptions | None = None,
    cells: int = CELLS,
    schemas: export.CrdSchemas | None = None,
    topology_objects: bool = False,
    router: str = "",
    price_router: bool = False,
    running: Mapping[str, FoundWorkload] = MappingProxyType({}),
) -> Rendered:
    """Manifests of `plan` for `target`; `cells` of prompt length where the target's router has a grid.

    Target, router and options are the scenario's where they are not given. `topology_objects`: with those of the nodes
    that the plan lies on. `price_router`: a replay tells what the router gives up of the promise. `running`: island ->
    what runs it and is left as it is.

    Raises what `export.render`, `export.node_files` and `router_grid.grid_of` raise.
    """
    settings = options or plan.scenario.deploy
    target, router = target or settings.target or DEFAULT_TARGET, router or settings.router
    topology = topology_files(plan, schemas) if topology_objects else {}
    routed, grid = routed_plan(plan, target=target, cells=cells)
    texts = export.render(
        routed,
        target=target,
        engine=engine,
        options=settings,
        schemas=schemas,
        grid=grid,
        router=router,
        running=running,
    )
    texts = {**texts, **topology}
    engine_name = export.priced_engine(routed, engine).name
    chosen_router = export.NO_ROUTER if _gave_way(texts) else export.chosen_router(export.TARGETS[target], router)
    losses = _router_losses(routed, chosen_router) if price_router else ()
    page = runbook.runbook(routed, texts, target=target, engine=engine_name, router=chosen_router)
    return Rendered(
        files=texts,
        page=page,
        planned=plan,
        options=replace(settings, target=target, router=router),
        cells=cells,
        topology_objects=topology_objects,
        images=export.image_files(texts),
        plan=routed,
        grid=grid,
        engine=engine_name,
        target=target,
        router=chosen_router,
        losses=losses,
        warnings=(*_grid_warnings(plan, grid), *losses, *_file_warnings(texts)),
    )


def options_of_schedule(
    plan: Plan, schedule: Schedule, settings: DeploySettings, *, engine: str = ""
) -> DeploySettings:
    """The settings with what a schedule tells autoscalers: the hours' floors, where these follow a clock, and what is
    kept ready for rises while a copy starts. Raises what `export.render` raises."""
    keda = settings.autoscaling == KEDA
    hours = usual_hours(schedule.series) if keda else ()
    target = settings.target or DEFAULT_TARGET
    start_s = export.slowest_start_s(plan, target=target, engine=engine, options=settings, router=settings.router)
    spare = spare_rps(schedule.series, hours, start_s, level_share(plan))
    of_hours = tuple((name, float(f"{rate:.6g}")) for name, rate in zip(HOUR_NAMES, hours, strict=bool(hours)))
    return replace(settings, hours_rps=of_hours, spare_rps=float(f"{spare:.6g}"))


def _gave_way(files: Mapping[str, str]) -> bool:
    """Whether the target's own router could not execute the routing, as the table's head then says."""
    return any(f'"{export.UNROUTED}": ' in text for name, text in files.items() if name.startswith("routing."))


def _router_losses(plan: Plan, router: str) -> tuple[str, ...]:
    loss = "" if router == export.NO_ROUTER else router_loss(plan, router)
    return (loss,) if loss else ()


def topology_files(plan: Plan, schemas: export.CrdSchemas | None = None) -> dict[str, str]:
    """NodeResourceTopology and FlexTopo objects of the nodes that the plan lies on: file name -> text, checked.

    Raises what `export.node_files` raises; InputError where it is not known which GPUs a running pod holds.
    """
    from planner.placement.flextopo import flextopo  # noqa: PLC0415  # loads networkx, which few exports need

    size = plan.scenario.cluster.core_group_size if plan.scenario.cluster else 1
    topos = [flextopo(node, export.node_pods(plan, node), size) for node in export.placed_nodes(plan)]
    texts = export.node_files(plan, [flextopo_document(topo) for topo in topos])
    export.check_manifests(texts, plan, schemas)
    return texts


def _grid_warnings(plan: Plan, grid: RouterGrid | None) -> tuple[str, ...]:
    if grid is None:
        return ()
    text = f"routed by {len(grid.prefill.cells)} cells of {grid.prefill.width} tokens: {grid.cost_text}"
    advice = _advice(plan, grid) if grid.cost > MOST_COST else []
    return ("; ".join([text, ", or ".join(advice)]) if advice else text,)


def _advice(plan: Plan, grid: RouterGrid) -> list[str]:
    """What gives up less: more cells where they do, and ranges on the grid where the plan has others."""
    cells, advice, best = len(grid.prefill.cells), [], grid
    more = min(MOST_CELLS, FINER * cells)
    if more > cells and (finer := grid_of(plan, more)).cost < grid.cost - WORTH_TELLING:
        advice.append(f"{more} cells give up {max(0.0, finer.cost):.1%}")
        best = finer
    if plan.scenario.ranges.width not in (grid.prefill.width, best.prefill.width):
        advice.append(f"plan with ranges on the grid (`ranges: {{cells: {len(best.prefill.cells)}}}`)")
    return advice


def _file_warnings(files: Mapping[str, str]) -> tuple[str, ...]:
    """What the files' comments warn of, each once, with the first file that does."""
    first: dict[str, str] = {}
    for file, text in files.items():
        for line in text.splitlines():
            if line.startswith(WARNING_MARK):
                first.setdefault(line.removeprefix(WARNING_MARK), file)
    return tuple(f"{file}: {warning}" for warning, file in first.items())


SHARED = "fleet"
"""The folder of what all deployments share."""
GATEWAY = "inference-gateway"
_PRIORITY_FILE = "priority-class.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedFleet:
    """`deployments`: folder -> its export; `shared`: name -> text of the front, priorities and quotas; `page`: which
    name a client sends, and what is applied."""

    deployments: Mapping[str, Rendered]
    shared: Mapping[str, str]
    page: str

    @property
    def folder(self) -> dict[str, bytes]:
        """Path -> content of every file."""
        texts = {**self.shared, runbook.FILE: self.page}
        written = {f"{SHARED}/{name}": text.encode() for name, text in texts.items()}
        for name, rendered in self.deployments.items():
            written |= {f"{name}/{file}": content for file, content in rendered.folder.items()}
        return written

    @property
    def manifests(self) -> dict[str, str]:
        """Path -> text of what holds objects."""
        texts = {f"{SHARED}/{name}": text for name, text in self.shared.items()}
        for name, rendered in self.deployments.items():
            texts |= {f"{name}/{file}": text for file, text in rendered.files.items()}
        return texts

    @property
    def warnings(self) -> tuple[str, ...]:
        """Of all deployments."""
        return tuple(
            f"{name}: {warning}" for name, rendered in self.deployments.items() for warning in rendered.warnings
        )


def render_fleet(
    fleet_plan: FleetPlan,
    *,
    target: str = "",
    engine: str = "",
    router: str = "",
    queues: bool = False,
    gateway: str = GATEWAY,
    schemas: export.CrdSchemas | None = None,
) -> RenderedFleet:
    """Manifests of every deployment, and what routes requests to them by model. `queues`: Kueue admits them, by quotas
    that sum to the inventory. `gateway`: the Gateway of targets whose deployments are InferencePools.

    Raises what `render_plan` raises; ExportError where a deployment has no entry, or two objects one name; InputError
    where two deployments are called alike, or a service has a name that no request can carry.
    """
    _require_folders(fleet_plan)
    fleet = export.fleet_label(fleet_plan)
    classes = export.priority_files(fleet_plan, fleet)
    options = {
        part.name: _options(fleet_plan, part, fleet, target, classed=bool(classes), queues=queues)
        for part in fleet_plan.plans
    }
    deployments = {
        part.name: _without_class(
            render_plan(
                part.plan, target=target, engine=engine, options=options[part.name], router=router, schemas=schemas
            )
        )
        for part in fleet_plan.plans
    }
    entries = {
        part.name: export.entry_of(
            part, deployments[part.name].files, deployments[part.name].target, options[part.name].served_names
        )
        for part in fleet_plan.plans
    }
    shared = {
        **export.fleet_front_files(fleet_plan, entries, fleet, gateway),
        **classes,
        **(export.queue_files(fleet_plan, fleet, options) if queues else {}),
    }
    shared |= kustomization_files(shared)
    rendered = RenderedFleet(
        deployments={export.slug(name): deployment for name, deployment in deployments.items()},
        shared=shared,
        page=runbook.fleet_page(fleet_plan.fleet.name, export.service_routes(fleet_plan, entries), shared),
    )
    export.check_together(rendered.manifests, schemas)
    return rendered


def _require_folders(fleet_plan: FleetPlan) -> None:
    """InputError where two deployments would be called alike."""
    owners: dict[str, str] = {SHARED: "what all share"}
    for part in fleet_plan.plans:
        label = export.slug(part.name)
        if label in owners:
            raise InputError(
                f"Deployment {part.name}: must differ in letters or digits from {owners[label]}, both are {label!r}.",
                hint="Rename the service.",
            )
        owners[label] = part.name


def _options(
    fleet_plan: FleetPlan, part: FleetPart, fleet: str, target: str, *, classed: bool, queues: bool
) -> export.ExportOptions:
    """A deployment's own options, whose names tell it from the others, and by whose names its services are served."""
    asked_for = part.plan.scenario.deploy
    label = export.slug(part.name)
    return replace(
        asked_for,
        served_names=_served_names(part, target or asked_for.target or DEFAULT_TARGET),
        name=f"{asked_for.name}-{label}" if asked_for.name else "",
        model_volume=f"{asked_for.model_volume}-{label}" if asked_for.model_volume else "",
        priority_class=export.class_name(fleet, export.place_of(fleet_plan, part))
        if classed
        else asked_for.priority_class,
        queue=export.queue_name(fleet, part) if queues else asked_for.queue,
    )


def _served_names(part: FleetPart, target: str) -> tuple[str, ...]:
    """The names of the services that it serves, and its scenario's; none where the target cannot carry any."""
    chosen = export.TARGETS.get(target)
    if chosen is None or "served_names" in chosen.unheeded:
        return ()
    services = (service for service, share in part.deployment.parts if share > 0)
    return tuple(dict.fromkeys((*services, *part.plan.scenario.deploy.served_names)))


def _without_class(rendered: Rendered) -> Rendered:
    """The class of a place in the order is the fleet's, and is written once."""
    if _PRIORITY_FILE not in rendered.files:
        return rendered
    files = {name: text for name, text in rendered.files.items() if name != _PRIORITY_FILE}
    page = runbook.runbook(rendered.plan, files, target=rendered.target, engine=rendered.engine, router=rendered.router)
    return replace(rendered, files=files, page=page)
