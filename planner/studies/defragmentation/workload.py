"""Tasks drawn from a workload: those that are there at the beginning, and those that come."""

from collections.abc import Sequence
from math import inf

import numpy as np

from planner.errors import InputError
from planner.studies.defragmentation.records import HOST_GPUS, ChurnTask, ChurnWorkload

HOURS_A_DAY = 24.0
MOST_TASKS = 1_000_000


def draw_tasks(workload: ChurnWorkload, seed: int) -> tuple[ChurnTask, ...]:
    """Tasks by submission; those of hour 0 hold the load. Lives are exponential, so that those left are alike.

    InputError: values out of range, more than `MOST_TASKS` tasks.
    """
    _require(workload)
    generator = np.random.default_rng([seed, 0])
    mean_gpus = _mean(workload.sizes)
    hours = HOURS_A_DAY * workload.days
    rate = workload.load * HOST_GPUS * workload.nodes / (mean_gpus * workload.life_hours)
    if rate * hours > MOST_TASKS:
        raise InputError(
            f"Defragmentation study: at most {MOST_TASKS:,} tasks, got about {rate * hours:,.0f}.",
            hint="Take fewer nodes or days, or longer lives.",
        )
    draw = _Draw(workload, generator)
    begin = draw.until(workload.load * HOST_GPUS * workload.nodes)
    arrivals = np.sort(generator.uniform(0, hours, generator.poisson(rate * hours))).tolist()
    return (*begin, *(draw.task(at) for at in arrivals))


class _Draw:
    """Tasks one after the other, numbered."""

    def __init__(self, workload: ChurnWorkload, generator: np.random.Generator) -> None:
        self.workload, self.generator = workload, generator
        self.count = self.grouped = 0

    def until(self, gpus: float) -> list[ChurnTask]:
        """Tasks of hour 0 that hold so many GPUs together."""
        tasks, total = [], 0
        while total < gpus:
            task = self.task(0.0)
            if total + task.gpus <= gpus + HOST_GPUS:
                tasks.append(task)
                total += task.gpus
        return tasks

    def task(self, at_h: float) -> ChurnTask:
        """One task."""
        workload, generator = self.workload, self.generator
        gpus = self._one_of(workload.sizes)
        chances = generator.random(4).tolist()
        exclusive = gpus < HOST_GPUS and chances[2] < workload.exclusive
        self.grouped += exclusive
        self.count += 1
        return ChurnTask(
            number=self.count,
            submit_h=at_h,
            life_h=float(generator.exponential(workload.life_hours)),
            gpus=gpus,
            cpus=gpus * self._one_of(workload.cpus_per_gpu),
            locked=chances[0] < workload.locked,
            pool=int(2 * chances[3]) if chances[1] < workload.affine else -1,
            group=self.grouped // workload.group if exclusive else -1,
        )

    def _one_of(self, listed: Sequence[tuple[int, float]]) -> int:
        at = self.generator.random() * sum(weight for _, weight in listed)
        for value, weight in listed:
            at -= weight
            if at < 0:
                return value
        return listed[-1][0]


def _mean(listed: Sequence[tuple[int, float]]) -> float:
    return sum(value * weight for value, weight in listed) / sum(weight for _, weight in listed)


def _require(workload: ChurnWorkload) -> None:
    shares = (workload.locked, workload.affine, workload.exclusive)
    checks = (
        ("nodes", 2 <= workload.nodes <= 10_000, "2 to 10,000", workload.nodes),
        ("load", 0 < workload.load <= 1, "above 0, at most 1", workload.load),
        ("days", 0 < workload.days <= 365, "above 0, at most 365", workload.days),
        ("warm-up days", 0 <= workload.warm_up_days < workload.days, "from 0, less than days", workload.warm_up_days),
        ("hours of life", 0 < workload.life_hours < inf, "above 0", workload.life_hours),
        ("shares", all(0 <= share <= 1 for share in shares), "from 0 to 1", shares),
    )
    for name, holds, rule, came in checks:
        if not holds:
            raise InputError(f"Defragmentation study: {name} must be {rule}, got {came}.", hint="Correct the value.")
