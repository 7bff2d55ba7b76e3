"""A serving study as a Markdown page: policies side by side, the thesis' findings beside ours, figures.

Its runs were stochastic, in real time, with constants that it does not give: orderings can be compared, values under
the reading alone that was calibrated to them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import fmean

from planner.report.kit.markdown import escaped, pictures, table
from planner.report.kit.quantities import counted, significant, whole
from planner.studies.serving.measures import FIGURE_NAMES
from planner.studies.serving.policies.named import POLICIES
from planner.studies.serving.records import ServingPool, ServingSettings
from planner.studies.serving.study import ServingSeedRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`figure` of policy `less` lies below that of `more`; `published`: how the thesis or its notebooks put it."""

    words: str
    figure: str
    less: str
    more: str
    published: str


LATENCY = '6.8: "significant improvements [in] both the average and maximum response latency"'

FINDINGS = tuple(
    Finding(words=words, figure=figure, less=less, more=more, published=published)
    for words, figure, less, more, published in (
        (
            "Clockwork misses fewer deadlines than Baseline",
            "misses_per_100",
            "clockwork",
            "baseline",
            '6.3: "noticeably lower than those of Baseline when a spike occurs"',
        ),
        (
            "Clockwork completes sooner than Baseline",
            "completion_mean_s",
            "clockwork",
            "baseline",
            '6.3: "a considerable improvement around the 40–th percentile"',
        ),
        (
            "Quantum logic saves Round Robin loading time",
            "load_s",
            "rr-quantum",
            "rr",
            '4.2.3: "reduces their loading frequency"',
        ),
        (
            "Quantum logic misses fewer deadlines than Round Robin",
            "misses_per_100",
            "rr-quantum",
            "rr",
            '6.4: "a slight drop"',
        ),
        (
            "Quantum logic cuts Round Robin's longest completion",
            "completion_max_s",
            "rr-quantum",
            "rr",
            '6.4: "dropped by about 70% (from around 200s to 60s)"',
        ),
        (
            "Starvation tracking cuts the longest completion further",
            "completion_max_s",
            "rr-starvation",
            "rr-quantum",
            '6.5: "further improvements in lowering the maximum latency"',
        ),
        (
            "Starvation tracking misses slightly more deadlines than quantum logic",
            "misses_per_100",
            "rr-quantum",
            "rr-starvation",
            '6.5: "increasing slightly"',
        ),
        (
            "Quanta per model miss fewer deadlines than starvation tracking",
            "misses_per_100",
            "rr-model-quantum",
            "rr-starvation",
            '6.6: "by 1.6 percentage points"',
        ),
        (
            "Deadlines as order miss fewer than quanta per model",
            "misses_per_100",
            "rr-deadline",
            "rr-model-quantum",
            '6.7: "the biggest improvement yet"',
        ),
        (
            "The full Round Robin misses fewer deadlines than Clockwork",
            "misses_per_100",
            "rr-deadline",
            "clockwork",
            '7.1: "outperformed both the modified Baseline and Clockwork"',
        ),
        (
            "The full Round Robin misses fewer deadlines than Baseline",
            "misses_per_100",
            "rr-deadline",
            "baseline",
            '6.8: "significant improvements in the number of requests finishing before their deadline"',
        ),
        ("The full Round Robin waits less on average than Baseline", "wait_mean_s", "rr-deadline", "baseline", LATENCY),
        ("The full Round Robin's longest wait is below Baseline's", "wait_max_s", "rr-deadline", "baseline", LATENCY),
        (
            "The full Round Robin loads for less time than Clockwork",
            "load_s",
            "rr-deadline",
            "clockwork",
            "6.15 (notebook utilization): 857.81 s against 1,061.24 s",
        ),
        (
            "Clockwork loads for less time than Baseline",
            "load_s",
            "clockwork",
            "baseline",
            "6.15 (notebook utilization): 1,061.24 s against 1,931.51 s",
        ),
    )
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


ROWS = (
    ("met_percent", "Deadlines met, %"),
    ("misses_per_100", "Missed per 100 requests"),
    ("misses_per_minute", "per minute"),
    ("wait_mean_s", "Wait until scheduled, mean, s"),
    ("wait_p99_s", "P99, s"),
    ("wait_max_s", "longest, s"),
    ("completion_mean_s", "Completion, mean, s"),
    ("completion_p99_s", "P99, s"),
    ("completion_max_s", "longest, s"),
    ("throughput_per_minute", "Throughput, requests/min"),
    ("loads", "Loads"),
    ("load_s", "Loading, all machines, s"),
    ("infer_percent", "Inferring, % of machine time"),
    ("load_percent", "Loading, % of machine time"),
    ("machine_h", "Machine-hours"),
)
"""Figures of the page, in its order, and what they are called."""

COMPARISON_HEADER = ("Finding of the thesis", "Published", "Here", "Same order")


def serving_page(
    runs: Sequence[ServingSeedRun],
    pool: ServingPool,
    settings: ServingSettings,
    *,
    name: str = "",
    figures: Mapping[str, str] | None = None,
) -> str:
    """The study as Markdown, ending in a newline. `name`: of the input; `figures`: titles and paths of pictures."""
    parts = [
        f"# Many models on one pool{': ' + escaped(name) if name else ''}",
        _setting(runs, pool),
        f"## Policies\n\n{_policies(runs)}",
        *_findings(runs),
        f"## Constants\n\n{_constants(settings)}",
        *pictures(figures or {}),
    ]
    return "\n\n".join(parts) + "\n"


def _setting(runs: Sequence[ServingSeedRun], pool: ServingPool) -> str:
    machines, reserve = (sum(getattr(kind, name) for kind in pool.types) for name in ("machines", "reserve"))
    sleeping = f" and {whole(reserve)} in reserve" if reserve else ""
    return (
        f"{counted(machines, 'machine')}{sleeping} of {counted(len(pool.types), 'type')}, "
        f"{counted(len(pool.models), 'model')}, {counted(runs[0].figures.requests, 'request')}; "
        f"means over {counted(len({run.seed for run in runs}), 'seed')}."
    )


def number_words(value: float, digits: int = 3) -> str:
    """A figure: whole from a thousand on, else to so many digits."""
    return whole(value) if abs(value) >= 1000 or value == round(value) else significant(value, digits)


def figure_words(name: str, value: float) -> str:
    """A figure of the page; percents to the hundredth, since 99.98 is not 100."""
    return f"{value:.2f}" if name == "met_percent" else number_words(value)


def figure_rows(runs: Sequence[ServingSeedRun]) -> list[list[str]]:
    """The page's figures, a column a policy."""
    means = means_of(runs)
    return [[words, *(figure_words(name, row[name]) for row in means.values())] for name, words in ROWS]


def policy_titles(runs: Sequence[ServingSeedRun]) -> list[str]:
    """What the policies are called."""
    return [POLICIES[policy].title for policy in by_policies(runs)]


def _policies(runs: Sequence[ServingSeedRun]) -> str:
    titles = policy_titles(runs)
    return table(["", *map(escaped, titles)], figure_rows(runs), "l" + "r" * len(titles))


def comparison_row(row: Comparison) -> list[str]:
    """A finding, how it was published, the two values here, whether it holds."""
    return [
        row.finding.words,
        row.finding.published,
        f"{number_words(row.less)} against {number_words(row.more)}",
        "yes" if row.holds else "no",
    ]


def _findings(runs: Sequence[ServingSeedRun]) -> list[str]:
    rows = [[escaped(cell) for cell in comparison_row(row)] for row in comparisons(means_of(runs))]
    if not rows:
        return []
    words = (
        "The thesis ran in real time, with constants and minutes of arrivals that it does not give: orderings can be "
        "compared, values under `--reading published` alone."
    )
    return [f"## The thesis' findings\n\n{words}\n\n{table(COMPARISON_HEADER, rows, 'lllr')}"]


def _constants(settings: ServingSettings) -> str:
    rows = [[escaped(field.name), escaped(str(getattr(settings, field.name)))] for field in fields(settings)]
    return table(("Constant", "Value"), rows, "lr")
