"""A plan as manifests: brought onto a router's grid first where the target routes by one."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from planner import export, files
from planner.domain import DeploySettings, Plan, RouterGrid
from planner.domain.serving.deploy import ExportRecord
from planner.export.found import FoundWorkload
from planner.files.cluster.flextopo_files import flextopo_document
from planner.plans.provenance import planner_version
from planner.plans.router_grid import CELLS, MOST_CELLS, grid_of
from planner.runs import runbook
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
        """Name -> content of every file of the folder: the manifests, what images are built from, the page on how to
        apply them, and the record."""
        texts = {**self.files, **self.images, runbook.FILE: self.page}
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
