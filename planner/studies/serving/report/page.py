"""A serving study as a Markdown page: policies side by side, the thesis' findings beside ours, figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from planner.report.kit.markdown import escaped, pictures, table
from planner.report.kit.quantities import counted, significant, whole
from planner.studies.serving.orderings import Comparison, by_policies, comparisons, means_of
from planner.studies.serving.policies.named import POLICIES
from planner.studies.serving.records import ServingPool, ServingSettings
from planner.studies.serving.study import ServingSeedRun

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

COMPARISON_HEADER = ("Finding of the thesis", "Published", "Here", "Holds")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPage:
    """What the page is of. `figures`: titles and paths of pictures."""

    runs: Sequence[ServingSeedRun]
    pool: ServingPool
    settings: ServingSettings
    name: str = ""
    figures: Mapping[str, str] | None = None


def serving_page(page: ServingPage) -> str:
    """The study as Markdown, ending in a newline."""
    parts = [
        f"# Many models on one pool{': ' + escaped(page.name) if page.name else ''}",
        _setting(page),
        f"## Policies\n\n{_policies(page.runs)}",
        *_findings(page.runs),
        f"## Constants\n\n{_constants(page.settings)}",
        *pictures(page.figures or {}),
    ]
    return "\n\n".join(parts) + "\n"


def _setting(page: ServingPage) -> str:
    machines = sum(kind.machines for kind in page.pool.types)
    reserve = sum(kind.reserve for kind in page.pool.types)
    seeds = len({run.seed for run in page.runs})
    sleeping = f" and {whole(reserve)} in reserve" if reserve else ""
    requests = page.runs[0].figures.requests
    return (
        f"{counted(machines, 'machine')}{sleeping} of {counted(len(page.pool.types), 'type')}, "
        f"{counted(len(page.pool.models), 'model')}, {counted(requests, 'request')}; "
        f"means over {counted(seeds, 'seed')}."
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
        "compared, values cannot."
    )
    return [f"## The thesis' findings\n\n{words}\n\n{table(COMPARISON_HEADER, rows, 'lllr')}"]


def _constants(settings: ServingSettings) -> str:
    rows = [[escaped(field.name), escaped(str(getattr(settings, field.name)))] for field in fields(settings)]
    return table(("Constant", "Value"), rows, "lr")
