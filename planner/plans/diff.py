"""Two deployed plans against each other: what is started, stopped, kept and routed anew when the new one is applied.

symbol          meaning                                                              unit
old, new        GPUs of a type that serve in either plan                             GPUs
started         GPUs of islands added or restarted, and of copies added              GPUs
stopped         GPUs of islands removed or restarted, and of copies taken away       GPUs
                new = old + started - stopped, for each type
moved           sum over islands of max(0, old share - new share) of a range: the    1
                total variation distance of the two ways to share it out
q               share of all requests that fall into a range: the new plan's, or the     1
                old one's where the new tells none; a part of a range has its part of
                the tokens
moved of all    sum over ranges of q moved                                           1
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from planner.domain import (
    PHASES,
    BucketPlan,
    BucketPool,
    DeployedIsland,
    DeployedPlan,
    DeployedRoute,
    LoadPoint,
    Phase,
    Plan,
)
from planner.domain.deployed import (
    BucketComparison,
    ChangedValue,
    GpuChange,
    IslandChange,
    IslandFate,
    PlanDiff,
    RouteChange,
)

_SHARE_TOLERANCE = 1e-9  # rounding of shares that are added up
_RESTARTING_HEAD = ("model", "engine", "target")
_FIELDS: Mapping[str, Callable[[DeployedIsland], object]] = {
    "gpu": lambda i: i.gpu,
    "phase": lambda i: i.phase,
    "size": lambda i: i.size,
    "tp": lambda i: i.parallel.tp,
    "dp": lambda i: i.parallel.dp,
    "pp": lambda i: i.parallel.pp,
    "replicas": lambda i: i.parallel.replicas,
    "host_cache_gb": lambda i: i.host_cache_gb,
    "disk_cache_gb": lambda i: i.disk_cache_gb,
    "batch_size": lambda i: i.batch_size,
    "longest_prompt": lambda i: i.longest_prompt,
}
COPIES = "copies."
"""What a path of a pod's field begins with where the number of the copy comes next."""
_KEPT_BY_COPIES = {"size", "replicas"}
"""Fields that change with the number of copies alone; a copy that stays does not notice."""


def compare(old: DeployedPlan, new: DeployedPlan) -> PlanDiff:
    """What changes where `new` takes the place of `old`. Rates, prices and utilisation alone change nothing. An island
    whose plan is the same restarts where its pods are made of something else, or its nodes are others; where one side
    names neither, that is no difference."""
    head = tuple(_head(old, new))
    reasons = tuple(change.field for change in head if change.field in _RESTARTING_HEAD)
    islands = tuple(_island_change(before, after, restart=bool(reasons)) for before, after in _matched(old, new))
    names = {c.old.id: c.new.id for c in islands if c.old is not None and c.new is not None}
    return PlanDiff(
        old=old.name,
        new=new.name,
        head=head,
        restart_reasons=reasons,
        islands=islands,
        gpus=tuple(_gpu_changes(old, new, islands)),
        routes=tuple(_route_changes(old, new, names)),
        pods_compared=all(c.old.pods and c.new.pods for c in islands if c.old is not None and c.new is not None),
    )


def _head(old: DeployedPlan, new: DeployedPlan) -> Iterator[ChangedValue]:
    """A target or an engine that one side does not name is no difference."""
    for field in ("name", "model", "engine", "target"):
        earlier, later = getattr(old, field), getattr(new, field)
        if earlier != later and (field in ("name", "model") or (earlier and later)):
            yield ChangedValue(field=field, old=earlier, new=later)
    before, after = dict(old.inventory), dict(new.inventory)
    for gpu in sorted({*before, *after}) if before and after else ():
        if before.get(gpu, 0) != after.get(gpu, 0):
            yield ChangedValue(field=f"inventory {gpu}", old=str(before.get(gpu, 0)), new=str(after.get(gpu, 0)))


Pair = tuple[DeployedIsland | None, DeployedIsland | None]


