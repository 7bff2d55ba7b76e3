"""The law of eviction times, drawn jobs, Student's t, and what the curve answers."""

import time
from dataclasses import replace
from statistics import fmean, stdev

import numpy as np
import pytest
from spot_scenarios import machine

from planner.errors import InputError
from planner.studies.intervals import interval_of, student_t, within
from planner.studies.spot.capacity import SpotLimits, capacity_of, change_of, curve_of, mean_of
from planner.studies.spot.records import EvictionLaw, JobClass, SpotFigures, SpotNode, SpotRun, SpotWorkload
from planner.studies.spot.simulation.checks import require_simulable
from planner.studies.spot.simulation.policies import eviction_times, killed_share, mean_eviction_s, quantile_eviction_s
from planner.studies.spot.workload import draw_jobs

NODES = [machine(f"n{k}", gpus=8, cpus=192, model="H800") for k in range(60)]
S_PER_H = 3600.0


def test_evictions_take_as_long_as_published() -> None:
    """ASI paper, 4.2: mean 13 s, P95 48 s, fewer than 5 % killed after 60 s."""
    law = EvictionLaw()
    assert mean_eviction_s(law) == pytest.approx(13.0, abs=0.05)
    assert quantile_eviction_s(law, 0.95) == pytest.approx(48.0, abs=0.2)
    assert 0.03 < killed_share(law) < 0.05
    assert quantile_eviction_s(law, 0.99) == 60


def test_drawn_evictions_follow_the_law_and_its_cut() -> None:
    law, times = EvictionLaw(), eviction_times(EvictionLaw(), np.random.default_rng(1))
    drawn = [next(times) for _ in range(60_000)]
    error = stdev(drawn) / np.sqrt(len(drawn))
    assert fmean(drawn) == pytest.approx(mean_eviction_s(law), abs=4 * error)
    assert np.percentile(drawn, 95) == pytest.approx(48, abs=2)
    share = fmean(one == 60.0 for one in drawn)
    assert share == pytest.approx(killed_share(law), abs=4 * np.sqrt(0.032 * 0.968 / len(drawn)))
    assert max(drawn) == 60
    assert min(drawn) > 0


def load_of(kind: JobClass, workload: SpotWorkload, nodes: list[SpotNode] = NODES, days: float = 30.0) -> float:
    """GPU-seconds asked for by jobs that come and go, as a share of the cluster's."""
    jobs = draw_jobs(nodes, workload, days, 3)
    asked = sum(job.total_gpus * job.duration_s for job in jobs if job.kind is kind and job.duration_s < 86_400 * days)
    return asked / (sum(node.gpus for node in nodes) * days * 86_400)


def test_jobs_ask_for_their_loads() -> None:
    work = SpotWorkload()
    assert load_of(JobClass.SPOT, work) == pytest.approx(work.spot_load, rel=0.06)
    assert load_of(JobClass.HP, work) == pytest.approx(work.diurnal_load, rel=0.06)
    jobs = draw_jobs(NODES, work, 6, 1)
    permanent = [job for job in jobs if job.kind is JobClass.HP and job.duration_s > 6 * 86_400]
    assert sum(job.total_gpus for job in permanent) == 264
    lent = sum(job.total_gpus for job in permanent if job.standby)
    assert lent == pytest.approx(26.4, abs=1)
    checkpoints = [job.checkpoint_s for job in jobs if job.kind is JobClass.SPOT]
    assert 1 <= min(checkpoints) / S_PER_H <= max(checkpoints) / S_PER_H <= 8
    assert [job.submit_s for job in jobs] == sorted(job.submit_s for job in jobs)
    assert len({job.name for job in jobs}) == len(jobs)


