"""The door: jobs on nodes under a policy, and the figures.

| symbol | meaning | unit | source |
|---|---|---|---|
| t, d | a spot job's submission and its work | s | - |
| E | end of the run | s | - |
| due | t + d <= E: done by the end on a cluster of its own | - | ours |
| done | share of due jobs that ended: near 1 where the cluster keeps pace, falling with a backlog | - | ours |
| slowdown | mean over due jobs of (completion - t) / d, with E - t for those not done: a lower bound | - | ours |

Figures of finished jobs alone flatter an overloaded cluster, which finishes only what got through; so do evictions a
job submitted, as jobs that never start are never evicted. Evictions are those a job first started in the same time.
"""

from collections.abc import Callable, Sequence

import numpy as np

from planner.studies.spot.records import (
    EvictionLaw,
    JobClass,
    JobFate,
    SpotFigures,
    SpotJob,
    SpotNode,
    SpotPolicy,
    SpotRun,
)
from planner.studies.spot.simulation.checks import SpotChecker, both, require_simulable, require_span
from planner.studies.spot.simulation.events import SpotSimulation, Watch
from planner.studies.spot.simulation.meters import (
    ALL,
    ENDING,
    HARVESTED,
    HELD,
    HP,
    SPOT,
    STANDBY,
    Accounts,
    HpGuest,
    Meters,
    SpotGuest,
)

S_PER_DAY = 86_400.0


def simulate_spot(
    nodes: Sequence[SpotNode],
    jobs: Sequence[SpotJob],
    policy: SpotPolicy,
    *,
    days: float,
    warm_up_days: float = 0.0,
    seed: int = 0,
    law: EvictionLaw = EvictionLaw(),
    sample_s: float = 3600.0,
    check: bool = True,
    fates: bool = False,
    watch: Watch | None = None,
    progress: Callable[[float], None] | None = None,
) -> SpotRun:
    """What becomes of the jobs in so many days, the figures counted from the end of the warm-up.

    `seed`: of eviction times and of random choices. `sample_s`: length of a stretch of the series. `check`: every event
    is looked at from outside (`SpotChecker`). `fates`: keep what became of every job. `watch` hears every event,
    `progress` the share of the time that has passed. InputError: see `require_simulable`, and times out of range.
    """
    require_simulable(nodes, jobs)
    require_span(days, warm_up_days, sample_s)
    end_s, warm_s = days * S_PER_DAY, warm_up_days * S_PER_DAY
    meters = Meters(nodes, warm_up_s=warm_s, sample_s=sample_s)
    accounts = Accounts(from_s=warm_s, to_s=end_s)
    simulation = SpotSimulation(
        nodes,
        jobs,
        policy,
        law=law,
        seed=seed,
        meters=meters,
        accounts=accounts,
        watch=both(watch, SpotChecker(nodes)) if check else watch,
    )
    simulation.run(end_s, None if progress is None else lambda now_s: progress(now_s / end_s))
    ended = tuple(fate(guest, end_s) for guest in simulation.guests)
    return SpotRun(
        policy=policy.name,
        seed=seed,
        gpus=meters.total,
        figures=figures_of(ended, meters, accounts, law.longest_s),
        series=tuple(meters.series),
        fates=ended if fates else (),
    )


S_PER_H = 3600.0


def fate(guest: SpotGuest | HpGuest, end_s: float) -> JobFate:
    """What became of a job by `end_s`."""
    started = guest.first_s if isinstance(guest, SpotGuest) else guest.started_s
    return JobFate(
        job=guest.job,
        started_s=started,
        finished_s=guest.finished_s,
        evictions=guest.evictions if isinstance(guest, SpotGuest) else 0,
        wait_s=max(0.0, (end_s if started is None else started) - guest.job.submit_s),
        resume_s=guest.resume_s if isinstance(guest, HpGuest) else 0.0,
    )


