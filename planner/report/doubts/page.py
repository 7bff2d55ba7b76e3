"""A plan under doubt: how sure which rate is, the odds of what is promised and asked, what knowing would bring."""

from collections.abc import Iterator

from planner.domain.serving.doubt import SURE, DoubtedPlan, DoubtSettings, KnownBetter
from planner.report.kit.plots import Kind, Plot, Series, chart_of
from planner.report.kit.quantities import money, percent, rate, significant
from planner.report.kit.tables import Column, Table, table_of
from planner.report.kit.tree import Page, paragraphs, section

HOW = (
    "In every draw the pools stay as they are deployed, with servers faster or slower than predicted, and requests are "
    "routed anew; what may be promised is a draw's capacity less the plan's margin. A level is a bound on time: "
    "servers that are a tenth slower lose more than a tenth of the rate at which they keep it."
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
        Column("rate_rps", result.sure_rps, rate, "requests/s within the levels"),
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
    }
