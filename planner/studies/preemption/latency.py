"""How long a search for victims takes, and how many sets of victims it looks at: candidates on all nodes, CPU time.

| symbol | meaning | unit |
|---|---|---|
| m | pods of a node that may go | 1 |
| k* | least number of them whose going makes room | 1 |

All of them at once first; then naive all 2^m - 1 others but none, IMP those of up to k* pods (FlexTopo paper, section
3.4).

Searches go through several clusters in turn, so that no single one decides, or, in sequential mode, through the states
that the scale-ups of each cluster's cycle leave, one behind the other. One search of each kind comes before those that
are measured: it makes tables that later ones share.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from math import comb

import numpy as np

from planner.domain import Preemptor, VictimMethod, VictimSettings
from planner.placement.victims import best_victims, victims_of
from planner.placement.victims.candidates import Question
from planner.placement.victims.machines import Machines
from planner.studies.preemption.cycles import CHOICE, CycleKey, states_one_by_one
from planner.studies.preemption.records import (
    NodePolicy,
    ScaleUpMode,
    ScaleUpSettings,
    SourcingLatency,
    SourcingTime,
    workload,
)
from planner.studies.preemption.states import preemptor, standard


def tried_sets(machines: Machines, newcomer: Preemptor, settings: VictimSettings, method: VictimMethod) -> int | None:
    """Sets that are tried over all nodes; None for a method that does not go through sets."""
    if method not in (VictimMethod.NAIVE, VictimMethod.IMP):
        return None
    question = Question.of(machines, newcomer, settings)
    smallest = {node: len(sets[0]) for node, sets in victims_of(machines, newcomer, settings).items()}
    return sum(1 + _of_node(len(question.candidates(node)), smallest.get(node, 0), method) for node in question.nodes)


def _of_node(pods: int, smallest: int, method: VictimMethod) -> int:
    """0 where all together make no room, or nobody has to go."""
    if not smallest:
        return 0
    largest = pods if method is VictimMethod.NAIVE else smallest
    return sum(comb(pods, size) for size in range(1, largest + 1))


P50, P90 = 50, 90
FIGURE_10_PREEMPTIONS = 5


def sourcing_latencies(
    keys: Sequence[CycleKey],
    settings: ScaleUpSettings,
    workloads: Sequence[str],
    repetitions: int,
    mode: ScaleUpMode = ScaleUpMode.INDEPENDENT,
) -> list[SourcingLatency]:
    """Each method of `settings` for each workload, over clusters of one size.

    Standard preemption looks at all nodes here (Best), as the other methods do. In sequential mode the workloads that
    are scaled up are timed, each of their searches once, whatever `repetitions`.
    """
    if mode is ScaleUpMode.SEQUENTIAL:
        states = _states_one_by_one(keys, settings)
        return [
            _latency(keys[0], settings, method, name, states[name], mode)
            for name in workloads
            if name in states
            for method in settings.methods
        ]
    clusters = [key.machines() for key in keys]
    rounds = list(islice(cycle(clusters), repetitions))
    return [
        _latency(keys[0], settings, method, name, rounds, mode) for name in workloads for method in settings.methods
    ]


def _states_one_by_one(keys: Sequence[CycleKey], settings: ScaleUpSettings) -> dict[str, list[Machines]]:
    """What each scale-up of a workload finds, over all clusters."""
    states: dict[str, list[Machines]] = defaultdict(list)
    for key in keys:
        for name, machines in states_one_by_one(key, settings):
            states[name].append(machines)
    return states


def _latency(
    key: CycleKey,
    settings: ScaleUpSettings,
    method: VictimMethod,
    name: str,
    states: Sequence[Machines],
    mode: ScaleUpMode,
) -> SourcingLatency:
    times = _times_us(_search(settings, method, name, key.draws(CHOICE)), states)
    newcomer = preemptor(workload(name), name, settings.qos)
    once = {id(machines): tried_sets(machines, newcomer, settings.victims, method) for machines in states}
    sets = [count for machines in states if (count := once[id(machines)]) is not None]
    return SourcingLatency(
        nodes=key.nodes,
        workload=name,
        method=method,
        p50_us=float(np.percentile(times, P50)),
        p90_us=float(np.percentile(times, P90)),
        repetitions=len(times),
        initial=key.initial,
        mode=mode,
        p50_sets=float(np.percentile(sets, P50)) if sets else None,
        p90_sets=float(np.percentile(sets, P90)) if sets else None,
    )


def single_searches(
    key: CycleKey, settings: ScaleUpSettings, workloads: Sequence[str], methods: Sequence[VictimMethod]
) -> Iterator[SourcingTime]:
    """Figure 10: a few preemptions of each workload on one cluster, each timed by itself."""
    machines = key.machines()
    for name in workloads:
        for method in methods:
            search = _search(settings, method, name, key.draws(CHOICE))
            for number, time_us in enumerate(_times_us(search, [machines] * FIGURE_10_PREEMPTIONS), start=1):
                yield SourcingTime(workload=name, method=method, preemption=number, time_us=time_us)


def _search(
    settings: ScaleUpSettings, method: VictimMethod, name: str, draws: np.random.Generator
) -> Callable[[Machines], object]:
    newcomer = preemptor(workload(name), name, settings.qos)
    if method is VictimMethod.STANDARD:
        return lambda machines: standard(machines, newcomer, NodePolicy.BEST, settings.tie, draws)
    return lambda machines: best_victims(machines, newcomer, settings.victims, method)


def _times_us(search: Callable[[Machines], object], states: Sequence[Machines]) -> list[float]:
    search(states[0])
    times = []
    for machines in states:
        start = time.process_time_ns()
        search(machines)
        times.append((time.process_time_ns() - start) / 1000)
    return times
