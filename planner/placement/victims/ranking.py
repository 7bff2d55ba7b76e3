"""Which set of victims is best, and what the preemptor then takes.

| symbol | meaning | unit | source |
|---|---|---|---|
| S | score, the higher the better | 1 | FlexTopo paper, equation 1 |
| α | weight of priorities against topology | 1 | settings |
| Σ | sum of the victims' priorities, each + shift, so that the cluster's lowest counts as 1 or more | 1 | |
| T | value of the level that the preemptor's GPUs lie on; 0 where its QoS is none | 1 | settings |
| w, L | weight of a lost GPU-hour; GPU-hours since the victims' checkpoints (unknown: 0) | 1/h, h | SpotGPU, 4.2 |

score: S = α/Σ + (1−α)·T. combined: S = α/Σ + (1−α)·(T − w·L). lost work: S = −L, ties fewer victims.
Ties: fewest GPUs freed beyond what the preemptor takes, lower Σ, node order, then the victims' ranks and keys.
No victims at all come before every set.
"""

from collections.abc import Sequence
from typing import Any

from planner.domain import Qos, VictimRule, VictimSet, VictimSettings
from planner.domain.shapes import alignment_of
from planner.placement.victims.candidates import Question
from planner.placement.victims.machines import HostedPod
from planner.placement.victims.target_masks import LEVELS, positions_of

MS_PER_HOUR = 3.6e6
GPU_MS_PER_S = 1000.0

Standing = tuple[float, int, int, int, int]
"""What sets are ordered by, lowest first: −S, victims (lost work only), over-freed GPUs, Σ, number of the node."""


def level_values(settings: VictimSettings, qos: Qos) -> tuple[float, float, float]:
    """T of each of `LEVELS`."""
    return (0.0, 0.0, 0.0) if qos is Qos.NONE else (settings.numa, settings.socket, settings.cross)


def score(settings: VictimSettings, priority_sum: Any, topology: Any, lost_ms: Any) -> Any:
    """S, of one set or of arrays of them; the same operations in the same order, so that both agree to the last bit."""
    lost_h = lost_ms / MS_PER_HOUR
    if settings.rule is VictimRule.LOST_WORK:
        return -lost_h
    if settings.rule is VictimRule.COMBINED:
        topology = topology - settings.lost_work_weight * lost_h
    return settings.alpha / priority_sum + (1 - settings.alpha) * topology


def standing(question: Question, node: int, going: Sequence[int]) -> Standing | None:
    """How a set of victims stands, with the target set that serves it best; None where none is free then."""
    pods = [question.machines.pod(pod) for pod in going]
    freed = _freed(pods)
    free = question.machines.free[node] | freed
    sigma, lost = _sigma(question, pods), sum(pod.lost for pod in pods)
    values = level_values(question.settings, question.preemptor.qos)
    by_count = question.settings.rule is VictimRule.LOST_WORK
    best: tuple[float, int] | None = None
    for mask, level in question.targets(node).ordered:
        if mask & ~free == 0:
            rank = -score(question.settings, sigma, values[level], lost), (freed & ~mask).bit_count()
            best = rank if best is None else min(best, rank)
    if best is None:
        return None
    return best[0], len(pods) if by_count else 0, best[1], sigma, node


def names_of(question: Question, going: Sequence[int]) -> tuple[tuple[int, str], ...]:
    """What settles the last ties: ranks and keys, ascending."""
    pods = (question.machines.pod(pod) for pod in going)
    return tuple(sorted((pod.rank, pod.key) for pod in pods))


def best_of(question: Question, sets: dict[int, tuple[tuple[int, ...], ...]]) -> tuple[int, tuple[int, ...]] | None:
    """The best of all nodes' sets: (node, pods)."""
    best: tuple[tuple[object, ...], int, tuple[int, ...]] | None = None
    for node, candidates in sets.items():
        for going in candidates:
            place = standing(question, node, going)
            if place is None:
                continue
            key = (bool(going), *place, names_of(question, going))
            if best is None or key < best[0]:
                best = key, node, going
    return None if best is None else best[1:]


def victim_set(question: Question, node: int, going: Sequence[int], *, lowest: bool = False) -> VictimSet:
    """The record of a set: least important pods go first; GPUs on the narrowest place, then with the fewest freed
    ones left over, then the lowest. `lowest`: the lowest free ones, as a device plugin without topology gives them.
    """
    machines, preemptor = question.machines, question.preemptor
    pods = [machines.pod(pod) for pod in going]
    freed = _freed(pods)
    mask = _lowest(machines.free[node] | freed, preemptor.gpus) if lowest else _best_target(question, node, freed)
    gpus = machines.indices_of(node, mask)
    alignment = alignment_of(machines.layout_of(node).width(positions_of(mask)))
    lost = sum(pod.lost for pod in pods)
    topology = level_values(question.settings, preemptor.qos)[LEVELS.index(alignment)]
    return VictimSet(
        node=machines.names[node],
        pods=tuple(pod.key for pod in sorted(pods, key=_eviction_order)),
        gpus=gpus,
        alignment=alignment,
        score=float(score(question.settings, _sigma(question, pods), topology, lost)),
        priority_sum=sum(pod.priority for pod in pods),
        lost_gpu_s=lost / GPU_MS_PER_S,
        spare_gpus=(freed & ~mask).bit_count(),
    )


def _eviction_order(pod: HostedPod) -> tuple[int, int, int, str]:
    return pod.priority, pod.lost, pod.rank, pod.key


def _sigma(question: Question, pods: Sequence[HostedPod]) -> int:
    # It is divided by; nobody at all sums to 0.
    return max(1, sum(pod.priority + question.shift for pod in pods))


def _freed(pods: Sequence[HostedPod]) -> int:
    freed = 0
    for pod in pods:
        freed |= pod.mask
    return freed


def _lowest(free: int, count: int) -> int:
    return sum(1 << k for k in positions_of(free)[:count])


def _best_target(question: Question, node: int, freed: int) -> int:
    """Targets come narrowest first (QoS none: lowest first); one pass keeps the first of the best."""
    layout, free = question.machines.layout_of(node), question.machines.free[node] | freed
    topology = question.preemptor.qos is not Qos.NONE
    best: tuple[tuple[int, int], int] | None = None
    target = 0
    for mask, _ in question.targets(node).ordered:
        if mask & ~free:
            continue
        rank = layout.width(positions_of(mask)) if topology else (0, 0), (freed & ~mask).bit_count()
        if best is None or rank < best:
            best, target = rank, mask
    return target
