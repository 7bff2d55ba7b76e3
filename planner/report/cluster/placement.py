"""Where the islands lie, and what that leaves of the cluster, in words and tables."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from planner.domain import (
    ClusterState,
    FragmentShare,
    IslandSite,
    Placement,
    Plan,
    PlannedIsland,
    ScorePart,
    Shortfall,
    Victim,
)
from planner.report.kit.markdown import escaped, listed
from planner.report.kit.quantities import NONE, counted, percent, rate, significant, whole
from planner.report.kit.tables import Column, counts, fields, matrix, of_part, table_of
from planner.report.kit.tree import Block, DataTable, paragraphs

MOST_ROWS = 30
"""Rows of a table; the rest are counted."""

LISTED_SHORTFALLS = 12
NAMED_ISLANDS = 3
FELT = 5e-4
"""Of a rate: less is not told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteGroup:
    """Islands of one type, phase and size that lie equally well."""

    island: PlannedIsland | None
    sites: tuple[IslandSite, ...]

    @property
    def first(self) -> IslandSite:
        """Any of them."""
        return self.sites[0]


def placement_details(plan: Plan, placed: Placement) -> tuple[Block, ...]:
    """What lies behind the lead: what has no nodes, the cluster before and after, islands, pods to evict, the score."""
    return (
        *_servers_without_room(plan),
        states_table(plan, placed),
        *(_sites(plan, placed) if placed.sites else ()),
        *_shortfalls(placed.shortfalls),
        *(_victims(placed) if placed.victims else ()),
        *_terms(placed),
    )


def _servers_without_room(plan: Plan) -> tuple[Block, ...]:
    """Pools that lie on nodes, though not with all of their servers."""
    rows = [f"{escaped(i.id)}: {escaped(i.note)}." for i in plan.islands if i.phase is not None and i.note]
    return (*paragraphs("**Not all servers have nodes:**" if rows else ""), *listed(rows))


def placement_lead(plan: Plan, placed: Placement) -> str:
    """How many have nodes, how well they lie, what that costs."""
    sites, noun = placed.sites, plan.form.row.part
    total = len(sites) + len(placed.shortfalls)
    gpus = sum(site.gpus for site in sites)
    parts = [
        f"**{whole(len(sites))} of {counted(total, noun)} {'has' if total == 1 else 'have'} nodes** in cluster "
        f"{escaped(placed.cluster)}: {counted(gpus, 'GPU')} of {counted(_nodes(placed), 'node')}."
    ]
    if sites:
        aligned = sum(site.aligned for site in sites)
        cross = sum(bool(site.crossing_replicas) for site in sites)
        parts.append(
            f"{whole(aligned)} of {whole(len(sites))} {'is' if aligned == 1 else 'are'} aligned with sockets and NUMA "
            f"nodes in every attention group; {whole(cross)} {'has' if cross == 1 else 'have'} replicas that straddle "
            "access switches."
        )
    parts += _domains(sites)
    parts += _spread(plan)
    if any(not asw for site in sites for asw, _ in site.switches):
        parts.append("The cluster does not say which access switches some nodes hang on; those count as one switch.")
    return " ".join([*parts, *_rates(placed), *_losers(placed), *_evicted(placed), *_judged(placed)])


def _losers(placed: Placement) -> list[str]:
    """The islands that lie worse than under one switch, those that lose most first."""
    losers = sorted((site for site in placed.sites if site.lost_share >= FELT), key=lambda site: -site.lost_rps)
    if not losers:
        return []
    costs = [
        f"{escaped(site.island)} {rate(site.lost_rps)} ({100 * site.lost_share:.1f} %)"
        for site in losers[:NAMED_ISLANDS]
    ]
    more = [f"{whole(len(losers) - NAMED_ISLANDS)} more less than that"] if len(losers) > NAMED_ISLANDS else []
    return [
        f"**Topology costs** {', '.join([*costs, *more])} of the requests/s that they could serve under one switch."
    ]


def _domains(sites: Iterable[IslandSite]) -> list[str]:
    """Said where islands lie in NVLink domains of several nodes."""
    inside = [site for site in sites if site.domains]
    if not inside:
        return []
    apart = sum(len(site.domains) > 1 or site.crossing_domains > 0 for site in inside)
    lead = f"{whole(len(inside) - apart)} of {whole(len(inside))} in NVLink domains of several nodes lie in one each"
    leaving = [site.island for site in inside if site.crossing_domains]
    return [f"{lead}; copies of {_names(leaving)} leave theirs for the slower network." if leaving else f"{lead}."]


