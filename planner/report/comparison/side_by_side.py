"""Plans beside each other: words, tables, rows for CSV, a document for JSON."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from planner.domain import PHASES, Phase, RateBand, RateComparison
from planner.domain.comparisons import ComparedPlan, LatencyFigures, PlanComparison, PlanFigures, PoolFigures
from planner.domain.serving.levels import TIMES, JudgedLevels, LevelCheck
from planner.report.buckets.view import span_label, time
from planner.report.kit.markdown import escaped
from planner.report.kit.quantities import LEFT_OUT, NONE, money, percent, rate, rate_with, significant, whole
from planner.report.kit.tables import Column, Table, fields, matrix, of_part, table_of

SAME = 5e-4
"""Rates that differ by a smaller share are told as the same."""

_LIKELY = ((0.9, "very likely"), (0.6, "likely"))
_UNDECIDED = "as likely as not"
_EVEN, _SMALLEST_CHANCE = 0.5, 1e-3


def rate_sentence(comparison: RateComparison, old: str, new: str) -> str:
    """Both rates with their bands, and how likely the one that is predicted faster is so in truth."""
    before = _figure(comparison.old_rps, comparison.old_band)
    after = _figure(comparison.new_rps, comparison.new_band)
    return f"Rate: {before} → {after} requests/s; {_rate_verdict(comparison, escaped(old), escaped(new))}."


def _figure(rate_rps: float, band: RateBand | None) -> str:
    """Rates that are compared keep the digits that tell them apart: they may differ by less than their bands."""
    banded = rate_with(rate_rps, band)
    return rate(rate_rps) if banded is None else f"{rate(rate_rps)} ({banded.range})"


def _rate_verdict(comparison: RateComparison, old: str, new: str) -> str:
    if abs(comparison.change) < SAME:
        return "both are predicted to serve the same"
    faster, slower = (new, old) if comparison.change > 0 else (old, new)
    more = max(comparison.new_rps, comparison.old_rps) / min(comparison.new_rps, comparison.old_rps) - 1
    lead = f"{faster if faster != slower else _side(comparison)} is faster by {_more_words(more)}"
    if comparison.probability_faster is None:
        return f"{lead} as predicted (how likely is not known: no band)"
    likely = comparison.probability_faster if comparison.change > 0 else 1 - comparison.probability_faster
    if likely < _EVEN:
        return f"{lead} as predicted, yet in truth rather slower ({likelihood(1 - likely)})"
    return f"{lead} ({likelihood(likely)})"


def _side(comparison: RateComparison) -> str:
    """Of plans of one name."""
    return "the new plan" if comparison.change > 0 else "the old plan"


def _more_words(share: float) -> str:
    return f"{100 * share:.1f} %" if share < 0.1 else percent(share)


def likelihood(probability: float) -> str:
    """A probability in words and percent: likely: 71 %. Draws do not tell 100 % from more than 99 %."""
    word = next((word for threshold, word in _LIKELY if probability >= threshold), _UNDECIDED)
    word = "unlikely" if probability <= 1 - _LIKELY[-1][0] else word
    return f"{word}: {percent(min(max(probability, _SMALLEST_CHANCE), 1 - _SMALLEST_CHANCE))}"


HOW_TO_READ = (
    f"In the table: {LEFT_OUT}; the gap is to the bound of the plan's own objective; times are those of the bucket "
    "nearest to its bound, at the percentile that is asked for, with ! where that is broken."
)
ASKED_ALIKE = "Nothing: they were asked the same."
_KILO, _LEAST_CHANCE = 1000.0, 1e-3
Cells = tuple[str, Sequence[str]]  # what a row is of, and its cell for each plan

_EXACT: tuple[Column[ComparedPlan], ...] = (
    *fields("run=figures.name", "figures.form", "figures.rate_rps"),
    *of_part(lambda plan: plan.figures.band, fields("low_rps", "high_rps")),
    *of_part(
        lambda plan: plan.figures,
        fields(
            *("promise_rps", "burst_rps", "price_usd_per_hour", "price_usd_per_million_tokens", "watts", "unit"),
            *("value", "bound", "gap", "unrestricted_rps", "levels_hold", "gpus", "idle_gpus"),
        ),
    ),
    Column("fleet", lambda plan: ", ".join(f"{count} {gpu}" for gpu, count in plan.figures.fleet)),
    *of_part(lambda plan: plan.figures, fields("pools", "kinds", "lost_nodes", "remaining_rps", "survive_share")),
    *fields("better_than_first", "best_probability"),
)


def figure_cells(plans: Sequence[PlanFigures]) -> list[Cells]:
    """What is compared first, a row a figure; rows that no plan has are left out, and GPU types that no plan uses."""
    readers: list[tuple[str, Callable[[PlanFigures], str]]] = [
        ("requests/s", lambda plan: rate(plan.rate_rps)),
        ("P10–P90", lambda plan: band_words(plan) or NONE),
        ("promise, bunched", lambda plan: _or_none(plan.burst_rps, rate)),
        ("promise", lambda plan: rate(plan.promise_rps)),
        ("USD/hour", lambda plan: _or_none(plan.price_usd_per_hour, money)),
        ("USD/M tokens", lambda plan: _or_none(plan.price_usd_per_million_tokens, significant)),
        ("kW", lambda plan: f"{plan.watts / _KILO:.1f}"),
        ("gap to bound", gap_words),
        ("levels", levels_word),
        *((f"{TIMES[phase]}, {load}", _late(phase, load)) for load in _loads(plans) for phase in PHASES),
        *((gpu, _count(gpu)) for gpu in dict.fromkeys(gpu for plan in plans for gpu, count in plan.fleet if count)),
        ("idle GPUs", lambda plan: whole(plan.idle_gpus)),
        ("pools", lambda plan: whole(plan.pools)),
        ("after a loss", _remaining),
        ("routing", lambda plan: plan.form),
    ]
    rows = [(label, tuple(read(plan) for plan in plans)) for label, read in readers]
    return [(label, cells) for label, cells in rows if set(cells) != {NONE}]


def odds_cells(comparison: PlanComparison) -> list[Cells]:
    """How likely each is better than the first, and the best of all."""
    first = comparison.plans[0].figures.name
    rows = [
        (f"faster than {first}", (NONE, *(_or_none(plan.better_than_first, _chance) for plan in comparison.plans[1:]))),
        ("most of all", tuple(_or_none(plan.best_probability, _chance) for plan in comparison.plans)),
    ]
    return [(label, cells) for label, cells in rows if set(cells) != {NONE}]


def _chance(probability: float) -> str:
    """In percent; draws do not tell 100 % from more than 99 %."""
    return percent(min(max(probability, _LEAST_CHANCE), 1 - _LEAST_CHANCE))


def _or_none(value: float | None, words: Callable[[float], str]) -> str:
    return NONE if value is None else words(value)


def band_words(plan: PlanFigures) -> str | None:
    """P10 and P90 of the rate; None where it has no band."""
    banded = rate_with(plan.rate_rps, plan.band)
    return None if banded is None else banded.range


def gap_words(plan: PlanFigures) -> str:
    """How far the plan is from the bound of its objective."""
    return _or_none(plan.gap, lambda gap: f"{100 * max(0.0, gap):.1f} %")


def levels_word(plan: PlanFigures) -> str:
    """Whether the levels are kept."""
    return {None: "none set", True: "held", False: "broken"}[plan.levels_hold]


def _loads(plans: Sequence[PlanFigures]) -> list[str]:
    return list(dict.fromkeys(levels.load for plan in plans for levels in plan.levels))


def _late(phase: Phase, load: str) -> Callable[[PlanFigures], str]:
    def read(plan: PlanFigures) -> str:
        tightest = [levels.tightest(phase) for levels in plan.levels if levels.load == load]
        return level_words(tightest[0]) if tightest and tightest[0] is not None else NONE

    return read


def level_words(check: LevelCheck) -> str:
    """`2.38 of 4 s`; a broken level says so."""
    late = time(check.late_ms)
    if check.bound_ms is None:
        return late
    (figure, _, unit), bound = late.partition(" "), time(check.bound_ms)
    short = f"{figure} of {bound}" if check.late_ms is not None and bound.endswith(f" {unit}") else f"{late} of {bound}"
    return short if check.seems_kept else f"{short}!"


def _count(gpu: str) -> Callable[[PlanFigures], str]:
    return lambda plan: whole(dict(plan.fleet).get(gpu, 0))


def _remaining(plan: PlanFigures) -> str:
    if plan.remaining_rps is None:
        return NONE
    return f"{rate(plan.remaining_rps)}"


def head(comparison: PlanComparison, label: str = "") -> Table[Cells]:
    """A row a figure, below `label`, and a column a plan."""
    figures = [plan.figures for plan in comparison.plans]
    return matrix([plan.name for plan in figures], [*figure_cells(figures), *odds_cells(comparison)], label)


def verdict(comparison: PlanComparison) -> str:
    """Which serves most and how likely, which is the cheapest per token, and what the figures are."""
    best, plans = comparison.best, comparison.plans
    costs = _least_per_token(comparison)
    if not comparison.same_work:
        return f"They serve different work, so none is called the fastest; {costs}"
    fastest = f"**{escaped(best.figures.name)} serves most**, {rate(best.figures.rate_rps)} requests/s as predicted"
    sure = f" ({likelihood(best.best_probability)})" if best.best_probability is not None and len(plans) > 1 else ""
    return f"{fastest}{sure}; {costs}"


def cheapest_of(figures: Sequence[PlanFigures]) -> tuple[PlanFigures, float] | None:
    """What costs least per token, and how much (USD per million); None where no fleet has all its prices."""
    prices = [(plan.price_usd_per_million_tokens, n) for n, plan in enumerate(figures)]
    priced = [(usd, n) for usd, n in prices if usd is not None]
    return (figures[min(priced)[1]], min(priced)[0]) if priced else None


def _least_per_token(comparison: PlanComparison) -> str:
    figures = [plan.figures for plan in comparison.plans]
    cheapest = cheapest_of(figures)
    if cheapest is None:
        return "no fleet has all its prices."
    without = [escaped(plan.name) for plan in figures if plan.price_usd_per_million_tokens is None]
    unknown = f"; the price of {', '.join(without)} is not known" if without else ""
    return (
        f"**{escaped(cheapest[0].name)} costs least per token**, {significant(cheapest[1])} USD per million{unknown}."
    )


def differences(comparison: PlanComparison) -> Table[Cells] | None:
    """A row a key that was asked for otherwise, a column a plan; None where all were asked the same."""
    rows = [(row.key, row.values) for row in comparison.differences]
    return matrix([plan.figures.name for plan in comparison.plans], rows, "Key") if rows else None


def pool_rows(comparison: PlanComparison) -> Iterator[tuple[str, PoolFigures]]:
    """Every pool with the plan's name, prefill first, by length."""
    for plan in comparison.plans:
        for pool in sorted(plan.pools, key=lambda pool: (pool.phase.value == "decode", pool.start, -pool.share)):
            yield plan.figures.name, pool


