"""Spot capacity: high-priority jobs with standby windows, preemptible jobs with checkpoints, and what became of them.

Seconds count from the beginning of the simulation; GPUs and CPUs are whole numbers a pod.
"""

from dataclasses import dataclass
from enum import StrEnum


class JobClass(StrEnum):
    """`hp`: guaranteed, never evicted. `spot`: takes what is free and gives it back when a guaranteed job needs it."""

    HP = "hp"
    SPOT = "spot"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotNode:
    """A machine whose `gpus` GPUs are of one model ("": not told)."""

    name: str
    gpus: int
    cpus: int
    gpu_model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyWindow:
    """Time in which a guaranteed job lends its GPUs and CPUs out: seconds of the job's own clock, from its start."""

    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotJob:
    """A gang of `pods` pods with so many GPUs and CPUs each; it runs when all of them do.

    `duration_s`: a guaranteed job's time from its start to its end, standby included; a spot job's work.
    `checkpoint_s`: a spot job saves its work every so often (None for guaranteed jobs). `gpu_model` "": any.
    """

    name: str
    kind: JobClass
    submit_s: float
    pods: int
    gpus: int
    cpus: int
    duration_s: float
    checkpoint_s: float | None = None
    gpu_model: str = ""
    standby: tuple[StandbyWindow, ...] = ()

    @property
    def total_gpus(self) -> int:
        """GPUs of all its pods."""
        return self.pods * self.gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotPolicy:
    """How nodes are ranked and victims chosen.

    Ranking, each breaking the ties of those before it, and the node's place in the list at last: `packing` (least idle
    GPUs), `colocation` (no pods of the other class), `history` (spot jobs: fewest evictions so far, guaranteed jobs:
    most). `by_cost`: the node and the victims that lose least work, else both at random; `prune`: victims that are not
    needed after all are spared. `window`: how many waiting spot jobs are tried when something becomes free.
    """

    name: str
    by_cost: bool = True
    packing: bool = True
    colocation: bool = True
    history: bool = True
    prune: bool = True
    window: int = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionLaw:
    """Seconds from the signal to end until a pod's GPUs are back: lognormal (mu, sigma), killed after `longest_s`.

    The two meet the ASI paper's mean (13 s) and P95 (48 s) of evictions as they are measured, killed ones with 60 s;
    3.2 % are killed then (paper: fewer than 5 %).
    """

    mu: float = 2.052
    sigma: float = 1.106
    longest_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotWorkload:
    """What jobs are drawn from. Loads are shares of the cluster's GPUs; hours are means of lognormal durations.

    `permanent_load`: guaranteed jobs that run throughout; `diurnal_load`: the mean of those that come and go, their
    rate swinging by `amplitude` around it over a day, highest at `peak_hour`. `hp_peak`: guaranteed jobs that would
    take more than this share at once do not come. `standby_share`: of the permanent jobs' GPUs, lent out every night.
    `checkpoint_hours`: shortest and longest interval, log-uniform. `sizes` and `gangs`: GPUs a pod and pods a job with
    their weights, `spot_sizes` and `spot_gangs` those of spot jobs (empty: the same); `cpus_per_gpu` likewise.
    """

    permanent_load: float = 0.55
    diurnal_load: float = 0.14
    amplitude: float = 0.8
    peak_hour: float = 15.0
    hp_hours: float = 1.1
    hp_peak: float = 1.0
    standby_share: float = 0.1
    spot_load: float = 0.245
    spot_hours: float = 5.0
    checkpoint_hours: tuple[float, float] = (1.0, 8.0)
    spread: float = 1.0
    sizes: tuple[tuple[int, float], ...] = ((1, 0.50), (2, 0.22), (4, 0.16), (8, 0.12))
    gangs: tuple[tuple[int, float], ...] = ((1, 0.97), (2, 0.02), (4, 0.01))
    spot_sizes: tuple[tuple[int, float], ...] = ()
    spot_gangs: tuple[tuple[int, float], ...] = ()
    cpus_per_gpu: tuple[tuple[int, float], ...] = ((8, 0.5), (12, 0.3), (16, 0.2))


