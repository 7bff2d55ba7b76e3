"""Sets of victims node by node: Incremental Minimal Preemption, every subset as its check, Gödel's as the baseline.

| symbol | meaning | source |
|---|---|---|
| V, m | the pods of a node that may go, and how many | FlexTopo paper, algorithm 2 |
| S(P, N∖s) | the preemptor fits once s is gone | same |
| k* | least number of pods whose going suffices | |

IMP tries at most Σ_{i≤k*} C(m, i) subsets, the naive form 2^m − 1. Where lost work counts, more pods may lose less, so
that least size says nothing: then every subset that fits is looked at.

Gödel's standard preemption drains a node, then lets pods back in, the most important first; it knows no topology.

| step | rule | source |
|---|---|---|
| order | ascending (priority, later start first, rank and key); reprieved from its end | preemption.go |
| random | nodes are looked at in a random order until one can hold the pod | factory.go, candidate policy |
| best | all nodes, then: no victims; lowest highest priority; lowest Σ(priority + 2^31), so fewer victims first; \
fewest victims; latest start of the earliest-started among the most important victims; first looked at | same |

The result is inclusion-minimal, one set a node. The pod then gets the lowest free GPUs.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, combinations

import numpy as np

from planner.domain import VictimSet
from planner.placement.victims.candidates import Case, Question
from planner.placement.victims.machines import HostedPod
from planner.placement.victims.ranking import victim_set

Sets = tuple[tuple[int, ...], ...]
"""Sets of victims of one node: numbers of pods, ascending; (()) where the preemptor fits as things are."""


def imp_sets(question: Question, node: int) -> Sets:
    """All sets of least size, subsets by size until one fits (FlexTopo paper, algorithm 2)."""
    case, pods = _before(question, node)
    # If all of them are too few, every subset would be tried in vain.
    if not case.fits(pods.values()):
        return ()
    return next(filter(None, _by_size(question, case, pods)), ())


def naive_sets(question: Question, node: int) -> Sets:
    """All sets of least size, out of every subset that fits."""
    sets = fitting_sets(question, node)
    fewest = min(map(len, sets), default=0)
    return tuple(going for going in sets if len(going) == fewest)


def fitting_sets(question: Question, node: int) -> Sets:
    """Every subset that fits and that budgets allow, the smaller ones first; only (()) where nobody has to go."""
    return tuple(chain.from_iterable(_by_size(question, *_before(question, node))))


def _before(question: Question, node: int) -> tuple[Case, dict[int, HostedPod]]:
    return question.case(node), {pod: question.machines.pod(pod) for pod in sorted(question.candidates(node))}


def _by_size(question: Question, case: Case, pods: dict[int, HostedPod]) -> Iterator[Sets]:
    """Of each size the subsets that fit and that budgets allow."""
    if case.fits(()):
        yield ((),)
        return
    for size in range(1, len(pods) + 1):
        fitting = (
            tuple(number for number, _ in chosen)
            for chosen in combinations(pods.items(), size)
            if case.fits([pod for _, pod in chosen])
        )
        yield tuple(going for going in fitting if question.within_budgets(going))


def let_back_in(going: Sequence[int], order: Iterable[int], suffices: Callable[[Sequence[int]], bool]) -> list[int]:
    """Those of a set who cannot be spared, asked in this order; `suffices`: whether a set makes room."""
    victims = list(going)
    for pod in order:
        fewer = [other for other in victims if other != pod]
        if suffices(fewer):
            victims = fewer
    return victims


PRIORITY_OFFSET = 2**31


def reprieved(question: Question, node: int, *, by_start: bool = True) -> tuple[int, ...] | None:
    """The victims of one node, most important first; None where even all that may go would not make room."""
    if question.has_room(node, ()):
        return ()
    candidates = _potential(question, node, by_start=by_start)
    if not question.has_room(node, candidates):
        return None
    # Asked first, the most important have the best chance to stay.
    most_important_first = candidates[::-1]
    return tuple(let_back_in(most_important_first, most_important_first, lambda fewer: question.has_room(node, fewer)))


def standard_victims(
    question: Question, *, everywhere: bool, by_start: bool, rng: np.random.Generator | None
) -> VictimSet | None:
    """The node that the candidate policy settles on, with its victims; `rng` draws the order of nodes."""
    nodes = question.numbers
    if rng is not None:
        nodes = nodes[rng.permutation(len(nodes))]
    best: tuple[tuple[object, ...], int, tuple[int, ...]] | None = None
    for node in map(int, nodes):
        going = reprieved(question, node, by_start=by_start)
        if going is None:
            continue
        # As Gödel does: the first node that can is taken, and no other looked at.
        if not everywhere:
            return victim_set(question, node, going, lowest=True)
        key = _node_order([question.machines.pod(pod) for pod in going], by_start=by_start)
        if best is None or key < best[0]:
            best = key, node, going
    return None if best is None else victim_set(question, best[1], best[2], lowest=True)


def _potential(question: Question, node: int, *, by_start: bool) -> list[int]:
    """The least important first; of a budget that allows fewer, the least important ones."""
    machines = question.machines

    def place(pod: int) -> tuple[int, float, int, str]:
        record = machines.pod(pod)
        return record.priority, record.age_s if by_start else 0.0, record.rank, record.key

    pods = sorted(question.candidates(node), key=place)
    if not len(machines.allowed):
        return pods
    allowed = machines.allowed.tolist()
    potential = []
    for pod in pods:
        budget = machines.pod(pod).budget
        if budget >= 0:
            if not allowed[budget]:
                continue
            allowed[budget] -= 1
        potential.append(pod)
    return potential


def _node_order(pods: Sequence[HostedPod], *, by_start: bool) -> tuple[object, ...]:
    """Lowest first."""
    if not pods:
        return (False,)
    highest = pods[0].priority
    # Offset as in Gödel, so that more pods always weigh more.
    offset_sum = sum(pod.priority + PRIORITY_OFFSET for pod in pods)
    oldest = max(pod.age_s for pod in pods if pod.priority == highest) if by_start else 0.0
    return True, highest, offset_sum, len(pods), oldest
