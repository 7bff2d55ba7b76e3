"""What it takes to get from one plan of buckets to another: which servers run on, and what becomes of the others.

| symbol | meaning | unit |
|---|---|---|
| S_t, T_t | GPUs of type t in old servers that do not run on, in new ones that do not | 1 |
| G | GPUs that are touched: sum_t max(S_t, T_t), what starts takes the GPUs of what stops first | 1 |
| load | what a server takes to load and start: `planner.cost.serving.loading` | s |
| drain | what requests in flight take: late TTFT of prefill, the longest answer at the late TPOT of decode | s |

As S_t and T_t sum to all GPUs less those of servers that run on, G is least where those are most: a pairing of largest
gain. Of such pairings the one with most servers that are not even routed anew, then with most that are only started
with other flags, then with most that turn. An engine runs on where it takes the prompts and answers of its new bucket.

As it can be carried out (`carried_out`), a running copy belongs to the object of its island and cannot join another's.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from planner.cost.serving.loading import S_PER_HOUR, load_s
from planner.domain import (
    BucketPool,
    InventoryItem,
    LoadPoint,
    ParallelConfig,
    Phase,
    Plan,
    Scenario,
    halves_of,
    require_pools,
)
from planner.domain.changes import ChangeKind, ChangeSettings, PlanChange, ServerChange, ServerRole
from planner.domain.engine.profile import common_reader, own_reader
from planner.errors import InputError
from planner.replanning.matching import best_pairs
from planner.units import MS_PER_S

_HUB = "hf://"
"""Before the name by which requests call a model, in the address of its weights."""

Place = tuple[tuple[str, tuple[int, ...]], ...]
"""Nodes of a server with its GPUs there by index: none where it is not known which those are."""

BY_SERVERS = "to be changed server by server"
"""Why a change asks for pools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Servers:
    """Equal servers in the same place. `context`: tokens that their engines are started for; `reader`: what they have
    to read KV caches with, as they were started or would be (empty: what they do by themselves); `place`: of a placed
    server, empty where that does not count."""

    role: ServerRole
    context: int
    reader: str
    place: Place
    count: int


def changes_between(before: Plan, after: Plan, settings: ChangeSettings) -> PlanChange:
    """The change that touches fewest GPUs; servers count as moved, to other nodes or GPUs, only where
    both plans are placed.

    Raises InputError where a plan has no pools, or the plans are of different models.
    """
    for plan in (before, after):
        require_pools(plan, BY_SERVERS)
    require_model(before.scenario, after.scenario)
    placed = before.placement is not None and after.placement is not None
    new = list(_servers(after.scenario, after.outlook.pools, _places(after) if placed else {}))
    return _changes(before, new, after.scenario, settings, placed=placed)


def changes_to(before: Plan, pools: Sequence[BucketPool], scenario: Scenario, settings: ChangeSettings) -> PlanChange:
    """The same to pools of a scenario, before they are a plan."""
    return _changes(before, list(_servers(scenario, pools, {})), scenario, settings, placed=False)


def _changes(
    before: Plan, new: "list[_Servers]", scenario: Scenario, settings: ChangeSettings, *, placed: bool
) -> PlanChange:
    running, gpu_of = before.scenario, before.scenario.inventory.item
    # An engine that was told nothing reads caches with what its GPU type does by itself.
    old = [
        replace(
            group, reader=group.reader or own_reader(running.engine.name, running.model, gpu_of(group.role.gpu).gpu)
        )
        for group in _servers(running, before.outlook.pools, _places(before) if placed else {})
    ]
    same = same_engines(running, scenario)
    changes: list[ServerChange] = []
    # Type by type: no server runs on on GPUs of another.
    for gpu in sorted({servers.role.gpu for servers in (*old, *new)}):
        sides = ([servers for servers in side if servers.role.gpu == gpu] for side in (old, new))
        changes += _of_type(*sides, same_engines=same)
    return ChangeClock.of(before, scenario, settings).timed(tuple(_summed(changes)))


def _summed(changes: list[ServerChange]) -> Iterator[ServerChange]:
    """Changes alike as one."""
    counts: dict[ServerChange, int] = {}
    for change in changes:
        key = replace(change, count=0)
        counts[key] = counts.get(key, 0) + change.count
    return (replace(change, count=count) for change, count in counts.items())