def figures_of(fates: Sequence[JobFate], meters: Meters, accounts: Accounts, longest_s: float) -> SpotFigures:
    """The record; see `SpotFigures` for what each figure is. `longest_s`: eviction times that long were cut."""
    measured = [fate for fate in fates if accounts.from_s <= fate.job.submit_s < accounts.to_s]
    spot = [fate for fate in measured if fate.job.kind is JobClass.SPOT]
    hp = [fate for fate in measured if fate.job.kind is JobClass.HP]
    times = np.array([fate.completion_s for fate in spot if fate.completion_s is not None]) / S_PER_H
    due = [fate for fate in spot if fate.job.submit_s + fate.job.duration_s <= accounts.to_s]
    started = _first_started(fates, accounts)
    waits = np.array([fate.wait_s for fate in hp])
    ended = [fate.completion_s for fate in hp if fate.completion_s is not None]
    sums = meters.integrals()
    nodes, gpus, lasted = len(meters.gpus), meters.total, max(meters.measured_s, 1e-9)
    held_s = sums[SPOT] + sums[ENDING]
    evictions = np.array(accounts.eviction_s)
    return SpotFigures(
        hp_percent=100 * sums[HP] / nodes / lasted,
        all_percent=100 * sums[ALL] / nodes / lasted,
        hp_claimed_percent=100 * (sums[HELD] + sums[STANDBY]) / gpus / lasted,
        claimed_percent=100 * (sums[HELD] + sums[STANDBY] + held_s) / gpus / lasted,
        standby_percent=100 * sums[STANDBY] / gpus / lasted,
        harvested_percent=_percent(sums[HARVESTED], sums[STANDBY]),
        published_harvest_percent=_published_harvest(meters, accounts.from_s),
        spot_jobs=len(spot),
        spot_done=len(times),
        spot_due=len(due),
        due_done_percent=_percent(sum(fate.finished_s is not None for fate in due), len(due)),
        spot_started=started,
        spot_completion_mean_h=_mean(times),
        spot_completion_p50_h=_quantile(times, 50),
        spot_completion_p95_h=_quantile(times, 95),
        spot_slowdown=_mean(np.array([_slowdown(fate, accounts.to_s) for fate in due])),
        evictions=len(evictions),
        evictions_per_job=len(evictions) / started if started else None,
        evictions_per_gpu_h=len(evictions) * S_PER_H / held_s if held_s > 0 else None,
        spot_gpu_h=held_s / S_PER_H,
        goodput_gpu_h=accounts.kept / S_PER_H,
        lost_gpu_h=accounts.lost / S_PER_H,
        ending_gpu_h=accounts.ending / S_PER_H,
        lost_percent=_percent(accounts.lost, held_s),
        hp_jobs=len(hp),
        hp_done=len(ended),
        hp_wait_mean_s=_mean(waits),
        hp_wait_p95_s=_quantile(waits, 95),
        hp_wait_max_s=_quantile(waits, 100),
        hp_completion_mean_h=_mean(np.array(ended) / S_PER_H),
        resumes=len(accounts.resume_s),
        resume_mean_s=_mean(np.array(accounts.resume_s)),
        eviction_mean_s=_mean(evictions),
        eviction_p95_s=_quantile(evictions, 95),
        killed_percent=100 * float(np.mean(evictions >= longest_s)) if len(evictions) else None,
    )


def _published_harvest(meters: Meters, from_s: float) -> float | None:
    """Mean over stretches of the series since the warm-up in which anything is lent, percent."""
    shares = [sample.published_harvest for sample in meters.series if sample.time_s > from_s]
    return _mean(100 * np.array([share for share in shares if share is not None]))


def _first_started(fates: Sequence[JobFate], accounts: Accounts) -> int:
    """Spot jobs, whenever submitted, that ran for the first time in the time that counts."""
    firsts = [fate.started_s for fate in fates if fate.job.kind is JobClass.SPOT]
    return sum(first is not None and first >= accounts.from_s for first in firsts)


def _slowdown(fate: JobFate, end_s: float) -> float:
    """Time in the system over work; of a job that is not done, so far."""
    ended_s = end_s if fate.finished_s is None else fate.finished_s
    return (ended_s - fate.job.submit_s) / fate.job.duration_s


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None


def _quantile(values: np.ndarray, percent: float) -> float | None:
    return float(np.percentile(values, percent)) if len(values) else None


def _percent(part: float, total: float) -> float | None:
    return 100 * part / total if total > 0 else None
