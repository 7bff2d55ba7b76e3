"""A spot study as a Markdown page: policies side by side, how much spot load the cluster carries, figures."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from planner.report.kit.markdown import bullets, escaped, pictures, table
from planner.report.kit.quantities import NONE, counted, measured, significant, whole
from planner.studies.spot.capacity import DONE, CurvePoint, SpotCapacity, SpotLimits
from planner.studies.spot.means import Interval, SpotSeedRun, change_of, difference_of, mean_of

ROWS = (
    ("all_percent", "Allocated, guaranteed and spot, % of nodes"),
    ("hp_percent", "Allocated, guaranteed, % of nodes"),
    ("claimed_percent", "Claimed, % of GPUs"),
    ("hp_claimed_percent", "Claimed, guaranteed, % of GPUs"),
    ("standby_percent", "On standby, % of GPUs"),
    ("harvested_percent", "of which used by spot jobs, %"),
    ("published_harvest_percent", "as the ASI paper counts, mean over nodes, %"),
    ("spot_completion_mean_h", "Completion of spot jobs, mean, h"),
    ("spot_completion_p50_h", "median, h"),
    ("spot_completion_p95_h", "P95, h"),
    ("spot_slowdown", "Completion over work, due jobs"),
    ("spot_done", "Spot jobs done"),
    ("due_done_percent", "of those due by the end, %"),
    ("evictions", "Evictions"),
    ("evictions_per_job", "a spot job that started"),
    ("lost_gpu_h", "Lost GPU-hours"),
    ("lost_percent", "of those held, %"),
    ("goodput_gpu_h", "Goodput, GPU-hours"),
    ("ending_gpu_h", "Until evicted pods were gone, GPU-hours"),
    ("hp_wait_mean_s", "Wait of guaranteed jobs, mean, s"),
    ("hp_wait_max_s", "longest, s"),
    ("hp_completion_mean_h", "Completion of guaranteed jobs, mean, h"),
    ("resume_mean_s", "Back from standby, mean, s"),
    ("eviction_mean_s", "Eviction, mean, s"),
)
"""Figures of the page, in its order, and what they are called."""

ABSOLUTE = frozenset({"hp_wait_mean_s", "hp_wait_max_s", "resume_mean_s", "eviction_mean_s"})
"""Figures that differ by so much, not by so many percent: near 0, percents say nothing; so do percents of percents."""

COUNTS = frozenset({"spot_done", "evictions"})
"""Figures that are whole numbers in every run."""

NOISE = 1e-9
"""Half of an interval that is so small beside its mean comes of rounding: the seeds' values are the same."""