class SpotAction(StrEnum):
    """What happens to a job.

    `claim`: a guaranteed job has its nodes, but waits for evicted pods to be gone. `evict`: a spot job is told to end;
    `gone`: it has. `standby`: GPUs are lent out; `reclaim`: they are wanted back; `resume`: they are back.
    """

    CLAIM = "claim"
    START = "start"
    EVICT = "evict"
    GONE = "gone"
    STANDBY = "standby"
    RECLAIM = "reclaim"
    RESUME = "resume"
    FINISH = "finish"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotEvent:
    """One thing that happened. `nodes`: a place in the list of nodes for each of the job's pods."""

    time_s: float
    action: SpotAction
    job: SpotJob
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotSample:
    """Means over a stretch of time that ends at `time_s`, in GPUs; jobs and GPUs that wait as they are at its end.

    `hp`: of guaranteed jobs at work; `standby`: lent out by them; `spot`: of spot jobs, evicted ones until gone.
    `harvested`: lent ones that spot jobs use. `published_harvest`: as the ASI paper's figure 16 counts, the mean over
    `lending_nodes` of spot GPUs over lent ones, at most 1 (None: nothing is lent).
    """

    time_s: float
    hp_gpus: float
    standby_gpus: float
    spot_gpus: float
    idle_gpus: float
    waiting_jobs: int
    waiting_gpus: int
    evictions: int
    harvested_gpus: float = 0.0
    lending_nodes: float = 0.0
    published_harvest: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFate:
    """What became of a job. None: not by the end. `wait_s`: until its first start; `resume_s`: for GPUs it had lent."""

    job: SpotJob
    started_s: float | None
    finished_s: float | None
    evictions: int
    wait_s: float
    resume_s: float

    @property
    def completion_s(self) -> float | None:
        """From submission to end."""
        return None if self.finished_s is None else self.finished_s - self.job.submit_s


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotFigures:
    """Figures of merit from the end of the warm-up on; means over time, or over jobs submitted since then.

    `hp_percent` and `all_percent`: allocation by the standby accounting, mean over nodes: guaranteed jobs at work plus
    what they lend out and nobody takes; the second with spot jobs. `hp_claimed_percent` and `claimed_percent`: GPUs
    that jobs hold a claim on, of all GPUs, lent ones counted for both who lends and who uses them. `harvested_percent`
    of the lent GPU-hours; `published_harvest_percent`: as the ASI paper counts it, the mean over hours of
    `SpotSample.published_harvest`. Spot GPU-hours held = goodput + lost + ending. Completion: of done spot jobs.
    `spot_due`: spot jobs that would be done by the end if nothing held them up; `due_done_percent` of them are.
    `spot_slowdown`: completion over work, mean over due jobs, those not done counted up to the end.
    `evictions_per_job`: over spot jobs first started since then. None: there was none of it.
    """

    hp_percent: float
    all_percent: float
    hp_claimed_percent: float
    claimed_percent: float
    standby_percent: float
    harvested_percent: float | None
    published_harvest_percent: float | None
    spot_jobs: int
    spot_done: int
    spot_due: int
    due_done_percent: float | None
    spot_started: int
    spot_completion_mean_h: float | None
    spot_completion_p50_h: float | None
    spot_completion_p95_h: float | None
    spot_slowdown: float | None
    evictions: int
    evictions_per_job: float | None
    evictions_per_gpu_h: float | None
    spot_gpu_h: float
    goodput_gpu_h: float
    lost_gpu_h: float
    ending_gpu_h: float
    lost_percent: float | None
    hp_jobs: int
    hp_done: int
    hp_wait_mean_s: float | None
    hp_wait_p95_s: float | None
    hp_wait_max_s: float | None
    hp_completion_mean_h: float | None
    resumes: int
    resume_mean_s: float | None
    eviction_mean_s: float | None
    eviction_p95_s: float | None
    killed_percent: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotRun:
    """A policy's run over the jobs of one seed. `spot_load`: what spot jobs ask for, as a share of the GPUs; None: jobs
    given."""

    policy: str
    seed: int
    gpus: int
    figures: SpotFigures
    series: tuple[SpotSample, ...]
    spot_load: float | None = None
    fates: tuple[JobFate, ...] = ()