def _spread(plan: Plan) -> list[str]:
    """Said of pools whose servers may not share nodes as they like."""
    islands = {island: plan.per_node(island) for island in (i.id for i in plan.islands)}
    limits = [f"{whole(per_node)} of {escaped(island)}" for island, per_node in islands.items() if per_node]
    further = (
        [f"{whole(len(limits) - NAMED_ISLANDS)} pools more are spread, too"] if len(limits) > NAMED_ISLANDS else []
    )
    listed = ", ".join([*limits[:NAMED_ISLANDS], *further])
    return [f"No node has more servers than losses of nodes count on: {listed}."] if limits else []


def _evicted(placed: Placement) -> list[str]:
    if not placed.victims:
        return []
    count = len(placed.victims)
    return [f"**{counted(count, 'pod')} {'has' if count == 1 else 'have'} to go first**{_lost_work(placed.victims)}."]


def _judged(placed: Placement) -> list[str]:
    if placed.judged_rps is None or not placed.victims:
        return []
    less = placed.placed_rps - placed.judged_rps
    return [
        f"Lost work counts {rate(less)} requests/s: where every layout is placed, this one is judged by "
        f"{rate(placed.judged_rps)} requests/s."
    ]


def _nodes(placed: Placement) -> int:
    return len({part.node for part in placed.parts})


def _rates(placed: Placement) -> list[str]:
    if not placed.unplaced_rps or not placed.placed_rps:
        return []
    change = placed.placed_rps / placed.unplaced_rps - 1
    if abs(change) < FELT:
        return [f"Where they lie costs no rate: {rate(placed.placed_rps)} requests/s, as before placement."]
    return [
        f"Where they lie, they serve {rate(placed.placed_rps)} requests/s; laid out compactly it was "
        f"{rate(placed.unplaced_rps)} ({100 * change:+.1f} %)."
    ]


def states_table(plan: Plan, placed: Placement) -> DataTable:
    """The cluster before and after, over the GPU types that the plan uses."""
    cells: list[tuple[str, Callable[[ClusterState], str]]] = [
        ("GPUs of the plan's types", lambda state: whole(state.gpus)),
        ("Held", lambda state: f"{whole(state.allocated)} ({percent(state.allocation)})"),
        ("Idle", lambda state: whole(state.idle)),
        ("Idle, free for guaranteed work", lambda state: whole(state.headroom_gpus)),
        ("Nodes whose GPUs are all idle", lambda state: whole(state.empty_nodes)),
        ("Power, held GPUs at full draw (kW)", lambda state: significant(state.watts / 1000)),
        *(cell for fragment in placed.before.fragments for cell in _fragment_cells(fragment)),
    ]
    rows = [(name, (cell(placed.before), cell(placed.after))) for name, cell in cells]
    at_load_w = plan.loaded_w
    if at_load_w is not None:
        loads = (significant(placed.before.watts / 1000), significant(at_load_w / 1000))
        place = 1 + next(k for k, (name, _) in enumerate(rows) if name.startswith("Power"))
        rows.insert(place, ("Power, the plan's GPUs at their load (kW)", loads))
    if placed.unplaced_rps and placed.placed_rps:
        rows.append(("Rate of the plan (requests/s)", (rate(placed.unplaced_rps), rate(placed.placed_rps))))
    return matrix(("Before", "After"), rows, "Of the cluster").block()


def _fragment_cells(request_of: FragmentShare) -> Iterator[tuple[str, Callable[[ClusterState], str]]]:
    """What fits of requests of so many GPUs, and what is stranded for them."""
    gpus = request_of.gpus
    request = counted(gpus, "GPU")
    of_pods = f" ({percent(request_of.share)} of frequent sizes)" if request_of.share else ""

    def count(name: str) -> Callable[[ClusterState], str]:
        def cell(state: ClusterState) -> str:
            share = next((share for share in state.fragments if share.gpus == gpus), None)
            return whole(getattr(share, name)) if share else NONE

        return cell

    yield f"Requests of {request} that fit{of_pods}", count("fit")
    if gpus > 1:
        yield f"Idle GPUs stranded for {request}", count("stranded")


