"""Spot capacity: SpotGPU against a baseline that picks at random."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from planner.studies.at_hand import StudyAtHand

if TYPE_CHECKING:
    from planner.studies.spot.means import Interval


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
    from planner.studies.spot.capacity import SpotLimits, capacity_of, curve_of
    from planner.studies.spot.means import change_of, mean_of
    from planner.studies.spot.records import SpotNode
    from planner.studies.spot.report.figures import kinds_of_spot, spot_figure
    from planner.studies.spot.report.page import SpotPage, spot_page
    from planner.studies.spot.simulation.policies import parse_spot_policy
    from planner.studies.spot.study import SpotStudy, run_spot_study

    hosts = tuple(SpotNode(name=str(k), gpus=gpus_per_node, cpus=24 * gpus_per_node) for k in range(nodes))
    chosen = tuple(map(parse_spot_policy, policies))
    question = SpotStudy(nodes=hosts, policies=chosen, seeds=tuple(seeds), loads=tuple(loads), days=days)
    runs = list(run_spot_study(question))
    points, limits = curve_of(runs, question.measured_h), SpotLimits(most_evictions_per_job=most_evictions_per_job)
    compared, baseline = [run for run in runs if run.spot_load == max(loads)], chosen[-1].name
    by_policy = {policy.name: [run for run in compared if run.policy == policy.name] for policy in chosen}
    answers = [capacity_of(points, policy.name, limits) for policy in chosen]
    rows = [
        {
            "figure": words,
            **{policy: _mean(mean_of(theirs, figure)) for policy, theirs in by_policy.items()},
            "change_percent": _mean(change_of(by_policy[chosen[0].name], by_policy[baseline], figure)),
        }
        for figure, words in _FIGURES.items()
    ]
    page = SpotPage(
        runs=compared, baseline=baseline, nodes=nodes, days=days, warm_up_days=question.warm_up_days, points=points,
        answers=answers, limits=limits,
    )  # fmt: skip
    draw = {
        kind: partial(spot_figure, kind, compared, baseline, points=points, limits=limits)
        for kind in kinds_of_spot(compared, points)
    }
    carried = [
        {
            "policy": answer.policy,
            "carried_gpus": answer.carried.asked_gpus if answer.carried else None,
            "limit_met_at_gpus": answer.about_gpus,
        }
        for answer in answers
    ]
    return StudyAtHand(
        "spot",
        rows,
        records={"runs": runs, "points": points, "answers": answers},
        draw=draw,
        summary=partial(spot_page, page),
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
