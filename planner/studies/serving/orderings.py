"""What the thesis found about its policies, and whether a study's means say so, too.

Its runs were stochastic, in real time, with constants that it does not give: orderings can be compared, values cannot.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from planner.studies.serving.measures import FIGURE_NAMES
from planner.studies.serving.study import ServingSeedRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`figure` of policy `less` lies below that of `more`; `published`: how the thesis or its notebooks put it."""

    words: str
    figure: str
    less: str
    more: str
    published: str


FINDINGS = (
    Finding(
        words="Clockwork misses fewer deadlines than Baseline",
        figure="misses_per_100",
        less="clockwork",
        more="baseline",
        published="6.3: noticeably fewer when a spike occurs",
    ),
    Finding(
        words="Clockwork completes sooner than Baseline",
        figure="completion_mean_s",
        less="clockwork",
        more="baseline",
        published="6.3: from the 40th percentile on",
    ),
    Finding(
        words="Quantum logic saves Round Robin loading time",
        figure="load_s",
        less="rr-quantum",
        more="rr",
        published="4.2.3: it reduces the loading frequency",
    ),
    Finding(
        words="Quantum logic misses fewer deadlines than Round Robin",
        figure="misses_per_100",
        less="rr-quantum",
        more="rr",
        published="6.4: slightly fewer",
    ),
    Finding(
        words="Quantum logic cuts Round Robin's longest completion",
        figure="completion_max_s",
        less="rr-quantum",
        more="rr",
        published="6.4: by about 70 %, from 200 s to 60 s",
    ),
    Finding(
        words="Starvation tracking cuts the longest completion further",
        figure="completion_max_s",
        less="rr-starvation",
        more="rr-quantum",
        published="6.5",
    ),
    Finding(
        words="Starvation tracking misses slightly more deadlines than quantum logic",
        figure="misses_per_100",
        less="rr-quantum",
        more="rr-starvation",
        published="6.5",
    ),
    Finding(
        words="Quanta per model miss fewer deadlines than starvation tracking",
        figure="misses_per_100",
        less="rr-model-quantum",
        more="rr-starvation",
        published="6.6: 1.6 percentage points fewer",
    ),
    Finding(
        words="Deadlines as order miss fewer than quanta per model",
        figure="misses_per_100",
        less="rr-deadline",
        more="rr-model-quantum",
        published="6.7: the largest improvement",
    ),
    Finding(
        words="The full Round Robin misses fewer deadlines than Clockwork",
        figure="misses_per_100",
        less="rr-deadline",
        more="clockwork",
        published="6.8",
    ),
    Finding(
        words="The full Round Robin misses fewer deadlines than Baseline",
        figure="misses_per_100",
        less="rr-deadline",
        more="baseline",
        published="6.8",
    ),
    Finding(
        words="The full Round Robin waits less on average than Baseline",
        figure="wait_mean_s",
        less="rr-deadline",
        more="baseline",
        published="6.8",
    ),
    Finding(
        words="The full Round Robin's longest wait is below Baseline's",
        figure="wait_max_s",
        less="rr-deadline",
        more="baseline",
        published="6.8",
    ),
    Finding(
        words="The full Round Robin loads for less time than Clockwork",
        figure="load_s",
        less="rr-deadline",
        more="clockwork",
        published="6.15 and notebooks: 857.81 s against 1,061.24 s",
    ),
    Finding(
        words="Clockwork loads for less time than Baseline",
        figure="load_s",
        less="clockwork",
        more="baseline",
        published="6.15 and notebooks: 1,061.24 s against 1,931.51 s",
    ),
)

Means = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A finding beside a study's means."""

    finding: Finding
    less: float
    more: float

    @property
    def holds(self) -> bool:
        """Whether it is so here."""
        return self.less < self.more


def means_of(runs: Sequence[ServingSeedRun]) -> dict[str, dict[str, float]]:
    """Each figure's mean over the seeds, by policy in the order of the runs."""
    by_policy = by_policies(runs)
    return {
        policy: {name: fmean(getattr(run.figures, name) for run in seed_runs) for name in FIGURE_NAMES}
        for policy, seed_runs in by_policy.items()
    }


def by_policies(runs: Sequence[ServingSeedRun]) -> dict[str, list[ServingSeedRun]]:
    """Runs by policy, in the order in which they come."""
    grouped: dict[str, list[ServingSeedRun]] = {}
    for run in runs:
        grouped.setdefault(run.policy, []).append(run)
    return grouped


def comparisons(means: Means) -> tuple[Comparison, ...]:
    """The findings about policies that ran."""
    return tuple(
        Comparison(finding=row, less=means[row.less][row.figure], more=means[row.more][row.figure])
        for row in FINDINGS
        if row.less in means and row.more in means
    )
