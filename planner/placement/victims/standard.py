"""Gödel's standard preemption: drain a node, then let pods back in, the most important first; no topology.

| step | rule | source |
|---|---|---|
| order | ascending (priority, later start first, rank and key); reprieved from its end | preemption.go |
| random | nodes are looked at in a random order until one can hold the pod | factory.go, candidate policy |
| best | all nodes, then: no victims; lowest highest priority; lowest Σ(priority + 2^31), so fewer victims first; \
fewest victims; latest start of the earliest-started among the most important victims; first looked at | same |

The result is inclusion-minimal, one set a node. The pod then gets the lowest free GPUs.
"""

from collections.abc import Sequence

import numpy as np

from planner.domain import VictimSet
from planner.placement.victims.candidates import Question
from planner.placement.victims.machines import HostedPod
from planner.placement.victims.ranking import victim_set
from planner.placement.victims.subsets import let_back_in

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
