"""The sets of least size from target sets of GPUs, for all nodes at once: the answers of IMP without trying subsets.

| symbol | meaning | source |
|---|---|---|
| G | a target set of g GPUs (`target_masks`); it is out where a GPU of it belongs to a pod that may not go | facts, 3 |
| owners(G) | the pods that hold GPUs of G, as the set of their leads | same |
| k | min over G of \\|owners(G)\\| on a node | same |
| pair | a node and a G with \\|owners(G)\\| = k; for the best by lost work, a node and any G | |

A set s makes room if and only if some G has owners(G) ⊆ s, and CPUs, memory and budgets allow s. So no set is smaller
than k, and one of size k that makes room is owners(G) of its G: where some pair's owners free enough CPUs and memory
within the budgets, those of all such pairs are the sets of least size, and k* = k. Where k > 0 of them free too little,
or break a budget, k* may be larger: such nodes are completed one by one (`completions`).

The best set of the rules in which lost work counts need not be one of least size. Whatever the rule, a set only gets
worse by a pod that nothing needs, so that the best one is owners(G) of some G, least or not: all pairs are compared.
Nodes where owners of some G free too little CPUs or memory are then completed as well.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from planner.domain import VictimRule
from planner.placement.victims.candidates import Question
from planner.placement.victims.completions import completed_sets, minimal_sets
from planner.placement.victims.machines import NOBODY, Array
from planner.placement.victims.ranking import Standing, level_values, names_of, score, standing
from planner.placement.victims.subsets import Sets
from planner.placement.victims.target_masks import Targets, positions_of, targets_of

CELLS = 2**18
"""Targets × nodes of a chunk: temporaries stay in the cache."""
NEVER = 255  # owners: more than a node has GPUs

Ranked = tuple[tuple[object, ...], int, tuple[int, ...]]
"""A set to compare: its place (lowest first), node and pods."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs (P,) that make room: number of the node, number of the target, owners as bits of their leads; `members`
    (W, P) are those bits apart. `hard`: nodes (numbers) that pairs alone cannot answer."""

    targets: Targets
    node: Array
    target: Array
    bits: Array
    members: Array
    hard: Array

    def total(self, at: Array) -> Array:
        """(P,) Sum over the owners of what is kept at leads."""
        sums: Array = np.multiply(self.members, at.take(self.node, axis=1)).sum(axis=0)
        return sums

    def keep(self, which: Array) -> "Pairs":
        """Some of the pairs."""
        return Pairs(
            self.targets, self.node[which], self.target[which], self.bits[which], self.members[:, which], self.hard
        )


def mask_sets(question: Question) -> dict[int, Sets]:
    """Node -> its sets of least size, as numbers of pods; nodes ascending."""
    by_node: dict[int, Sets] = {}
    for pairs in _all_pairs(question, every=False):
        of_node: dict[int, set[tuple[int, ...]]] = defaultdict(set)
        for node, bits in zip(pairs.node.tolist(), pairs.bits.tolist(), strict=True):
            of_node[node].add(_pods(question, node, bits))
        by_node.update((node, tuple(sorted(sets))) for node, sets in of_node.items())
        by_node.update((node, sets) for node in pairs.hard.tolist() if (sets := completed_sets(question, node)))
    return dict(sorted(by_node.items()))


def mask_best(question: Question) -> tuple[int, tuple[int, ...]] | None:
    """The best set over all nodes: (node, pods)."""
    best: Ranked | None = None
    hard: list[int] = []
    for pairs in _all_pairs(question, every=question.settings.rule is not VictimRule.SCORE):
        ranked = _best_pair(question, pairs)
        hard += pairs.hard.tolist()
        if ranked is not None and (best is None or ranked < best):
            best = ranked
    if best is None or best[2]:  # on a hard node somebody has to go
        best = min((entry for entry in (best, _best_hard(question, hard)) if entry is not None), default=None)
    return None if best is None else best[1:]


def _all_pairs(question: Question, *, every: bool) -> Iterator[Pairs]:
    """Chunks of nodes; `every`: pairs of any number of owners."""
    preemptor = question.preemptor
    for layout, nodes in question.machines.groups(preemptor.gpu):
        targets = targets_of(layout, preemptor.gpus, preemptor.qos)
        if not targets:
            continue
        # Chunks of few nodes would spend their time between calls of numpy.
        step = max(256, CELLS // len(targets))
        for start in range(0, len(nodes), step):
            yield _pairs(question, targets, nodes[start : start + step], every=every)


def _pairs(question: Question, targets: Targets, nodes: Array, *, every: bool) -> Pairs:
    machines = question.machines
    first, last = int(nodes[0]), int(nodes[-1]) + 1
    if last - first == len(nodes):  # neighbours, as a rule: no copies
        owner, lead_bit = machines.owner[:, first:last], machines.lead_bit[:, first:last]
    else:
        owner, lead_bit = machines.owner.take(nodes, axis=1), machines.lead_bit.take(nodes, axis=1)
    # Column by column: no temporary of targets x GPUs x nodes.
    owners = lead_bit[targets.positions[:, 0]]
    for column in targets.positions.T[1:]:
        owners |= lead_bit[column]
    counts = np.bitwise_count(owners)
    # -1, nobody, wraps to the last entry, which bars nothing.
    barred = _packed(~question.eligible.take(owner, mode="wrap"), lead_bit.dtype)
    masks = targets.masks.astype(lead_bit.dtype)
    counts[(masks[:, None] & barred) != 0] = NEVER
    fewest = counts.min(axis=0)
    target, at = np.nonzero((counts == fewest) & (fewest != NEVER) if not every else counts != NEVER)
    bits = owners[target, at]
    members = (bits >> np.arange(machines.width, dtype=bits.dtype)[:, None]) & bits.dtype.type(1)
    pairs = Pairs(targets, nodes[at], target, bits, members, nodes[:0])
    if not (question.cpus or question.memory or len(question.machines.allowed)):  # nothing binds
        return pairs
    enough, within = _enough(question, pairs), _within_budgets(question, pairs)
    fitting = pairs.keep(enough & within)
    hard = np.zeros(len(nodes), dtype=bool)
    if every:
        hard[at[within & ~enough]] = True
    else:
        hard[at] = True
        hard[at[enough & within]] = False
    return Pairs(targets, fitting.node, fitting.target, fitting.bits, fitting.members, nodes[hard])


def _packed(flags: Array, kind: np.dtype[np.generic]) -> Array:
    """(N,) Bits of (W, N) flags, the lowest position first."""
    # Positions are bits as in `masks`, so that the two can be anded.
    packed = np.packbits(flags, axis=0, bitorder="little")
    if kind == np.uint8:
        return packed[0] if len(packed) else np.zeros(flags.shape[1], dtype=np.uint8)
    bits: Array = packed[0].astype(np.uint16) | packed[1].astype(np.uint16) << 8
    return bits


def _enough(question: Question, pairs: Pairs) -> Array:
    """(P,) Whether a pair's owners free the missing CPUs and memory."""
    machines = question.machines
    enough: Array = np.ones(len(pairs.node), dtype=bool)
    for needed, free, at in (
        (question.cpus, machines.free_cpus, machines.cpus_at),
        (question.memory, machines.free_memory, machines.memory_at),
    ):
        if needed:
            enough &= pairs.total(at) >= needed - free[pairs.node]
    return enough


