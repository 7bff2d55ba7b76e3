"""How many sets of victims a search looks at: what its time is made of, and the same on every machine.

| symbol | meaning | unit |
|---|---|---|
| m | pods of a node that may go | 1 |
| k* | least number of them whose going makes room | 1 |

All of them at once first; then naive all 2^m - 1 others but none, IMP those of up to k* pods (FlexTopo paper, section
3.4).
"""

from math import comb

from planner.domain import Preemptor, VictimMethod, VictimSettings
from planner.placement.victims import victims_of
from planner.placement.victims.candidates import Question
from planner.placement.victims.machines import Machines


def tried_sets(machines: Machines, newcomer: Preemptor, settings: VictimSettings, method: VictimMethod) -> int | None:
    """Sets that are tried over all nodes; None for a method that does not go through sets."""
    if method not in (VictimMethod.NAIVE, VictimMethod.IMP):
        return None
    question = Question.of(machines, newcomer, settings)
    least = {node: len(sets[0]) for node, sets in victims_of(machines, newcomer, settings).items()}
    return sum(1 + _of_node(len(question.candidates(node)), least.get(node, 0), method) for node in question.nodes)


def _of_node(pods: int, least: int, method: VictimMethod) -> int:
    """0 where all together make no room, or nobody has to go."""
    if not least:
        return 0
    most = pods if method is VictimMethod.NAIVE else least
    return sum(comb(pods, size) for size in range(1, most + 1))
