"""What it costs to evict a pod, so that sets of pods can be compared: prices add up and compare from left to right.

| symbol | meaning | unit | source |
|---|---|---|---|
| p, N | priority of a pod, of the islands | 1 | scenario, cluster |
| p_0 | lowest priority of all pods that may go, at least counted as one below N | 1 | |
| L | work since the last checkpoint: GPUs x seconds, in whole milliseconds | GPU-ms | SpotGPU's C (ASI paper, 4.2) |
| R, n | rank of p among the priorities of pods that may go, and the number of these pods | 1 | |
| u | 1 where L is not known, else 0 | 1 | |

priority    ((n + 1)^R, u, L, 1, GPUs)      one pod of a rank weighs more than all pods of lower ranks together
lost_work   (u, L, 1, (n + 1)^R, GPUs)
combined    (u, 10^6 ((p - p_0 + 1) / (N - p_0) + 0.1 L in GPU-hours), 1, GPUs): ten lost GPU-hours weigh as much as a
            priority just below the islands'
Prices are whole numbers, so that sums of equal prices are equal.
"""

from collections.abc import Iterable, Mapping

from planner.domain import EvictionRule, PlacementSettings, Pod

LOST_WORK_WEIGHT = 0.1
SCALE = 1_000_000
MS_PER_GPU_HOUR = 3_600_000

Price = tuple[int, ...]


def may_go(pod: Pod, priority: int) -> bool:
    """Whether a pod may be evicted for work of this priority, budgets aside."""
    # What a pod frees is only known where it is known which GPUs it holds.
    return pod.preemptible and not pod.locked and pod.priority < priority and pod.gpus_known


def prices_of(pods: Iterable[Pod], settings: PlacementSettings, rule: EvictionRule) -> Mapping[str, Price]:
    """The price of each pod, by key. All are equally long."""
    listed = list(pods)
    ranks = {priority: rank for rank, priority in enumerate(sorted({pod.priority for pod in listed}))}
    lowest = min(ranks, default=settings.priority - 1)
    # More than all pods: so one of a rank outweighs all of lower ranks.
    base = len(listed) + 1
    return {pod.key: _price(pod, settings, rule, base ** ranks[pod.priority], lowest) for pod in listed}


def _price(pod: Pod, settings: PlacementSettings, rule: EvictionRule, weight: int, lowest: int) -> Price:
    hours = settings.lost_gpu_hours(pod)
    unknown, lost_ms = (1, 0) if hours is None else (0, round(hours * MS_PER_GPU_HOUR))
    match rule:
        case EvictionRule.PRIORITY:
            return weight, unknown, lost_ms, 1, pod.gpu_count
        case EvictionRule.LOST_WORK:
            return unknown, lost_ms, 1, weight, pod.gpu_count
        case EvictionRule.COMBINED:
            near = (pod.priority - lowest + 1) / (settings.priority - lowest)
            return unknown, round(SCALE * (near + LOST_WORK_WEIGHT * (hours or 0.0))), 1, pod.gpu_count


def plus(price: Price, other: Price) -> Price:
    """Both together; () is nothing."""
    if not price or not other:
        return price or other
    return tuple(a + b for a, b in zip(price, other, strict=True))