def require_model(before: Scenario, after: Scenario) -> None:
    """Raises InputError where a scenario is of another model than the plan that runs, and does not answer to its
    name."""
    name = before.model.uri.removeprefix(_HUB)
    if before.model.name == after.model.name or name in (
        after.model.uri.removeprefix(_HUB),
        *after.deploy.served_names,
    ):
        return
    raise InputError(
        f"scenario {after.name}: model must be that of the plan that runs, {before.model.name}, or answer to its name, "
        f"got {after.model.name}.",
        hint=f"Where it takes the other's place, requests call it by that one's name: --set "
        f"deploy.served_names=[{name}]. Else plan it by itself.",
    )


def same_engines(before: Scenario, after: Scenario) -> bool:
    """Whether servers of equal configuration are started with the same engine and flags."""
    flags = [(s.model, s.engine, s.cost.drafting, s.cost.redundant_experts) for s in (before, after)]
    return flags[0] == flags[1]


def context_of(scenario: Scenario, pool: BucketPool) -> int:
    """Tokens that the engines of a pool are started for."""
    needed = min(pool.end - 1 + scenario.workload.max_output_tokens, scenario.model.max_context)
    return max(needed, pool.context)


def readers_of(scenario: Scenario, pools: Sequence[BucketPool]) -> Iterator[str]:
    """What the engines of each pool are told to read KV caches with: where these go between generations of GPUs, all
    that hang together by buckets in common are told the same."""
    groups: list[tuple[set[int], int, int]] = []  # pools, and the prompts from the first to before the last
    for number, pool in enumerate(pools):
        if pool.phase is Phase.MIXED:
            continue
        near = [group for group in groups if group[1] < pool.end and pool.start < group[2]]
        groups = [group for group in groups if group not in near]
        members = {number}.union(*(group[0] for group in near))
        starts, ends = (pool.start, *(group[1] for group in near)), (pool.end, *(group[2] for group in near))
        groups.append((members, min(starts), max(ends)))
    readers = dict[int, str]()
    for members, _, _ in groups:
        gpus = {pools[number].gpu: scenario.inventory.item(pools[number].gpu).gpu for number in members}
        readers |= dict.fromkeys(members, common_reader(scenario.engine.name, scenario.model, tuple(gpus.values())))
    return (readers.get(number, "") for number in range(len(pools)))


def role_of(pool: BucketPool) -> ServerRole:
    """What one server of a pool does."""
    return ServerRole(
        gpu=pool.gpu, phase=pool.phase, server=pool.server, start=pool.start, end=pool.end, island=pool.island
    )


def _servers(
    scenario: Scenario, pools: Sequence[BucketPool], lying: "Mapping[str, Counter[Place]]"
) -> Iterator[_Servers]:
    """The servers of pools, by where they lie."""
    for pool, reader in zip(pools, readers_of(scenario, pools), strict=True):
        role, context = role_of(pool), context_of(scenario, pool)
        by_place = lying.get(pool.island, Counter({(): pool.count}))
        for place, count in sorted(by_place.items()):
            yield _Servers(role=role, context=context, reader=reader, place=place, count=count)


def _places(plan: Plan) -> dict[str, Counter[Place]]:
    """How many servers of each island lie where."""
    assert plan.placement is not None, "the plan is placed"
    parts: dict[tuple[str, int], list[tuple[str, tuple[int, ...]]]] = {}
    for part in plan.placement.parts:
        gpus = () if part.gpus_assumed else tuple(sorted(part.gpu_indices))
        parts.setdefault((part.island, part.replica), []).append((part.node, gpus))
    lying: dict[str, Counter[Place]] = {}
    for (island, _), nodes in parts.items():
        lying.setdefault(island, Counter())[tuple(sorted(nodes))] += 1
    return lying


