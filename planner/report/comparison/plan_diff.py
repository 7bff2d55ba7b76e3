"""A deployed plan, and what changes between two, as reports."""

from collections.abc import Iterator, Sequence

from planner.domain import PHASES, DeployedIsland, DeployedPlan
from planner.domain.deployed import (
    BucketComparison,
    ChangedValue,
    GpuChange,
    IslandChange,
    IslandFate,
    PlanDiff,
    RouteChange,
)
from planner.report.comparison.changes import diff_head, figures_change
from planner.report.comparison.side_by_side import rate_sentence
from planner.report.kit.markdown import escaped, listed
from planner.report.kit.quantities import NONE, counted, percent, rate
from planner.report.kit.tables import Column, counts, fields, table_of
from planner.report.kit.tree import Block, DataTable, Page, Section, paragraphs, section

_HAPPENS = {
    IslandFate.UNCHANGED: "stays as it is",
    IslandFate.RENAMED: "is renamed",
    IslandFate.SCALED: "gets other copies, those that stay keep running",
    IslandFate.RESTARTED: "restarts",
    IslandFate.ADDED: "starts",
    IslandFate.REMOVED: "stops",
}
_ORDER = tuple(_HAPPENS)
_UNITS = {"longest_prompt": "tokens", "host_cache_gb": "GB", "disk_cache_gb": "GB"}
_PODS_NOT_COMPARED = (
    "Pods are not compared: a run tells nothing of images, cores, memory, queues or pins (two folders of manifests do)."
)
_MOST_TOLD = 3
"""Fields of an island's pods that the page tells."""
_MOST_CHARACTERS = 80


def deployed_page(plan: DeployedPlan) -> Page:
    """A deployed plan: how many islands and routes, and each island."""
    gpus = ", ".join(f"{count} {escaped(gpu)}" for gpu, count in plan.gpus.items())
    ranges = len({(r.range_start, r.range_end) for r in plan.routes})
    routes = f"{counted(len(plan.routes), 'route')} over {counted(ranges, 'length range')}."
    head = [
        f"Model {escaped(plan.model)}, {_labelled('engine', plan.engine)}, {_labelled('target', plan.target)}.",
        f"{counted(len(plan.islands), 'island')} on {gpus}.",
        routes if plan.routes else "No routing table.",
    ]
    columns: tuple[Column[DeployedIsland], ...] = (
        *fields("Island=id", "Phase=phase", "GPU=gpu"),
        *counts("GPUs=size"),
        Column("Degrees", _degrees),
        *counts("Batch=batch_size", "Longest prompt=longest_prompt"),
        Column("requests/s", lambda island: island.rate_rps, rate),
    )
    return Page(title=f"Deployed plan {plan.name}", lead=(*listed(head), table_of(columns, plan.islands).block()))


def _labelled(noun: str, value: str) -> str:
    return f"{noun} {escaped(value)}" if value else f"{noun} not told"


def _degrees(island: DeployedIsland) -> str:
    parallel = island.parallel
    return f"{parallel.replicas} x pp {parallel.pp} x dp {parallel.dp} x tp {parallel.tp}"


def diff_page(diff: PlanDiff) -> Page:
    """What changes."""
    same = f"Nothing changes: {counted(len(diff.islands), _noun(diff))} as before, every request where it was."
    lines = [*_head_lines(diff), *_counts(diff), *_rates(diff), *_notes(diff), *_not_compared(diff)]
    figures = [diff_head(diff.figures)] if diff.figures is not None and figures_change(diff.figures) else []
    unchanged = paragraphs(same, "" if diff.pods_compared else _PODS_NOT_COMPARED)
    sections = (
        section("islands", f"{_noun(diff).capitalize()}s", _island_table(diff.islands)),
        *(_bucket_parts(diff.buckets) if diff.buckets is not None else ()),
        section("gpus", "GPUs", _gpu_table(diff.gpus), *listed([_surge(change) for change in diff.gpus])),
        section("routes", "Routes", *_route_parts(diff)),
    )
    return Page(
        title=f"From {diff.old} to {diff.new}",
        lead=(*figures, *(listed(lines) if diff.differs else unchanged)),
        sections=sections if diff.differs else (),
    )


def changes_section(diff: PlanDiff) -> Section:
    """What changes, as a part of the new plan's report."""
    page = diff_page(diff)
    return Section(
        name="changes",
        title=f"Changed since {diff.old}",
        blocks=page.lead,
        folded=tuple(block for part in page.sections for block in (*paragraphs(f"**{part.title}**"), *part.blocks)),
        fold="What starts, stops, restarts and is routed anew",
    )


def _head_lines(diff: PlanDiff) -> Iterator[str]:
    for change in diff.head:
        restarts = ": every island restarts" if change.field in diff.restart_reasons else ""
        field = escaped(change.field[0].upper() + change.field[1:])
        yield f"{field}: {escaped(change.old)} → {escaped(change.new)}{restarts}."


def _counts(diff: PlanDiff) -> Iterator[str]:
    fates = [change.fate for change in diff.islands]
    counts = [f"{fates.count(fate)} {fate.value}" for fate in _ORDER if fate in fates]
    if counts:
        yield f"{_noun(diff).capitalize()}s: {', '.join(counts)}."