def _matched(old: DeployedPlan, new: DeployedPlan) -> list[Pair]:
    """Islands of the same id; of the others those that are alike, most fields first; then what is left on each side."""
    before, after = {i.id: i for i in old.islands}, {i.id: i for i in new.islands}
    pairs: list[Pair] = [(before.pop(id_), after.pop(id_)) for id_ in [i for i in before if i in after]]
    for fields in (tuple(_FIELDS), tuple(_FIELDS)[:-2]):
        for island in list(before.values()):
            other = next((o for o in after.values() if _values(o, fields) == _values(island, fields)), None)
            if other is not None:
                pairs.append((before.pop(island.id), after.pop(other.id)))
    pairs += [(island, None) for island in before.values()] + [(None, other) for other in after.values()]
    return sorted(pairs, key=lambda pair: next(island.id for island in reversed(pair) if island is not None))


def _values(island: DeployedIsland, fields: Iterable[str]) -> tuple[object, ...]:
    return tuple(_FIELDS[field](island) for field in fields)


def _island_change(old: DeployedIsland | None, new: DeployedIsland | None, *, restart: bool) -> IslandChange:
    if old is None or new is None:
        return IslandChange(fate=IslandFate.ADDED if old is None else IslandFate.REMOVED, old=old, new=new)
    changes = tuple(
        ChangedValue(field=field, old=str(read(old)), new=str(read(new)))
        for field, read in _FIELDS.items()
        if read(old) != read(new)
    )
    fate = _fate(old, new, changes, restart=restart)
    pods = tuple(_pod_changes(old, new)) if fate in (IslandFate.UNCHANGED, IslandFate.SCALED) else ()
    return IslandChange(fate=IslandFate.RESTARTED if pods else fate, old=old, new=new, changes=changes, pods=pods)


def _pod_changes(old: DeployedIsland, new: DeployedIsland) -> Iterator[ChangedValue]:
    """Fields of pods, and the nodes of the placement, that differ between the sides."""
    if old.nodes and new.nodes and old.nodes != new.nodes:
        yield ChangedValue(field="nodes", old=", ".join(old.nodes), new=", ".join(new.nodes))
    if not (old.pods and new.pods):
        return
    before, after = ({field.path: field.words for field in island.pods} for island in (old, new))
    common = range(min(old.parallel.replicas, new.parallel.replicas))
    for path in dict.fromkeys((*before, *after)):
        was, will = before.get(path, ()), after.get(path, ())
        copy = path.removeprefix(COPIES).partition(".")[0] if path.startswith(COPIES) else ""
        if was != will and not (copy.isdecimal() and int(copy) not in common):
            yield ChangedValue(field=path, old=_words(was, will), new=_words(will, was))


def _words(words: Sequence[str], others: Sequence[str]) -> str:
    """The words that only `words` has; all where it differs in their order or number alone."""
    new = [word for word in words if word not in others]
    moved = not new and all(word in words for word in others)
    return " ".join(words if moved else new) or "none"


def _fate(old: DeployedIsland, new: DeployedIsland, changes: Sequence[ChangedValue], *, restart: bool) -> IslandFate:
    fields = {change.field for change in changes}
    if restart or fields - _KEPT_BY_COPIES:
        return IslandFate.RESTARTED
    if fields:
        return IslandFate.SCALED
    return IslandFate.RENAMED if old.id != new.id else IslandFate.UNCHANGED


def _gpu_changes(old: DeployedPlan, new: DeployedPlan, islands: Sequence[IslandChange]) -> Iterator[GpuChange]:
    started, stopped = Counter[str](), Counter[str]()
    for change in islands:
        before, after = _touched(change)
        if change.old is not None:
            stopped[change.old.gpu] += before
        if change.new is not None:
            started[change.new.gpu] += after
    inventory = dict(new.inventory or old.inventory)
    for gpu in sorted({*old.gpus, *new.gpus}):
        yield GpuChange(
            gpu=gpu,
            old=old.gpus.get(gpu, 0),
            new=new.gpus.get(gpu, 0),
            started=started[gpu],
            stopped=stopped[gpu],
            inventory=inventory.get(gpu, 0) if inventory else None,
        )


def _touched(change: IslandChange) -> tuple[int, int]:
    """GPUs that stop, and GPUs that start."""
    before, after = change.old.size if change.old else 0, change.new.size if change.new else 0
    if change.fate in (IslandFate.UNCHANGED, IslandFate.RENAMED):
        return 0, 0
    if change.fate is IslandFate.SCALED:
        return max(0, before - after), max(0, after - before)
    return before, after


