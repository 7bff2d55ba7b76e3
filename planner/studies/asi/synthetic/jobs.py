"""Jobs of a made-up trace: types, models, GPU types, sizes, run times and nights drawn to published marginals.

| symbol | meaning | unit |
|---|---|---|
| L | GPUs that jobs of a job type, priority, model and GPU type hold on average | GPUs |
| m, d | mean GPUs of such a job, mean of its hours | GPUs, h |

Jobs come at a rate of L / (m d). Models meet GPU types so that both keep their totals (iterative proportional fitting
of how models lean).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import cos, exp, floor, pi
from statistics import NormalDist

import numpy as np

from planner.studies.asi.synthetic.marginals import (
    ALLOCATED,
    CLASSICAL,
    CPUS_PER_GPU,
    FIRST_DAY,
    FLEET,
    HOURS,
    HP_SHARES,
    JOB_SHARES,
    LEANING,
    LENDING,
    MODELS,
    OTHER_LEANING,
    RISE,
    RISE_DAY,
    RISING,
    SIZES,
    SWING,
    WAITING,
    WARM_UP_DAYS,
    ServerKind,
    Weights,
)
from planner.studies.spot.records import JobClass, SpotJob, StandbyWindow

S_PER_H, S_PER_DAY = 3600.0, 86_400.0
PEAK_HOUR, EVENING_H, NIGHT_H, NIGHT_SPREAD_H = 15.0, 23.0, 8.0, 1.5
CHECKPOINT_HOURS = (1.0, 8.0)
MOST_OF_A_KIND = 0.25
"""No job asks for more of a GPU type's GPUs."""

ROUNDS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """A job, and what a trace says of it. `lends`: at night, whenever it runs."""

    job: SpotJob
    job_type: str
    model: str
    lends: bool

    @property
    def genai(self) -> bool:
        """Whether it asks for a GenAI model."""
        return self.model == "genai"


def gpus_by_model() -> dict[tuple[str, str], float]:
    """Share of all GPU-hours by model and GPU type: models as in MODELS, GPU types as many as there are."""
    models = dict.fromkeys((*CLASSICAL, "genai", "dev"), 0.0)
    for job_type, shares in MODELS.items():
        for model, share in shares.items():
            models[model] += JOB_SHARES[job_type] * share
    kinds = np.array([kind.gpus * kind.servers for kind in FLEET], dtype=float)
    kinds /= kinds.sum()
    leaning = np.array([LEANING.get(kind.gpu, OTHER_LEANING) for kind in FLEET])
    table = np.array([kinds * (leaning if model == "genai" else 1.0) for model in models])
    rows = np.array(list(models.values()))
    for _ in range(ROUNDS):
        table *= (rows / table.sum(axis=1))[:, None]
        table *= kinds / table.sum(axis=0)
    return {
        (model, kind.gpu): float(table[at, place])
        for at, model in enumerate(models)
        for place, kind in enumerate(FLEET)
    }


