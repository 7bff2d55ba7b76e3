"""Cycles of the scale-up study: pods of services ask for GPUs that others hold (FlexTopo paper, section 5, table 4)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from planner.domain import Alignment, VictimMethod, VictimSet
from planner.placement.victims import best_victims
from planner.placement.victims.machines import Machines
from planner.studies.preemption.records import (
    HitCount,
    InitialPlacement,
    ScaleUpMode,
    ScaleUpSettings,
    ScaleUpWorkload,
    workload,
)
from planner.studies.preemption.states import OLDEST_S, initial_machines, node_of, preemptor, standard

STATE, ORDER, CHOICE = range(3)
"""Streams of draws: one does not shift another, so a method finds the same clusters whatever else runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleKey:
    """A cycle: its cluster's size, how that was filled, the seed, and its number among the cycles of the seed."""

    nodes: int
    initial: InitialPlacement
    seed: int
    cycle: int

    def draws(self, stream: int) -> np.random.Generator:
        """The cycle's own random draws."""
        return np.random.default_rng(
            (self.seed, self.cycle, self.nodes, list(InitialPlacement).index(self.initial), stream)
        )

    def machines(self) -> Machines:
        """The cluster that the cycle starts from."""
        return initial_machines(self.nodes, self.initial, self.draws(STATE))


Answer = tuple[str, VictimSet | None]


def run_cycle(key: CycleKey, settings: ScaleUpSettings) -> list[HitCount]:
    """Every method and mode on one cluster: a count for each of them and each workload."""
    machines = key.machines()
    return [
        _counted(
            key,
            method,
            mode,
            name,
            [victims for workload_name, victims in answers if workload_name == name],
            decisions[name],
        )
        for mode in settings.modes
        for method in settings.methods
        for answers, decisions in (_answers(machines, key, settings, method, mode),)
        for name, _ in settings.counts
    ]


def _answers(
    machines: Machines, key: CycleKey, settings: ScaleUpSettings, method: VictimMethod, mode: ScaleUpMode
) -> tuple[list[Answer], dict[str, int]]:
    """What each scale-up got, and how many searches for victims that took."""
    draws = key.draws(CHOICE)
    if mode is ScaleUpMode.SEQUENTIAL:
        answers = list(_one_by_one(machines.copy(), key, settings, method, draws))
        return answers, dict(settings.counts)
    if method is VictimMethod.STANDARD:
        answers = [(name, find(machines, workload(name), settings, method, draws)) for name in _listed(settings)]
        return answers, dict(settings.counts)
    # nothing is drawn and nothing changes: each search would give the same answer
    once = {name: find(machines, workload(name), settings, method, draws) for name, count in settings.counts if count}
    return [(name, once[name]) for name in _listed(settings)], {name: int(name in once) for name, _ in settings.counts}


def _listed(settings: ScaleUpSettings) -> list[str]:
    return [name for name, count in settings.counts for _ in range(count)]


def _one_by_one(
    machines: Machines, key: CycleKey, settings: ScaleUpSettings, method: VictimMethod, draws: np.random.Generator
) -> Iterator[Answer]:
    """Scale-ups in random order, the same for all methods; victims leave for good, who came stays."""
    for number, name in enumerate(scale_ups_in_order(key, settings)):
        row = workload(name)
        victims = find(machines, row, settings, method, draws)
        if victims is not None:
            enter(machines, row, victims, number)
        yield name, victims


def scale_ups_in_order(key: CycleKey, settings: ScaleUpSettings) -> list[str]:
    """The workloads of a cycle's scale-ups, in the cycle's random order."""
    names = _listed(settings)
    return [names[at] for at in key.draws(ORDER).permutation(len(names))]


def states_one_by_one(key: CycleKey, settings: ScaleUpSettings) -> Iterator[tuple[str, Machines]]:
    """Each scale-up's workload, and what it finds where those before it chose their victims by topology."""
    machines, draws = key.machines(), key.draws(CHOICE)
    for number, name in enumerate(scale_ups_in_order(key, settings)):
        yield name, machines.copy()
        victims = find(machines, workload(name), settings, VictimMethod.MASKS, draws)
        if victims is not None:
            enter(machines, workload(name), victims, number)


def enter(machines: Machines, row: ScaleUpWorkload, victims: VictimSet, number: int) -> None:
    """Evict the victims and put the pod in their place."""
    node = node_of(machines, victims)
    for pod in victims.pods:
        machines.remove(machines.number[pod])
    machines.add(
        node,
        f"new-{number}",
        victims.gpus,
        priority=row.priority,
        preemptible=row.preemptible,
        age_s=max(0.0, OLDEST_S / 2 - number),
    )


def find(
    machines: Machines,
    row: ScaleUpWorkload,
    settings: ScaleUpSettings,
    method: VictimMethod,
    draws: np.random.Generator,
) -> VictimSet | None:
    """The victims that a method chooses for a pod of a workload; None: no room even so."""
    newcomer = preemptor(row, row.name, settings.qos)
    if method is VictimMethod.STANDARD:
        return standard(machines, newcomer, settings.node_policy, settings.tie, draws)
    return best_victims(machines, newcomer, settings.victims, method)


def _counted(
    key: CycleKey,
    method: VictimMethod,
    mode: ScaleUpMode,
    name: str,
    answers: Sequence[VictimSet | None],
    decisions: int,
) -> HitCount:
    placed = [victims for victims in answers if victims is not None]
    return HitCount(
        nodes=key.nodes,
        initial=key.initial,
        seed=key.seed,
        method=method,
        workload=name,
        mode=mode,
        preemptions=len(answers),
        hits=sum(victims.alignment is not Alignment.CROSS for victims in placed),
        failures=len(answers) - len(placed),
        decisions=decisions,
        victims=sum(len(victims.pods) for victims in placed),
        priority_sum=sum(victims.priority_sum for victims in placed),
    )
