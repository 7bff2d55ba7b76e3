"""From one point of the space to others near it: a dial turned, GPUs handed on, a bucket parted or joined.

A move that frees GPUs, or needs some, is followed by others that give or take: points use what there is.
"""

from collections.abc import Callable, Collection, Iterator
from random import Random

from planner.proposing.replayed.space import Point, ReplaySpace

_FURTHEST_CUT = 3  # rows
_DRAWS = 24  # for every point that is wanted

Move = Callable[[ReplaySpace, Point, Random], Point]


def neighbours(
    space: ReplaySpace, origins: list[Point], tried: Collection[Point], count: int, rng: Random
) -> Iterator[tuple[str, Point]]:
    """At most `count` points that are not `tried`, by one to three moves from the first of `origins` most often; with
    the word of their first move."""
    visited = set(tried)
    missing = count
    for _ in range(_DRAWS * count):
        if not missing:
            return
        origin = origins[min(int(rng.expovariate(1.0)), len(origins) - 1)]
        words = rng.choices(list(MOVES), k=rng.choice((1, 1, 1, 2, 2, 3)))
        point = origin
        for word in words:
            point = MOVES[word](space, point, rng)
        point = _filled(space, point, rng)
        if point not in visited and space.pools(point):
            visited.add(point)
            missing -= 1
            yield words[0], point


def _turned(kind: str) -> Move:
    """A dial of the kind set to another value."""

    def move(space: ReplaySpace, point: Point, rng: Random) -> Point:
        numbers = [n for n, dial in enumerate(space.dials) if dial.kind == kind and len(dial.values) > 1]
        if not numbers:
            return point
        number = rng.choice(numbers)
        return _set(point, number, rng.choice([v for v in space.dials[number].values if v != point[number]]))

    return move


def _cut_moved(space: ReplaySpace, point: Point, rng: Random) -> Point:
    """A cut that there is, by a few rows."""
    numbers = [n for n, dial in enumerate(space.dials) if dial.kind == "cut" and point[n]]
    if not numbers:
        return point
    number = rng.choice(numbers)
    row = point[number] + rng.choice([step for step in range(-_FURTHEST_CUT, _FURTHEST_CUT + 1) if step])
    return _set(point, number, row) if row > 0 and row in space.dials[number].values else point


def _parted(space: ReplaySpace, point: Point, rng: Random) -> Point:
    """A new cut, with servers above it in proportion to the work there; or none where there was one."""
    if not space.new_cuts:
        return point
    phase = rng.choice(list(space.new_cuts))
    number = space.new_cuts[phase]
    slots = [n for n, slot in enumerate(space.slots) if slot.pool.phase is phase]
    if point[number]:
        for n in slots:
            point = _with(space, point, "above", n, 0)
        return _set(point, number, 0)
    row = rng.choice(space.dials[number].values[1:])
    ranges = space.question.workload.ranges
    work = [span.probability * span.mean_input_tokens for span in ranges]
    share = sum(work[row:]) / sum(work)
    for n in slots:
        servers = space.value(point, "servers", n)
        above = min(servers, max(0, round(share * servers + rng.uniform(-1, 1))))
        point = _with(space, point, "above", n, above)
    return _set(point, number, row)


def _handed_on(space: ReplaySpace, point: Point, rng: Random) -> Point:
    """A server of one pool less; `_filled` gives its GPUs to others."""
    pools = [n for n in range(len(space.slots)) if space.value(point, "servers", n)]
    return _fewer(space, point, rng.choice(pools))


def _above_moved(space: ReplaySpace, point: Point, rng: Random) -> Point:
    """A server of a pool to the other side of a new cut."""
    numbers = [n for n in range(len(space.slots)) if space.number("above", n) is not None]
    if not numbers:
        return point
    n = rng.choice(numbers)
    above = space.value(point, "above", n) + rng.choice((-1, 1))
    return _with(space, point, "above", n, min(max(above, 0), space.value(point, "servers", n)))


def _reshaped(space: ReplaySpace, point: Point, rng: Random) -> Point:
    """Other servers on a pool's GPUs."""
    numbers = [n for n in range(len(space.slots)) if space.number("shape", n) is not None]
    if not numbers:
        return point
    n = rng.choice(numbers)
    before = space.devices(point, n) * space.value(point, "servers", n)
    shapes = [place for place in range(len(space.slots[n].menu.shapes)) if place != space.value(point, "shape", n)]
    point = _with(space, point, "shape", n, rng.choice(shapes))
    servers = before // space.devices(point, n) + rng.choice((0, 0, 1))
    point = _with(space, point, "servers", n, servers)
    return _with(space, point, "above", n, min(servers, space.value(point, "above", n)))


MOVES: dict[str, Move] = {
    "budget": _turned("budget"),
    "batch": _turned("batch"),
    "cut": _cut_moved,
    "bucket": _parted,
    "servers": _handed_on,
    "above": _above_moved,
    "shape": _reshaped,
}


def _filled(space: ReplaySpace, point: Point, rng: Random) -> Point:
    """Within the GPUs that there are: pools give servers up where there are too few, and get them where some are
    left."""
    gpus = {slot.pool.gpu for slot in space.slots}
    for gpu in sorted(gpus):
        pools = [n for n, slot in enumerate(space.slots) if slot.pool.gpu == gpu]
        while space.spare(point)[gpu] < 0:
            point = _fewer(space, point, rng.choice([n for n in pools if space.value(point, "servers", n)]))
        while fitting := [n for n in pools if space.devices(point, n) <= space.spare(point)[gpu]]:
            n = rng.choice(fitting)
            more = space.value(point, "servers", n) + 1
            above = space.value(point, "above", n)
            point = _with(space, point, "servers", n, more)
            if above and rng.random() < above / more:
                point = _with(space, point, "above", n, above + 1)
    return point


def _fewer(space: ReplaySpace, point: Point, n: int) -> Point:
    """One server of a pool less."""
    servers = space.value(point, "servers", n) - 1
    point = _with(space, point, "servers", n, servers)
    return _with(space, point, "above", n, min(servers, space.value(point, "above", n)))


def _with(space: ReplaySpace, point: Point, kind: str, pool: int, value: int) -> Point:
    number = space.number(kind, pool)
    return point if number is None else _set(point, number, value)


def _set(point: Point, number: int, value: int) -> Point:
    return (*point[:number], value, *point[number + 1 :])
