"""Sets of victims by trying subsets: Incremental Minimal Preemption, and every subset as its check.

| symbol | meaning | source |
|---|---|---|
| V, m | the pods of a node that may go, and how many | FlexTopo paper, algorithm 2 |
| S(P, N∖s) | the preemptor fits once s is gone | same |
| k* | least number of pods whose going suffices | |

IMP tries at most Σ_{i≤k*} C(m, i) subsets, the naive form 2^m − 1. Where lost work counts, more pods may lose less, so
that least size says nothing: then every subset that fits is looked at.
"""

from itertools import combinations

from planner.placement.victims.candidates import Question
from planner.placement.victims.machines import Held

Sets = tuple[tuple[int, ...], ...]
"""Sets of victims of one node: numbers of pods, ascending; (()) where the preemptor fits as things are."""


def imp_sets(question: Question, node: int) -> Sets:
    """All sets of least size, subsets by size until one fits (FlexTopo paper, algorithm 2)."""
    case, pods = question.case(node), _candidates(question, node)
    if case.fits(()):
        return ((),)
    if not case.fits(pods.values()):
        return ()
    for size in range(1, len(pods) + 1):
        found = tuple(
            tuple(number for number, _ in chosen)
            for chosen in combinations(pods.items(), size)
            if case.fits([pod for _, pod in chosen])
        )
        found = tuple(going for going in found if question.within_budgets(going))
        if found:
            return found
    return ()


def naive_sets(question: Question, node: int) -> Sets:
    """All sets of least size, out of every subset that fits."""
    found = fitting_sets(question, node)
    least = min(map(len, found), default=0)
    return tuple(going for going in found if len(going) == least)


def fitting_sets(question: Question, node: int) -> Sets:
    """Every subset that fits and that budgets allow, the smaller ones first; only (()) where nobody has to go."""
    case, pods = question.case(node), _candidates(question, node)
    if case.fits(()):
        return ((),)
    found = (
        tuple(number for number, _ in chosen)
        for size in range(1, len(pods) + 1)
        for chosen in combinations(pods.items(), size)
        if case.fits([pod for _, pod in chosen])
    )
    return tuple(going for going in found if question.within_budgets(going))


def _candidates(question: Question, node: int) -> dict[int, Held]:
    return {pod: question.machines.pod(pod) for pod in sorted(question.candidates(node))}
