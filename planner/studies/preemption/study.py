"""The scale-up study: victim methods over sizes, initial placements, seeds and cycles; hits, latency, single runs.

Source: FlexTopo paper, figure 8 (41 servers of 8 RTX 4090; which pods they run is not printed, ours are table 3's) and
figure 9 (two scale-ups of services of high priority; how many instances each asks for is not printed, ours are EVENTS).

A cycle's cluster is drawn from its seed and number alone, so every method and mode meets the same ones.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from planner.domain import VictimMethod
from planner.errors import InputError
from planner.placement.victims.machines import Machines
from planner.studies.preemption.cycles import CHOICE, CycleKey, enter, find, run_cycle, scale_ups_in_order
from planner.studies.preemption.latency import single_searches, sourcing_latencies
from planner.studies.preemption.records import (
    ALL,
    GPUS,
    SCALED_UP,
    SOCKETS,
    TABLE_3,
    GpuHolder,
    HitCount,
    InitialPlacement,
    InstanceCount,
    ScaleUpMode,
    ScaleUpSettings,
    Scenes,
    SourcingLatency,
    workload,
)
from planner.studies.runner import require_each_once

SERVERS = 41
EVENTS = (("B", 20), ("A", 10))
"""Scale-ups in turn: a workload, and how many instances more."""

NEWCOMER = "new"


def snapshots(key: CycleKey, settings: ScaleUpSettings) -> Iterator[GpuHolder]:
    """Figure 8: who holds which GPU once services have scaled up, with standard and with topology-aware preemption."""
    for method in (VictimMethod.STANDARD, VictimMethod.MASKS):
        machines = key.machines()
        one_method = replace(settings, methods=(method,), modes=(ScaleUpMode.SEQUENTIAL,))
        draws = key.draws(CHOICE)
        for number, name in enumerate(scale_ups_in_order(key, one_method)):
            victims = find(machines, workload(name), one_method, method, draws)
            if victims is not None:
                enter(machines, workload(name), victims, number)
        yield from _holders(machines, method)


def _holders(machines: Machines, method: VictimMethod) -> Iterator[GpuHolder]:
    for node, numbers in enumerate(machines.pods_on):
        for number in numbers:
            pod = machines.pod(number)
            indices = machines.indices_of(node, pod.mask)
            sockets = {index // (GPUS // SOCKETS) for index in indices}
            for index in indices:
                yield GpuHolder(
                    method=method,
                    node=node,
                    gpu=index,
                    pod=pod.key,
                    gpus=len(indices),
                    crosses_sockets=len(sockets) > 1 and len(indices) < GPUS,
                    newcomer=pod.key.startswith(NEWCOMER),
                )


def instances_by_step(key: CycleKey, settings: ScaleUpSettings) -> Iterator[InstanceCount]:
    """Figure 9: instances of each workload after every preemption of EVENTS, victims chosen by topology."""
    machines, draws = key.machines(), key.draws(CHOICE)
    row_of = {str(row.priority): row.name for row in TABLE_3}
    yield from _counts(machines, 0, "", row_of)
    for number, (name, event) in enumerate(_one_at_a_time(EVENTS), start=1):
        victims = find(machines, workload(name), settings, VictimMethod.MASKS, draws)
        if victims is not None:
            enter(machines, workload(name), victims, number)
        yield from _counts(machines, number, event, row_of)


def _one_at_a_time(events: Sequence[tuple[str, int]]) -> Iterator[tuple[str, str]]:
    for name, count in events:
        yield from ((name, f"{name} +{count}") for _ in range(count))


def _counts(machines: Machines, step: int, event: str, row_of: dict[str, str]) -> Iterator[InstanceCount]:
    counts = Counter(row_of[str(machines.pod(pod).priority)] for pods in machines.pods_on for pod in pods)
    for row in TABLE_3:
        yield InstanceCount(step=step, event=event, workload=row.name, instances=counts[row.name])


MOST_NODES = 100_000
MOST_CYCLES, MOST_SCALE_UPS, MOST_REPETITIONS = 100_000, 100_000, 100_000
SUBSETS = (VictimMethod.NAIVE, VictimMethod.IMP)
SUBSETS_NODES = 200
"""Largest cluster on which hits of methods that go through subsets are counted: `masks` gives the same answers."""

NAIVE_NODES = 1000
"""Largest cluster on which all subsets are timed; beyond, one search takes a good part of a second."""

TIMED_CLUSTERS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionStudy:
    """What is compared. `cycles` of each seed, a cluster each.

    `timed`: methods whose searches are timed, each so many `repetitions` (0: none), for pods of `timed_workloads`;
    `timed_mode`: what each of these searches finds.
    """

    sizes: tuple[int, ...]
    initials: tuple[InitialPlacement, ...]
    seeds: tuple[int, ...]
    cycles: int
    settings: ScaleUpSettings
    timed: tuple[VictimMethod, ...] = tuple(VictimMethod)
    repetitions: int = 0
    timed_workloads: tuple[str, ...] = SCALED_UP
    timed_mode: ScaleUpMode = ScaleUpMode.INDEPENDENT

    def __post_init__(self) -> None:
        for key, listed in (("nodes", self.sizes), ("initial", self.initials), ("seeds", self.seeds)):
            require_each_once(f"--{key}", listed)
        self._require_timed()
        for key, values, low, high in (
            ("nodes", self.sizes, 1, MOST_NODES),
            ("cycles", (self.cycles,), 1, MOST_CYCLES),
            ("scale-ups", (sum(count for _, count in self.settings.counts),), 1, MOST_SCALE_UPS),
            ("repetitions", (self.repetitions,), 0, MOST_REPETITIONS),
        ):
            for value in values:
                if not low <= value <= high:
                    raise InputError(
                        f"--{key}: must be within {low} and {high:,}, got {value}.", hint="Correct the value."
                    )

    def _require_timed(self) -> None:
        require_each_once("--timed", self.timed_workloads)
        scaled_up = [name for name, count in self.settings.counts if count]
        for name in self.timed_workloads:
            if name not in ALL:
                raise InputError(f"--timed: must be one of {', '.join(ALL)}, got {name!r}.", hint="Choose one of them.")
        if self.timed_mode is ScaleUpMode.SEQUENTIAL and not set(scaled_up) & set(self.timed_workloads):
            raise InputError(
                f"--timed-mode: sequential times workloads that are scaled up ({', '.join(scaled_up)}), got "
                f"{', '.join(self.timed_workloads)}.",
                hint="Time one of them, or choose independent.",
            )

    @property
    def steps(self) -> int:
        """Cycles of all sizes, placements and seeds."""
        return len(self.sizes) * len(self.initials) * len(self.seeds) * self.cycles


Listen = Callable[[int], None]


def hit_counts(study: PreemptionStudy, *, listen: Listen = lambda _: None) -> Iterator[HitCount]:
    """Hits of every method, mode and workload: by size, placement and seed, summed over its cycles.

    `listen` hears how many cycles are done.
    """
    done = 0
    for nodes in study.sizes:
        settings = replace(study.settings, methods=counted_methods(study, nodes))
        for initial in study.initials:
            for seed in study.seeds:
                sums: list[HitCount] = []
                for cycle in range(study.cycles):
                    counts = run_cycle(CycleKey(nodes=nodes, initial=initial, seed=seed, cycle=cycle), settings)
                    sums = [_sum(a, b) for a, b in zip(sums, counts, strict=True)] if sums else counts
                    done += 1
                    listen(done)
                yield from sums


def _sum(first: HitCount, other: HitCount) -> HitCount:
    return replace(
        first,
        preemptions=first.preemptions + other.preemptions,
        hits=first.hits + other.hits,
        failures=first.failures + other.failures,
        decisions=first.decisions + other.decisions,
        victims=first.victims + other.victims,
        priority_sum=first.priority_sum + other.priority_sum,
    )


def latencies(study: PreemptionStudy, *, listen: Listen = lambda _: None) -> Iterator[SourcingLatency]:
    """Times of every method at every size, on clusters of the first seed. Measured: never the same twice.

    The clusters are saturated ones where the study has them, as in the paper, else those of its first placement.
    `listen` hears how many sizes are done.
    """
    if not study.repetitions:
        return
    full = InitialPlacement.SATURATED
    initial = full if full in study.initials else study.initials[0]
    for number, nodes in enumerate(study.sizes, start=1):
        keys = [
            CycleKey(nodes=nodes, initial=initial, seed=study.seeds[0], cycle=cycle)
            for cycle in range(min(study.cycles, TIMED_CLUSTERS))
        ]
        settings = replace(study.settings, methods=timed_methods(study, nodes))
        yield from sourcing_latencies(keys, settings, study.timed_workloads, study.repetitions, study.timed_mode)
        listen(number)


def scenes(study: PreemptionStudy) -> Scenes:
    """Figures 8 to 10 on clusters of the first placement and seed: 41 servers for figure 8, the first size for others.

    The times of figure 10 are measured: never the same twice.
    """
    first = CycleKey(nodes=study.sizes[0], initial=study.initials[0], seed=study.seeds[0], cycle=0)
    methods = [method for method in timed_methods(study, first.nodes) if method is not VictimMethod.MASKS]
    return Scenes(
        holders=tuple(snapshots(replace(first, nodes=SERVERS), study.settings)),
        instances=tuple(instances_by_step(first, study.settings)),
        searches=tuple(single_searches(first, study.settings, ALL, methods)),
    )


def counted_methods(study: PreemptionStudy, nodes: int) -> tuple[VictimMethod, ...]:
    """The methods whose hits are counted on so many nodes; masks stands in where none would be left."""
    few = nodes <= SUBSETS_NODES
    methods = tuple(method for method in study.settings.methods if few or method not in SUBSETS)
    return methods or (VictimMethod.MASKS,)


def timed_methods(study: PreemptionStudy, nodes: int) -> tuple[VictimMethod, ...]:
    """The methods that are timed on so many nodes."""
    return tuple(method for method in study.timed if nodes <= NAIVE_NODES or method is not VictimMethod.NAIVE)


def left_out(study: PreemptionStudy) -> tuple[str, ...]:
    """What the study does not do at some sizes, and why: sentences."""
    notes = []
    for nodes in study.sizes:
        methods = counted_methods(study, nodes)
        dropped = [method.value for method in study.settings.methods if method not in methods]
        if dropped:
            notes.append(
                f"{nodes:,} nodes: hits of {' and '.join(dropped)} are not counted above {SUBSETS_NODES} nodes; "
                "masks finds the same victims."
            )
        if study.repetitions and len(timed_methods(study, nodes)) < len(study.timed):
            notes.append(f"{nodes:,} nodes: naive is not timed above {NAIVE_NODES:,} nodes; it would take too long.")
    return tuple(notes)
