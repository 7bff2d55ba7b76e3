"""Spot capacity: SpotGPU against a baseline that picks at random."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from planner.studies.front import StudyAtHand

if TYPE_CHECKING:
    from planner.studies.intervals import Interval


def spot_study(
    *,
    nodes: int = 60,
    gpus_per_node: int = 8,
    loads: Sequence[float] = (0.10, 0.15, 0.20, 0.24),
    policies: Sequence[str] = ("spotgpu", "random"),
    seeds: Sequence[int] = (0, 1),
    days: float = 4,
    most_evictions_per_job: float = 0.5,
) -> StudyAtHand:
    """Spot jobs on what guaranteed jobs leave. `loads`: shares of the GPUs that spot jobs ask for; policies are
    compared at the highest, against the last of them. `most_evictions_per_job`: the limit of what is carried."""
    from planner.studies.spot.capacity import SpotLimits, change_of, mean_of
    from planner.studies.spot.page import spot_page
    from planner.studies.spot.plots import spot_pictures
    from planner.studies.spot.records import SpotNode
    from planner.studies.spot.simulation.policies import parse_spot_policy
    from planner.studies.spot.study import SpotResults, SpotStudy, run_spot_study

    hosts = tuple(SpotNode(name=str(k), gpus=gpus_per_node, cpus=24 * gpus_per_node) for k in range(nodes))
    chosen = tuple(map(parse_spot_policy, policies))
    question = SpotStudy(nodes=hosts, policies=chosen, seeds=tuple(seeds), loads=tuple(loads), days=days)
    runs, limits = list(run_spot_study(question)), SpotLimits(most_evictions_per_job=most_evictions_per_job)
    done = SpotResults.of(question, runs, chosen[-1].name, max(loads), loads, limits)
    first, base = done.by_policy[chosen[0].name], done.by_policy[done.baseline]
    rows = [
        {
            "figure": words,
            **{policy: _mean(mean_of(theirs, figure)) for policy, theirs in done.by_policy.items()},
            "change_percent": _mean(change_of(first, base, figure)),
        }
        for figure, words in _FIGURES.items()
    ]
    carried = [
        {
            "policy": answer.policy,
            "carried_gpus": answer.carried.asked_gpus if answer.carried else None,
            "limit_met_at_gpus": answer.about_gpus,
        }
        for answer in done.answers
    ]
    return StudyAtHand(
        "spot",
        rows,
        records={"runs": runs, "points": done.points, "answers": done.answers},
        draw=spot_pictures(done),
        summary=partial(spot_page, done),
        tables={"carried": carried},
    )


def _mean(interval: "Interval | None") -> float | None:
    return None if interval is None else interval.mean


_FIGURES = {
    "claimed_percent": "GPUs claimed (%)",
    "spot_completion_mean_h": "completion of spot jobs (h)",
    "lost_gpu_h": "lost GPU-hours",
    "evictions_per_job": "evictions a spot job",
    "hp_completion_mean_h": "completion of guaranteed jobs (h)",
}