def test_spot_jobs_of_sizes_of_their_own_ask_for_as_much() -> None:
    """All of 1 GPU in gangs of 4; guaranteed jobs are as they were."""
    work = SpotWorkload(spot_sizes=((1, 1.0),), spot_gangs=((4, 1.0),))
    jobs, usual = draw_jobs(NODES, work, 6, 1), draw_jobs(NODES, SpotWorkload(), 6, 1)
    spot = [job for job in jobs if job.kind is JobClass.SPOT]
    assert {(job.gpus, job.pods) for job in spot} == {(1, 4)}
    asked = sum(job.total_gpus * job.duration_s for job in spot) / (480 * 6 * 86_400)
    assert asked == pytest.approx(work.spot_load, rel=0.1)
    assert [job for job in jobs if job.kind is JobClass.HP] == [job for job in usual if job.kind is JobClass.HP]


def test_mixed_nodes_are_asked_for_what_they_have() -> None:
    mixed = [machine(f"a{k}", gpus=1, cpus=128, model="A10") for k in range(150)]
    mixed += [machine(f"b{k}", gpus=8, cpus=192, model="H800") for k in range(20)]
    jobs = [job for job in draw_jobs(mixed, SpotWorkload(), 30, 1) if job.kind is JobClass.SPOT]
    for model, total in (("A10", 150), ("H800", 160)):
        asked = sum(job.total_gpus * job.duration_s for job in jobs if job.gpu_model == model)
        assert asked / (total * 30 * 86_400) == pytest.approx(0.245, rel=0.12)
    assert {job.gpus for job in jobs if job.gpu_model == "A10"} == {1}


def test_gangs_fit_on_odd_nodes() -> None:
    """Three nodes of 3 GPUs hold three pods of 2 GPUs, not four."""
    odd = [machine(f"n{k}", gpus=3, cpus=30) for k in range(3)]
    jobs = draw_jobs(odd, SpotWorkload(gangs=((1, 1.0), (4, 1.0))), 20, 1)
    require_simulable(odd, jobs)
    assert {(job.gpus, job.pods) for job in jobs} == {(1, 1), (1, 4), (2, 1)}


def test_guaranteed_jobs_swing_with_the_day_and_keep_below_their_peak() -> None:
    work = SpotWorkload(hp_peak=0.75)
    jobs = [job for job in draw_jobs(NODES, work, 30, 2) if job.kind is JobClass.HP]
    by_hour = np.zeros(24)
    for job in draw_jobs(NODES, SpotWorkload(), 30, 2):
        if job.kind is JobClass.HP and job.submit_s > 0:
            by_hour[int(job.submit_s // S_PER_H) % 24] += 1
    assert 6 < by_hour[13:17].mean() / by_hour[1:5].mean() < 13  # 1.8 / 0.2, averaged over four hours: about 8
    edges = sorted(
        [(job.submit_s, job.total_gpus) for job in jobs] + [(j.submit_s + j.duration_s, -j.total_gpus) for j in jobs]
    )
    held = np.cumsum([gpus for _, gpus in edges])
    assert held.max() <= 0.75 * 480
    assert held.max() > 0.73 * 480


def test_guaranteed_jobs_do_not_depend_on_the_spot_load_and_seeds_do_their_work() -> None:
    def hp(load: float, seed: int = 1) -> list[object]:
        return [job for job in draw_jobs(NODES, SpotWorkload(), 2, seed, load) if job.kind is JobClass.HP]

    assert hp(0.1) == hp(0.4)
    assert hp(0.1, 2) != hp(0.1)
    assert draw_jobs(NODES, SpotWorkload(), 2, 1) == draw_jobs(NODES, SpotWorkload(), 2, 1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"spot_load": -0.1}, "spot load: must be from 0 to 2, got -0.1"),
        ({"spot_load": 2.5}, "spot load"),
        ({"permanent_load": 0.9, "diurnal_load": 0.2}, "guaranteed load: must be from 0 to 1, got 1.1"),
        ({"hp_peak": 0.5}, "guaranteed peak: must be from 0.55 to 1, got 0.5"),
        ({"checkpoint_hours": (0.0, 1.0)}, "shortest checkpoint interval: must be above 0, got 0"),
        ({"checkpoint_hours": (-1.0, 1.0)}, "shortest checkpoint interval: must be above 0, got -1"),
        ({"checkpoint_hours": (2.0, 1.0)}, "the longest must be no less than the shortest, got 2 to 1 h"),
        ({"spot_hours": float("nan")}, "hours of spot jobs: must be above 0"),
        ({"sizes": ((16, 1.0),)}, "sizes: must hold one of at most 8 GPUs"),
        ({"spot_hours": 1e-5}, "must be at most 5,000,000 jobs"),
        ({"standby_share": 1.5}, "standby share: must be from 0 to 1"),
    ],
)
def test_workloads_out_of_range_are_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        draw_jobs(NODES, replace(SpotWorkload(), **change), 6, 1)