def _of_type(old: list[_Servers], new: list[_Servers], *, same_engines: bool) -> Iterator[ServerChange]:
    """The changes of one GPU type: servers that stay in their place, then the others."""
    staying, old, new = _in_place(old, new, same_engines=same_engines)
    yield from staying
    kinds = [[_kind(group, other, same_engines=same_engines) for other in new] for group in old]
    # More than there are servers, so that a better kind of one outweighs a worse kind of all.
    weight = 1 + sum(group.count for group in (*old, *new))
    gains = [
        [None if kind is None else _gain(kind, group.role.gpus, weight) for kind in row]
        for group, row in zip(old, kinds, strict=True)
    ]
    pairs = best_pairs([group.count for group in old], [group.count for group in new], gains)
    for (i, j), count in pairs.items():
        kind = kinds[i][j]
        assert kind is not None, "pairs have a kind"
        yield ServerChange(kind=kind, before=old[i].role, after=new[j].role, count=count)
    # What found no partner, on either side, shares GPUs as far as both have some.
    gone = [replace(g, count=g.count - sum(n for (i, _), n in pairs.items() if i == k)) for k, g in enumerate(old)]
    fresh = [replace(g, count=g.count - sum(n for (_, j), n in pairs.items() if j == k)) for k, g in enumerate(new)]
    yield from _regrouped(gone, _gpus(fresh), ChangeKind.STOP)
    yield from _regrouped(fresh, _gpus(gone), ChangeKind.START)


def _in_place(
    old: list[_Servers], new: list[_Servers], *, same_engines: bool
) -> tuple[list[ServerChange], list[_Servers], list[_Servers]]:
    """Servers that run on or start with other flags on their very GPUs, and who is left on either side, alike ones
    together.

    As no others have those GPUs, each could only move instead, which gains no more. Of those left, places count no more
    where nobody of the other side is.
    """
    at = {group.place: group for group in new if group.place and all(gpus for _, gpus in group.place)}
    staying, stays = list[ServerChange](), set[Place]()
    for group in old:
        same_place = at.get(group.place)
        kind = None if same_place is None else _kind(group, same_place, same_engines=same_engines)
        if same_place is not None and kind in _IN_PLACE:
            staying.append(ServerChange(kind=kind, before=group.role, after=same_place.role, count=1))
            stays.add(group.place)
    gone, fresh = ([group for group in side if group.place not in stays] for side in (old, new))
    shared = {group.place for group in gone} & {group.place for group in fresh}
    return staying, _alike(gone, shared, _BEFORE), _alike(fresh, shared, _AFTER)


_IN_PLACE = (ChangeKind.KEEP, ChangeKind.REROUTE, ChangeKind.RESTART)
_BEFORE: Place = (("", (0,)),)
_AFTER: Place = (("", (1,)),)


def _alike(servers: list[_Servers], places: set[Place], elsewhere: Place) -> list[_Servers]:
    """Servers of one role together, all but those in `places`: they are `elsewhere`."""
    counts: dict[_Servers, int] = {}
    for group in servers:
        key = replace(group, place=group.place if group.place in places else elsewhere, count=0)
        counts[key] = counts.get(key, 0) + group.count
    return [replace(group, count=count) for group, count in counts.items()]


def _kind(old: _Servers, new: _Servers, *, same_engines: bool) -> ChangeKind | None:
    """What becomes of an old server that is a new one's; None: its GPUs would be grouped anew."""
    before, after = old.role, new.role
    if before.server.parallel != after.server.parallel:
        return None
    if old.place != new.place:
        return ChangeKind.MOVE if before.phase == after.phase else None
    if before.phase != after.phase:
        return ChangeKind.TURN
    told_otherwise = not same_engines or new.reader not in ("", old.reader)
    if before.server != after.server or new.context > old.context or told_otherwise:
        return ChangeKind.RESTART
    return ChangeKind.KEEP if (before.start, before.end) == (after.start, after.end) else ChangeKind.REROUTE


_RANKS = {ChangeKind.KEEP: 3, ChangeKind.RESTART: 2, ChangeKind.MOVE: 2, ChangeKind.TURN: 1}


def _gain(kind: ChangeKind, gpus: int, weight: int) -> int:
    """GPUs that run on count before all else; `weight` is more than there are servers."""
    bonus: int = weight ** _RANKS.get(kind, 0)
    return bonus + (gpus * weight**4 if kind.runs_on else 0)


def _gpus(groups: list[_Servers]) -> int:
    return sum(group.count * group.role.gpus for group in groups)


