"""A spot study as a Markdown page: policies side by side, how much spot load the cluster carries, figures."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from planner.report.kit.markdown import bullets, escaped, pictures
from planner.report.kit.quantities import NONE, counted, measured, significant, whole
from planner.report.kit.tables import Column, Table, table_of
from planner.studies.intervals import Interval
from planner.studies.spot.capacity import DONE, CurvePoint, SpotCapacity, SpotLimits, change_of, difference_of, mean_of
from planner.studies.spot.records import SpotRun
from planner.studies.spot.study import SpotResults

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


def spot_page(done: SpotResults, *, name: str = "", figures: Mapping[str, str] | None = None) -> str:
    """The study as Markdown, ending in a newline. `name`: of the input; `figures`: titles and paths of pictures."""
    parts = [
        f"# Spot capacity{': ' + escaped(name) if name else ''}",
        _setting(done),
        *_headlines(done),
        f"## Policies\n\n{_comparison(done)}",
        *_curve_part(done),
        *pictures(figures or {}),
    ]
    return "\n\n".join(parts) + "\n"


def _setting(done: SpotResults) -> str:
    study, first = done.study, next(iter(done.by_policy.values()))
    load = first[0].spot_load
    load_words = "given jobs" if load is None else f"spot jobs that ask for {100 * load:g} % of the GPUs"
    intervals = "; ± halves of 95 % confidence intervals (Student's t)" if len(first) > 1 else ""
    return (
        f"{counted(len(study.nodes), 'node')}, {counted(first[0].gpus, 'GPU')}, {load_words}; "
        f"{measured(study.days, 'day')}, the first {study.warm_up_days:g} not counted; "
        f"means over {counted(len(first), 'seed')}{intervals}."
    )


def _headlines(done: SpotResults) -> list[str]:
    lines, base = [], done.by_policy[done.baseline]
    for policy in done.others:
        slower, lost = (
            change_of(done.by_policy[policy], base, name) for name in ("spot_completion_mean_h", "lost_gpu_h")
        )
        if slower is not None and lost is not None:
            lines.append(
                f"{escaped(policy)} against {escaped(done.baseline)}: completion of spot jobs {signed(slower)} %, lost "
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


def comparison(done: SpotResults, digits: int = 3) -> Table[tuple[str, str]]:
    """The figures of ROWS, a column a policy and one for each that is held against the baseline."""
    groups = done.by_policy
    base = groups[done.baseline]
    columns: list[Column[tuple[str, str]]] = [Column("", lambda row: row[1])]
    columns += [_figures_of(policy, runs, digits) for policy, runs in groups.items()]
    columns += [_change_of(f"{policy} against {done.baseline}", groups[policy], base) for policy in done.others]
    return table_of(columns, ROWS)


def _figures_of(policy: str, runs: Sequence[SpotRun], digits: int) -> Column[tuple[str, str]]:
    return Column(policy, lambda row: figure_words(mean_of(runs, row[0]), row[0], digits), str, right=True)


def _change_of(title: str, runs: Sequence[SpotRun], baseline: Sequence[SpotRun]) -> Column[tuple[str, str]]:
    return Column(title, lambda row: change_words(runs, baseline, row[0]), str, right=True)


def _comparison(done: SpotResults) -> str:
    rows = [row for row in ROWS if any(mean_of(runs, row[0]) is not None for runs in done.by_policy.values())]
    words = "\n\nCompletion of spot jobs is that of each policy's own finished jobs."
    if done.others:
        words += " Differences are those of single seeds, on the same jobs: percent, points of percents, or seconds."
    return replace(comparison(done), rows=tuple(rows)).markdown() + words


def change_words(runs: Sequence[SpotRun], baseline: Sequence[SpotRun], name: str) -> str:
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
    under = " and ".join(f"at most {limit:g} {LIMIT_WORDS[name]}" for name, limit in bounds.items()) or "no limit"
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


def _curve_part(done: SpotResults) -> list[str]:
    if not done.points:
        return []
    words = bullets([escaped(answer_words(answer, done.limits)) for answer in done.answers])
    return [f"## Spot load that the cluster carries\n\n{words}\n\n{table_of(_CURVE, done.points).markdown()}"]


def _per_thousand(point: CurvePoint) -> Interval | None:
    often = point.figures["evictions_per_gpu_h"]
    return None if often is None else Interval(mean=1000 * often.mean, half=None, count=often.count)


def _mean(
    title: str, value: Callable[[CurvePoint], Interval | None], shown: Callable[[float], str] = _number
) -> Column[CurvePoint]:
    return Column(title, lambda point: with_half(value(point), shown), str, right=True)


def _of(title: str, name: str, shown: Callable[[float], str] = _number) -> Column[CurvePoint]:
    return _mean(title, lambda point: point.figures[name], shown)


def _tenths(value: float) -> str:
    return f"{value:.1f}"


_CURVE: tuple[Column[CurvePoint], ...] = (
    Column("Policy", lambda point: point.policy),
    Column("Asked, % of GPUs", lambda point: f"{100 * point.spot_load:g}", str, right=True),
    Column("GPUs", lambda point: point.asked_gpus, whole),
    _mean("Kept work, GPUs", lambda point: point.useful_gpus, whole),
    _of("Due jobs done, %", DONE, _tenths),
    _of("Evictions a job", "evictions_per_job"),
    _mean("a 1000 GPU-hours", _per_thousand),
    _of("Lost, %", "lost_percent"),
    _of("Completion, h", "spot_completion_mean_h"),
    _of("over work", "spot_slowdown"),
    _of("HP + spot, %", "all_percent", _tenths),
)