def site_groups(plan: Plan, sites: Iterable[IslandSite]) -> list[SiteGroup]:
    """Islands that a reader need not tell apart: those not aligned first, then those across switches."""
    islands = {island.id: island for island in plan.islands}
    by_kind: dict[tuple[object, ...], list[IslandSite]] = {}
    for site in sites:
        island = islands.get(site.island)
        kind = (island.gpu, island.phase) if island else ("", None)
        lies = (site.gpus, site.nodes, site.asws, f"{site.entropy:.4f}", site.aligned, site.worst)
        inside = (len(site.domains), site.crossing_domains, f"{site.rate_rps:.4g}", f"{site.ideal_rps:.4g}")
        by_kind.setdefault((*kind, *lies, site.crossing_replicas, *inside), []).append(site)
    grouped = [SiteGroup(island=islands.get(alike[0].island), sites=tuple(alike)) for alike in by_kind.values()]
    return sorted(grouped, key=lambda group: (group.first.aligned, not group.first.crossing_replicas))


def _sites(plan: Plan, placed: Placement) -> Iterator[Block]:
    """A row for islands that lie alike. Entropy is over the switches of an island, in nats: 0 under one switch."""
    groups = site_groups(plan, placed.sites)
    domains = any(site.domains for site in placed.sites)
    measured = any(site.ideal_rps for site in placed.sites)
    columns: tuple[Column[SiteGroup], ...] = (
        Column(f"{plan.form.row.part.capitalize()}s", lambda group: len(group.sites), whole),
        Column("Named", lambda group: _names([site.island for site in group.sites]), str, right=False),
        *of_part(lambda group: group.island, fields("GPU type=gpu", "Phase=phase")),
        Column("GPUs each", lambda group: group.first.gpus, whole),
        Column("Nodes each", lambda group: group.first.nodes, whole),
        Column("Switches each", lambda group: group.first.asws, whole),
        Column("Entropy", lambda group: group.first.entropy, lambda nats: f"{nats:.3f}" if nats else "0"),
        Column("Aligned", lambda group: "yes" if group.first.aligned else "**no**", str, right=False),
        Column("Worst group", lambda group: _WORDS[group.first.worst.value]),
        Column("Replicas across switches", lambda group: group.first.crossing_replicas, whole),
        *([Column("NVLink domains", _domain_names, str, right=False)] if domains else []),
        *(_RATES if measured else ()),
    )
    yield table_of(columns, groups[:MOST_ROWS]).block(f"{plan.form.row.part.capitalize()}s on nodes")
    unlisted = groups[MOST_ROWS:]
    if unlisted:
        yield from paragraphs(f"{_more(sum(len(group.sites) for group in unlisted), 'island')} in `placement.csv`.")


def _lost(group: SiteGroup) -> str:
    """What topology costs, in requests/s and percent; rates are told to a part in 2,000."""
    if group.first.lost_share < FELT:
        return "nothing"
    return f"{rate(group.first.lost_rps)} ({100 * group.first.lost_share:.1f} %)"


_RATES: tuple[Column[SiteGroup], ...] = (
    Column("Could serve (requests/s)", lambda group: group.first.rate_rps, rate),
    Column("Topology costs (requests/s)", _lost, str),
)


def _domain_names(group: SiteGroup) -> str:
    names = list(dict.fromkeys(name for site in group.sites for name, _ in site.domains))
    return _names(names) if names else NONE


_WORDS = {"numa": "in a NUMA node", "socket": "in a socket", "cross": "across sockets"}