def _within_budgets(question: Question, pairs: Pairs) -> Array:
    """(P,) Whether no disruption budget allows fewer than a pair's owners."""
    machines = question.machines
    if not len(machines.allowed):
        return np.ones(len(pairs.node), dtype=bool)
    budgets = np.where(pairs.members != 0, machines.budget_at.take(pairs.node, axis=1), NOBODY)
    limits = np.append(machines.allowed, machines.width)  # the last: of pods without a budget
    within: Array = np.ones(len(pairs.node), dtype=bool)
    for row in budgets:
        counts = (budgets == row).sum(axis=0)
        within &= (row == NOBODY) | (counts <= limits[row])
    return within


def _best_pair(question: Question, pairs: Pairs) -> Ranked | None:
    if not len(pairs.node):
        return None
    machines, settings = question.machines, question.settings
    if not pairs.bits.all():  # somewhere it fits as things are
        pairs = pairs.keep(pairs.bits == 0)
    counts = np.bitwise_count(pairs.bits).astype(np.int64)
    sigma = np.maximum(pairs.total(machines.priority_at) + question.shift * counts, 1)
    lost = 0 if settings.rule is VictimRule.SCORE else pairs.total(machines.lost_at)
    values = np.array(level_values(settings, question.preemptor.qos))
    scores = score(settings, sigma, values[pairs.targets.levels[pairs.target]], lost)
    # Ties are told exactly: `score` takes the same steps for one set and for many.
    first = np.flatnonzero(scores == scores.max())
    pairs, sigma = pairs.keep(first), sigma[first]
    counts = counts[first] * (settings.rule is VictimRule.LOST_WORK)
    alive, place = _lowest((counts, _over_freed(question, pairs), sigma, pairs.node))
    node = place[-1]
    sets = {_pods(question, node, int(bits)) for bits in pairs.bits[alive]}
    names, going = min((names_of(question, going), going) for going in sets)
    return (bool(going), -float(scores[first[0]]), *place, names), node, going


def _lowest(ranks: Sequence[Array]) -> tuple[Array, list[int]]:
    """Where ranks, one after the other, are least, and what they are there."""
    alive, place = np.arange(len(ranks[0])), []
    for rank in ranks:
        values = rank[alive]
        lowest = values.min()
        alive = alive[values == lowest]
        place.append(int(lowest))
    return alive, place


def _over_freed(question: Question, pairs: Pairs) -> Array:
    """(P,) GPUs that the owners free beyond those of the target."""
    machines = question.machines
    masks = pairs.targets.masks[pairs.target]
    occupied = _packed(machines.owner.take(pairs.node, axis=1) != NOBODY, machines.lead_bit.dtype)
    over: Array = pairs.total(machines.gpus_at) - np.bitwise_count(masks & occupied)
    return over


def _best_hard(question: Question, nodes: Sequence[int]) -> Ranked | None:
    best: Ranked | None = None
    sets_of = completed_sets if question.settings.rule is VictimRule.SCORE else minimal_sets
    for node in nodes:
        for going in sets_of(question, node):
            place: Standing | None = standing(question, node, going)
            assert place is not None  # every completed set frees a target
            ranked: Ranked = (bool(going), *place, names_of(question, going)), node, going
            if best is None or ranked < best:
                best = ranked
    return best


def _pods(question: Question, node: int, bits: int) -> tuple[int, ...]:
    owner = question.machines.owner
    return tuple(sorted(int(owner[k, node]) for k in positions_of(bits)))