def _route_changes(old: DeployedPlan, new: DeployedPlan, names: Mapping[str, str]) -> Iterator[RouteChange]:
    """Neighbouring ranges that change alike are shown as one."""
    for phase in PHASES:
        pending: RouteChange | None = None
        for change in _moves(phase, old.routes, new.routes, names):
            if pending is not None and pending.range_end == change.range_start and _alike(pending, change):
                pending = _joined(pending, change)
                continue
            if pending is not None:
                yield pending
            pending = change
        if pending is not None:
            yield pending


def _alike(first: RouteChange, second: RouteChange) -> bool:
    return (first.moved, first.lost, first.gained) == (second.moved, second.lost, second.gained)


def _joined(first: RouteChange, second: RouteChange) -> RouteChange:
    known_shares = first.probability is not None and second.probability is not None
    both = (first.probability or 0.0) + (second.probability or 0.0)
    return replace(first, range_end=second.range_end, probability=both if known_shares else None)


def _moves(
    phase: Phase, old: Sequence[DeployedRoute], new: Sequence[DeployedRoute], names: Mapping[str, str]
) -> Iterator[RouteChange]:
    """What moves between any two neighbouring bounds of either table."""
    before, after = _tables(phase, old, names), _tables(phase, new, {})
    bounds = sorted({bound for span in (*before, *after) for bound in span})
    was, will, weights = _Sweep(before), _Sweep(after), _Weights(phase, old, new)
    for start, end in pairwise(bounds):
        old_shares, new_shares = was.at(start), will.at(start)
        lost, gained = _surplus(old_shares, new_shares), _surplus(new_shares, old_shares)
        if lost or gained:
            moved = max(sum(share for _, share in lost), sum(share for _, share in gained))
            yield RouteChange(
                phase=phase,
                range_start=start,
                range_end=end,
                moved=moved,
                probability=weights.between(start, end),
                lost=lost,
                gained=gained,
            )


Shares = dict[str, float]


def _tables(phase: Phase, routes: Sequence[DeployedRoute], names: Mapping[str, str]) -> dict[tuple[int, int], Shares]:
    """Range -> shares of islands, old ids replaced by the new ones. An id of both plans is one island in both, so that
    the id of a removed island cannot be another's."""
    tables: dict[tuple[int, int], Shares] = {}
    for route in routes:
        if route.phase is phase:
            shares = tables.setdefault((route.range_start, route.range_end), {})
            name = names.get(route.island, route.island)
            shares[name] = shares.get(name, 0.0) + route.share
    return tables


class _Sweep:
    """Ranges that do not overlap, asked at ascending bounds."""

    def __init__(self, table: Mapping[tuple[int, int], Shares]) -> None:
        self.spans = sorted(table)
        self.table, self.next = table, 0

    def at(self, start: int) -> Shares:
        """Shares of the range that holds `start`; empty where none does."""
        while self.next < len(self.spans) and self.spans[self.next][1] <= start:
            self.next += 1
        if self.next < len(self.spans) and self.spans[self.next][0] <= start:
            return self.table[self.spans[self.next]]
        return {}


class _Weights:
    """q of any part of the ranges of the side that gives it."""

    def __init__(self, phase: Phase, old: Sequence[DeployedRoute], new: Sequence[DeployedRoute]) -> None:
        sides = ([r for r in routes if r.phase is phase] for routes in (new, old))
        routes = next((side for side in sides if side and all(r.probability is not None for r in side)), ())
        self.rows = sorted({(r.range_start, r.range_end, r.probability or 0.0) for r in routes})

    def between(self, start: int, end: int) -> float | None:
        """Of lengths that lie in one range of the table, or outside all; None where neither side gives it."""
        if not self.rows:
            return None
        first, last, probability = self.rows[max(0, bisect_right(self.rows, start, key=lambda row: row[0]) - 1)]
        return probability * (end - start) / (last - first) if first <= start and end <= last else 0.0


