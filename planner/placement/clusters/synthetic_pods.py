"""The tasks of a made-up cluster: drawn, put on nodes, replaced in part, and written down as pods.

Mix: ASI facts, section 2 (sizes by count, locked, affine and anti-affine shares, 30 % departures before a refill);
requests of 8, 12 or 16 CPUs a GPU, section 1; priorities and who may be preempted after table 3 of the FlexTopo paper;
online inference is more than half of ASI's workload (its figure 2), low priority about a quarter of what is held
(figure 9: 68 % against 93 %).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from planner.domain import ClusterNode, Pod, PodClass
from planner.errors import InputError

POOLS = ("a", "b")
"""Values of the label that affine tasks select: either half of the nodes, as 2 of 4 labels are."""

PRIORITIES = {PodClass.ONLINE: (1000, 1500), PodClass.OFFLINE: (500, 500), PodClass.SPOT: (100, 200)}
NAMES = {PodClass.ONLINE: "serve", PodClass.OFFLINE: "batch", PodClass.SPOT: "spot"}
LEAST_CPUS = 8
"""CPUs that every idle GPU of a node keeps, so that a task can still use it."""

MEMORY_GB_PER_CPU = 8.0
CHUNK = 4096
PATIENCE = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMix:
    """What tasks ask for: pairs of a value and its weight, and shares of all tasks.

    `aligned` tasks get GPUs of one NUMA node where they can, and cores pinned beside them; the others any GPUs, and
    floating cores. `demanding` tasks of one or two GPUs ask for 32 CPUs a GPU. `departures` of the tasks leave once the
    cluster is full; `filled` is the share of the GPUs that tasks hold just before (None: the load, so that the refill
    closes nearly every hole; 1.0 leaves holes, as in long use). `group` tasks at most are anti-affine to each other.
    Checkpoints are up to `checkpoint_s` old.
    """

    sizes: tuple[tuple[int, float], ...] = ((1, 0.50), (2, 0.20), (4, 0.12), (8, 0.18))
    cpus_per_gpu: tuple[tuple[int, float], ...] = ((8, 0.5), (12, 0.3), (16, 0.2))
    classes: tuple[tuple[PodClass, float], ...] = (
        (PodClass.ONLINE, 0.55),
        (PodClass.OFFLINE, 0.25),
        (PodClass.SPOT, 0.20),
    )
    locked: float = 0.40
    affine: float = 0.15
    exclusive: float = 0.15
    aligned: float = 0.70
    demanding: float = 0.03
    departures: float = 0.30
    filled: float | None = None
    group: int = 8
    checkpoint_s: int = 7200


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """A task that asks for a node. `pool` and `group`: -1 for none. `spread` draws its GPUs where it is not aligned."""

    size: int
    cpus: int
    kind: PodClass
    priority: int
    locked: bool
    pool: int
    group: int
    aligned: bool
    spread: int
    checkpoint_s: int


def fill(
    nodes: Sequence[ClusterNode],
    cores_per_gpu: int,
    target: int,
    mix: TaskMix,
    best: bool,
    generator: np.random.Generator,
    *,
    first: int = 0,
) -> list[Pod]:
    """Pods that hold `target` GPUs of `nodes`, which are all alike but for their pool; named from number `first` on."""
    room = _Room(nodes, generator)
    drawn = _Arrivals(mix, len(nodes[0].gpus), generator)
    before = target if mix.filled is None else round(mix.filled * sum(len(node.gpus) for node in nodes))
    _admit(room, drawn, max(target, before), best)
    # From the end on, as the places behind one that leaves move up.
    for at in sorted(generator.permutation(len(room.running))[: int(mix.departures * len(room.running))], reverse=True):
        room.depart(int(at))
    _admit(room, drawn, target, best)
    running = sorted(room.running, key=lambda entry: (entry[1], entry[2]))
    return [_pod(task, nodes[node], gpus, cores_per_gpu, first + at) for at, (task, node, gpus) in enumerate(running)]


def _admit(room: "_Room", drawn: "_Arrivals", target: int, best: bool) -> None:
    """Take tasks in until `target` GPUs are held; who finds no node goes elsewhere."""
    refused = 0
    while room.held < target and drawn.smallest <= min(target - room.held, room.largest):
        task = drawn.next(min(target - room.held, room.largest))
        node = room.best(task) if best else room.any(task)
        if node is not None:
            room.place(task, node)
        refused = refused + 1 if node is None else 0
        if refused > PATIENCE:
            raise InputError(
                f"Synthetic cluster: the task mix must reach the load; {room.held} of {target} GPUs are held, and none "
                f"of the next {PATIENCE} tasks found a node.",
                hint="Lower the load, or the share of demanding or exclusive tasks.",
            )


class _Arrivals:
    """Tasks one after the other, drawn in chunks."""

    def __init__(self, mix: TaskMix, gpus_per_node: int, generator: np.random.Generator) -> None:
        self._mix, self._generator = mix, generator
        self._sizes = [pair for pair in mix.sizes if pair[0] <= gpus_per_node] or [(1, 1.0)]
        self._groups = 0
        self._waiting: list[_Task] = []

    @property
    def smallest(self) -> int:
        """GPUs of the smallest task that may come."""
        return min(size for size, _ in self._sizes)

    def next(self, gpu_limit: int) -> _Task:
        """The next task of at most `gpu_limit` GPUs; larger ones are not waited for."""
        while True:
            if not self._waiting:
                self._waiting = self._draw()
            task = self._waiting.pop()
            if task.size <= gpu_limit:
                return task

    def _draw(self) -> list[_Task]:
        mix, draw = self._mix, self._generator
        sizes = _pick(self._sizes, draw)
        kinds = _pick([(at, weight) for at, (_, weight) in enumerate(mix.classes)], draw)
        per_gpu = np.where((draw.random(CHUNK) < mix.demanding) & (sizes <= 2), 32, _pick(mix.cpus_per_gpu, draw))
        spot_share = sum(w for kind, w in mix.classes if kind is PodClass.SPOT) / sum(w for _, w in mix.classes)
        # Spot tasks are never locked, so the others are more often, for the share of all to hold.
        locked = draw.random(CHUNK) < (mix.locked / (1 - spot_share) if spot_share < 1 else 0.0)
        pools = np.where(draw.random(CHUNK) < mix.affine, draw.integers(len(POOLS), size=CHUNK), -1)
        exclusive = draw.random(CHUNK) < mix.exclusive
        groups = np.where(exclusive, self._groups + np.cumsum(exclusive) // mix.group, -1)
        # A group that the chunk cuts off does not go on: the next one begins with other numbers.
        self._groups = int(max(self._groups, groups.max())) + 1
        aligned = draw.random(CHUNK) < mix.aligned
        high, ages = draw.random(CHUNK) < 0.5, draw.integers(mix.checkpoint_s, size=CHUNK)
        spreads = draw.integers(2**31, size=CHUNK)
        columns = (sizes, per_gpu, kinds, high, locked, pools, groups, aligned, spreads, ages)
        return [self._task(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]

    def _task(
        self,
        size: int,
        per_gpu: int,
        kind_at: int,
        high: bool,
        locked: bool,
        pool: int,
        group: int,
        aligned: bool,
        spread: int,
        age: int,
    ) -> _Task:
        kind = self._mix.classes[kind_at][0]
        return _Task(
            size=size,
            cpus=size * per_gpu,
            kind=kind,
            priority=PRIORITIES[kind][high],
            locked=locked and kind is not PodClass.SPOT,  # who may go at any moment is never locked
            pool=pool,
            group=group,
            aligned=aligned and per_gpu <= 16,  # demanding tasks ask for more cores than lie beside their GPUs
            spread=spread,
            checkpoint_s=age,
        )


def _pick(weighted: Sequence[tuple[int, float]], generator: np.random.Generator) -> np.ndarray:
    values = np.array([value for value, _ in weighted])
    weights = np.array([weight for _, weight in weighted], dtype=float)
    return values[generator.choice(len(values), size=CHUNK, p=weights / weights.sum())]


class _Room:
    """What is idle on each node; nodes lie in bins by pool and idle GPUs, so that a fit is found without a scan."""

    def __init__(self, nodes: Sequence[ClusterNode], generator: np.random.Generator) -> None:
        self._generator = generator
        self._numa_masks = _numa_masks(nodes[0])
        gpus_per_node = len(nodes[0].gpus)
        self._pool = [POOLS.index(dict(node.labels)["pool"]) for node in nodes]
        self._free = [(1 << gpus_per_node) - 1] * len(nodes)
        self._cpus = [int(node.cpus) for node in nodes]
        self._groups: list[set[int]] = [set() for _ in nodes]
        self._bins: list[list[list[int]]] = [[[] for _ in range(gpus_per_node + 1)] for _ in POOLS]
        self._place = [0] * len(nodes)
        self._choices: dict[tuple[int, int], int] = {}
        # The last of a bin is looked at first: so low numbers fill up first.
        for node in reversed(range(len(nodes))):
            self._enter(node)
        self.held = 0
        self.running: list[tuple[_Task, int, int]] = []

    @property
    def largest(self) -> int:
        """Idle GPUs of the emptiest node."""
        return max(idle for bins in self._bins for idle, members in enumerate(bins) if members)

    def best(self, task: _Task) -> int | None:
        """The node with the fewest idle GPUs that takes the task."""
        bins = self._bins if task.pool < 0 else [self._bins[task.pool]]
        for idle in range(task.size, len(bins[0])):
            for by_idle in bins:
                for node in reversed(by_idle[idle]):
                    if self._takes(task, node):
                        return node
        return None

    def any(self, task: _Task) -> int | None:
        """A node with enough idle GPUs, each as likely as another; None where the drawn ones do not take the task."""
        bins = self._bins if task.pool < 0 else [self._bins[task.pool]]
        members = [level for each in bins for level in each[task.size :]]
        total = sum(map(len, members))
        # A scheduler that draws does not look at every node either; who finds none goes elsewhere.
        for _ in range(8 if total else 0):
            at = int(self._generator.integers(total))
            for nodes in members:
                if at < len(nodes):
                    break
                at -= len(nodes)
            if self._takes(task, nodes[at]):
                return nodes[at]
        return None

    def _takes(self, task: _Task, node: int) -> bool:
        idle = self._free[node].bit_count() - task.size
        return self._cpus[node] - task.cpus >= LEAST_CPUS * idle and task.group not in self._groups[node]

    def place(self, task: _Task, node: int) -> None:
        """The task takes GPUs of the node."""
        gpus = self._aligned(self._free[node], task.size) if task.aligned else _spread(self._free[node], task)
        self._change(node, self._free[node] & ~gpus, -task.cpus)
        if task.group >= 0:
            self._groups[node].add(task.group)
        self.held += task.size
        self.running.append((task, node, gpus))

    def depart(self, at: int) -> None:
        """The task at place `at` of the running ones leaves."""
        task, node, gpus = self.running.pop(at)
        self._change(node, self._free[node] | gpus, task.cpus)
        self._groups[node].discard(task.group)
        self.held -= task.size

    def _change(self, node: int, free: int, cpus: int) -> None:
        members = self._bins[self._pool[node]][self._free[node].bit_count()]
        # The last of the bin takes the free place, so that no others move.
        last = members.pop()
        if last != node:
            members[self._place[node]] = last
            self._place[last] = self._place[node]
        self._free[node] = free
        self._cpus[node] += cpus
        self._enter(node)

    def _enter(self, node: int) -> None:
        members = self._bins[self._pool[node]][self._free[node].bit_count()]
        self._place[node] = len(members)
        members.append(node)

    def _aligned(self, free: int, size: int) -> int:
        """GPUs of the fullest NUMA node that has `size` idle; else of the emptiest ones together."""
        mask = self._choices.get((free, size))
        if mask is None:
            mask = self._choices[free, size] = _closest(free, size, self._numa_masks)
        return mask


def _numa_masks(node: ClusterNode) -> list[int]:
    masks = dict.fromkeys((gpu.numa for gpu in node.gpus), 0)
    for at, gpu in enumerate(node.gpus):
        masks[gpu.numa] |= 1 << at
    return list(masks.values())


def _closest(free: int, size: int, numas: Sequence[int]) -> int:
    parts = sorted((free & mask for mask in numas), key=int.bit_count)
    enough = [part for part in parts if part.bit_count() >= size]
    order = enough[:1] or reversed(parts)
    bits = [bit for part in order for bit in _bits(part)]
    return sum(1 << bit for bit in bits[:size])


def _spread(free: int, task: _Task) -> int:
    """GPUs without regard to NUMA nodes: a Fisher-Yates draw from the task's own number."""
    # By its own number, so that no draw of one task shifts those of the others.
    bits, number = _bits(free), task.spread
    for at in range(task.size):
        other = at + number % (len(bits) - at)
        number //= len(bits) - at
        bits[at], bits[other] = bits[other], bits[at]
    return sum(1 << bit for bit in bits[: task.size])


def _bits(mask: int) -> list[int]:
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def _pod(task: _Task, node: ClusterNode, mask: int, cores_per_gpu: int, number: int) -> Pod:
    gpus = tuple(_bits(mask))
    per_gpu = task.cpus // task.size
    pinned = task.aligned and per_gpu <= cores_per_gpu
    return Pod(
        name=f"{NAMES[task.kind]}-{number:06}",
        node=node.name,
        namespace=task.kind.value,
        cpus=float(task.cpus),
        memory_gb=MEMORY_GB_PER_CPU * task.cpus,
        gpus=gpus,
        gpu_request=task.size,
        # each GPU has a stretch of its NUMA node's cores to itself
        cores=tuple(gpu * cores_per_gpu + core for gpu in gpus for core in range(per_gpu)) if pinned else (),
        priority=task.priority,
        preemptible=task.kind is not PodClass.ONLINE and not task.locked,
        kind=task.kind,
        checkpoint_age_s=None if task.kind is PodClass.ONLINE else float(task.checkpoint_s),
        node_selector=(("pool", POOLS[task.pool]),) if task.pool >= 0 else (),
        anti_affinity=f"group-{node.gpu}-{task.group}" if task.group >= 0 else "",
        locked=task.locked,
    )