LIMIT_WORDS = {
    "evictions_per_job": "evictions a spot job",
    "lost_percent": "% of spot GPU-hours lost",
    "spot_slowdown": "times the work until completion",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotPage:
    """What the page is of. `runs` at the load that policies are compared at; `baseline`: the policy held against.

    `answers`: a capacity a policy, within `limits`; none without a curve. `figures`: titles and paths of pictures.
    """

    runs: Sequence[SpotSeedRun]
    baseline: str
    nodes: int
    days: float
    warm_up_days: float
    name: str = ""
    points: Sequence[CurvePoint] = ()
    answers: Sequence[SpotCapacity] = ()
    limits: SpotLimits = field(default_factory=SpotLimits)
    figures: Mapping[str, str] | None = None


def spot_page(page: SpotPage) -> str:
    """The study as Markdown, ending in a newline."""
    by_policy = by_policies(page.runs)
    parts = [
        f"# Spot capacity{': ' + escaped(page.name) if page.name else ''}",
        _setting(page, by_policy),
        *_headlines(by_policy, page.baseline),
        f"## Policies\n\n{_comparison(by_policy, page.baseline)}",
        *_curve_part(page),
        *pictures(page.figures or {}),
    ]
    return "\n\n".join(parts) + "\n"


def by_policies(runs: Sequence[SpotSeedRun]) -> dict[str, list[SpotSeedRun]]:
    """Runs by policy, in the order in which they come."""
    by_policy: dict[str, list[SpotSeedRun]] = {}
    for seed_run in runs:
        by_policy.setdefault(seed_run.policy, []).append(seed_run)
    return by_policy


def _setting(page: SpotPage, by_policy: Mapping[str, Sequence[SpotSeedRun]]) -> str:
    first = next(iter(by_policy.values()))
    load = first[0].spot_load
    load_words = "given jobs" if load is None else f"spot jobs that ask for {100 * load:g} % of the GPUs"
    intervals = "; ± halves of 95 % confidence intervals (Student's t)" if len(first) > 1 else ""
    return (
        f"{counted(page.nodes, 'node')}, {counted(first[0].run.gpus, 'GPU')}, {load_words}; "
        f"{measured(page.days, 'day')}, the first {page.warm_up_days:g} not counted; "
        f"means over {counted(len(first), 'seed')}{intervals}."
    )


def _headlines(by_policy: Mapping[str, Sequence[SpotSeedRun]], baseline: str) -> list[str]:
    lines = []
    for policy, runs in by_policy.items():
        if policy != baseline:
            slower = change_of(runs, by_policy[baseline], "spot_completion_mean_h")
            lost = change_of(runs, by_policy[baseline], "lost_gpu_h")
            if slower is not None and lost is not None:
                lines.append(
                    f"{escaped(policy)} against {escaped(baseline)}: completion of spot jobs {signed(slower)} %, lost "
                    f"GPU-hours {signed(lost)} %."
                )
    return [f"**{' '.join(lines)}**"] if lines else []


def with_half(interval: Interval | None, shown: Callable[[float], str]) -> str:
    """A mean with half of its interval, as `12.3 ± 0.4`."""
    if interval is None:
        return NONE
    if interval.half is None:
        return shown(interval.mean)
    half = 0.0 if interval.half <= NOISE * abs(interval.mean) else interval.half
    return f"{shown(interval.mean)} ± {shown(half)}"


def figure_words(interval: Interval | None, name: str, digits: int = 3) -> str:
    """A figure of the page with half of its interval, to so many digits; counts that are whole without a point."""

    def shown(value: float) -> str:
        if abs(value) >= 1000 or (name in COUNTS and value == round(value)):
            return whole(value)
        return significant(value, digits)

    return with_half(interval, shown)


def signed(interval: Interval, digits: int = 1) -> str:
    """A difference with its sign, as `-24.1 ± 3.0`."""
    mean = f"{round(interval.mean, digits) + 0.0:+.{digits}f}"
    return mean if interval.half is None else f"{mean} ± {interval.half:.{digits}f}"


def _number(value: float) -> str:
    return whole(value) if abs(value) >= 1000 else significant(value, 3)


def _comparison(by_policy: Mapping[str, Sequence[SpotSeedRun]], baseline: str) -> str:
    others = [policy for policy in by_policy if policy != baseline]
    header = ["", *map(escaped, by_policy), *(f"{escaped(policy)} against {escaped(baseline)}" for policy in others)]
    rows = []
    for name, words in ROWS:
        cells = [figure_words(mean_of(runs, name), name) for runs in by_policy.values()]
        changes = [change_words(by_policy[policy], by_policy[baseline], name) for policy in others]
        if any(cell != NONE for cell in cells):
            rows.append([words, *cells, *changes])
    words = "\n\nCompletion of spot jobs is that of each policy's own finished jobs."
    return table(header, rows, "l" + "r" * (len(header) - 1)) + (
        f"{words} Differences are those of single seeds, on the same jobs: percent, points of percents, or seconds."
        if others
        else words
    )


def change_words(runs: Sequence[SpotSeedRun], baseline: Sequence[SpotSeedRun], name: str) -> str:
    """By how much a figure differs from the baseline's: percent, points of percents, or seconds."""
    if name.endswith("_percent"):
        change = difference_of(runs, baseline, name)
        return NONE if change is None else f"{signed(change)} points"
    if name in ABSOLUTE:
        change = difference_of(runs, baseline, name)
        return NONE if change is None else f"{signed(change)} s"
    change = change_of(runs, baseline, name)
    return NONE if change is None else f"{signed(change, 2 if name.startswith('hp_') else 1)} %"


def answer_words(answer: SpotCapacity, limits: SpotLimits) -> str:
    """What a policy carries, in a sentence of plain text."""
    bounds = limits.upper_limits()
    under = " and ".join(f"at most {most:g} {LIMIT_WORDS[name]}" for name, most in bounds.items()) or "no limit"
    if answer.carried is None and answer.broken is None:
        return f"{answer.policy}: no job of the spot loads tried could be done in these days; nothing is known."
    if answer.carried is None:
        return f"{answer.policy}: with {under}, none of the spot loads tried is carried{_breach(answer, limits)}."
    point = answer.carried
    useful = f", {whole(point.useful_gpus.mean)} GPUs of it as kept work" if point.useful_gpus else ""
    words = (
        f"{answer.policy}: with {under}, the cluster carries up to {whole(point.asked_gpus)} GPUs of spot load "
        f"({100 * point.spot_load:g} % of its GPUs{useful})"
    )
    if answer.broken is None:
        return f"{words}, the most that was tried."
    about = "" if answer.about_gpus is None else f" (on a straight line the limit is met at {whole(answer.about_gpus)})"
    return f"{words}{_breach(answer, limits)}{about}."


def _breach(answer: SpotCapacity, limits: SpotLimits) -> str:
    """What is wrong with the first load that is not carried."""
    if answer.broken is None:
        return ""
    breaches = " and ".join(_broken(answer.broken, name, limits) for name in answer.broke)
    verb = "is" if answer.broke[0] == DONE else "are"
    return f"; at {whole(answer.broken.asked_gpus)} GPUs there {verb} {breaches}"


def _broken(point: CurvePoint, name: str, limits: SpotLimits) -> str:
    interval = point.figures[name]
    if name == DONE:
        done = NONE if interval is None else f"{interval.mean:.1f}"
        return f"a backlog ({done} % of the due jobs done, at least {limits.least_done_percent:g} % asked)"
    return f"{'unknown' if interval is None else significant(interval.mean, 3)} {LIMIT_WORDS[name]}"


def _curve_part(page: SpotPage) -> list[str]:
    if not page.points:
        return []
    header = [
        "Policy",
        "Asked, % of GPUs",
        "GPUs",
        "Kept work, GPUs",
        "Due jobs done, %",
        "Evictions a job",
        "a 1000 GPU-hours",
    ]
    header += ["Lost, %", "Completion, h", "over work", "HP + spot, %"]
    rows = [_curve_row(point) for point in page.points]
    words = bullets([escaped(answer_words(answer, page.limits)) for answer in page.answers])
    return [f"## Spot load that the cluster carries\n\n{words}\n\n{table(header, rows, 'l' + 'r' * (len(header) - 1))}"]


def _curve_row(point: CurvePoint) -> list[str]:
    often = point.figures["evictions_per_gpu_h"]
    thousand = None if often is None else Interval(mean=1000 * often.mean, half=None, count=often.count)
    return [
        escaped(point.policy),
        f"{100 * point.spot_load:g}",
        whole(point.asked_gpus),
        with_half(point.useful_gpus, whole),
        with_half(point.figures[DONE], lambda value: f"{value:.1f}"),
        with_half(point.figures["evictions_per_job"], _number),
        with_half(thousand, _number),
        with_half(point.figures["lost_percent"], _number),
        with_half(point.figures["spot_completion_mean_h"], _number),
        with_half(point.figures["spot_slowdown"], _number),
        with_half(point.figures["all_percent"], lambda value: f"{value:.1f}"),
    ]
