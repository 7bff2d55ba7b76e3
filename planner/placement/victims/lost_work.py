"""SpotGPU's preemptive scoring: on each node the cheapest tasks until there is room, and the cheapest node.

| symbol | meaning | unit | source |
|---|---|---|---|
| C | GPUs × time since the last checkpoint | GPU-s | SpotGPU, 4.2 |
| F | free GPUs of the node | 1 | |
| prefix | the fewest tasks, ascending in C, with F + Σ G ≥ the preemptor's GPUs, and its CPUs and memory | | same |

As printed, F is not counted; without it too many are evicted. Tasks that free nothing of what is still short are
passed over, so that pods without GPUs are not evicted for nothing and use up no budget. Where budgets let no prefix
make room, the cheapest of the sets of least size goes (`completions`, which also says when it looks at one set only).
A prefix need not be minimal: `prune` drops what turns out redundant, the most expensive first. Ties: fewer victims,
then node order. Topology is not looked at.
"""

from collections.abc import Sequence
from dataclasses import replace

from planner.domain import Qos, VictimSet
from planner.placement.victims.candidates import Question
from planner.placement.victims.completions import completed_sets
from planner.placement.victims.ranking import victim_set


def lost_work_of(question: Question, node: int, *, prune: bool) -> tuple[int, ...] | None:
    """The victims of one node, cheapest first; None where there cannot be room."""
    machines = question.machines

    def cost(pod: int) -> tuple[int, int, str]:
        held = machines.pod(pod)
        return held.lost, held.rank, held.key

    order = sorted(question.candidates(node), key=cost)
    going = _prefix(question, node, order)
    if going is None and len(machines.allowed):
        going = _least(question, node, order)
    if going is None:
        return None
    if prune:
        for pod in reversed(tuple(going)):
            spared = [other for other in going if other != pod]
            if question.has_room(node, spared):
                going = spared
    return tuple(going)


def _prefix(question: Question, node: int, order: Sequence[int]) -> list[int] | None:
    """Pods in this order, as far as they help and budgets allow, until there is room; None: there never is."""
    case, going = question.case(node), list[int]()
    short = [question.preemptor.gpus - case.free.bit_count(), case.cpus, case.memory]
    for pod in order:
        if max(short) <= 0:
            break
        held = question.machines.pod(pod)
        frees = held.gpus, held.cpus, held.memory
        helps = any(missing > 0 and freed > 0 for missing, freed in zip(short, frees, strict=True))
        if helps and question.within_budgets([*going, pod]):
            going.append(pod)
            short = [missing - freed for missing, freed in zip(short, frees, strict=True)]
    return going if max(short) <= 0 else None


def _least(question: Question, node: int, order: Sequence[int]) -> list[int] | None:
    """The set of least size that loses least, cheapest first: exact where a prefix wastes what a budget allows."""
    anywhere = replace(question, preemptor=replace(question.preemptor, qos=Qos.NONE))

    def cost(going: Sequence[int]) -> tuple[int, Sequence[int]]:
        return sum(question.machines.pod(pod).lost for pod in going), going

    sets = completed_sets(anywhere, node)
    if not sets:
        return None
    best = min(sets, key=cost)
    return [pod for pod in order if pod in best]


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
