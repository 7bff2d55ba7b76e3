"""How long a search for victims takes: candidates on all nodes of a cluster and the choice among them, CPU time.

Searches go through several clusters in turn, so that no single one decides. One search of each kind comes before those
that are measured: it makes tables that later ones share.
"""

import time
from collections.abc import Callable, Sequence
from itertools import cycle, islice

import numpy as np

from planner.domain import VictimMethod
from planner.placement.victims import best_victims
from planner.placement.victims.machines import Machines
from planner.studies.preemption.cycles import CHOICE, CycleKey
from planner.studies.preemption.records import NodePolicy, ScaleUpSettings, SourcingLatency
from planner.studies.preemption.states import preemptor, standard
from planner.studies.preemption.workloads import workload

P50, P90 = 50, 90


def sourcing_latencies(
    keys: Sequence[CycleKey], settings: ScaleUpSettings, workloads: Sequence[str], repetitions: int
) -> list[SourcingLatency]:
    """Each method of `settings` for each workload, over clusters of one size.

    Standard preemption looks at all nodes here (Best), as the other methods do.
    """
    clusters = [key.machines() for key in keys]
    latencies = []
    for name in workloads:
        for method in settings.methods:
            search = _search(settings, method, name, keys[0].draws(CHOICE))
            times = _times_us(search, clusters, repetitions)
            latencies.append(
                SourcingLatency(
                    nodes=keys[0].nodes,
                    workload=name,
                    method=method,
                    p50_us=float(np.percentile(times, P50)),
                    p90_us=float(np.percentile(times, P90)),
                    repetitions=repetitions,
                    initial=keys[0].initial,
                )
            )
    return latencies


def _search(
    settings: ScaleUpSettings, method: VictimMethod, name: str, draws: np.random.Generator
) -> Callable[[Machines], object]:
    newcomer = preemptor(workload(name), name, settings.qos)
    if method is VictimMethod.STANDARD:
        return lambda machines: standard(machines, newcomer, NodePolicy.BEST, settings.tie, draws)
    return lambda machines: best_victims(machines, newcomer, settings.victims, method)


def _times_us(search: Callable[[Machines], object], clusters: Sequence[Machines], repetitions: int) -> list[float]:
    search(clusters[0])
    times = []
    for machines in islice(cycle(clusters), repetitions):
        start = time.process_time_ns()
        search(machines)
        times.append((time.process_time_ns() - start) / 1000)
    return times
