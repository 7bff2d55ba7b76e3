"""SpotGPU's preemptive scoring: on each node the cheapest tasks until there is room, and the cheapest node.

| symbol | meaning | unit | source |
|---|---|---|---|
| C | GPUs × time since the last checkpoint | GPU-s | SpotGPU, 4.2 |
| F | free GPUs of the node | 1 | |
| prefix | the fewest tasks, ascending in C, with F + Σ G ≥ the preemptor's GPUs, and its CPUs and memory | | same |

As printed, F is not counted; without it too many are evicted. A prefix need not be minimal: `prune` drops what turns
out redundant, the most expensive first. Ties: fewer victims, then node order. Topology is not looked at.
"""

from planner.domain import VictimSet
from planner.placement.victims.candidates import Question
from planner.placement.victims.ranking import victim_set


def lost_work_of(question: Question, node: int, *, prune: bool) -> tuple[int, ...] | None:
    """The victims of one node, cheapest first; None where there cannot be room."""
    machines = question.machines

    def cost(pod: int) -> tuple[int, int, str]:
        held = machines.pod(pod)
        return held.lost, held.rank, held.key

    going: list[int] = []
    if not question.has_room(node, going):
        for pod in sorted(question.candidates(node), key=cost):
            if not question.within_budgets([*going, pod]):
                continue
            going.append(pod)
            if question.has_room(node, going):
                break
        else:
            return None
    if prune:
        for pod in reversed(tuple(going)):
            spared = [other for other in going if other != pod]
            if question.has_room(node, spared):
                going = spared
    return tuple(going)


def cheapest_victims(question: Question, *, prune: bool) -> VictimSet | None:
    """The node where the least work is lost; the pod takes the lowest free GPUs."""
    best: tuple[tuple[int, int, int], tuple[int, ...]] | None = None
    for node in question.nodes:
        going = lost_work_of(question, node, prune=prune)
        if going is None:
            continue
        key = sum(question.machines.pod(pod).lost for pod in going), len(going), node
        if best is None or key < best[0]:
            best = key, going
    return None if best is None else victim_set(question, best[0][2], best[1], lowest=True)