def test_the_hint_is_a_value_that_is_taken() -> None:
    with pytest.raises(InputError) as caught:
        draw_jobs(NODES, SpotWorkload(hp_peak=0.5), 1, 1)
    peak = float(str(caught.value.hint).removeprefix("Give ").removesuffix("."))
    assert draw_jobs(NODES, SpotWorkload(hp_peak=peak), 1, 1)


def test_a_million_years_are_refused_before_their_nights_are_drawn() -> None:
    with pytest.raises(InputError, match="days: must be at most 36,500, got"):
        draw_jobs(NODES, SpotWorkload(diurnal_load=0.0), 3.65e8, 1, 1e-6)


@pytest.mark.parametrize(
    ("freedom", "t"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (9, 2.262), (10, 2.228), (30, 2.042), (120, 1.980)],
)
def test_students_t_is_that_of_the_tables(freedom: int, t: float) -> None:
    assert student_t(freedom) == pytest.approx(t, abs=5e-4)
    assert within(student_t(freedom, 0.9), freedom) == pytest.approx(0.9)


def test_intervals_hold_the_mean_as_often_as_they_say() -> None:
    draw = np.random.default_rng(3).normal(7.0, 2.0, size=(4000, 4))
    found = [interval_of(list(map(float, row))) for row in draw]
    held = fmean(abs(one.mean - 7.0) <= one.half for one in found if one is not None and one.half is not None)
    assert held == pytest.approx(0.95, abs=0.015)
    assert interval_of([]) is None
    assert interval_of([3.0]).half is None


FIGURES = dict.fromkeys(SpotFigures.__slots__, 0.0)


def run(policy: str, seed: int, load: float | None, **figures: float | None) -> SpotRun:
    found = SpotFigures(**{**FIGURES, **figures})
    return SpotRun(policy=policy, seed=seed, spot_load=load, gpus=400, figures=found, series=())


def test_differences_are_those_of_single_seeds() -> None:
    base = [run("random", seed, 0.2, lost_gpu_h=10.0 * seed) for seed in (1, 2, 3)]
    better = [run("spotgpu", seed, 0.2, lost_gpu_h=5.0 * seed) for seed in (1, 2, 3)]
    found = change_of(better, base, "lost_gpu_h")
    assert (found.mean, found.half) == (-50, 0)  # although the seeds' figures spread widely
    assert mean_of(base, "lost_gpu_h").half == pytest.approx(4.303 * 10 / np.sqrt(3), rel=1e-3)
    assert change_of(better, [run("random", 9, 0.2, lost_gpu_h=1.0)], "lost_gpu_h") is None
    assert change_of(better, [run("random", 1, 0.2, lost_gpu_h=None)], "lost_gpu_h") is None


def test_the_largest_load_that_keeps_to_the_limits() -> None:
    rates = {0.1: 0.2, 0.2: 0.4, 0.3: 0.8, 0.4: 0.3}
    runs = [
        run(
            "spotgpu",
            seed,
            load,
            evictions_per_job=rate,
            lost_percent=100 * load,
            goodput_gpu_h=40.0 * 10,
            due_done_percent=99.0,
        )
        for load, rate in rates.items()
        for seed in (1, 2)
    ]
    points = curve_of(runs, measured_h=10)
    assert [point.asked_gpus for point in points] == pytest.approx([40, 80, 120, 160])
    assert points[0].useful_gpus.mean == pytest.approx(40)
    found = capacity_of(points, "spotgpu", SpotLimits(most_evictions_per_job=0.5))
    assert (found.carried.spot_load, found.broken.spot_load, found.broke) == (0.2, 0.3, ("evictions_per_job",))
    assert found.about_gpus == pytest.approx(90)  # a quarter of the way from 80 to 120
    both = capacity_of(points, "spotgpu", SpotLimits(most_evictions_per_job=0.5, most_lost_percent=15))
    assert both.carried.spot_load == 0.1
    assert both.about_gpus == pytest.approx(60)
    none = capacity_of(points, "spotgpu", SpotLimits(most_evictions_per_job=0.1))
    assert none.carried is None
    assert none.broken.spot_load == 0.1
    assert capacity_of(points, "spotgpu", SpotLimits()).carried.spot_load == 0.4


