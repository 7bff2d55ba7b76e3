"""What pods start: the engine and nothing else, and in a copy of several pods so that they find each other.

Where an operator or a preset starts the engine, its target checks what people may add to that.
"""

from collections.abc import Iterator

from planner.export.engines.groups import FoundGroup
from planner.export.engines.seam import Engine
from planner.export.found import Fault, FoundPod, FoundWorkload

_MOST_WORDS = 8


def command_faults(workload: FoundWorkload, engine: Engine) -> Iterator[Fault]:
    """What is wrong with the command lines of each copy."""
    for copy in workload.copies:
        pods = [pod for pod in copy if pod.command_path]
        wrong = [fault for pod in pods for fault in _program_faults(workload, pod, engine)]
        yield from wrong
        if pods and not wrong:
            yield from _group_faults(workload, pods, engine)


def _program_faults(workload: FoundWorkload, pod: FoundPod, engine: Engine) -> Iterator[Fault]:
    words = pod.arguments or ()
    if engine.read_program(words) is None:
        came = " ".join(words[:_MOST_WORDS]) or "nothing"
        yield workload.manifest.fault(pod.command_path, f"must start {engine.name}: {engine.program}", came)


def _group_faults(workload: FoundWorkload, pods: list[FoundPod], engine: Engine) -> Iterator[Fault]:
    leader, *workers = pods
    group = FoundGroup(
        leader=leader.arguments or (),
        worker=workers[0].arguments or () if workers else None,
        pods=workload.pods_per_copy,
        leader_address=workload.leader_address,
        pod_index=workload.pod_index,
    )
    for fault in engine.check_group(group):
        path = leader.arguments_path if fault.leads else workers[0].arguments_path
        yield workload.manifest.fault(path, fault.expected, fault.got)
