"""A plan under doubt: how sure which rate is, the odds of what is promised and asked, what knowing would bring."""

from collections.abc import Iterator

from planner.domain.serving.doubt import DoubtedPlan, DoubtSettings, KnownBetter, Swing
from planner.domain.serving.promise import SURE
from planner.report.kit.markdown import escaped, listed
from planner.report.kit.plots import Kind, Plot, Series, chart_of
from planner.report.kit.quantities import counted, money, percent, rate, significant
from planner.report.kit.tables import Column, Table, table_of
from planner.report.kit.tree import Page, paragraphs, section

HOW = (
    "In every draw the pools stay as they are deployed, with servers faster or slower than predicted, and requests are "
    "routed anew; what may be promised is a draw's capacity less the plan's margin. A level is a bound on time: "
    "servers that are a tenth slower lose more than a tenth of the rate at which they keep it."
)

ALONE = (
    "Each thing at its P10 and its P90, all else as planned. Whether it pays to measure what is wide, and by which "
    "runs, `planner cost measure RUN` says: a wide one that changes no decision is worth nothing."
)
BREAKS = (
    "One price or pace at a time, the plan was made again until it was known between which two values other GPU types "
    "come to serve a phase; both sides are plans."
)


def surely(result: DoubtedPlan) -> str:
    """`80 % sure: 175 requests/s; even odds: 295`."""
    return f"80 % sure: {rate(result.sure_rps(0.8))} requests/s; even odds: {rate(result.sure_rps(0.5))}"


def verdict(result: DoubtedPlan) -> str:
    """The answer: a line of Markdown."""
    promise = (
        f"The promise of {rate(result.promise_rps)} requests/s holds with {percent(result.odds(result.promise_rps))}"
    )
    return f"**{surely(result)}.** {promise}."


def levels(result: DoubtedPlan) -> Table[float]:
    """A row a probability: the rate that is served within the levels with it."""
    columns: tuple[Column[float], ...] = (
        Column("sure", lambda sure: sure, percent),
        Column("rate_rps", result.sure_rps, rate, "may be promised (requests/s)"),
        Column("of_promise", lambda sure: result.sure_rps(sure) / result.promise_rps, percent, "of the promise"),
    )
    return table_of(columns, SURE)


def draws(result: DoubtedPlan) -> Table[int]:
    """A row a draw, for programs."""
    columns: tuple[Column[int], ...] = (
        Column("draw", lambda k: k),
        Column("rate_rps", lambda k: result.rates_rps[k]),
        Column("demand_rps", lambda k: result.demands_rps[k]),
        Column("rent_usd_per_hour", lambda k: result.rents[k]),
    )
    return table_of(columns, range(len(result.rates_rps)))


def knowing(result: DoubtedPlan) -> Table[KnownBetter]:
    """A row a draw that was planned for as if known."""
    columns: tuple[Column[KnownBetter], ...] = (
        Column("draw", lambda row: row.draw),
        Column("rate_rps", lambda row: row.rate_rps, rate, "this plan (requests/s)"),
        Column("knowing_rps", lambda row: row.knowing_rps, rate, "a plan made knowing it"),
        Column("regret", lambda row: row.regret, percent),
    )
    return table_of(columns, result.known_better)


def odds_plot(result: DoubtedPlan) -> Plot:
    """How sure each rate is."""
    ranked = sorted(result.rates_rps)
    shares = tuple(1.0 - (k + 0.5) / len(ranked) for k in range(len(ranked)))
    return Plot(
        name="odds-of-rates",
        title="How sure each rate is",
        says="The probability that so much is served within the levels.",
        kind=Kind.LINES,
        x="requests/s",
        y="probability",
        series=(Series(name="served within the levels", x=tuple(ranked), y=shares),),
        rest="draws.csv",
    )


def swings(result: DoubtedPlan) -> Table[Swing]:
    """A row a doubted thing, the widest first."""
    columns: tuple[Column[Swing], ...] = (
        Column("thing", lambda row: row.thing, escaped, "what is doubted, alone"),
        Column("span", lambda row: row.span, str, "from P10 to P90"),
        Column("moves", lambda row: row.moves.value, str, "moves the"),
        Column("low", lambda row: row.low, rate, "at its P10"),
        Column("planned", lambda row: row.planned, rate, "as planned"),
        Column("high", lambda row: row.high, rate, "at its P90"),
        Column("width", lambda row: row.width, percent, "from end to end"),
    )
    return table_of(columns, result.swings)


