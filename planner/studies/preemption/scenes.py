"""What the paper shows of single runs: GPUs with either kind of preemption, and instances as services scale.

Source: FlexTopo paper, figure 8 (41 servers of 8 RTX 4090; which pods they run is not printed, ours are table 3's) and
figure 9 (two scale-ups of services of high priority; how many instances each asks for is not printed, ours are EVENTS).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from planner.domain import VictimMethod
from planner.placement.victims.machines import Machines
from planner.studies.preemption.cycles import CHOICE, CycleKey, enter, find, scale_ups_in_order
from planner.studies.preemption.records import GpuHolder, InstanceCount, ScaleUpMode, ScaleUpSettings
from planner.studies.preemption.workloads import GPUS, SOCKETS, TABLE_3, workload

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
