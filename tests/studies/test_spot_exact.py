"""Appendix A's programme: against all combinations of schedules, by hand, and against the heuristic of section 4.2."""

from itertools import product

import pytest

from planner.errors import InputError
from planner.studies.spot.exact import (
    SLOT_S,
    Instance,
    Run,
    Schedule,
    Worth,
    drawn_instance,
    heuristic,
    optimum,
    schedules_of,
    worth_of,
)
from planner.studies.spot.records import JobClass, SpotJob, SpotNode
from planner.studies.spot.simulation.policies import RANDOM, SPOTGPU

ALPHA = 0.05


def job_of(name: str, kind: JobClass, start: int, gpus: int, work: int, checkpoint: int | None = None) -> SpotJob:
    return SpotJob(
        name=name,
        kind=kind,
        submit_s=start * SLOT_S,
        pods=1,
        gpus=gpus,
        cpus=0,
        duration_s=work * SLOT_S,
        checkpoint_s=None if checkpoint is None else checkpoint * SLOT_S,
    )


def best_of_all(instance: Instance, alpha: float) -> Worth:
    """Every combination of schedules that keeps to the GPUs."""
    worths = []
    for chosen in product(*(schedules_of(job, instance) for job in instance.jobs)):
        held: dict[tuple[int, int], int] = {}
        for job, schedule in zip(instance.jobs, chosen, strict=True):
            for run in schedule.runs:
                for slot in range(run.start, run.end):
                    held[run.place, slot] = held.get((run.place, slot), 0) + job.gpus
        if all(gpus <= instance.nodes[place].gpus for (place, _), gpus in held.items()):
            worths.append(worth_of(instance, chosen, alpha))
    return min(worths, key=lambda worth: worth.objective)


@pytest.mark.parametrize("seed", range(4))
def test_the_optimum_is_that_of_all_combinations(seed: int) -> None:
    instance = drawn_instance(seed, nodes=1 + seed % 2, spot_jobs=2, hp_jobs=1, slots=4)
    for alpha in (0.01, 0.5):
        assert optimum(instance, alpha).objective == pytest.approx(best_of_all(instance, alpha).objective)


def test_schedules_keep_what_checkpoints_save() -> None:
    """Work of 3 slots, a checkpoint every 2: a run of 1 keeps nothing, of 2 two, then one more slot ends it."""
    instance = Instance(nodes=(SpotNode(name="n", gpus=4, cpus=8),), jobs=(), slots=4)
    kept = {
        tuple((run.start, run.end) for run in schedule.runs): schedule.kept
        for schedule in schedules_of(job_of("s", JobClass.SPOT, 0, 1, 3, 2), instance)
    }
    assert (kept[()], kept[(0, 1),], kept[(0, 2),], kept[(0, 3),]) == (0, 0, 2, 3)
    assert kept[(0, 2), (3, 4)] == 3
    assert all(end <= 4 for runs in kept for _, end in runs)


def test_worth_by_hand() -> None:
    """One job in two runs of 2 slots (kept 4), one in a run of 2: N = 4, D = 8 + 2, W = (4 * 4 + 2 * 2) / (4 * 4)."""
    node = SpotNode(name="n", gpus=4, cpus=8)
    jobs = (job_of("a", JobClass.SPOT, 0, 1, 4, 1), job_of("b", JobClass.SPOT, 0, 1, 2, 1))
    instance = Instance(nodes=(node,), jobs=jobs, slots=4)
    twice = Schedule(runs=(Run(place=0, start=0, end=2), Run(place=0, start=2, end=4)), kept=4)
    worth = worth_of(instance, (twice, Schedule(runs=(Run(place=0, start=0, end=2),), kept=2)), 0.1)
    assert (worth.evicted_share, worth.work) == (0.4, 20 / 16)
    assert worth.objective == pytest.approx(0.4 - 0.125)


def test_the_heuristic_is_never_better_than_the_optimum() -> None:
    compared = 0
    for seed in range(4):
        instance = drawn_instance(seed, spot_jobs=3, hp_jobs=1, slots=5)
        least = optimum(instance, ALPHA).objective
        for policy in (SPOTGPU, RANDOM):
            worth = heuristic(instance, policy, ALPHA, seed)
            if worth is not None:
                compared += 1
                assert worth.objective >= least - 1e-9
    assert compared >= 4


def test_a_guaranteed_job_that_takes_what_costs_least() -> None:
    """Both nodes full; the heuristic ends the job that has just saved its work, as the optimum would."""
    nodes = tuple(SpotNode(name=name, gpus=1, cpus=8) for name in "ab")
    jobs = (
        job_of("saved", JobClass.SPOT, 0, 1, 4, 2),
        job_of("unsaved", JobClass.SPOT, 0, 1, 4, 4),
        job_of("h", JobClass.HP, 2, 1, 2),
    )
    instance = Instance(nodes=nodes, jobs=jobs, slots=4)
    worth = heuristic(instance, SPOTGPU, ALPHA)
    # saved keeps 2 of 4 after 2 slots; unsaved ends whole: W = (2 * 2 + 4 * 4 + 2 * 2) / 8
    assert (worth.evicted_share, worth.work) == (0.0, 3.0)
    assert worth.objective == pytest.approx(optimum(instance, ALPHA).objective)


def test_instances_that_cannot_be_listed_are_refused() -> None:
    large = drawn_instance(0, slots=6)
    with pytest.raises(InputError, match="slots must be from 1 to 8, got 9"):
        optimum(Instance(nodes=large.nodes, jobs=large.jobs, slots=9), ALPHA)
    odd = job_of("odd", JobClass.HP, 0, 1, 1)
    half = SpotJob(name="half", kind=odd.kind, submit_s=0, pods=1, gpus=1, cpus=0, duration_s=SLOT_S / 2)
    with pytest.raises(InputError, match="job half must be of one pod in whole slots"):
        optimum(Instance(nodes=large.nodes, jobs=(half,), slots=4), ALPHA)
