"""What the PWR paper says of its figures 1 to 10, held against the tables of `planner study pwr`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from planner.studies.papers.records import Claim, Results, Run, Verdict
from planner.studies.policies.paper import (
    COMBINATIONS,
    COMPETITORS,
    FGD,
    FULL,
    GAINED,
    POLICIES,
    STATEMENTS,
    Measure,
    Statement,
    measured,
)

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
"""Raw table: what else was tried on multigpu50, a row a try and policy, with the least saved."""
EQUATION = "equation1"
"""Raw table: what is saved (%) where watts of CPUs are those of the paper's equation 1, not the simulator's."""
NEAR_POINTS, NEAR_GRAR, NEAR_PERCENT = 0.5, 0.005, 5
"""How far off is close: points of power, GRAR (the paper's are read off curves, to one digit), and percents of arrived
capacity before the end of a range that the paper gives as `about`."""
HEAVY = ("pwr:0.5+fgd:0.5", "pwr:0.9+fgd:0.1")
UP_TO, MODERATE = 20, range(25, 61)
"""Sections I and VII: percent saved; and the loads, percent asked for, that we take for `moderate`."""


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
    yield _headline(curves, results)
    yield from _baseline(curves["default", FGD], results.run("default"))
    yield from _groups(curves, results)
    yield from _leads(curves, results)
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


def _mixture(policy: str) -> str:
    """`pwr:0.05+fgd:0.95` in words."""
    if ":" not in policy:
        return policy.upper() if policy in (FGD, "pwr") else policy
    return " + ".join(f"{weight} {name.upper()}" for name, weight in (part.split(":") for part in policy.split("+")))


def _claim(statement: Statement, curves: Curves, results: Results) -> Claim:
    value = ours_of(statement, curves)
    power = statement.measure in (Measure.LEAST_SAVED, Measure.MOST_SAVED)
    short = statement.short(value)
    holds = short <= (0 if power or statement.said == "below" else NEAR_GRAR)
    verdict, reason, also = (Verdict.HOLDS, "", ()) if holds else _judged(statement, short, curves, results)
    start = "15 (the paper: 0)" if statement.start == GAINED else f"{statement.start}"
    span = f"{FULL}" if statement.start == statement.end else f"{start} to {statement.end}"
    return Claim(
        place=f"figure {statement.figure}",
        words=f"{statement.trace}, {_mixture(statement.policy)}, at {span} % asked for: {statement.measure.value}",
        published=f"{statement.said} {statement.published:g}{' (our sum)' if '+' in statement.said else ''}",
        ours=statement.shown(value),
        verdict=verdict,
        run=results.run(TABLES[statement.trace]),
        reason=reason,
        also=also,
    )


def _judged(
    statement: Statement, short: float, curves: Curves, results: Results
) -> tuple[Verdict, str, tuple[Run, ...]]:
    """Of a statement that does not hold to the letter: how near it is, and what else was tried."""
    if statement.measure is not Measure.LEAST_SAVED:
        near = NEAR_POINTS if statement.measure is Measure.MOST_SAVED else 2 * NEAR_GRAR
        verdict = Verdict.CLOSE if short <= near else Verdict.OPEN
        return verdict, f"Off by {statement.shown(short)}; the paper's figure is read off a curve, to one digit.", ()
    until = last_above(statement, curves[statement.trace, statement.policy].saved)
    words = f"Above {statement.published:g} % until {until} %, at the least {short:.2f} points short."
    if short <= NEAR_POINTS or statement.end - until <= NEAR_PERCENT:
        return Verdict.CLOSE, words, ()
    key = statement.trace, statement.policy
    tried = [f"{row['what']}: {float(row['least_saved']):.2f}" for row in results.table(TRIES) if _key(row) == key]
    by_equation = min(
        float(row["saved"])
        for row in results.table(EQUATION)
        if _key(row) == key and statement.start <= int(row["arrived_percent"]) <= statement.end
    )
    others = f"with watts of CPUs by the paper's equation 1: {by_equation:.2f}; {'; '.join(tried)}"
    return Verdict.OPEN, f"{words} The least by other tries: {others}.", (results.run(TRIES), results.run(EQUATION))


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
        yield _in_words("figure 1", words, published, ours, holds, run)


def _in_words(place: str, words: str, published: str, ours: str, holds: bool, run: Run, *also: Run) -> Claim:
    """What holds or not, without a degree."""
    return Claim(
        place=place,
        words=words,
        published=published,
        ours=ours,
        verdict=Verdict.HOLDS if holds else Verdict.OPEN,
        run=run,
        reason="" if holds else "Same nodes, pods and formulas: the reason is not known.",
        also=also,
    )


def _headline(curves: Curves, results: Results) -> Claim:
    """Sections I and VII."""

    def largest(trace: str, span: range) -> float:
        return max(curves[trace, policy].saved[at] for policy in COMBINATIONS for at in span)

    moderate = {trace: largest(trace, MODERATE) for trace in TABLES}
    whole_range = {trace: largest(trace, range(FULL + 1)) for trace in TABLES}
    beyond = [trace for trace, value in moderate.items() if value > UP_TO]
    return Claim(
        place="sections I, VII",
        words="power saved by the three mixtures (0.05, 0.1, 0.2) of PWR, which adds the least power, with FGD, which "
        "adds the least fragmentation, against FGD alone",
        published=f"up to {UP_TO} % for some workloads; exceeding {UP_TO} % for moderate workloads",
        ours=f"most at {MODERATE.start} to {MODERATE[-1]} % of the GPU capacity asked for: "
        + ", ".join(f"{trace} {value:.1f} %" for trace, value in moderate.items()),
        verdict=Verdict.CLOSE if beyond else Verdict.OPEN,
        run=results.run("default"),
        reason=f"Above {UP_TO} % on {' and '.join(beyond) or 'none'} only. At any load: default "
        f"{whole_range['default']:.1f} % at most, all traces {max(whole_range.values()):.1f} %. The paper does not say "
        "what loads are moderate; this span is ours.",
        also=tuple(results.run(name) for name in ("gpushare", "multigpu", "gpuspec")),
    )


def _leads(curves: Curves, results: Results) -> Iterator[Claim]:
    """Against the other schedulers: figures 3 and 6."""

    def behind(trace: str, policy: str, start: int, end: int) -> list[int]:
        rivals = [curves[trace, rival].saved for rival in COMPETITORS]
        own = curves[trace, policy].saved
        return [at for at in range(start, end + 1) if own[at] <= max(saved[at] for saved in rivals)]

    for figure, trace, start, end in ((3, "default", 1, FULL), (6, "gpuspec10", GAINED, 90)):
        counts = [len(behind(trace, policy, start, end)) for policy in COMBINATIONS]
        yield _in_words(
            f"figure {figure}",
            f"{trace}: the three mixtures save more than every competitor ({start} to {end} % asked for)",
            "consistently",
            f"at {sum(counts)} of {3 * (end + 1 - start)} points not",
            not any(counts),
            results.run(TABLES[trace]),
        )
    counts = [len(behind("gpuspec33", policy, 1, FULL)) for policy in COMBINATIONS]
    yield _in_words(
        "figure 6",
        "gpuspec33: 0.05 and 0.1 PWR do not always save more than the competitors, least of all 0.05",
        "in words",
        f"0.05, 0.1, 0.2 PWR behind one at {', '.join(map(str, counts))} of {FULL} points",
        counts[0] > counts[1] > counts[2],
        results.run("gpuspec"),
    )


def _groups(curves: Curves, results: Results) -> Iterator[Claim]:
    """Section VI-B: mixtures with more than 0.2 of PWR against the others; and where GRAR begins to fall."""
    default = results.run("default")

    def mean(policy: str) -> float:
        return fmean(value for at, value in curves["default", policy].saved.items() if GAINED <= at <= 80)

    heavy = [mean(policy) for policy in HEAVY]
    light, plain = [mean(policy) for policy in COMBINATIONS], mean("pwr")
    yield _in_words(
        "figure 2",
        "mixtures of more than 0.2 PWR save as plain PWR, those of less a little less (mean of 15 to 80 % of the GPU "
        "capacity asked for by the tasks that have arrived)",
        "two groups",
        f"0.05 to 0.2: {min(light):.1f} to {max(light):.1f} %; 0.5, 0.9: {min(heavy):.1f} to {max(heavy):.1f} %; "
        f"plain: {plain:.1f} %",
        max(light) < min(heavy) and max(abs(value - plain) for value in heavy) < plain - max(light),
        default,
    )
    behind = [
        [curves["default", FGD].grar[FULL] - curves["default", policy].grar[FULL] for policy in group]
        for group in (HEAVY, COMBINATIONS, ("pwr",))
    ]
    cells = [f"{min(group):.3f} to {max(group):.3f}" for group in behind[:2]]
    yield _in_words(
        "figure 2",
        "GRAR, the GPU capacity allocated over that asked for, is slightly worse with more than 0.2 PWR than with less",
        "two groups",
        f"behind FGD's at {FULL} % asked for: 0.5, 0.9: {cells[0]}; 0.05 to 0.2: {cells[1]}; plain: {behind[2][0]:.3f}",
        min(behind[0]) > max(behind[1]),
        default,
    )
    for place, traces, policies, end in (
        ("figure 2", ("default",), (FGD, *COMBINATIONS, *HEAVY, "pwr"), 88),
        ("figure 7", ("default",), POLICIES, 85),
        ("figure 8", ("gpushare40", "gpushare100"), POLICIES, 80),
    ):
        fall = [
            min((at for at, value in curves[trace, policy].grar.items() if value < 1), default=FULL)
            for trace in traces
            for policy in policies
        ]
        yield _in_words(
            place,
            f"{', '.join(traces)}: no policy's GRAR is below 1 before {end} % is asked for",
            f"1 until about {end} %" if end == 88 else f"falls only beyond {end} %",
            f"falls at {min(fall)} to {max(fall)} %",
            min(fall) > end,
            results.run(TABLES[traces[0]]),
        )