def _names(names: list[str]) -> str:
    shown = [escaped(name) for name in names[:NAMED_ISLANDS]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def _more(count: int, noun: str) -> str:
    return f"{count:,} more {noun}{'' if count == 1 else 's'}"


def _shortfalls(shortfalls: tuple[Shortfall, ...]) -> tuple[Block, ...]:
    lines = []
    for lack in shortfalls[:LISTED_SHORTFALLS]:
        helps = "; ".join(escaped(remedy.rstrip(".")) for remedy in lack.remedies)
        lines.append(
            f"**{escaped(lack.island)}** ({whole(lack.gpus)} {escaped(lack.gpu)}) lacks {escaped(lack.resource)}: "
            f"{escaped(lack.reason.rstrip('.'))}." + (f" What would help: {helps}." if helps else "")
        )
    more = len(shortfalls) - LISTED_SHORTFALLS
    last = [f"{_more(more, 'island')} in `plan.json`."] if more > 0 else []
    return (*paragraphs("**Not placed:**" if lines else ""), *listed([*lines, *last]))


def _lost_work(victims: tuple[Victim, ...]) -> str:
    hours = [victim.lost_gpu_hours for victim in victims if victim.lost_gpu_hours is not None]
    lost = f"; they lose {significant(sum(hours))} GPU-hours of work since their last checkpoints" if hours else ""
    unknown = len(victims) - len(hours)
    return lost + (f" ({counted(unknown, 'pod')} without a known checkpoint not counted)" if hours and unknown else "")


def _victims(placed: Placement) -> Iterator[Block]:
    """In the order of eviction, where the plan gives one."""
    victims = placed.victims
    gpus = sum(victim.gpus for victim in victims)
    ordered = all(victim.order for victim in victims)
    columns: tuple[Column[Victim], ...] = (
        *(counts("Order=order") if ordered else ()),
        *fields("Pod=pod", "Node=node", "For island=island"),
        Column("Priority", lambda victim: victim.priority, str),
        *counts("GPUs=gpus"),
        Column("GPU-hours lost", lambda victim: victim.lost_gpu_hours, significant),
    )
    shown = sorted(victims, key=lambda pod: pod.order)[:MOST_ROWS]
    unlisted = len(victims) - MOST_ROWS
    order = f" Whatever is carried out from the top, islands whose pods are gone can come up{_beside(placed)}."
    lead = f"{counted(len(victims), 'pod')} with {counted(gpus, 'GPU')}{_lost_work(victims)}."
    yield from paragraphs(f"**Pods to evict:** {lead}{order if ordered else ''}")
    yield table_of(columns, shown).block()
    yield from paragraphs(f"{_more(unlisted, 'pod')} in `plan.json`." if unlisted > 0 else "")


def _beside(placed: Placement) -> str:
    """The sentence on islands that wait for pods of other islands."""
    if any(site.waits_for is None for site in placed.sites):
        return _on_the_same_nodes(placed)
    their_pods = {(victim.island, victim.order) for victim in placed.victims}
    waiting = [
        f"{escaped(site.island)} after {', '.join(whole(order) for order in site.waits_for)}"
        for site in placed.sites
        if site.waits_for and any((site.island, order) not in their_pods for order in site.waits_for)
    ]
    if not waiting:
        return ""
    more = len(waiting) - MOST_ROWS
    text = "; ".join(waiting[:MOST_ROWS]) + (f"; {_more(more, 'island')} in `plan.json`" if more > 0 else "")
    return f"; where others make room: {text}"


def _on_the_same_nodes(placed: Placement) -> str:
    """The same where a plan does not say who waits for whom: islands without victims of their own on the list's
    nodes."""
    nodes, with_pods = {victim.node for victim in placed.victims}, {victim.island for victim in placed.victims}
    others = sorted({part.island for part in placed.parts if part.node in nodes} - with_pods)
    if not others:
        return ""
    names = ", ".join(map(escaped, others[:MOST_ROWS])) + (", ..." if len(others) > MOST_ROWS else "")
    own_here = f"without pods of {'its' if len(others) == 1 else 'their'} own here"
    return f"; {names}, {own_here}, once those of the same nodes are"


def _signed(value: float) -> str:
    """Three decimals; no minus before nothing."""
    return f"{round(value, 3) + 0.0:.3f}"


def _target(state: ClusterState) -> str:
    """Whose requests fragmentation is scored by."""
    of_pods = [fragment for fragment in state.fragments if fragment.share]
    sizes = ", ".join(f"{whole(fragment.gpus)} ({percent(fragment.share)})" for fragment in of_pods)
    if not sizes:
        return "Fragmentation is that of requests of 1, 2, 4 and 8 GPUs, as no pod here holds a whole one."
    whose = "the cluster's own pods, of the sizes that make up 95 % of them, by GPUs of one"
    return f"Fragmentation is that of {whose}: {sizes}."


def _terms(placed: Placement) -> tuple[Block, ...]:
    columns: tuple[Column[ScorePart], ...] = (
        *fields("Term=name"),
        Column("Value", lambda term: term.value, _signed),
        Column("Weight", lambda term: term.weight, "{:g}".format),
        Column("Product", lambda term: term.value * term.weight, _signed),
    )
    words = "of 1: the weighted mean of these terms, each from -1 to 1, higher is better."
    lead = paragraphs(f"Score **{_signed(placed.score)}** {words} {_target(placed.before)}")
    return (*lead, *([table_of(columns, placed.terms).block()] if placed.terms else []))