def started_with(pool: PoolFigures) -> str:
    """Token budget of a prefill step, or the batch of decode."""
    if pool.tokens_per_step:
        return f"{pool.tokens_per_step:,} tokens a step"
    return f"batch {pool.batch_size}"


def pools(comparison: PlanComparison) -> Table[tuple[str, PoolFigures]]:
    """A row a pool."""
    columns: tuple[Column[tuple[str, PoolFigures]], ...] = (
        Column("run", lambda row: row[0], title="Run"),
        Column("phase", lambda row: row[1].phase.value, title="Phase"),
        Column("prompts", lambda row: span_label(row[1].start, row[1].end), title="Prompts (tokens)", right=True),
        Column("servers", lambda row: row[1].words, title="Servers"),
        Column("started_with", lambda row: started_with(row[1]), title="Started with"),
        Column("share", lambda row: row[1].share, percent, "Takes"),
    )
    return table_of(columns, pool_rows(comparison))


def latency_rows(comparison: PlanComparison) -> Iterator[tuple[str, LatencyFigures]]:
    """Every time with the plan's name."""
    for plan in comparison.plans:
        yield from ((plan.figures.name, row) for row in plan.latencies)


def every_figure(comparison: PlanComparison) -> Table[ComparedPlan]:
    """One row a plan, as in comparison.csv."""
    return table_of(_EXACT, comparison.plans)


