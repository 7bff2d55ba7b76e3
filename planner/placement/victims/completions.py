"""Sets of victims of a node where CPUs, memory or budgets bind: owners of a target set, and others beside them.

| symbol | meaning |
|---|---|
| base | owners(G) of a target set G that nobody bars |
| k | size of a set: at least the smallest base, and as many pods as free the missing CPUs and memory, largest first |

Every set that makes room contains a base, so base ∪ extra over all extras of size k − |base| are all sets of size k.
A set that is better than every smaller one within it is a base and an extra of which no pod can be spared.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import comb

from planner.placement.victims.candidates import Question
from planner.placement.victims.machines import HostedPod
from planner.placement.victims.subsets import Sets, let_back_in

MOST_TRIES = 50_000
"""Sets tried on one node. Beyond (dozens of small pods without GPUs), the node offers one set, of which no pod can be
spared: what is left when pods are let back in, the most important first, of each budget the least important, or where
that makes no room those that free most."""


def completed_sets(question: Question, node: int) -> Sets:
    """All sets of least size of one node, numbers ascending; none where no set makes room."""
    pods = sorted(question.candidates(node))
    if question.fits(node, ()):
        return ((),)
    # If all of them are too few, so is every set.
    if not question.fits(node, pods):
        return ()
    bases = _bases(question, node)
    tries = 0
    for size in range(max(1, _least_size(question, node, pods, bases)), len(pods) + 1):
        tries += sum(comb(len(pods) - len(base), size - len(base)) for base in bases if size >= len(base))
        if tries > MOST_TRIES:
            return _reprieved(question, node, pods)
        sets = set()
        for base in bases:
            others = [pod for pod in pods if pod not in base]
            for extra in combinations(others, size - len(base)) if size >= len(base) else ():
                going = tuple(sorted((*base, *extra)))
                if going not in sets and _allowed(question, node, going):
                    sets.add(going)
        if sets:
            return tuple(sorted(sets))
    return ()


def minimal_sets(question: Question, node: int) -> Sets:
    """Of every base within the budgets, the base with every extra of which no pod can be spared, numbers ascending.

    A base that takes more than is left of MOST_TRIES has one extra: the pods that lose least, as far as they are
    needed. Bases that lose least come first; where that is past twice MOST_TRIES, the others are left out.
    """
    pods = sorted(question.candidates(node))
    sets: dict[tuple[int, ...], None] = {}
    tries = 0
    for base in sorted(_bases(question, node), key=lambda base: (_lost(question, base), sorted(base))):
        if sets and tries > 2 * MOST_TRIES:
            break
        if question.within_budgets(base):
            extras, tried = _extras(question, node, base, pods, MOST_TRIES - tries)
            tries += tried
            sets.update(dict.fromkeys(tuple(sorted((*base, *extra))) for extra in extras))
    return tuple(sorted(sets)) or _reprieved(question, node, pods)


def _lost(question: Question, pods: Iterable[int]) -> int:
    return sum(question.machines.pod(pod).lost for pod in pods)


def _extras(
    question: Question, node: int, base: frozenset[int], pods: Sequence[int], try_limit: int
) -> tuple[list[tuple[int, ...]], int]:
    """Extras of a base by size, and how many were tried; those that hold a smaller one are left out."""
    if question.enough(node, map(question.machines.pod, base)):
        return [()], 1
    others = [pod for pod in pods if pod not in base and _frees(question, pod)]
    extras: list[tuple[int, ...]] = []
    tries = 0
    for size in range(max(1, _least_extra(question, node, base, others)), len(others) + 1):
        smaller = [set(extra) for extra in extras]
        tried = tries + comb(len(others), size) * (1 + len(smaller))
        if tried > try_limit:
            return _cheapest_extra(question, node, base, others), tries + len(others) ** 2
        tries = tried
        for extra in combinations(others, size):
            # A larger set with a smaller one in it has a pod that can be spared.
            if any(subset <= set(extra) for subset in smaller):
                continue
            if _allowed(question, node, (*base, *extra)):
                extras.append(extra)
    return extras, tries


def _least_extra(question: Question, node: int, base: Iterable[int], others: Sequence[int]) -> int:
    """As many pods as free what the base leaves missing, the largest first."""
    machines = question.machines
    gone, candidates = [machines.pod(pod) for pod in base], [machines.pod(pod) for pod in others]
    cpus = int(machines.free_cpus[node]) + sum(pod.cpus for pod in gone)
    memory = int(machines.free_memory[node]) + sum(pod.memory for pod in gone)
    return max(
        _count(question.cpus, cpus, [pod.cpus for pod in candidates]),
        _count(question.memory, memory, [pod.memory for pod in candidates]),
    )


def _frees(question: Question, pod: int) -> bool:
    """Whether it holds any of what is asked for beside GPUs."""
    record = question.machines.pod(pod)
    return bool((question.cpus and record.cpus) or (question.memory and record.memory))


def _cheapest_extra(
    question: Question, node: int, base: frozenset[int], others: Sequence[int]
) -> list[tuple[int, ...]]:
    """One extra: pods that lose least, or where budgets let these free too little, those that free most of what is
    asked for; of them the dearest that can be spared stay."""
    pod_of = question.machines.pod

    def loses(pod: int) -> tuple[int, int, int, str]:
        record = pod_of(pod)
        return record.lost, record.priority, record.rank, record.key

    def frees(pod: int) -> tuple[float, tuple[int, int, int, str]]:
        record = pod_of(pod)
        shares = ((record.cpus, question.cpus), (record.memory, question.memory))
        return -sum(freed / needed for freed, needed in shares if needed), loses(pod)

    for order in (sorted(others, key=loses), sorted(others, key=frees)):
        going = _within_budgets(question, order, base)
        if _allowed(question, node, going):
            dearest_first = sorted(going[len(base) :], key=loses, reverse=True)
            victims = let_back_in(going, dearest_first, lambda fewer: _allowed(question, node, fewer))
            return [tuple(victims[len(base) :])]
    return []


def _bases(question: Question, node: int) -> list[frozenset[int]]:
    machines = question.machines
    owner = machines.owner[:, node].tolist()
    bases: dict[frozenset[int], None] = {}
    for positions in question.targets(node).positions.tolist():
        pods = frozenset(owner[k] for k in positions if owner[k] >= 0)
        # A target with a pod that stays never comes free.
        if all(question.eligible[pod] for pod in pods):
            bases[pods] = None
    return list(bases)


def _least_size(question: Question, node: int, pods: Sequence[int], bases: Iterable[frozenset[int]]) -> int:
    machines = question.machines
    records = [machines.pod(pod) for pod in pods]
    cpus = _count(question.cpus, int(machines.free_cpus[node]), [pod.cpus for pod in records])
    memory = _count(question.memory, int(machines.free_memory[node]), [pod.memory for pod in records])
    return max(cpus, memory, min(map(len, bases)))


def _count(needed: int, free: int, amounts: list[int]) -> int:
    """Fewest pods that free what is missing."""
    # The largest first: no fewer pods free as much.
    count, amounts = 0, sorted(amounts, reverse=True)
    while needed and free < needed and count < len(amounts):
        free += amounts[count]
        count += 1
    return count


def _allowed(question: Question, node: int, going: Sequence[int]) -> bool:
    pods = (question.machines.pod(pod) for pod in going)
    return question.enough(node, pods) and question.within_budgets(going)


def _reprieved(question: Question, node: int, pods: Sequence[int]) -> Sets:
    machines = question.machines

    def importance(pod: int) -> tuple[int, int, int, str]:
        record: HostedPod = machines.pod(pod)
        return record.priority, record.lost, record.rank, record.key

    def frees_most(pod: int) -> tuple[int, int, int, tuple[int, int, int, str]]:
        record: HostedPod = machines.pod(pod)
        return -record.gpus, -record.cpus, -record.memory, importance(pod)

    going = _within_budgets(question, sorted(pods, key=importance))  # of each budget the least important ones
    if not question.fits(node, going):
        going = _within_budgets(question, sorted(pods, key=frees_most))  # of each budget those that free most
    if not question.fits(node, going):
        return ()
    victims = let_back_in(going, going[::-1], lambda fewer: question.fits(node, fewer))
    return (tuple(sorted(victims)),)


def _within_budgets(question: Question, order: Iterable[int], base: Iterable[int] = ()) -> list[int]:
    """Pods of a base, then others in this order, as far as budgets allow."""
    going = list(base)
    for pod in order:
        if question.within_budgets([*going, pod]):
            going.append(pod)
    return going
