"""The target workload: the classes of pods that make up most of a trace, by how often they come.

Source: fragmentation gradient descent (ATC '23); facts on fragmentation and power, section 4.
"""

from collections import Counter
from collections.abc import Iterable

from planner.domain import TracePod, TypicalPod
from planner.errors import InputError

SHARE = 0.95


def target_workload(pods: Iterable[TracePod], share: float = SHARE) -> tuple[TypicalPod, ...]:
    """The fewest classes that make up `share` of the pods, the most frequent first.

    A class is CPUs, GPUs, milli-GPU and allowed models, not memory. Ties: the larger class first. InputError without
    pods, or where `share` is not within (0, 1].
    """
    if not 0 < share <= 1:
        raise InputError(f"target workload: share must be above 0 and at most 1, got {share:g}.", hint="Give 0.95.")
    counts = Counter((pod.cpu_milli, pod.gpu_milli, pod.gpus, pod.gpu_spec) for pod in pods)
    total = counts.total()
    if not total:
        raise InputError("target workload: there must be at least one pod; none came.", hint="Give a trace with pods.")
    chosen: list[tuple[tuple[int, int, int, str], int]] = []
    reached = 0
    for key, count in sorted(counts.items(), key=lambda item: (item[1], item[0]), reverse=True):
        if reached >= share * total:
            break
        reached += count
        chosen.append((key, count))
    shares = [count / total for _, count in chosen]
    covered = reached / total  # twice divided: as the simulators round
    return tuple(
        TypicalPod(cpu_milli=cpu, gpu_milli=milli, gpus=gpus, gpu_spec=spec, weight=count, popularity=part / covered)
        for ((cpu, milli, gpus, spec), count), part in zip(chosen, shares, strict=True)
    )