def _regrouped(groups: list[_Servers], gpus: int, alone: ChangeKind) -> Iterator[ServerChange]:
    """Servers without a partner: as long as the other side has GPUs that are without one, too, they are grouped anew;
    what is beyond those stops, or starts on GPUs that did nothing."""
    for group in groups:
        shared = min(group.count, -(-gpus // group.role.gpus)) if gpus > 0 else 0
        gpus -= shared * group.role.gpus
        for kind, count in ((ChangeKind.RESIZE, shared), (alone, group.count - shared)):
            if count:
                before, after = (group.role, None) if alone is ChangeKind.STOP else (None, group.role)
                yield ServerChange(kind=kind, before=before, after=after, count=count)


def gpu_seconds_of(changes: Iterable[ServerChange]) -> dict[str, float]:
    """GPU time that drains and loads take, by GPU type (s)."""
    seconds = dict[str, float]()
    for change in changes:
        for role, lost_s in ((change.before, change.drain_s), (change.after, change.load_s)):
            if role is not None:
                seconds[role.gpu] = seconds.get(role.gpu, 0.0) + change.count * role.gpus * lost_s
    return seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeClock:
    """How long old servers drain and new ones load. `scenario`: of the new plan; `gpus`: of both; `waits_s`: of old
    buckets, by phase, start and end."""

    scenario: Scenario
    settings: ChangeSettings
    gpus: Mapping[str, InventoryItem]
    waits_s: Mapping[tuple[Phase, int, int], float]

    @classmethod
    def of(cls, before: Plan, scenario: Scenario, settings: ChangeSettings) -> "ChangeClock":
        """The times of changes from a plan to one of `scenario`."""
        items = (*before.scenario.inventory.items, *scenario.inventory.items)
        return cls(
            scenario=scenario,
            settings=settings,
            gpus={item.gpu.name: item for item in items},
            waits_s=dict(_waits_s(before)),
        )

    def timed(self, changes: tuple[ServerChange, ...]) -> PlanChange:
        """The changes with their times, and the GPU time that they take."""
        timed = tuple(self._timed(change) for change in changes)
        seconds = gpu_seconds_of(timed)
        usd = sum(lost_s / S_PER_HOUR * self.gpus[gpu].rent_usd_per_gpu_hour for gpu, lost_s in seconds.items())
        priced = all(self.gpus[gpu].price_known for gpu, lost_s in seconds.items() if lost_s)
        return PlanChange(changes=timed, gpu_seconds=sum(seconds.values()), usd=usd if priced else None)

    def _timed(self, change: ServerChange) -> ServerChange:
        if change.kind.runs_on:
            return change
        drain_s = 0.0 if change.before is None else self.drain_s(change.before)
        load_s = 0.0 if change.after is None else self.load_s(change.after.gpu, change.after.server.parallel)
        return replace(change, drain_s=drain_s, load_s=load_s)

    def drain_s(self, role: ServerRole) -> float:
        """What requests in flight of an old server take, at most as long as they are waited for (s)."""
        longest_s = self.settings.drain_s
        waits = (self.waits_s.get((half, role.start, role.end), longest_s) for half in halves_of(role.phase))
        return min(longest_s, sum(waits))

    def load_s(self, gpu: str, shape: ParallelConfig) -> float:
        """From the start of a server to its first request (s)."""
        return load_s(self.scenario, self.settings, self.gpus[gpu].gpu, shape)


def _waits_s(before: Plan) -> Iterator[tuple[tuple[Phase, int, int], float]]:
    """What requests in flight take in each bucket of a plan at its promise; those without an end are left out."""
    longest = before.scenario.workload.max_output_tokens
    for row in before.outlook.latencies:
        if row.load is LoadPoint.PROMISE and row.late_ms is not None:
            tokens = longest if row.phase is Phase.DECODE else 1
            yield (row.phase, row.start, row.end), row.late_ms * tokens / MS_PER_S


def carried_out(change: PlanChange, before: Plan, scenario: Scenario, settings: ChangeSettings) -> PlanChange:
    """The change whose servers run on only where they stay in their island; those that would run on in another are
    started anew there, and take their time."""
    rows = tuple(replace(row, kind=ChangeKind.RESTART) if _joins_another(row) else row for row in change.changes)
    return change if rows == change.changes else ChangeClock.of(before, scenario, settings).timed(rows)


def joining_others(change: PlanChange) -> int:
    """Servers of a change that would run on in another island."""
    return sum(row.count for row in change.changes if _joins_another(row))


def _joins_another(row: ServerChange) -> bool:
    if not row.kind.runs_on or row.before is None or row.after is None:
        return False
    return row.before.island != row.after.island