def _noun(diff: PlanDiff) -> str:
    """What the islands of plans of buckets are called."""
    return "island" if diff.buckets is None else "pool"


def _bucket_parts(buckets: BucketComparison) -> Iterator[Section]:
    """What servers are started with, cut points, and what is promised."""
    yield section("buckets", "Buckets and servers", table_of(_CHANGED, buckets.deployed).block())
    yield section("figures", "Promise and times", table_of(_CHANGED, buckets.figures).block())


_CHANGED: tuple[Column[ChangedValue], ...] = (
    Column("", lambda change: change.field),
    Column("old", lambda change: change.old, right=True),
    Column("new", lambda change: change.new, right=True),
)


def _rates(diff: PlanDiff) -> Iterator[str]:
    if diff.rates is not None:
        yield rate_sentence(diff.rates, diff.old, diff.new)


def _notes(diff: PlanDiff) -> Iterator[str]:
    """Object names come from the names of plan and island: what is called otherwise is applied beside the old."""
    renamed = [change for change in diff.islands if change.renamed]
    if renamed:
        yield (
            f"{counted(len(renamed), 'island')} under another name: objects are named after islands, so it keeps "
            "running only if the old objects stay."
        )
    if any(change.field == "name" for change in diff.head):
        yield (
            "The plan's name differs, and objects are named after it: export the new plan under the old name "
            "(`planner export --name`) to change the objects that are there."
        )


def _not_compared(diff: PlanDiff) -> Iterator[str]:
    if not diff.pods_compared and not diff.restart_reasons:
        yield _PODS_NOT_COMPARED


def _island_table(islands: Sequence[IslandChange]) -> DataTable:
    columns: tuple[Column[IslandChange], ...] = (
        Column("Island", _name, str, right=False),
        Column("It", lambda change: _HAPPENS[change.fate]),
        Column("Changes", _content, str, right=False),
    )
    ordered = (change for fate in _ORDER[::-1] for change in islands if change.fate is fate)
    return table_of(columns, ordered).block()


def _name(change: IslandChange) -> str:
    if change.renamed and change.old is not None and change.new is not None:
        return f"{escaped(change.old.id)} → {escaped(change.new.id)}"
    return escaped(change.id)


def _content(change: IslandChange) -> str:
    if change.old is None or change.new is None:
        island = change.new or change.old
        assert island is not None
        return f"{island.phase.value} on {island.size} {escaped(island.gpu)}, {_degrees(island)}"
    changes = [
        f"{c.field.replace('_', ' ')} {escaped(c.old)} → {escaped(c.new)} {_UNITS.get(c.field, '')}".strip()
        for c in change.changes
    ]
    return ", ".join([*changes, *_pods_told(change.pods)]) or NONE


def _pods_told(changes: Sequence[ChangedValue]) -> Iterator[str]:
    """The first fields of the pods that differ, and how many more do."""
    for field in changes[:_MOST_TOLD]:
        yield f"{escaped(field.field)} {_short(field.old)} → {_short(field.new)}"
    if len(changes) > _MOST_TOLD:
        yield f"and {counted(len(changes) - _MOST_TOLD, 'more field')} of its pods"


def _short(text: str) -> str:
    return escaped(text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]} …")


def _gpu_table(gpus: Sequence[GpuChange]) -> DataTable:
    peaks = ("peak, starting first=peak_surging", "peak, stopping first=peak_stopping_first", "there are=inventory")
    return table_of((*fields("GPU=gpu"), *counts("old", "new", "started", "stopped", *peaks)), gpus).block()


def _surge(change: GpuChange) -> str:
    gpu = escaped(change.gpu)
    if not change.started:
        return f"{gpu}: nothing starts."
    need = f"{gpu}: starting the new before stopping the old takes {change.peak_surging} GPUs at once"
    if change.missing_to_surge is None:
        return f"{need}; how many there are is not told."
    if change.missing_to_surge:
        return f"{need}, {change.missing_to_surge} more than there are: some of the old have to stop first."
    return f"{need}, and there are {change.inventory}."


def _route_parts(diff: PlanDiff) -> Iterator[Block]:
    if not diff.routes:
        yield from paragraphs("No request changes island.")
        return
    yield _route_table(diff.routes)
    rows = [(phase.value, share) for phase in PHASES if (share := diff.moved_of_all(phase)) is not None]
    if rows:
        moved = " and ".join(f"{percent(share)} change island in {phase}" for phase, share in rows)
        yield from paragraphs(f"Of all requests, {moved}.")


def _route_table(routes: Sequence[RouteChange]) -> DataTable:
    columns: tuple[Column[RouteChange], ...] = (
        *fields("Phase=phase"),
        Column("Tokens", lambda change: f"{change.range_start}–{change.range_end - 1}"),
        Column("Of all requests", lambda change: change.probability, percent),
        Column("Of these move", lambda change: change.moved, percent),
        Column("from", lambda change: _shares(change.lost), str, right=False),
        Column("to", lambda change: _shares(change.gained), str, right=False),
    )
    return table_of(columns, routes).block()


def _shares(rows: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{escaped(name)} {percent(share)}" for name, share in rows) or "nobody"