def draw_trace_jobs(days: int, seed: int) -> tuple[TraceJob, ...]:
    """Jobs from `WARM_UP_DAYS` before the first day on, by submission; seconds count from there."""
    joint, draws = gpus_by_model(), np.random.default_rng([seed, 0])
    totals = {model: sum(share for (name, _), share in joint.items() if name == model) for model, _ in joint}
    total_gpus = sum(kind.gpus * kind.servers for kind in FLEET)
    jobs: list[TraceJob] = []
    for job_type, shares in MODELS.items():
        for model, share in shares.items():
            for kind in FLEET:
                held_gpus = (
                    ALLOCATED * total_gpus * JOB_SHARES[job_type] * share * joint[model, kind.gpu] / totals[model]
                )
                for priority in JobClass:
                    of_class = HP_SHARES[job_type] if priority is JobClass.HP else WAITING * (1 - HP_SHARES[job_type])
                    cell = _Cell(
                        job_type=job_type, model=model, kind=kind, priority=priority, held_gpus=held_gpus * of_class
                    )
                    jobs.extend(cell.jobs(days + WARM_UP_DAYS, draws))
    return tuple(sorted(jobs, key=lambda drawn: (drawn.job.submit_s, drawn.job.name)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    """Jobs of one type, model, GPU type and priority; `held_gpus`: that they hold on average."""

    job_type: str
    model: str
    kind: ServerKind
    priority: JobClass
    held_gpus: float

    def jobs(self, days: int, draws: np.random.Generator) -> Iterator[TraceJob]:
        """All of them over so many days."""
        median_h, sigma = HOURS[self.job_type]
        shapes = self._shapes()
        mean_gpus = sum(weight * gpus * pods for gpus, pods, weight in shapes)
        rate = self.held_gpus / (mean_gpus * median_h * exp(sigma**2 / 2))
        swing = SWING[self.job_type] if self.priority is JobClass.HP else 0.0
        count = floor(rate * (1 + swing) * 24 * days + draws.random())
        edges = np.cumsum([weight for _, _, weight in shapes])
        parts = zip(*(_spread_out(count, draws) for _ in range(3)), strict=True)
        for number, (at, of_shape, of_hours) in enumerate(sorted(parts)):
            time_h = 24 * days * at
            if draws.random() * (1 + swing) < (1 + swing * cos(2 * pi * (time_h - PEAK_HOUR) / 24)) * self._rise(
                time_h
            ):
                shape = shapes[min(int(np.searchsorted(edges, of_shape)), len(shapes) - 1)]
                lasts_h = max(0.05, median_h * exp(sigma * NormalDist().inv_cdf(of_hours)))
                yield self._job(number, time_h, shape[:2], lasts_h, draws)

    def _rise(self, time_h: float) -> float:
        """Less of the type that is not yet popular."""
        early = FIRST_DAY - WARM_UP_DAYS + time_h / 24 < RISE_DAY
        return 1 / RISE if early and self.kind.gpu == RISING and self.priority is JobClass.HP else 1.0

    def _job(
        self, number: int, time_h: float, shape: tuple[int, int], lasts_h: float, draws: np.random.Generator
    ) -> TraceJob:
        pod_gpus, pods = shape
        ratio = _one_of(CPUS_PER_GPU[self.kind.gpus], draws)
        spot = self.priority is JobClass.SPOT
        checkpoint_h = exp(draws.uniform(*np.log(CHECKPOINT_HOURS)))
        lends = not spot and self.job_type == "online_inference" and draws.random() < LENDING
        job = SpotJob(
            name=f"{self.job_type}-{self.model}-{self.kind.gpu}-{self.priority.value}-{number}",
            kind=self.priority,
            submit_s=time_h * S_PER_H,
            pods=pods,
            gpus=pod_gpus,
            cpus=int(min(ratio, self.kind.cpus / self.kind.gpus)) * pod_gpus,
            duration_s=lasts_h * S_PER_H,
            checkpoint_s=checkpoint_h * S_PER_H if spot else None,
            gpu_model=self.kind.gpu,
        )
        return TraceJob(job=job, job_type=self.job_type, model=self.model, lends=lends)

    def _shape(self, pod_gpus: int, pods: int) -> tuple[int, int]:
        """As many GPUs where servers have fewer, and no more than a part of the type's."""
        most_gpus = max(self.kind.gpus, int(MOST_OF_A_KIND * self.kind.gpus * self.kind.servers))
        fitting = min(pod_gpus, self.kind.gpus)
        return fitting, max(1, min(pod_gpus * pods, most_gpus) // fitting)

    def _shapes(self) -> list[tuple[int, int, float]]:
        """GPUs a pod, pods, and how often."""
        sizes, gangs = SIZES[self.model == "genai"]
        return [(*self._shape(size, pods), a * b) for size, a in sizes for pods, b in gangs]


def with_nights(jobs: Sequence[TraceJob], starts_s: Mapping[str, float], seed: int) -> list[SpotJob]:
    """The jobs, standby of those that lend on their own clocks, from the time at which each starts."""
    draws = np.random.default_rng([seed, 2])
    return [
        replace(
            drawn.job,
            standby=tuple(_nights(starts_s[drawn.job.name] / S_PER_H, drawn.job.duration_s / S_PER_H, draws)),
        )
        if drawn.lends and drawn.job.name in starts_s
        else drawn.job
        for drawn in jobs
    ]


def _nights(time_h: float, lasts_h: float, draws: np.random.Generator) -> Iterator[StandbyWindow]:
    """From about 23:00 to about 7:00, while it runs."""
    day = 0
    while True:
        begin_h = 24 * day + EVENING_H + draws.uniform(-1, 1) * NIGHT_SPREAD_H - time_h
        end_h = min(begin_h + NIGHT_H + draws.uniform(-1, 1) * NIGHT_SPREAD_H, lasts_h)
        day += 1
        if begin_h >= lasts_h:
            return
        if begin_h > 0 and end_h - begin_h > 0.1:
            yield StandbyWindow(start_s=begin_h * S_PER_H, end_s=end_h * S_PER_H)


def _spread_out(count: int, draws: np.random.Generator) -> list[float]:
    """So many numbers between 0 and 1, one in each part of equal length, in random order: totals come near means."""
    drawn: list[float] = ((draws.permutation(count) + draws.uniform(1e-6, 1 - 1e-6, count)) / max(1, count)).tolist()
    return drawn


def _one_of(weights: Weights, draws: np.random.Generator) -> int:
    at = draws.random() * sum(weight for _, weight in weights)
    for value, weight in weights:
        at -= weight
        if at < 0:
            return value
    return weights[-1][0]


def by_name(jobs: tuple[TraceJob, ...]) -> Mapping[str, TraceJob]:
    """Jobs by their names."""
    return {drawn.job.name: drawn for drawn in jobs}
