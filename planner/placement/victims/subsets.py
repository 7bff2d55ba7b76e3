"""Sets of victims by trying subsets: Incremental Minimal Preemption, and every subset as its check.

| symbol | meaning | source |
|---|---|---|
| V, m | the pods of a node that may go, and how many | FlexTopo paper, algorithm 2 |
| S(P, N∖s) | the preemptor fits once s is gone | same |
| k* | least number of pods whose going suffices | |

IMP tries at most Σ_{i≤k*} C(m, i) subsets, the naive form 2^m − 1. Where lost work counts, more pods may lose less, so
that least size says nothing: then every subset that fits is looked at.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, combinations

from planner.placement.victims.candidates import Case, Question
from planner.placement.victims.machines import HostedPod

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
