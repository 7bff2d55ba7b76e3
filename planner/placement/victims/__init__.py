"""Who has to go from a node so that a pod of a higher priority, or groups of an island, can come.

Doors for one pod: `victims_of` (every set of least size, node by node), `best_victims` (the best of them),
`standard_preemption` (Gödel's, the baseline). `Machines` is the state that they look at. Door for islands:
`node_curve` (the cheapest set for so many groups); what is free comes with the question.
"""

from collections.abc import Collection
from typing import Literal

import numpy as np

from planner.domain import Preemptor, VictimMethod, VictimRule, VictimSet, VictimSettings
from planner.domain.preemption import one_of
from planner.errors import InputError
from planner.placement.victims.candidates import Question
from planner.placement.victims.cheapest_sets import Candidate, Curve, Step, node_curve
from planner.placement.victims.machines import Machines
from planner.placement.victims.mask_search import mask_best, mask_sets
from planner.placement.victims.ranking import best_of, victim_set
from planner.placement.victims.subsets import Sets, fitting_sets, imp_sets, naive_sets, reprieved, standard_victims

__all__ = [
    "Candidate",
    "Curve",
    "Machines",
    "Step",
    "best_victims",
    "node_curve",
    "standard_preemption",
    "victims_of",
]


def victims_of(
    machines: Machines,
    preemptor: Preemptor,
    settings: VictimSettings,
    *,
    method: VictimMethod = VictimMethod.MASKS,
    exclude: Collection[str] = (),
) -> dict[int, Sets]:
    """Node -> its sets of victims of least size, as numbers of pods; nodes that cannot make room are absent.

    A node on which the preemptor fits as things are has the empty set. `standard` gives one set a node, which is
    inclusion-minimal and knows no topology. `exclude`: keys of pods that are somebody's victims already.
    Raises InputError for a preemptor without GPUs or larger than every node, and for methods that there are not.
    """
    method = one_of(VictimMethod, method, "victims_of: method")
    question = Question.of(machines, preemptor, settings, exclude)
    if method is VictimMethod.MASKS:
        return mask_sets(question)
    pairs = ((node, _sets_of(question, node, method)) for node in question.nodes)
    return {node: sets for node, sets in pairs if sets}


def best_victims(
    machines: Machines,
    preemptor: Preemptor,
    settings: VictimSettings,
    method: VictimMethod = VictimMethod.MASKS,
    *,
    exclude: Collection[str] = (),
) -> VictimSet | None:
    """The best set over all nodes (`settings.rule`), with nobody in it where the preemptor fits; None: no room at all.

    By `score` the best of the sets of least size, as the paper has it; by `lost_work` and `combined` the best of all
    sets, as many pods may lose less than one: then `imp` stops at no size, and does what `naive` does. `standard` knows
    no rule; it looks at all nodes, pods by start. Raises InputError as `victims_of` does.
    """
    method = one_of(VictimMethod, method, "best_victims: method")
    question = Question.of(machines, preemptor, settings, exclude)
    if method is VictimMethod.STANDARD:
        return standard_victims(question, everywhere=True, by_start=True, rng=None)
    if method is VictimMethod.MASKS:
        best = mask_best(question)
    elif question.settings.rule is VictimRule.SCORE:
        best = best_of(question, {node: _sets_of(question, node, method) for node in question.nodes})
    else:
        best = best_of(question, {node: fitting_sets(question, node) for node in question.nodes})
    return None if best is None else victim_set(question, *best)


def standard_preemption(
    machines: Machines,
    preemptor: Preemptor,
    *,
    policy: Literal["random", "best"] = "random",
    tie: Literal["key", "start"] = "start",
    rng: np.random.Generator | None = None,
    settings: VictimSettings | None = None,
) -> VictimSet | None:
    """Gödel's preemption; None where no node can make room.

    `random` stops at the first node of a random order that can, `best` looks at all. `tie="key"`: as if all pods had
    started at once, so that rank and key order pods of equal priority. Of `settings`, the protection window counts.
    `rng` draws the order of nodes (without it, `best` keeps their own). Raises InputError as `victims_of` does, and
    for `random` without `rng`, other policies and ties.
    """
    for key, value, options in (("policy", policy, ("random", "best")), ("tie", tie, ("key", "start"))):
        if value not in options:
            raise InputError(
                f"standard_preemption: {key}: must be {' or '.join(options)}, got {value!r}.",
                hint="Choose one of them.",
            )
    if policy == "random" and rng is None:
        raise InputError(
            "standard_preemption: rng: must be given for the random candidate policy.",
            hint="Pass numpy.random.default_rng(seed), or ask for the policy best.",
        )
    question = Question.of(machines, preemptor, settings or VictimSettings())
    return standard_victims(question, everywhere=policy == "best", by_start=tie == "start", rng=rng)


def _sets_of(question: Question, node: int, method: VictimMethod) -> Sets:
    if method is VictimMethod.STANDARD:
        going = reprieved(question, node)
        return () if going is None else (going,)
    return imp_sets(question, node) if method is VictimMethod.IMP else naive_sets(question, node)
