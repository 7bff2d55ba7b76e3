"""What a search by replays may turn: dials around the pools that were solved for.

| dial | of | values |
|---|---|---|
| cut | a bound between two buckets of a phase, or one where the phase has none | rows of ranges; 0: none |
| servers, above | a pool | its servers, and how many of them stand above a cut that the answer did not have |
| shape, budget, batch | a pool | place in its menu, tokens, steps below the programme's batch limit |
| weight | a pool beside others | steps of what the router weighs its servers by, against the first pool's |

Servers that run stay: of them cuts that there are, budgets, batches and weights turn, by other flags and settings.

Buckets that mixed servers serve are cut alike in both phases. A point is a value for every dial, in their order.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from planner.cost.serving import Buckets, PrefillServers
from planner.cost.serving.decode_servers import BATCHES
from planner.domain import PHASES, BucketPool, ParallelConfig, Phase, Question, ServerConfig
from planner.evaluation.buckets.columns import Column
from planner.evaluation.buckets.judging import named_pools
from planner.evaluation.buckets.priced import servers_of
from planner.evaluation.buckets.prices import BucketPrices

MOST_SHAPES = 4  # of a pool, its own among them
NEAR = 0.85
"""Of the best rate of a GPU: shapes below it are left out, as no queue makes up for so much."""

_LOWER = 0.85  # a batch limit over the next higher one
BATCH_STEPS = (-3, -2, -1, 0)
"""Steps of the batch limit below that of the programme; above it, it breaks a bound, or memory."""

RUNNING = frozenset({"cut", "budget", "batch", "weight"})
"""Kinds of dials that servers turn which run already."""
BUDGETS = (512, 1024, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768)
"""Token budgets that a running server may be started with anew."""
WEIGHT_STEPS, _WEIGHTIER = (-3, -2, -1, 0, 1, 2, 3), 1.08  # finer than that no router's whole numbers tell apart well


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerMenu:
    """Of one pool: `shapes` with the pool's own first, token `budgets` ascending, a server for each pair that fits."""

    shapes: tuple[tuple[ParallelConfig, bool], ...]
    budgets: tuple[int, ...]
    servers: Mapping[tuple[int, int], ServerConfig]

    def server(self, shape: int, budget: int, step: int) -> ServerConfig | None:
        """The server of a shape (its place) and budget, with its batch limit so many steps lower; None where there is
        none."""
        server = self.servers.get((shape, budget))
        if server is None or step == 0:
            return server
        limit = server.batch_size * _LOWER**-step
        batch = max((batch for batch in BATCHES if batch <= limit), default=0)
        return replace(server, batch_size=batch) if batch else None


def menu_of(prices: BucketPrices, pool: BucketPool) -> ServerMenu:
    """What may stand in place of a pool's servers."""
    column = prices.column(pool.gpu, pool.phase)
    bucket = _bucket(prices, pool)
    rates: dict[tuple[ParallelConfig, bool], float] = {}
    servers: dict[tuple[ParallelConfig, bool, int], ServerConfig] = {}
    alike = (row for row in _options(column, bucket) if row[1].drafted == pool.server.drafted)
    for rate, server in alike:
        shape = (server.parallel, server.overlapped)
        rates[shape] = max(rates.get(shape, 0.0), rate / server.parallel.devices)
        servers[*shape, server.tokens_per_step] = server
    own_shape = (pool.server.parallel, pool.server.overlapped)
    servers[*own_shape, pool.server.tokens_per_step] = pool.server
    shapes = (own_shape, *_others(rates, own_shape))
    budgets = tuple(sorted({server.tokens_per_step for server in servers.values()}))
    return ServerMenu(
        shapes=shapes,
        budgets=budgets,
        servers={
            (place, budget): servers[*shape, budget]
            for place, shape in enumerate(shapes)
            for budget in budgets
            if (*shape, budget) in servers
        },
    )


def running_menu(question: Question, pool: BucketPool) -> ServerMenu:
    """What a running pool's servers may be started with anew: other token budgets."""
    own_server, most = pool.server, question.scenario.cost.max_tokens_per_step
    budget, servers = own_server.tokens_per_step, {own_server.tokens_per_step: own_server}
    for other in BUDGETS if budget else ():
        if other != budget and other <= most:
            servers[other] = _with_budget(question, replace(pool, server=replace(own_server, tokens_per_step=other)))
    return ServerMenu(
        shapes=((own_server.parallel, own_server.overlapped),),
        budgets=tuple(sorted(servers)),
        servers={(0, budget): server for budget, server in servers.items()},
    )


