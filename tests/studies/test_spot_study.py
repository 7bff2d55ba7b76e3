"""Published effects, over seeds: spot jobs done sooner, less work lost, guaranteed jobs none the wiser."""

from collections.abc import Sequence

import pytest

from planner.errors import InputError
from planner.studies.intervals import Interval
from planner.studies.runner import RunsDone
from planner.studies.spot.capacity import change_of, difference_of, mean_of, values_of
from planner.studies.spot.records import SpotNode, SpotRun, SpotWorkload
from planner.studies.spot.simulation.policies import RANDOM, SPOTGPU
from planner.studies.spot.study import SpotStudy, run_spot_study
from planner.studies.spot.workload import draw_jobs

NODES = tuple(SpotNode(name=f"n{k}", gpus=8, cpus=192) for k in range(60))
SEEDS = (1,)


def study(**change: object) -> SpotStudy:
    known = {"nodes": NODES, "policies": (SPOTGPU, RANDOM), "seeds": SEEDS, "loads": (0.225,)}
    return SpotStudy(**{**known, **change})


def both(found: SpotStudy) -> tuple[list[SpotRun], list[SpotRun]]:
    runs = list(run_spot_study(found))
    return [one for one in runs if one.policy == "spotgpu"], [one for one in runs if one.policy == "random"]


def known(found: Interval | None) -> Interval:
    assert found is not None
    return found


def in_all(runs: Sequence[SpotRun], baseline: Sequence[SpotRun], name: str, low: float, high: float) -> None:
    """Percent against the baseline, in every seed."""
    mine, theirs = values_of(runs, name), values_of(baseline, name)
    for seed, value in mine.items():
        assert low <= 100 * (value / theirs[seed] - 1) <= high, (name, seed)


def test_least_lost_work_against_random_victims() -> None:
    """Facts on spot scheduling, 5, and the issue's bounds: -10 to -45 %, -60 to -90 %, at 92-97 % allocation."""
    found, baseline = both(study())
    assert -45 <= known(change_of(found, baseline, "spot_completion_mean_h")).mean <= -10
    in_all(found, baseline, "spot_completion_mean_h", -45, -10)
    in_all(found, baseline, "lost_gpu_h", -90, -60)
    for runs in (found, baseline):
        assert 90 <= known(mean_of(runs, "all_percent")).mean <= 97  # less work done twice: less allocated
        assert 91 <= known(mean_of(runs, "claimed_percent")).mean <= 98
    assert 66 <= known(mean_of(found, "hp_percent")).mean <= 71  # 68 % in the paper
    assert 12 <= known(mean_of(found, "eviction_mean_s")).mean <= 14
    assert 40 <= known(mean_of(found, "eviction_p95_s")).mean <= 60


@pytest.mark.study
def test_the_bounds_hold_at_the_allocation_they_are_stated_for() -> None:
    """The issue: -10 to -45 %, -60 to -90 %, both policies at 92-97 % of the published allocation."""
    found, baseline = both(study(seeds=(1, 2), loads=(0.245,)))
    in_all(found, baseline, "spot_completion_mean_h", -45, -10)
    in_all(found, baseline, "lost_gpu_h", -90, -60)
    for runs in (found, baseline):
        assert 92 <= known(mean_of(runs, "all_percent")).mean <= 97


@pytest.mark.study
def test_shorter_jobs_and_checkpoints_gain_as_the_prototype_did() -> None:
    """24.5 % of jobs of 2 h, checkpoints every 0.25-2 h: -11 and -20 %, lost -72 and -78 % (facts, 5)."""
    work = SpotWorkload(spot_hours=2.0, checkpoint_hours=(0.25, 2.0), standby_share=0.0)
    found, baseline = both(study(workload=work, seeds=(1, 2), loads=(0.245,)))
    assert -35 <= known(change_of(found, baseline, "spot_completion_mean_h")).mean <= -10
    in_all(found, baseline, "lost_gpu_h", -90, -60)


def test_where_the_peak_fits_guaranteed_jobs_wait_for_evictions_only() -> None:
    found, baseline = both(study(workload=SpotWorkload(hp_peak=0.78)))
    in_all(found, baseline, "hp_completion_mean_h", -0.3, 0.3)
    for runs in (found, baseline):
        assert max(values_of(runs, "hp_wait_max_s").values()) <= 60
        assert max(values_of(runs, "resume_mean_s").values()) <= 60
    assert known(difference_of(found, baseline, "hp_done")).mean == pytest.approx(0, abs=1)
    in_all(found, baseline, "spot_completion_mean_h", -45, -5)


def test_more_spot_load_means_more_evictions() -> None:
    runs = list(run_spot_study(study(policies=(SPOTGPU,), seeds=(1,), loads=(0.05, 0.3), days=3.0)))
    found = [one.figures.evictions_per_job for one in runs]
    assert found == sorted(found)
    assert found[-1] > 3 * found[0]


def test_the_jobs_of_a_load_are_among_those_of_a_larger_one() -> None:
    less, more = (draw_jobs(NODES, SpotWorkload(), 2, 1, load) for load in (0.17, 0.3))
    assert set(less) < set(more)


def test_any_number_of_processes_gives_the_same_runs() -> None:
    small = study(seeds=(1, 2), days=0.5, warm_up_days=0.25, nodes=NODES[:10])
    heard: list[RunsDone[SpotRun]] = []
    alone = list(run_spot_study(small, listen=heard.append))
    assert repr(alone) == repr(list(run_spot_study(small, processes=2)))
    assert [one.seed for one in alone] == [1, 2, 1, 2]
    assert [step.done for step in heard] == sorted(step.done for step in heard)
    assert heard[-1].done == heard[-1].total == 4


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seeds": (1, 1)}, "seeds: must be at least one, each once, got 1, 1"),
        ({"policies": ()}, "policies: must be at least one"),
        ({"loads": ()}, "spot loads: must be at least one"),
        ({"loads": (0.0,)}, "spot load: must be above 0 and at most 2"),
        ({"loads": (2.1,)}, "spot load: must be above 0 and at most 2"),
    ],
)
def test_studies_that_compare_nothing_are_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        list(run_spot_study(study(**change)))