def tornado(result: DoubtedPlan) -> Plot:
    """What each doubted thing does alone, the widest above."""
    names = tuple(row.thing for row in result.swings)
    ends = zip(*(row.changes for row in result.swings), strict=True)
    return Plot(
        name="tornado",
        title="What each doubt does alone",
        says="Everything else is as planned, and the pools stay: speeds and nodes move the rate, prices the rent.",
        kind=Kind.BARS,
        x="what is doubted",
        y="change (%)",
        series=tuple(
            Series(name=f"at its {end}", x=names, y=tuple(100 * change for change in changes))
            for end, changes in zip(("P10", "P90"), ends, strict=True)
        ),
        rest="swings.csv",
        lying=True,
    )


def breakpoint_words(result: DoubtedPlan) -> Iterator[str]:
    """A sentence a key: up to where the same GPU types serve, and which beyond it."""
    for row in result.breakpoints:
        _, gpu, *phase = row.key.split(".")
        of, unit, shown = " ".join((escaped(gpu), *phase)), "USD an hour", money
        if phase:
            unit, shown = "of the predicted pace", significant
        if not row.changes or row.same_at is None:
            yield f"{of}: the same types serve at {shown(row.value)} {unit}, too."
            continue
        until = "up to" if row.value > row.same_at else "down to"
        beyond = "" if row.rate_rps is None else f", {rate(row.rate_rps)} requests/s"
        becomes = f"{escaped(row.becomes)}{beyond}"
        yield f"{of}: the same types serve {until} {shown(row.same_at)} {unit}; at {shown(row.value)}: {becomes}."
    if result.untold_breakpoints:
        yield f"For {counted(result.untold_breakpoints, 'more key')} time was out: allow more seconds."


def _demand_words(result: DoubtedPlan, settings: DoubtSettings) -> str:
    spread = f", {percent(settings.demand)} more or less" if settings.demand else ""
    middle = sorted(result.demands_rps)[len(result.demands_rps) // 2]
    odds = percent(result.odds_of_demand)
    return f"What is asked, {rate(middle)} requests/s{spread}, is served within the levels with {odds}."


def _rents(result: DoubtedPlan, settings: DoubtSettings) -> str:
    if not settings.prices or not any(result.rents):
        return ""
    ranked = sorted(result.rents)
    low, high = (ranked[int(share * (len(ranked) - 1))] for share in (0.1, 0.9))
    return f"The rent is {money(low)} to {money(high)} USD/hour (P10 to P90)."


def _doubts(settings: DoubtSettings) -> Iterator[str]:
    if settings.speeds:
        yield "how fast servers are, by the bands of the cost model"
    if settings.demand:
        yield f"the rate asked ({percent(settings.demand)})"
    if settings.prices:
        yield f"prices ({percent(settings.prices)})"
    if settings.unavailable:
        yield f"which nodes are there (each is away with {significant(100 * settings.unavailable)} %)"


def _regrets(result: DoubtedPlan) -> str:
    if not result.known_better:
        return ""
    mean = sum(row.regret for row in result.known_better) / len(result.known_better)
    return (
        f"Had the speeds of a draw been known, a plan made for them would serve more by {percent(mean)} of its rate on "
        "average over these draws: that is what measuring first may be worth."
    )


def doubt_page(result: DoubtedPlan, settings: DoubtSettings) -> Page:
    """The report."""
    doubted = f"Doubted in {settings.draws} draws: {'; '.join(_doubts(settings))}."
    sections = [
        section("odds", "How sure", *paragraphs(HOW), chart_of(odds_plot(result)), levels(result).block()),
        section("asked", "What is asked", *paragraphs(_demand_words(result, settings), _rents(result, settings))),
    ]
    if result.swings:
        table = swings(result).block()
        sections.append(
            section("alone", "What each doubt does alone", *paragraphs(ALONE), chart_of(tornado(result)), table)
        )
    if result.breakpoints or result.untold_breakpoints:
        words = list(breakpoint_words(result))
        sections.append(section("breakpoints", "When other GPU types serve", *paragraphs(BREAKS), *listed(words)))
    if result.known_better:
        sections.append(section("knowing", "Had it been known", *paragraphs(_regrets(result)), knowing(result).block()))
    sections.append(section("doubts", "What is doubted", *paragraphs(doubted)))
    return Page(title=f"Doubt: {result.name}", verdict=verdict(result), sections=tuple(sections))


def doubt_document(result: DoubtedPlan) -> dict[str, object]:
    """The same as plain values."""
    return {
        "plan": result.name,
        "rate_rps": result.rate_rps,
        "promise_rps": result.promise_rps,
        "odds_of_promise": result.odds(result.promise_rps),
        "odds_of_demand": result.odds_of_demand,
        "mean_rps": result.mean_rps,
        "sure": levels(result).records(),
        "known_better": knowing(result).records(),
        "swings": swings(result).records(),
        "breakpoints": [
            {"key": row.key, "same_at": row.same_at, "value": row.value, "changes": row.changes, "becomes": row.becomes}
            for row in result.breakpoints
        ],
    }
