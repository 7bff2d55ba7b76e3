"""Orders of arrival drawn from a trace: shuffled, then filled up from it, or thinned, to a share of the cluster.

Source: facts on fragmentation and power, section 2. The draws are numpy's, not the reference's.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from planner.domain import TraceNode, TracePod
from planner.errors import InputError

INFLATION = 1.3
_DRAWS = 4096


def draw_arrivals(
    pods: Sequence[TracePod], nodes: Sequence[TraceNode], seed: int, inflation: float = INFLATION
) -> tuple[TracePod, ...]:
    """Pods in the order in which they come, until they ask for `inflation` times the cluster's GPUs.

    A trace that asks for less comes whole, shuffled, and then drawn anew with replacement; copies are called
    `<name>-tuned-<k>`. The first draw whose milli-GPU of one GPU would go beyond the target ends it, so that the last
    pod may overshoot by seven GPUs. A trace that asks for more loses pods at random until it does not.
    """
    _require_fillable(pods, inflation)
    generator = np.random.default_rng(seed)
    by_name = sorted(pods, key=lambda pod: pod.name)
    target = inflation * sum(node.gpu_milli for node in nodes)
    demand = sum(pod.total_gpu_milli for pod in pods)
    shuffled = [by_name[k] for k in generator.permutation(len(by_name))]
    if demand >= target:
        remaining = _thinned(shuffled, demand, target, generator)
        if not remaining:
            raise InputError(
                f"arrivals: inflation must leave some pods (--inflate); {inflation:g} leaves none of {len(pods)}.",
                hint="Raise it, or offer more nodes.",
            )
        return remaining
    return (*shuffled, *_more(by_name, demand, target, generator))


def draw_tie_order(nodes: Sequence[TraceNode], seed: int) -> tuple[str, ...]:
    """Names of the nodes, shuffled: the first of equally good ones is taken."""
    generator = np.random.default_rng([seed, 1])
    names = sorted(node.name for node in nodes)
    return tuple(names[k] for k in generator.permutation(len(names)))


def arrivals_in_order(pods: Sequence[TracePod], names: Sequence[str]) -> tuple[TracePod, ...]:
    """Pods by a given order of names; one that comes again is a copy, `<name>-tuned-<k>`. InputError: unknown names."""
    by_name = {pod.name: pod for pod in pods}
    used_names: set[str] = set()
    arrivals: list[TracePod] = []
    for row, name in enumerate(names, start=1):
        pod = by_name.get(name)
        if pod is None:
            raise InputError(
                f"arrivals: row {row} must name a pod of the trace, got {name!r}.",
                hint="Give arrivals of this trace of pods.",
            )
        copies = len(arrivals) - len(used_names)
        arrivals.append(replace(pod, name=f"{name}-tuned-{copies}") if name in used_names else pod)
        used_names.add(name)
    return tuple(arrivals)


def _require_fillable(pods: Sequence[TracePod], inflation: float) -> None:
    if not 0 < inflation < np.inf:
        raise InputError(f"inflate: must be a number above 0, got {inflation:g}.", hint="Give 1.3.")
    if not any(pod.total_gpu_milli for pod in pods):
        raise InputError("pods: at least one must ask for a GPU; none does.", hint="Give a trace with GPU pods.")


def _more(pods: Sequence[TracePod], demand: int, target: float, generator: np.random.Generator) -> list[TracePod]:
    drawn: list[TracePod] = []
    while True:
        for k in generator.integers(len(pods), size=_DRAWS).tolist():
            pod = pods[k]
            if demand + pod.gpu_milli > target:
                return drawn
            demand += pod.total_gpu_milli
            drawn.append(replace(pod, name=f"{pod.name}-tuned-{len(drawn)}"))


def _thinned(pods: list[TracePod], demand: int, target: float, generator: np.random.Generator) -> tuple[TracePod, ...]:
    gone: set[int] = set()
    for k in generator.permutation(len(pods)).tolist():
        if demand <= target:
            break
        demand -= pods[k].total_gpu_milli
        gone.add(k)
    return tuple(pod for k, pod in enumerate(pods) if k not in gone)