def comparison_document(comparison: PlanComparison) -> dict[str, Any]:
    """The comparison as plain data."""
    return {
        "plans": [
            asdict(replace(plan, figures=replace(plan.figures, levels=())))
            | {"gpus": plan.figures.gpus, "levels_hold": plan.figures.levels_hold}
            | levels_documents(plan.figures)
            for plan in comparison.plans
        ],
        "differences": [asdict(row) for row in comparison.differences],
        "warnings": list(comparison.warnings),
    }


def levels_documents(figures: PlanFigures) -> dict[str, Any]:
    """The levels of a plan at its loads as plain data, under `levels`."""
    return {"levels": [_levels_document(levels) for levels in figures.levels]}


def _levels_document(levels: JudgedLevels) -> dict[str, Any]:
    return {
        "load": levels.load,
        "rate_rps": levels.rate_rps,
        "standing": levels.standing,
        "checks": [_check_document(check) for check in levels.checks],
    }


def _check_document(check: LevelCheck) -> dict[str, Any]:
    return {
        "name": check.name,
        "part": check.part,
        "bound_ms": check.bound_ms,
        "needed": check.needed,
        "share": None if check.share is None else check.share.mean,
        "p50_ms": check.p50_ms,
        "late_ms": check.late_ms,
        "standing": check.standing,
        "decides": check.decides,
    }