def _surplus(shares: Shares, others: Shares) -> tuple[tuple[str, float], ...]:
    """What `shares` has more than `others`, by island."""
    rows = ((name, share - others.get(name, 0.0)) for name, share in sorted(shares.items()))
    return tuple((name, more) for name, more in rows if more > _SHARE_TOLERANCE)


NOTHING = "–"
_ROUND = 1000.0
_TIMES = {Phase.PREFILL: "TTFT", Phase.DECODE: "TPOT"}
_POOL_FIELDS: Mapping[str, Callable[[BucketPool], object]] = {
    "prompts": lambda pool: f"{pool.start}–{pool.end - 1}",
    "tokens a step": lambda pool: pool.server.tokens_per_step,
    "drafted tokens": lambda pool: pool.server.drafted,
    "overlap": lambda pool: "yes" if pool.server.overlapped else "no",
}


def compare_buckets(old: Plan, new: Plan) -> BucketComparison | None:
    """What changes; None where neither plan has buckets. A pool is known by its island's id."""
    if not (old.form.row.pooled or new.form.row.pooled):
        return None
    figures = [pair for pair in _figures(old, new) if pair.old != pair.new]
    return BucketComparison(deployed=(*_cuts(old, new), *_pools(old, new)), figures=tuple(figures))


def _cuts(old: Plan, new: Plan) -> Iterator[ChangedValue]:
    for phase in PHASES:
        before, after = _buckets(old, phase), _buckets(new, phase)
        if before != after:
            yield ChangedValue(field=f"buckets of {phase}", old=before, new=after)


def _buckets(plan: Plan, phase: Phase) -> str:
    if not plan.form.row.pooled:
        return "a table of shares"
    spans = sorted({(route.range_start, route.range_end) for route in plan.routing if route.phase is phase})
    return ", ".join(f"{start}–{end - 1}" for start, end in spans)


def _pools(old: Plan, new: Plan) -> Iterator[ChangedValue]:
    before, after = _by_island(old), _by_island(new)
    for island in [name for name in before if name in after]:
        for field, read in _POOL_FIELDS.items():
            was, will = str(read(before[island])), str(read(after[island]))
            if was != will:
                yield ChangedValue(field=f"{island}: {field}", old=was, new=will)


def _by_island(plan: Plan) -> dict[str, BucketPool]:
    return {pool.island: pool for pool in plan.outlook.pools}


def _figures(old: Plan, new: Plan) -> Iterator[ChangedValue]:
    """Promise, bursts, what remains after a loss, and the longest time that the levels count at each load."""
    readers: dict[str, Callable[[Plan], str]] = {
        "promise (requests/s)": lambda plan: _figure(plan, lambda buckets: buckets.promise_rps),
        "promise if requests bunch (requests/s)": lambda plan: _figure(plan, lambda buckets: buckets.burst_rps),
        "left after the worst loss (requests/s)": _worst_loss,
    }
    for load in LoadPoint:
        for phase in PHASES:
            readers[f"{_TIMES[phase]} {_statistic(old, new)} at {load} (ms)"] = _slowest(load, phase)
    for field, read in readers.items():
        yield ChangedValue(field=field, old=read(old), new=read(new))


def _statistic(old: Plan, new: Plan) -> str:
    """What the times are: `P95`, or of each plan where they differ."""
    return " and ".join(dict.fromkeys(plan.scenario.slo.statistic for plan in (old, new)))


def _worst_loss(plan: Plan) -> str:
    return _figure(plan, lambda buckets: buckets.worst_loss.rate_rps if buckets.losses else None)


def _figure(plan: Plan, read: Callable[[BucketPlan], float | None]) -> str:
    return _number(read(plan.outlook))


def _slowest(load: LoadPoint, phase: Phase) -> Callable[[Plan], str]:
    """The time that its levels count of the slowest bucket, with the rate of the mix that it is at."""

    def read(plan: Plan) -> str:
        every = plan.outlook.latencies
        rows = [row for row in every if row.load is load and row.phase is phase]
        if not rows:
            return NOTHING
        times = [row.late_ms for row in rows]
        slowest = "no end" if None in times else _number(max(time for time in times if time is not None))
        return f"{slowest} at {_number(rows[0].rate_rps)} requests/s"

    return read


def _number(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{value:,.0f}" if value >= _ROUND else f"{value:.4g}"
