"""What the PWR paper says of its figures 1 to 10, held against the tables of `planner study pwr`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from planner.studies.papers.records import Claim, Results, Run, Verdict
from planner.studies.policies.paper import COMBINATIONS, FGD, GAINED, STATEMENTS, Measure, Statement, measured

TABLES = {
    "default": "default",
    "gpushare40": "gpushare",
    "gpushare100": "gpushare",
    "multigpu20": "multigpu",
    "multigpu50": "multigpu",
    "gpuspec10": "gpuspec",
    "gpuspec33": "gpuspec",
}
"""Trace -> raw table."""
TRIES = "tries"
"""Raw table: what else was tried on multigpu50 and gpuspec10, a row a try and policy, with the least saved."""
EQUATION = "equation1"
"""Raw table: what is saved (%) where watts of CPUs are those of the paper's equation 1, not the simulator's."""
NEAR_POINTS, NEAR_GRAR, NEAR_PERCENT = 0.5, 0.005, 5
"""How far off is close: points of power, GRAR (the paper's are read off curves, to one digit), and percents of arrived
capacity before the end of a range that the paper gives as `about`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A policy on a trace, by percent of arrived capacity."""

    power_w: Mapping[int, float]
    gpu_power_w: Mapping[int, float]
    saved: Mapping[int, float]
    grar: Mapping[int, float]


Curves = Mapping[tuple[str, str], Curve]
"""By trace and policy."""


def claims(results: Results) -> Iterator[Claim]:
    """Figure by figure."""
    curves: dict[tuple[str, str], Curve] = {}
    for name in dict.fromkeys(TABLES.values()):
        curves |= curves_of(results.table(name))
    yield from _baseline(curves["default", FGD], results.run("default"))
    yield _groups(curves, results.run("default"))
    for statement in STATEMENTS:
        yield _claim(statement, curves, results)


def curves_of(rows: Sequence[Mapping[str, str]]) -> dict[tuple[str, str], Curve]:
    """Curves by trace and policy, from the rows of a figure's table."""
    grouped: dict[tuple[str, str], list[Mapping[str, str]]] = {}
    for row in rows:
        grouped.setdefault(_key(row), []).append(row)

    def curve(group: Sequence[Mapping[str, str]], column: str) -> dict[int, float]:
        return {int(row["arrived_percent"]): float(row[column]) for row in group}

    return {
        key: Curve(
            power_w=curve(group, "power_w"),
            gpu_power_w=curve(group, "gpu_power_w"),
            saved=curve(group, "power_saved_percent"),
            grar=curve(group, "grar"),
        )
        for key, group in grouped.items()
    }


def ours_of(statement: Statement, curves: Curves) -> float:
    """Our figure of a statement."""
    base, curve = curves[statement.trace, FGD], curves[statement.trace, statement.policy]
    value = measured(statement, curve.saved, {at: base.grar[at] - curve.grar[at] for at in curve.grar})
    assert value is not None
    return value


def _claim(statement: Statement, curves: Curves, results: Results) -> Claim:
    value = ours_of(statement, curves)
    power = statement.measure in (Measure.LEAST_SAVED, Measure.MOST_SAVED)
    short = {
        Measure.LEAST_SAVED: statement.published - value,
        Measure.MOST_SAVED: value - statement.published,
    }.get(statement.measure, abs(value - statement.published))
    verdict, reason = Verdict.HOLDS, ""
    if short > (0 if power else NEAR_GRAR):
        verdict, reason = _judged(statement, short, curves, results)
    span = f"{statement.start}" if statement.start == statement.end else f"{statement.start} to {statement.end}"
    bound = {Measure.LEAST_SAVED: "above ", Measure.MOST_SAVED: "at most "}.get(statement.measure, "about ")
    return Claim(
        place=f"figure {statement.figure}",
        words=f"{statement.trace}, {statement.policy}, {span} % arrived: {statement.measure.value}",
        published=f"{bound}{statement.published:g}",
        ours=f"{value:.1f}" if power else f"{value:.3f}",
        verdict=verdict,
        run=results.run(TABLES[statement.trace]),
        reason=reason,
    )


def _judged(statement: Statement, short: float, curves: Curves, results: Results) -> tuple[Verdict, str]:
    """Of a statement that does not hold to the letter: how near it is, and why."""
    if statement.measure is not Measure.LEAST_SAVED:
        near = NEAR_POINTS if statement.measure is Measure.MOST_SAVED else 2 * NEAR_GRAR
        verdict = Verdict.CLOSE if short <= near else Verdict.OPEN
        return verdict, f"Off by {short:.2g}; the paper's figure is read off a curve, to one digit."
    saved = curves[statement.trace, statement.policy].saved
    until = last_above(statement, saved)
    words = f"Above {statement.published:g} % until {until} % arrived, {short:.1f} points short at the least"
    if short <= NEAR_POINTS:
        return Verdict.CLOSE, f"{words}."
    fall = saved[statement.end - 1] - saved[statement.end]
    about = f"the curve falls by {fall:.1f} points a percent there, and the paper says `about` {statement.end}"
    if statement.end - until <= NEAR_PERCENT:
        return Verdict.EXPLAINED, f"{words}; {about}."
    key = statement.trace, statement.policy
    tried = [f"{row['what']}: {float(row['least_saved']):.1f}" for row in results.table(TRIES) if _key(row) == key]
    by_equation = {
        int(row["arrived_percent"]): float(row["saved"]) for row in results.table(EQUATION) if _key(row) == key
    }
    least = min(value for at, value in by_equation.items() if statement.start <= at <= statement.end)
    reached = last_above(statement, by_equation)
    by_words = f"With watts of CPUs by the paper's equation 1 above it until {reached} %, at least {least:.1f}"
    others = f"the least by other tries: {'; '.join(tried)}"
    if statement.end - reached <= NEAR_PERCENT or statement.published - least <= NEAR_POINTS:
        near = statement.end - reached <= NEAR_PERCENT
        return (Verdict.EXPLAINED if near else Verdict.CLOSE), f"{words}. {by_words} ({others})."
    return Verdict.OPEN, f"{words}. {by_words}; nothing that was tried reaches the paper's figure ({others})."


def _key(row: Mapping[str, str]) -> tuple[str, str]:
    return row["trace"], row["policy"]


def last_above(statement: Statement, saved: Mapping[int, float]) -> int:
    """The percentage up to which more than the published figure is saved without a break."""
    at = statement.start
    while at < statement.end and saved[at + 1] > statement.published:
        at += 1
    return at


def _baseline(fgd: Curve, run: Run) -> Iterator[Claim]:
    """Section VI-A."""
    first, peak = fgd.power_w[min(fgd.power_w)] / 1000, max(fgd.power_w.values()) / 1e6
    shares = [100 * fgd.gpu_power_w[at] / fgd.power_w[at] for at in fgd.power_w]
    for words, published, ours, holds in (
        ("FGD's power starts just above 200 kW", "200 kW", f"{first:.0f} kW", 200 < first < 250),
        ("and peaks at about 1.4 MW", "1.4 MW", f"{peak:.2f} MW", round(peak, 1) == 1.4),
        (
            "of which GPUs draw",
            "72 to 76 %",
            f"{min(shares):.1f} to {max(shares):.1f} %",
            round(min(shares)) >= 72 and round(max(shares)) <= 76,
        ),
    ):
        yield Claim(
            place="figure 1",
            words=words,
            published=published,
            ours=ours,
            verdict=Verdict.HOLDS if holds else Verdict.OPEN,
            run=run,
            reason="" if holds else "Same power table, same formula: the reason is not known.",
        )


def _groups(curves: Curves, run: Run) -> Claim:
    """Section VI-B: mixtures with more than 0.2 of PWR follow plain PWR, the others save a little less."""

    def mean(policy: str) -> float:
        return fmean(value for at, value in curves["default", policy].saved.items() if GAINED <= at <= 80)

    heavy = [mean(policy) for policy in ("pwr:0.5+fgd:0.5", "pwr:0.9+fgd:0.1")]
    light, plain = [mean(policy) for policy in COMBINATIONS], mean("pwr")
    holds = max(light) < min(heavy) and max(abs(value - plain) for value in heavy) < plain - max(light)
    return Claim(
        place="figure 2",
        words="mixtures of more than 0.2 of PWR save as plain PWR, those of less a little less (15 to 80 % arrived)",
        published="two groups",
        ours=f"0.05 to 0.2: {min(light):.1f} to {max(light):.1f} %; 0.5, 0.9: {min(heavy):.1f} to {max(heavy):.1f} %; "
        f"plain: {plain:.1f} %",
        verdict=Verdict.HOLDS if holds else Verdict.OPEN,
        run=run,
        reason="" if holds else "The groups overlap here.",
    )
