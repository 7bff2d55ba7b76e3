"""Jobs drawn from a workload: permanent and diurnal guaranteed ones, nightly standby, spot jobs with checkpoints.

| symbol | meaning | unit | source |
|---|---|---|---|
| P, D | permanent and diurnal load: share of the GPUs | - | facts on spot scheduling, 5: 55 % permanent |
| a | amplitude of the diurnal rate: r(t) = r (1 + a cos(2 pi (t - peak) / day)) | - | facts, 5: 0.8 |
| s | sigma of the lognormal durations, exp(mu) = mean exp(-s^2 / 2) | - | ours |
| G_c, m_c | GPUs of a class of nodes, mean GPUs of a pod that fits on it | GPUs | - |

Jobs of a load L come at a rate that makes L G = rate x mean pods x m_c x mean hours on each class (model, GPUs a node):
a fleet of mixed nodes is asked for in proportion to what it has. Spot jobs are drawn in layers of 5 % of the GPUs, the
last one thinned: the jobs of a load are among those of a larger one, so that a curve over loads compares like with
like. Standby windows begin around 22:00 and end around
08:00 (ASI paper, 4.2: lent GPU-hours peak at midnight).
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil, cos, exp, inf, pi

import numpy as np

from planner.errors import InputError
from planner.studies.spot.records import JobClass, SpotJob, SpotNode, SpotWorkload, StandbyWindow

S_PER_H, S_PER_DAY = 3600.0, 86_400.0
LENDS_AT_H, LENDS_FOR_H, LENDS_SPREAD_H = 22.0, 10.0, 2.0
MOST_JOBS = 5_000_000
MOST_WINDOWS = 5_000_000
MOST_DAYS = 36_500
LAYER = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeClass:
    """Nodes of one model and size, and what pods on them look like: sizes, weights, mean."""

    model: str
    gpus: int
    total: int
    cpus_per_gpu: float
    sizes: tuple[tuple[int, float], ...]

    @property
    def mean(self) -> float:
        """Mean GPUs of a pod."""
        return sum(size * weight for size, weight in self.sizes)


def draw_jobs(
    nodes: Sequence[SpotNode], workload: SpotWorkload, days: float, seed: int, spot_load: float | None = None
) -> tuple[SpotJob, ...]:
    """Jobs of so many days, by submission. `spot_load` instead of the workload's; guaranteed jobs do not depend on it.

    InputError: loads, shares or hours out of range, sizes that no node has, more jobs than `MOST_JOBS` or more standby
    windows than `MOST_WINDOWS` to be expected.
    """
    _require_workload(workload, days, spot_load)
    of_spot = replace(
        workload, sizes=workload.spot_sizes or workload.sizes, gangs=workload.spot_gangs or workload.gangs
    )
    classes, spot_classes = _classes(nodes, workload), _classes(nodes, of_spot)
    end_s = days * S_PER_DAY
    load = workload.spot_load if spot_load is None else spot_load
    layers = ceil(round(load / LAYER, 9))
    come_and_go = workload.diurnal_load * (1 + workload.amplitude) / workload.hp_hours
    _require_few(
        workload,
        _gangs_an_hour(workload, classes, come_and_go)
        + _gangs_an_hour(of_spot, spot_classes, layers * LAYER / workload.spot_hours),
        _pods(classes),
        end_s,
    )
    jobs = _Draw(workload, classes, end_s, np.random.default_rng([seed, 0])).guaranteed()
    for layer in range(layers):
        draw = _Draw(of_spot, spot_classes, end_s, np.random.default_rng([seed, 1, layer]), prefix=f"spot-{layer}")
        jobs.extend(draw.spot(min(1.0, load / LAYER - layer)))
    return tuple(sorted(jobs, key=lambda job: job.submit_s))


def _classes(nodes: Sequence[SpotNode], workload: SpotWorkload) -> list[NodeClass]:
    by_kind: dict[tuple[str, int], list[SpotNode]] = {}
    for node in nodes:
        by_kind.setdefault((node.gpu_model, node.gpus), []).append(node)
    classes = []
    for (model, gpus), members in sorted(by_kind.items()):
        fitting = [(size, weight) for size, weight in workload.sizes if size <= gpus]
        total = sum(weight for _, weight in fitting)
        if not total > 0:
            raise InputError(
                f"sizes: must hold one of at most {gpus} GPUs, as some nodes have no more, got {workload.sizes}.",
                hint="Add a size of 1 GPU.",
            )
        classes.append(
            NodeClass(
                model=model,
                gpus=gpus,
                total=gpus * len(members),
                cpus_per_gpu=min(node.cpus for node in members) / gpus,
                sizes=tuple((size, weight / total) for size, weight in fitting),
            )
        )
    return classes


def _mean_pods(workload: SpotWorkload) -> float:
    return sum(pods * weight for pods, weight in workload.gangs) / sum(weight for _, weight in workload.gangs)


def _pods(classes: Sequence[NodeClass]) -> float:
    """Pods that fill all nodes, on average."""
    return sum(node_class.total / node_class.mean for node_class in classes)


def _gangs_an_hour(workload: SpotWorkload, classes: Sequence[NodeClass], per_hour: float) -> float:
    """Jobs that come in an hour; `per_hour`: how often all nodes are asked for."""
    return per_hour * _pods(classes) / _mean_pods(workload)


def _require_few(workload: SpotWorkload, gangs_an_hour: float, pods: float, end_s: float) -> None:
    """What is to be expected of jobs and windows, before any is drawn."""
    permanent = workload.permanent_load * pods
    windows = workload.standby_share * permanent * (end_s / S_PER_DAY + 1)
    for name, expected, limit in (
        ("jobs", permanent + gangs_an_hour * end_s / S_PER_H, MOST_JOBS),
        ("standby windows", windows, MOST_WINDOWS),
    ):
        if expected > limit:
            raise InputError(
                f"workload: must be at most {limit:,} {name}; these nodes, loads, hours and days would make about "
                f"{expected:,.0f}.",
                hint="Give longer jobs, fewer days or fewer nodes.",
            )


class _Draw:
    """Jobs of one class of jobs from one generator."""

    def __init__(
        self,
        workload: SpotWorkload,
        classes: Sequence[NodeClass],
        end_s: float,
        generator: np.random.Generator,
        prefix: str = "hp",
    ) -> None:
        self.workload, self.classes, self.end_s = workload, classes, end_s
        self.generator, self.prefix = generator, prefix
        self.gpus = sum(node_class.total for node_class in classes)
        self.pods = _mean_pods(workload)
        self.count = 0

    def guaranteed(self) -> list[SpotJob]:
        """Permanent jobs, and those of the day that keep below the peak."""
        permanent = [job for node_class in self.classes for job in self._permanent(node_class)]
        used_gpus = sum(job.total_gpus for job in permanent)
        limit = self.workload.hp_peak * self.gpus
        rate_load, hours = self.workload.diurnal_load, self.workload.hp_hours
        times = [
            (t, node_class)
            for node_class in self.classes
            for t in self._arrivals(node_class, rate_load, hours, diurnal=True)
        ]
        jobs, ends = list(permanent), list[tuple[float, int]]()
        for time_s, node_class in sorted(times, key=lambda pair: pair[0]):
            job = self._job(node_class, JobClass.HP, time_s, self._duration(hours))
            while ends and ends[0][0] <= time_s:
                used_gpus -= heapq.heappop(ends)[1]
            if used_gpus + job.total_gpus <= limit:
                used_gpus += job.total_gpus
                heapq.heappush(ends, (time_s + job.duration_s, job.total_gpus))
                jobs.append(job)
        return jobs

    def spot(self, share: float) -> list[SpotJob]:
        """Spot jobs of one layer at a steady rate; every one of them is kept with this probability."""
        low, high = (np.log(hours) for hours in self.workload.checkpoint_hours)
        jobs = []
        for node_class in self.classes:
            for time_s in self._arrivals(node_class, LAYER, self.workload.spot_hours, diurnal=False):
                lasts_s = self._duration(self.workload.spot_hours)
                checkpoint_s = float(np.exp(self.generator.uniform(low, high))) * S_PER_H
                job = self._job(node_class, JobClass.SPOT, time_s, lasts_s, checkpoint_s=checkpoint_s)
                if self.generator.random() < share:
                    jobs.append(job)
        return jobs

    def _permanent(self, node_class: NodeClass) -> Iterable[SpotJob]:
        """Jobs from the beginning to the end, largest first, so that they fill nodes as if they had always been there.

        A share of them lends its GPUs out every night."""
        gpus_left = round(self.workload.permanent_load * node_class.total)
        sizes = []
        while gpus_left:
            size = min(self._one_of(node_class.sizes), gpus_left)
            sizes.append(size)
            gpus_left -= size
        sizes.sort(reverse=True)
        lends = self._lenders(sizes)
        for number, size in enumerate(sizes):
            windows = self._nights() if number in lends else ()
            yield self._next_job(node_class, JobClass.HP, 0.0, self.end_s + 3 * S_PER_DAY, 1, size, standby=windows)

    def _lenders(self, sizes: Sequence[int]) -> set[int]:
        """Which of the permanent jobs lend: drawn until they have their share of the GPUs."""
        remaining_gpus, lends = self.workload.standby_share * sum(sizes), set[int]()
        for number in self.generator.permutation(len(sizes)).tolist():
            if sizes[number] <= remaining_gpus + 0.5:
                lends.add(number)
                remaining_gpus -= sizes[number]
        return lends

    def _nights(self) -> tuple[StandbyWindow, ...]:
        windows = []
        for day in range(int(self.end_s // S_PER_DAY) + 1):
            begin = LENDS_AT_H + self.generator.uniform(-1, 1) * LENDS_SPREAD_H
            lasts = LENDS_FOR_H + self.generator.uniform(-1, 1) * LENDS_SPREAD_H
            start_s = day * S_PER_DAY + begin * S_PER_H
            windows.append(StandbyWindow(start_s=start_s, end_s=start_s + lasts * S_PER_H))
        return tuple(windows)

    def _arrivals(self, node_class: NodeClass, load: float, hours: float, *, diurnal: bool) -> list[float]:
        """Times of a Poisson process, thinned where its rate is not at its highest."""
        rate = load * node_class.total / (self.pods * node_class.mean * hours * S_PER_H)
        top = rate * (1 + self.workload.amplitude) if diurnal else rate
        times = np.sort(self.generator.uniform(0, self.end_s, self.generator.poisson(top * self.end_s)))
        if not diurnal:
            return [float(t) for t in times]
        chances = self.generator.random(len(times)) * (1 + self.workload.amplitude)
        return [t for t, chance in zip(times.tolist(), chances.tolist(), strict=True) if chance < self._swing(t)]

    def _swing(self, time_s: float) -> float:
        return 1 + self.workload.amplitude * cos(2 * pi * (time_s - self.workload.peak_hour * S_PER_H) / S_PER_DAY)

    def _duration(self, hours: float) -> float:
        """Lognormal of this mean, at least a minute, at most ten times the mean."""
        spread = self.workload.spread
        drawn = hours * S_PER_H * exp(spread * self.generator.standard_normal() - spread**2 / 2)
        return min(max(drawn, 60.0), 10 * hours * S_PER_H)

    def _one_of(self, listed: Sequence[tuple[int, float]]) -> int:
        at = self.generator.random() * sum(weight for _, weight in listed)
        for value, weight in listed:
            at -= weight
            if at < 0:
                return value
        return listed[-1][0]

    def _job(
        self, node_class: NodeClass, kind: JobClass, time_s: float, lasts_s: float, checkpoint_s: float | None = None
    ) -> SpotJob:
        size, pods = self._one_of(node_class.sizes), self._one_of(self.workload.gangs)
        if pods > node_class.gpus // size * (node_class.total // node_class.gpus):
            pods = 1
        return self._next_job(node_class, kind, time_s, lasts_s, pods, size, checkpoint_s=checkpoint_s)

    def _next_job(
        self,
        node_class: NodeClass,
        kind: JobClass,
        time_s: float,
        lasts_s: float,
        pods: int,
        size: int,
        checkpoint_s: float | None = None,
        standby: tuple[StandbyWindow, ...] = (),
    ) -> SpotJob:
        self.count += 1
        return SpotJob(
            name=f"{self.prefix}-{self.count}",
            kind=kind,
            submit_s=time_s,
            pods=pods,
            gpus=size,
            cpus=int(min(self._one_of(self.workload.cpus_per_gpu), node_class.cpus_per_gpu) * size),
            duration_s=lasts_s,
            checkpoint_s=checkpoint_s,
            gpu_model=node_class.model,
            standby=standby,
        )


def _require_workload(workload: SpotWorkload, days: float, spot_load: float | None) -> None:
    load = workload.spot_load if spot_load is None else spot_load
    shares = {
        "permanent load": (workload.permanent_load, 0.0, 1.0),
        "diurnal load": (workload.diurnal_load, 0.0, 1.0),
        "guaranteed load": (workload.permanent_load + workload.diurnal_load, 0.0, 1.0),
        "spot load": (load, 0.0, 2.0),
        "amplitude": (workload.amplitude, 0.0, 1.0),
        "standby share": (workload.standby_share, 0.0, 1.0),
        "guaranteed peak": (workload.hp_peak, workload.permanent_load, 1.0),
        "spread": (workload.spread, 0.0, 3.0),
    }
    for name, (value, low, high) in shares.items():
        if not low <= value <= high:
            raise InputError(
                f"{name}: must be from {low:g} to {high:g}, got {value:g}.", hint=f"Give {(low + high) / 2:g}."
            )
    short, long = workload.checkpoint_hours
    hours = {
        "hours of guaranteed jobs": workload.hp_hours,
        "hours of spot jobs": workload.spot_hours,
        "shortest checkpoint interval": short,
        "longest checkpoint interval": long,
        "days": days,
    }
    for name, value in hours.items():
        if not 0 < value < inf:
            raise InputError(f"{name}: must be above 0, got {value:g}.", hint="Give a number above 0.")
    if days > MOST_DAYS:
        raise InputError(f"days: must be at most {MOST_DAYS:,}, got {days:g}.", hint="Give fewer days.")
    if long < short:
        raise InputError(
            f"checkpoint intervals: the longest must be no less than the shortest, got {short:g} to {long:g} h.",
            hint="Swap the two.",
        )
