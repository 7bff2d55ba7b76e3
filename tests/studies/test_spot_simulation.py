"""Spot simulation: worked by hand event by event, conserved, checked from outside, the same bytes again."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spot_scenarios import (
    S_PER_DAY,
    TEN_SECONDS,
    gpu_seconds,
    hp,
    machine,
    random_jobs,
    random_nodes,
    spot,
    told,
)

from planner.errors import InconsistentPlanError, InputError
from planner.studies.spot.records import SpotAction, SpotEvent, SpotJob, SpotNode, SpotPolicy, SpotRun, StandbyWindow
from planner.studies.spot.simulation.checks import SpotChecker
from planner.studies.spot.simulation.events import SpotSimulation
from planner.studies.spot.simulation.meters import Accounts, Meters
from planner.studies.spot.simulation.policies import RANDOM, SPOTGPU, parse_spot_policy
from planner.studies.spot.simulation.runs import simulate_spot

POLICIES = ("spotgpu", "random", "spotgpu-prune", "spotgpu-packing", "spotgpu-colocation-history", "random+prune")


def simulated(
    nodes: Sequence[SpotNode], jobs: Sequence[SpotJob], end_s: float, policy: SpotPolicy = SPOTGPU, **more: object
) -> tuple[SpotRun, list[SpotEvent]]:
    events: list[SpotEvent] = []
    days = end_s / S_PER_DAY
    run = simulate_spot(nodes, jobs, policy, days=days, law=TEN_SECONDS, fates=True, watch=events.append, **more)
    return run, events


def test_jobs_that_are_due_and_not_done_count() -> None:
    """One after the other: a done at 100 s, b at 200 s, c still running at 500 s, d not due before 550 s."""
    jobs = [spot(name, 0, 4, work_s) for name, work_s in (("a", 100), ("b", 100), ("c", 400))]
    found = simulated([machine()], [*jobs, spot("d", 450, 4, 100)], 500)[0].figures
    assert (found.spot_jobs, found.spot_due, found.spot_done, found.spot_started) == (4, 3, 2, 3)
    assert found.due_done_percent == pytest.approx(200 / 3)
    assert found.spot_slowdown == pytest.approx((1 + 2 + 500 / 400) / 3)


def test_what_is_left_of_the_time_is_a_sample_of_its_own() -> None:
    """500 s in stretches of 200 s, or in one of which they are a part: GPU-seconds add up to those held."""
    jobs = [spot("a", 0, 4, 100), spot("b", 350, 2, 1000)]
    for sample_s, ends in ((200, [200, 400, 500]), (3600, [500]), (250, [250, 500])):
        run = simulated([machine()], jobs, 500, sample_s=sample_s)[0]
        assert [sample.time_s for sample in run.series] == pytest.approx(ends)
        lasts = np.diff([0, *ends])
        held = sum(sample.spot_gpus * lasted for sample, lasted in zip(run.series, lasts, strict=True))
        assert held == pytest.approx(400 + 300)


def test_evictions_are_those_a_job_that_started() -> None:
    """The guaranteed job evicts a at 50 s and holds the node: b and c never start, and are never evicted either."""
    jobs = [spot("a", 0, 4, 100), hp("h", 50, 4, 1000), spot("b", 60, 4, 100), spot("c", 70, 4, 100)]
    found = simulated([machine()], jobs, 500)[0].figures
    assert (found.evictions, found.spot_jobs, found.spot_started) == (1, 3, 1)
    assert found.evictions_per_job == 1
    late = simulated([machine()], jobs, 500, warm_up_days=40 / S_PER_DAY)[0].figures
    assert (late.evictions, late.spot_started, late.evictions_per_job) == (1, 0, None)


def test_the_job_that_loses_least_gives_way_and_goes_on_from_its_checkpoint() -> None:
    jobs = [
        spot("a", 0, 2, 1000, checkpoint_s=100),
        spot("b", 0, 2, 1000, checkpoint_s=300),
        hp("h", 250, 2, 200),  # a has 50 s to lose, b 250
        hp("k", 500, 1, 100),  # a has been back for 40 s, b is 200 s past its checkpoint
    ]
    run, events = simulated([machine()], jobs, 2000)
    assert told(events) == [
        (0, "a", "start"),
        (0, "b", "start"),
        (250, "a", "evict"),
        (250, "h", "claim"),
        (260, "a", "gone"),
        (260, "h", "start"),
        (460, "h", "finish"),
        (460, "a", "start"),
        (500, "a", "evict"),
        (500, "k", "claim"),
        (510, "a", "gone"),
        (510, "k", "start"),
        (610, "k", "finish"),
        (610, "a", "start"),
        (1000, "b", "finish"),
        (1410, "a", "finish"),
    ]
    found = run.figures
    assert (found.evictions, found.spot_done, found.hp_done) == (2, 2, 2)
    assert found.lost_gpu_h * 3600 == pytest.approx(2 * (50 + 40))
    assert found.ending_gpu_h * 3600 == pytest.approx(2 * 20)
    assert found.goodput_gpu_h * 3600 == pytest.approx(2 * 1000 + 2 * 1000)
    assert found.spot_gpu_h * 3600 == pytest.approx(2 * 1000 + 2 * (260 + 50 + 800))
    assert found.spot_completion_mean_h * 3600 == pytest.approx((1410 + 1000) / 2)
    assert found.spot_slowdown == pytest.approx((1.41 + 1.0) / 2)
    assert (found.spot_due, found.due_done_percent, found.spot_started) == (2, 100, 2)
    assert found.evictions_per_job == 1
    assert (found.hp_wait_mean_s, found.hp_wait_max_s) == (10, 10)
    assert found.hp_completion_mean_h * 3600 == pytest.approx((210 + 110) / 2)
    assert found.evictions_per_gpu_h == pytest.approx(2 / found.spot_gpu_h)


def test_standby_lends_and_gets_back_where_it_was() -> None:
    jobs = [hp("h", 0, 4, 500, (100, 300)), spot("s", 50, 4, 400, checkpoint_s=60)]
    run, events = simulated([machine()], jobs, 1000)
    assert told(events) == [
        (0, "h", "claim"),
        (0, "h", "start"),
        (100, "h", "standby"),
        (100, "s", "start"),
        (300, "s", "evict"),
        (300, "h", "reclaim"),
        (310, "s", "gone"),
        (310, "h", "resume"),
        (510, "h", "finish"),  # its clock stood for ten seconds
        (510, "s", "start"),
        (730, "s", "finish"),  # three checkpoints, 180 s, were kept
    ]
    found = run.figures
    assert found.hp_percent == pytest.approx(100 * (100 + 10 + 200) / 1000)
    assert found.all_percent == pytest.approx(73)
    assert found.hp_claimed_percent == pytest.approx(51)
    assert found.claimed_percent == pytest.approx(51 + 21 + 22)
    assert (found.standby_percent, found.harvested_percent) == (pytest.approx(20), pytest.approx(100))
    assert (found.resumes, found.resume_mean_s) == (1, 10)
    assert run.fates[0].resume_s == 10


def test_what_is_lent_and_not_taken_counts_as_guaranteed() -> None:
    jobs = [hp("h", 0, 4, 500, (100, 300)), spot("s", 100, 1, 100)]
    found = simulated([machine()], jobs, 500)[0].figures
    # from 100 to 200 one of four GPUs is taken; the other three are still the guaranteed job's
    assert found.hp_percent == pytest.approx(100 * (500 - 100 * 0.25) / 500)
    assert found.all_percent == pytest.approx(100)
    assert found.harvested_percent == pytest.approx(100 * 100 / 800)


def test_a_gang_ends_whole_and_its_cost_is_all_of_it() -> None:
    nodes = [machine("a"), machine("b"), machine("c")]
    gang, small = spot("gang", 0, 4, 900, 1000, pods=2), spot("small", 0, 4, 900, 1000)
    events = simulated(nodes, [gang, small, hp("h", 100, 4, 50)], 2000)[1]
    assert (100, "small", "evict") in told(events)  # 400 GPU-seconds; the gang's 800 go with either of its nodes
    events = simulated(nodes, [gang, replace(small, submit_s=0.0, gpus=2), hp("h", 100, 4, 50, pods=2)], 2000)[1]
    names = told(events)
    assert (100, "gang", "evict") in names
    evicted = next(event for event in events if event.action is SpotAction.EVICT and event.job.name == "gang")
    assert len(evicted.nodes) == 2


def test_the_queue_is_by_submission_and_backfilled_within_the_window() -> None:
    jobs = [spot("runs", 0, 3, 100), spot("large", 1, 4, 10), spot("small", 2, 1, 10)]
    assert (2, "small", "start") in told(simulated([machine()], jobs, 200)[1])
    behind = told(simulated([machine()], jobs, 200, replace(SPOTGPU, window=1))[1])
    assert (2, "small", "start") not in behind
    assert (100, "large", "start") in behind
    assert (110, "small", "start") in behind


def test_a_guaranteed_job_waits_for_guaranteed_jobs_only() -> None:
    jobs = [hp("a", 0, 4, 100), spot("s", 1, 1, 10), hp("b", 2, 4, 50), hp("c", 3, 1, 5)]
    run, events = simulated([machine()], jobs, 200)
    assert told(events)[2:6] == [(100, "a", "finish"), (100, "b", "claim"), (100, "b", "start"), (150, "b", "finish")]
    assert {fate.job.name: fate.wait_s for fate in run.fates} == {"a": 0, "s": 149, "b": 98, "c": 147}


def test_cpus_are_reclaimed_as_well() -> None:
    jobs = [spot("s", 0, 1, 900, cpus=60), hp("h", 10, 1, 5, cpus=32)]
    assert told(simulated([machine()], jobs, 100)[1])[1:3] == [(10, "s", "evict"), (10, "h", "claim")]


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 10**6))
@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_used_is_kept_lost_or_ending(policy: str, seed: int) -> None:
    """Random fleets and jobs: no rule is broken at any event, and the sums are those of the events."""
    draw = np.random.default_rng([seed, 5])
    nodes = random_nodes(draw)
    jobs = random_jobs(draw, nodes)
    events: list[SpotEvent] = []
    run = simulate_spot(nodes, jobs, parse_spot_policy(policy), days=0.125, seed=seed, fates=True, watch=events.append)
    found, end_s, gpus = run.figures, 0.125 * S_PER_DAY, sum(node.gpus for node in nodes)
    assert found.spot_gpu_h == pytest.approx(found.goodput_gpu_h + found.lost_gpu_h + found.ending_gpu_h)
    seen = gpu_seconds(events, end_s)
    assert found.spot_gpu_h * 3600 == pytest.approx(seen["spot"])
    assert found.lost_gpu_h * 3600 == pytest.approx(seen["lost"])
    assert found.ending_gpu_h * 3600 == pytest.approx(seen["ending"])
    assert found.goodput_gpu_h * 3600 == pytest.approx(seen["run"] - seen["lost"])
    assert found.hp_claimed_percent * gpus * end_s / 100 == pytest.approx(seen["claimed"])
    assert found.standby_percent * gpus * end_s / 100 == pytest.approx(seen["standby"])
    assert found.hp_percent <= found.all_percent + 1e-9 <= 100 + 1e-6
    hours = [sample.spot_gpus for sample in run.series]
    assert sum(hours) == pytest.approx(found.spot_gpu_h)
    assert found.evictions == sum(event.action is SpotAction.EVICT for event in events)
    assert all(one.time_s <= two.time_s for one, two in pairwise(events))


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), policy=st.sampled_from(POLICIES))
def test_nobody_waits_who_fits(seed: int, policy: str) -> None:
    """At the end: no waiting spot job fits on free GPUs, no waiting guaranteed job would with all spot jobs gone."""
    draw = np.random.default_rng([seed, 6])
    nodes = random_nodes(draw)
    jobs = random_jobs(draw, nodes, 80)
    end_s = float(draw.integers(3000, 7000))
    simulation = SpotSimulation(
        nodes,
        jobs,
        parse_spot_policy(policy),
        law=TEN_SECONDS,
        seed=seed,
        meters=Meters(nodes, warm_up_s=0.0, sample_s=600.0),
        accounts=Accounts(from_s=0.0, to_s=end_s),
    )
    simulation.run(end_s)
    fleet = simulation.fleet
    for number in simulation.queue[:40]:
        job = simulation.guests[number].job
        free = [fleet.gpus[k] - fleet.held[k] - fleet.spot[k] - fleet.ending[k] for k in range(len(nodes))]
        pods = sum(
            min(max(0, free[k]) // job.gpus, max(0, fleet.free_cpus[k]) // job.cpus if job.cpus else 99)
            for k, node in enumerate(nodes)
            if job.gpu_model in ("", node.gpu_model)
        )
        assert pods < job.pods
    for number in simulation.hp_queue:
        job = simulation.guests[number].job
        pods = sum(
            min(
                (fleet.gpus[k] - fleet.held[k] - fleet.standby[k]) // job.gpus,
                (fleet.cpus[k] - fleet.held_cpus[k] - fleet.standby_cpus[k]) // job.cpus if job.cpus else 99,
            )
            for k, node in enumerate(nodes)
            if job.gpu_model in ("", node.gpu_model)
        )
        assert pods < job.pods


@pytest.mark.parametrize("policy", [SPOTGPU, RANDOM], ids=lambda policy: policy.name)
def test_the_same_seed_gives_the_same_run(policy: SpotPolicy) -> None:
    draw = np.random.default_rng(8)
    nodes = random_nodes(draw)
    jobs = random_jobs(draw, nodes)
    first, again, checked = (
        simulate_spot(nodes, jobs, policy, days=0.125, seed=4, fates=True, check=check) for check in (True, True, False)
    )
    assert repr(first) == repr(again) == repr(checked)
    assert first.figures.evictions > 0
    assert simulate_spot(nodes, jobs, policy, days=0.125, seed=5, fates=True) != first


def test_the_warm_up_does_not_count() -> None:
    """A run that begins before the end of the warm-up counts from there on."""
    jobs = [spot("a", 0, 4, 600, checkpoint_s=400), hp("h", 500, 4, 100)]
    found = simulated([machine()], jobs, 1000, warm_up_days=450 / S_PER_DAY)[0].figures
    assert found.goodput_gpu_h * 3600 == pytest.approx(4 * 200)  # the second run, from 610 on, has 200 s left
    assert found.lost_gpu_h * 3600 == pytest.approx(4 * 50)  # of 100 s lost, 50 s before
    assert (found.spot_jobs, found.hp_jobs, found.evictions) == (0, 1, 1)
    assert found.spot_completion_mean_h is None


def event(action: SpotAction, job: SpotJob, time_s: float, *nodes: int) -> SpotEvent:
    return SpotEvent(time_s=time_s, action=action, job=job, nodes=nodes)


H, S = hp("h", 0, 4, 100, (10, 20)), spot("s", 0, 4, 100, 30)
CLAIM, START, FINISH, EVICT = SpotAction.CLAIM, SpotAction.START, SpotAction.FINISH, SpotAction.EVICT
UP = (event(CLAIM, H, 0, 0), event(START, H, 0, 0))


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ((*UP, event(EVICT, H, 5, 0)), "a hp job must not meet evict"),
        ((*UP, event(FINISH, H, 99, 0)), "must end after 100 s of work, ends after 99"),
        ((*UP, event(FINISH, H, 100, 1)), "must stay where they are"),
        ((*UP, event(START, S, 5, 0)), "node 0 must hold at most"),
        ((*UP, event(SpotAction.STANDBY, H, 10, 0), event(CLAIM, replace(H, name="i"), 12, 0)), "node 0 must hold"),
        ((event(START, S, 0, 0), event(EVICT, S, 50, 0), event(FINISH, S, 60, 0)), "must not meet finish after evict"),
        ((event(START, S, 0, 0), event(FINISH, S, 80, 0)), "must end after 100 s of work"),
        ((event(START, S, 0, 0, 1),), "all 1 pods must be together"),
        ((event(START, replace(S, submit_s=9.0), 5, 0),), "time must not run backwards"),
        ((event(START, replace(S, gpu_model="A"), 5, 0),), "must have GPUs of A"),
    ],
)
def test_the_checker_sees_what_it_looks_for(events: Sequence[SpotEvent], said: str) -> None:
    checker = SpotChecker([machine("a"), machine("b")])
    for one in events[:-1]:
        checker(one)
    with pytest.raises(InconsistentPlanError, match=said):
        checker(events[-1])


@pytest.mark.parametrize(
    ("jobs", "said"),
    [
        ([spot("s", 0, 1, 10, checkpoint_s=0)], "job s: checkpoint_s must be seconds above 0, got 0"),
        ([spot("s", 0, 1, 10, checkpoint_s=-5)], "job s: checkpoint_s must be seconds above 0, got -5"),
        ([replace(spot("s", 0, 1, 10), checkpoint_s=None)], "checkpoint_s must be seconds above 0, got none"),
        ([hp("h", 0, 1, -3)], "job h: duration_s must be seconds above 0, got -3"),
        ([hp("h", -1, 1, 3)], "job h: submit_s must be seconds, 0 or more, got -1"),
        ([hp("h", 0, 1, 100, (10, 50), (40, 60))], "do not overlap or touch .*got 40-60 s"),
        ([hp("h", 0, 1, 100, (10, 50), (50, 60))], "do not overlap or touch"),
        ([hp("h", 0, 1, 100, (10, 101))], "standby must lie within the job, 0 to 100 s"),
        ([hp("h", 0, 1, 100, (20, 20))], "and end after it begins, got 20-20 s"),
        ([replace(spot("s", 0, 1, 10), standby=(StandbyWindow(start_s=0, end_s=1),))], "be empty for a spot job"),
        ([spot("s", 0, 5, 10)], "job s: its 1 pods of 5 GPUs and 5 CPUs must fit on the empty nodes; 0 do"),
        ([hp("h", 0, 1, 10, cpus=65)], "must fit on the empty nodes; 0 do"),
        ([replace(hp("h", 0, 1, 10), gpu_model="X")], "must fit on the empty nodes of X; 0 do"),
        ([hp("h", 0, 2, 10, pods=3)], "its 3 pods of 2 GPUs and 2 CPUs must fit on the empty nodes; 2 do"),
        ([hp("h", 0, 1, 10), spot("h", 0, 1, 10)], "job h: must be a name of its own"),
        ([replace(hp("h", 0, 1, 10), pods=0)], "job h: pods must be at least 1, got 0"),
    ],
)
def test_jobs_that_make_no_sense_are_refused(jobs: Sequence[SpotJob], said: str) -> None:
    with pytest.raises(InputError, match=said):
        simulate_spot([machine()], jobs, SPOTGPU, days=1.0)


@pytest.mark.parametrize(
    "text", ["", "best", "spotgpu+", "spotgpu+prune", "random-history", "spotgpu-x", "spotgpu -prune"]
)
def test_policies_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match="policy: must be spotgpu or random"):
        parse_spot_policy(text)


def test_times_that_make_no_sense_are_refused() -> None:
    for days, warm in ((0.0, 0.0), (1.0, 1.0), (1.0, -1.0), (float("nan"), 0.0)):
        with pytest.raises(InputError, match="days: must be above 0"):
            simulate_spot([machine()], [], SPOTGPU, days=days, warm_up_days=warm)
    with pytest.raises(InputError, match="nodes: must be at least one"):
        simulate_spot([], [], SPOTGPU, days=1.0)
    with pytest.raises(InputError, match="sample: must cut the days into at most 1,000,000 stretches"):
        simulate_spot([machine()], [], SPOTGPU, days=6.0, sample_s=1e-9)
    with pytest.raises(InputError, match="stretches; 1e\\+09 days"):
        simulate_spot([machine()], [], SPOTGPU, days=1e9)


def test_checkpoints_may_come_as_often_as_numbers_can_say() -> None:
    """The smallest number above 0: all work is kept, and the checker counts it so."""
    found = simulated([machine()], [spot("s", 0, 4, 100, 5e-324), hp("h", 40, 4, 10)], 1000)[0].figures
    assert (found.evictions, found.spot_done, found.lost_gpu_h) == (1, 1, 0.0)


def test_harvest_as_we_count_and_as_the_paper_does() -> None:
    """Node 0 lends 4 of 8 GPUs and spot jobs have all 8: 2 of 1. Node 1 lends 4, nobody takes them: 0 of 1.

    The scripts of figure 16 take the mean over nodes, 1; of the lent GPUs half are used. In the second hour node 1
    lends nothing and spot jobs have 2 of node 0: a half either way.
    """
    meters = Meters([machine(name, gpus=8) for name in "abc"], warm_up_s=0.0, sample_s=3600.0)
    meters.note(0, 0, 4, 8, 0)
    meters.note(1, 4, 4, 0, 0)
    meters.note(2, 0, 0, 8, 0)  # lends nothing: its spot GPUs count nowhere
    meters.advance(3600.0)
    meters.note(0, 4, 4, 2, 0)
    meters.note(1, 8, 0, 0, 0)
    meters.advance(7200.0)
    first, second = meters.series
    assert (first.standby_gpus, first.harvested_gpus, first.lending_nodes) == (8, 4, 2)
    assert first.published_harvest == pytest.approx(1.0)
    assert (second.harvested_gpus, second.lending_nodes, second.published_harvest) == (2, 1, 0.5)


def test_nothing_lent_is_nothing_harvested() -> None:
    run, _ = simulated([machine("a")], [spot("s", 0, 4, 600)], 3600)
    assert run.figures.published_harvest_percent is None
    assert {sample.published_harvest for sample in run.series} == {None}
