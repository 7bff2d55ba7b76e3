"""Sets of least size on a node where CPUs, memory or budgets bind: owners of a target set, and others beside them.

| symbol | meaning |
|---|---|
| base | owners(G) of a target set G that nobody bars |
| k | size of a set: at least the smallest base, and as many pods as free the missing CPUs and memory, largest first |

Every set that makes room contains a base, so base ∪ extra over all extras of size k − |base| are all sets of size k.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations

from planner.placement.victims.candidates import Question
from planner.placement.victims.machines import Held
from planner.placement.victims.subsets import Sets

MOST_TRIES = 50_000
"""Sets tried on one node. Beyond (dozens of small pods without GPUs), the node offers one set, of which no pod can be
spared: what is left when pods are let back in, the most important first, of each budget the least important, or where
that makes no room those that free most."""


def completed_sets(question: Question, node: int) -> Sets:
    """All sets of least size of one node, numbers ascending; none where no set makes room."""
    pods = sorted(question.candidates(node))
    if question.fits(node, ()):
        return ((),)
    if not question.fits(node, pods):
        return ()
    bases = _bases(question, node)
    tries = 0
    for size in range(max(1, _least_size(question, node, pods, bases)), len(pods) + 1):
        found = set()
        for base in bases:
            rest = [pod for pod in pods if pod not in base]
            for extra in combinations(rest, size - len(base)) if size >= len(base) else ():
                tries += 1
                if tries > MOST_TRIES:
                    return _reprieved(question, node, pods)
                going = tuple(sorted((*base, *extra)))
                if going not in found and _allowed(question, node, going):
                    found.add(going)
        if found:
            return tuple(sorted(found))
    return ()


def _bases(question: Question, node: int) -> list[frozenset[int]]:
    machines = question.machines
    owner = machines.owner[:, node].tolist()
    bases: dict[frozenset[int], None] = {}
    for positions in question.targets(node).positions.tolist():
        pods = frozenset(owner[k] for k in positions if owner[k] >= 0)
        if all(question.eligible[pod] for pod in pods):
            bases[pods] = None
    return list(bases)


def _least_size(question: Question, node: int, pods: Sequence[int], bases: Iterable[frozenset[int]]) -> int:
    machines = question.machines
    held = [machines.pod(pod) for pod in pods]
    cpus = _count(question.cpus, int(machines.free_cpus[node]), [pod.cpus for pod in held])
    memory = _count(question.memory, int(machines.free_memory[node]), [pod.memory for pod in held])
    return max(cpus, memory, min(map(len, bases)))


def _count(wanted: int, free: int, held: list[int]) -> int:
    """Fewest pods that free what is missing."""
    count, held = 0, sorted(held, reverse=True)
    while wanted and free < wanted and count < len(held):
        free += held[count]
        count += 1
    return count


def _allowed(question: Question, node: int, going: Sequence[int]) -> bool:
    pods = (question.machines.pod(pod) for pod in going)
    return question.enough(node, pods) and question.within_budgets(going)


def _reprieved(question: Question, node: int, pods: Sequence[int]) -> Sets:
    machines = question.machines

    def importance(pod: int) -> tuple[int, int, int, str]:
        held: Held = machines.pod(pod)
        return held.priority, held.lost, held.rank, held.key

    def most(pod: int) -> tuple[int, int, int, tuple[int, int, int, str]]:
        held: Held = machines.pod(pod)
        return -held.gpus, -held.cpus, -held.memory, importance(pod)

    going = _within_budgets(question, sorted(pods, key=importance))  # of each budget the least important ones
    if not question.fits(node, going):
        going = _within_budgets(question, sorted(pods, key=most))  # of each budget those that free most
    if not question.fits(node, going):
        return ()
    for pod in tuple(reversed(going)):
        spared = [other for other in going if other != pod]
        if question.fits(node, spared):
            going = spared
    return (tuple(sorted(going)),)


def _within_budgets(question: Question, order: Iterable[int]) -> list[int]:
    """Pods in this order, as far as budgets allow."""
    going: list[int] = []
    for pod in order:
        if question.within_budgets([*going, pod]):
            going.append(pod)
    return going