def test_too_much_is_told_before_it_is_drawn() -> None:
    """100 000 machines for 3 000 days: millions of windows and billions of jobs, none of which is made."""
    many = [machine(f"n{k}", gpus=8, cpus=192) for k in range(20_000)]
    start_s = time.process_time()
    with pytest.raises(InputError, match="must be at most 5,000,000 jobs; these nodes, loads, hours and days would"):
        draw_jobs(many, SpotWorkload(), 3000, 1)
    with pytest.raises(InputError, match="must be at most 5,000,000 standby windows"):
        draw_jobs(many, SpotWorkload(diurnal_load=0.0, spot_load=1e-3, spot_hours=1e4), 3000, 1)
    assert time.process_time() - start_s < 2  # drawing the first of them takes a minute


def test_as_many_jobs_come_as_were_to_be_expected() -> None:
    """The bound's estimate, against what is drawn: an upper bound, and less than twice as much."""
    jobs = draw_jobs(NODES, SpotWorkload(), 30, 1)
    pods = 480 / sum(size * weight for size, weight in SpotWorkload().sizes)
    expected = pods * (0.55 + (0.14 * 1.8 / 1.1 + 0.25 / 5) * 30 * 24 / 1.05)
    assert len(jobs) < expected < 2 * len(jobs)


@pytest.mark.parametrize("limits", [SpotLimits(), SpotLimits(most_evictions_per_job=0.5), SpotLimits(most_slowdown=3)])
def test_a_load_whose_work_is_not_done_is_not_carried(limits: SpotLimits) -> None:
    """Few evictions a job, and none that is slow: none of them gets to run."""
    calm = {"evictions_per_job": 0.1, "spot_slowdown": 1.2}
    shares = {0.1: 98.0, 0.2: 94.0, 0.4: 86.0, 0.8: 95.0}
    points = curve_of(
        [run("spotgpu", 1, load, due_done_percent=done, **calm) for load, done in shares.items()], measured_h=10
    )
    found = capacity_of(points, "spotgpu", limits)
    assert (found.carried.spot_load, found.broken.spot_load, found.broke) == (0.2, 0.4, ("due_done_percent",))
    assert found.about_gpus == pytest.approx(120)  # 90 % half-way from 94 at 80 GPUs to 86 at 160
    strict = capacity_of(points, "spotgpu", replace(limits, least_done_percent=97))
    assert (strict.carried.spot_load, strict.broken.spot_load) == (0.1, 0.2)


def test_a_figure_that_nobody_knows_keeps_to_no_limit() -> None:
    points = curve_of([run("spotgpu", 1, 0.2, due_done_percent=95.0, evictions_per_job=None)], measured_h=10)
    limits = SpotLimits(most_evictions_per_job=0.5)
    assert capacity_of(points, "spotgpu", limits).broke == ("evictions_per_job",)
    assert capacity_of(points, "spotgpu", SpotLimits()).carried == points[0]


def test_loads_of_which_no_job_is_due_say_nothing() -> None:
    done = {0.1: None, 0.2: 95.0, 0.3: 20.0}
    points = curve_of([run("spotgpu", 1, load, due_done_percent=share) for load, share in done.items()], measured_h=10)
    found = capacity_of(points, "spotgpu", SpotLimits())
    assert (found.carried.spot_load, found.broken.spot_load, found.unjudged) == (0.2, 0.3, (0.1,))
    nothing = capacity_of(points[:1], "spotgpu", SpotLimits())
    assert (nothing.carried, nothing.broken, nothing.unjudged) == (None, None, (0.1,))