def _with_budget(question: Question, pool: BucketPool) -> ServerConfig:
    """The pool's server, which holds in prefill as many prompts as fill a step."""
    if pool.phase is not Phase.PREFILL:
        return pool.server
    servers = servers_of(question, pool, Buckets.of(question.workload, [_rows(question, pool)]))
    return servers.configs[0] if isinstance(servers, PrefillServers) else pool.server


def _bucket(prices: BucketPrices, pool: BucketPool) -> int:
    """The programme's number of the pool's bucket."""
    ranges = prices.question.workload.ranges
    rows = [row for row, span in enumerate(ranges) if pool.start <= span.start and span.end <= pool.end]
    return prices.phases[pool.phase].buckets.intervals.index((rows[0], rows[-1] + 1))


def _options(column: Column, bucket: int) -> Iterator[tuple[float, ServerConfig]]:
    """Rates of one server on the bucket, with the server."""
    for row, rate in enumerate(column.capped[:, bucket].tolist()):
        if rate > 0:
            yield rate, column.config(row, bucket)


def _others(
    rates: Mapping[tuple[ParallelConfig, bool], float], own_shape: tuple[ParallelConfig, bool]
) -> list[tuple[ParallelConfig, bool]]:
    """The best other shape of every number of GPUs, the best first."""
    floor = NEAR * max(rates.values(), default=0.0)
    by_size: dict[int, tuple[ParallelConfig, bool]] = {}
    for shape in sorted(rates, key=lambda shape: -rates[shape]):
        if shape != own_shape and rates[shape] >= floor:
            by_size.setdefault(shape[0].devices, shape)
    return list(by_size.values())[: MOST_SHAPES - 1]


