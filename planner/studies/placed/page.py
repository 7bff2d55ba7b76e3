"""The gain of `objective: placed` in words and a table."""

from collections.abc import Iterable, Sequence
from statistics import fmean

from planner.report.kit.markdown import table
from planner.studies.intervals import Interval, interval_of
from planner.studies.placed.study import GainRun, by_cluster, mean_gain

ROUNDING = 1e-9

HEADER = (
    "cluster",
    "solved for, then placed (requests/s)",
    "`objective: placed`",
    "gain",
    "CPU-s, both",
)


def gain_page(runs: Sequence[GainRun]) -> str:
    """A row a kind of cluster, and the mean of all."""
    groups = by_cluster(runs)
    return "\n\n".join(("# Objective placed", told_gain(runs), table(HEADER, gain_rows(groups.values()), "lrrrr")))


def told_gain(runs: Sequence[GainRun]) -> str:
    """The mean gain in a sentence."""
    better, worse = (sum(sign * run.gain > ROUNDING for run in runs) for sign in (1, -1))
    if worse:
        raise ValueError(f"{worse} plans of objective placed are worse than those that their search begins with")
    return (
        f"Of what `objective: placed` serves, the plan that is solved for and then placed lacks "
        f"{percent_of(mean_gain(runs))} (mean of the kinds of clusters, ± half of a 95 % interval); {better} of "
        f"{len(runs)} plans are better, none is worse."
    )


def gain_rows(groups: Iterable[list[GainRun]]) -> list[tuple[str, ...]]:
    """Means of the seeds of each kind."""
    rows = []
    for group in groups:
        cpu_s = f"{fmean(run.solved_cpu_s for run in group):.1f}, {fmean(run.placed_cpu_s for run in group):.1f}"
        rates = (fmean(run.solved_rps for run in group), fmean(run.placed_rps for run in group))
        gain = percent_of(interval_of([run.gain for run in group]))
        rows.append((group[0].cluster, *(f"{rps:.4g}" for rps in rates), gain, cpu_s))
    return rows


def percent_of(interval: Interval | None) -> str:
    """As `4.1 ± 2.0 %`."""
    assert interval is not None, "there are runs"
    half = "" if interval.half is None else f" ± {100 * interval.half:.1f}"
    return f"{100 * interval.mean:.1f}{half} %"