Point = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dial:
    """`values` ascend; `pool` is the number of the slot that it belongs to, `kind` the word of the table above."""

    kind: str
    name: str
    values: tuple[int, ...]
    pool: int = -1

    def scaled(self, value: int) -> float:
        """A value as a place among the others, 0 to 1."""
        return self.values.index(value) / max(1, len(self.values) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A pool of the answer: its menu, and the dials where its bucket begins and ends (None: at the first or last
    length)."""

    pool: BucketPool
    menu: ServerMenu
    start: int | None
    end: int | None


class ReplaySpace:
    """The dials of one answer. `base`: the answer itself. `prices`: of what may stand in place of servers; None: they
    run already and stay."""

    def __init__(self, question: Question, prices: BucketPrices | None, solved: Sequence[BucketPool]) -> None:
        self.question = question
        self._running = prices is None
        self.counts = {item.gpu.name: item.count for item in question.scenario.inventory.items}
        pools = named_pools(solved)
        cuts = _cuts(pools, question, new=not self._running)
        self.slots = tuple(
            Slot(
                pool=pool,
                menu=running_menu(question, pool) if prices is None else menu_of(prices, pool),
                start=_place(cuts, pool, _rows(question, pool)[0]),
                end=_place(cuts, pool, _rows(question, pool)[1]),
            )
            for pool in pools
        )
        self.dials = tuple(dial for dial in self._dials(cuts) if not self._running or dial.kind in RUNNING)
        self.base = tuple(self._base(dial, cuts) for dial in self.dials)
        self._numbers = {(dial.kind, dial.pool): number for number, dial in enumerate(self.dials)}
        self.new_cuts = {cut.phase: number for number, cut in enumerate(cuts) if not cut.row}

    def _dials(self, cuts: Sequence["_Cut"]) -> Iterator[Dial]:
        for cut in cuts:
            yield Dial(kind="cut", name=cut.name, values=cut.values)
        for number, slot in enumerate(self.slots):
            smallest = min(shape.devices for shape, _ in slot.menu.shapes)
            most_servers = self.counts[slot.pool.gpu] // smallest
            island = slot.pool.island
            yield Dial(kind="servers", name=f"servers_{island}", values=tuple(range(most_servers + 1)), pool=number)
            if any(not cut.row and cut.phase is slot.pool.phase for cut in cuts):
                yield Dial(kind="above", name=f"above_{island}", values=tuple(range(most_servers + 1)), pool=number)
            if len(slot.menu.shapes) > 1:
                shapes = tuple(range(len(slot.menu.shapes)))
                yield Dial(kind="shape", name=f"shape_{island}", values=shapes, pool=number)
            if len(slot.menu.budgets) > 1:
                yield Dial(kind="budget", name=f"budget_{island}", values=slot.menu.budgets, pool=number)
            if slot.pool.phase is not Phase.PREFILL:
                yield Dial(kind="batch", name=f"batch_{island}", values=BATCH_STEPS, pool=number)
            if self._running and self._weighed(number):
                yield Dial(kind="weight", name=f"weight_{island}", values=WEIGHT_STEPS, pool=number)

    def _weighed(self, number: int) -> bool:
        """Whether the router weighs the servers of a pool against those of one before it in its bucket."""
        pool = self.slots[number].pool
        before = any(_together(pool, slot.pool) for slot in self.slots[:number])
        return before and pool.weight > 0 and self.question.scenario.router.layers(pool.phase)[0].weighs

    def _base(self, dial: Dial, cuts: Sequence["_Cut"]) -> int:
        if dial.kind == "cut":
            return next(cut.row for cut in cuts if cut.name == dial.name)
        if dial.kind == "servers":
            return self.slots[dial.pool].pool.count
        return self.slots[dial.pool].pool.server.tokens_per_step if dial.kind == "budget" else 0

    def number(self, kind: str, pool: int) -> int | None:
        """The number of a pool's dial; None where it has none."""
        return self._numbers.get((kind, pool))

    def value(self, point: Point, kind: str, pool: int, default: int = 0) -> int:
        """What a pool's dial is set to."""
        number = self.number(kind, pool)
        return default if number is None else point[number]

    def features(self, point: Point) -> tuple[float, ...]:
        """Coordinates in 0..1 for a model: dials in proportion, pools by their GPUs."""
        scaled = [dial.scaled(value) for dial, value in zip(self.dials, point, strict=True)]
        of_gpus = [self._gpus(point, number) / self.counts[slot.pool.gpu] for number, slot in enumerate(self.slots)]
        return (*scaled, *of_gpus)

    def _servers(self, point: Point, number: int) -> int:
        return self.value(point, "servers", number, self.slots[number].pool.count)

    def budget(self, point: Point, number: int) -> int:
        """Tokens a step of a pool's servers."""
        return self.value(point, "budget", number, self.slots[number].pool.server.tokens_per_step)

    def weight(self, point: Point, number: int) -> float:
        """Of a pool's servers to the router, beside the others of the plan's bucket."""
        pools = [slot.pool for slot in self.slots]
        turned = [
            replace(pool, weight=pool.weight * _WEIGHTIER ** self.value(point, "weight", n))
            for n, pool in enumerate(pools)
        ]
        return _share_of_heaviest(turned[number], turned)

    def _gpus(self, point: Point, number: int) -> int:
        return self._servers(point, number) * self.devices(point, number)

    def devices(self, point: Point, number: int) -> int:
        """GPUs of a server of a pool."""
        shape, _ = self.slots[number].menu.shapes[self.value(point, "shape", number)]
        return shape.devices

    def spare(self, point: Point) -> dict[str, int]:
        """GPUs of each type that no pool has; below 0 where there are too few."""
        free_gpus = dict(self.counts)
        for number, slot in enumerate(self.slots):
            free_gpus[slot.pool.gpu] -= self._gpus(point, number)
        return free_gpus

    def parameters(self, point: Point) -> tuple[tuple[str, float], ...]:
        """The point as a trial has it."""
        return tuple(sorted((dial.name, float(value)) for dial, value in zip(self.dials, point, strict=True)))

    def point(self, parameters: Mapping[str, float]) -> Point:
        """The point of a trial."""
        return tuple(round(parameters[dial.name]) for dial in self.dials)

    def pools(self, point: Point) -> tuple[BucketPool, ...]:
        """The pools of a point, unpriced; none where it is not one that can be deployed."""
        if min(self.spare(point).values()) < 0 or any(
            value not in dial.values for dial, value in zip(self.dials, point, strict=True)
        ):
            return ()
        counts: dict[BucketPool, int] = {}
        for number in range(len(self.slots)):
            parts = self._parts(point, number)
            if parts is None:
                return ()
            for pool, count in parts:
                counts[pool] = counts.get(pool, 0) + count
        pools = tuple(replace(pool, count=count) for pool, count in counts.items())
        return named_pools(pools) if self._covered(pools) else ()

    def _parts(self, point: Point, number: int) -> list[tuple[BucketPool, int]] | None:
        """A slot's pools, each counted apart: two where a new cut parts its servers. None: there are no such."""
        slot = self.slots[number]
        server = slot.menu.server(
            self.value(point, "shape", number),
            self.budget(point, number),
            self.value(point, "batch", number),
        )
        servers, above = self._servers(point, number), self.value(point, "above", number)
        cut_dial = self.new_cuts.get(slot.pool.phase)
        cut = 0 if cut_dial is None else point[cut_dial]
        # a point that asks for what is not there is no point: none is mended, or two would be the same
        if server is None or above > servers or (above and not cut):
            return None
        pool = replace(slot.pool, server=server, count=1, island="", weight=self.weight(point, number))
        if cut:
            n = len(self.question.workload.ranges)
            parts = [(self._spanning(pool, 0, cut), servers - above), (self._spanning(pool, cut, n), above)]
        else:
            start = 0 if slot.start is None else point[slot.start]
            end = len(self.question.workload.ranges) if slot.end is None else point[slot.end]
            parts = [(self._spanning(pool, start, end), servers)]
        return [(part, count) for part, count in parts if count]

    def _spanning(self, pool: BucketPool, first: int, after: int) -> BucketPool:
        """The pool behind the bucket of these rows; who may miss a bound is shared evenly where the bucket is new."""
        ranges = self.question.workload.ranges
        start, end = ranges[first].start, ranges[after - 1].end
        if (start, end) == (pool.start, pool.end):
            return pool
        percentile = self.question.scenario.slo.percentile
        # shares of misses were set for the bucket as it was
        late = None if pool.late_share is None else 1 - percentile / 100 if percentile is not None else 0.0
        return replace(pool, start=start, end=end, late_share=late)

    def _covered(self, pools: Sequence[BucketPool]) -> bool:
        """Whether every bucket of both phases has servers."""
        for phase in PHASES:
            rows = sorted({_rows(self.question, pool) for pool in pools if pool.serves(phase)})
            edges = [0, *(after for _, after in rows)]
            if [first for first, _ in rows] != edges[:-1] or edges[-1] != len(self.question.workload.ranges):
                return False
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """A bound between buckets: `row` of the answer's (0: it has none); `phase` None: of both."""

    phase: Phase | None
    row: int
    name: str
    values: tuple[int, ...]


def _together(pool: BucketPool, other: BucketPool) -> bool:
    """Whether both take requests of one bucket."""
    return (pool.phase, pool.start, pool.end) == (other.phase, other.start, other.end)


def _share_of_heaviest(pool: BucketPool, pools: Sequence[BucketPool]) -> float:
    """The weight of a pool over that of the heaviest of its bucket."""
    heaviest = max(other.weight for other in pools if _together(pool, other))
    return pool.weight / heaviest if heaviest else 0.0


def _cuts(pools: Sequence[BucketPool], question: Question, *, new: bool) -> list[_Cut]:
    """The bounds that may be moved, each half way to its neighbours, and, where `new` ones may be, those to set."""
    mixed = any(pool.phase is Phase.MIXED for pool in pools)
    n, cuts = len(question.workload.ranges), list[_Cut]()
    for phase in (None,) if mixed else PHASES:
        phase_pools = [pool for pool in pools if phase in (None, pool.phase)]
        marks = sorted({0, n}.union(*(_rows(question, pool) for pool in phase_pools)))
        scope = "both" if phase is None else phase.value
        for number, (before, row, after) in enumerate(zip(marks, marks[1:], marks[2:], strict=False), start=1):
            # half way at most, so that moved bounds cannot pass each other
            near = tuple(r for r in range(1, n) if r == row or before + row < 2 * r < row + after)
            cuts.append(_Cut(phase=phase, row=row, name=f"cut_{scope}_{number}", values=near))
        if new and phase is not None and marks == [0, n] and n > 1 and question.scenario.most_buckets > 1:
            cuts.append(_Cut(phase=phase, row=0, name=f"cut_{scope}_1", values=tuple(range(n))))
    return cuts


def _rows(question: Question, pool: BucketPool) -> tuple[int, int]:
    """The first row of a pool's bucket, and that after its last."""
    ranges = question.workload.ranges
    return sum(span.start < pool.start for span in ranges), sum(span.end <= pool.end for span in ranges)


def _place(cuts: Sequence[_Cut], pool: BucketPool, row: int) -> int | None:
    """The number of the dial that a pool's bucket begins or ends at."""
    return next((n for n, cut in enumerate(cuts) if cut.phase in (None, pool.phase) and cut.row == row > 0), None)
