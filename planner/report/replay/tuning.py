"""A plan's knobs turned: what the best setting gains on requests not seen, what was tried, what stays."""

from planner.domain.serving.levels import Spread
from planner.domain.serving.tuning import GOAL_WORDS, WORTH, Knob, TunedPlan, TuneGain, TuneGoal, TuneTrial
from planner.report.kit.markdown import escaped, listed
from planner.report.kit.plots import Kind, Plot, Series, chart_of
from planner.report.kit.quantities import counted, percent, rate, significant, whole
from planner.report.kit.tables import Column, Table, table_of
from planner.report.kit.tree import Page, paragraphs, section

_HOW = (
    "All settings meet the same requests, short replays first; of every round the best meets longer ones. What is best "
    "in the search and the plan then meet streams that neither has met: other half hours of the trace where it has "
    "two, and other seeds. Intervals are of 95 % over these, pair by pair."
)


def gain_words(gain: Spread) -> str:
    """`+3.1 % (+2.2 to +4.0 %)`; below 0 it is worse."""
    interval = "" if gain.low is None or gain.high is None else f" ({100 * gain.low:+.1f} to {100 * gain.high:+.1f} %)"
    return f"{100 * gain.mean:+.1f} %{interval}"


def verdict(tuned: TunedPlan) -> str:
    """The answer: a line of Markdown."""
    if not tuned.knobs:
        return "**Nothing to gain: no knob of these servers can be turned.** The plan stays."
    if tuned.best is None:
        return "**Nothing to gain: no other setting can be deployed.** The plan stays."
    told = "; ".join(f"{GOAL_WORDS[row.goal]} better by {gain_words(row.gain)}" for row in tuned.gains)
    if tuned.chosen:
        return f"**Tuned, on requests that the search had not seen: {told}.**"
    worth = f"an interval that holds less than {percent(WORTH)} is no gain"
    return f"**Nothing to gain: on requests that the search had not seen, {told}; {worth}.** The plan stays."


def gains_table(tuned: TunedPlan) -> Table[TuneGain]:
    """A row a goal: the plan and the best setting on fresh streams."""
    columns: tuple[Column[TuneGain], ...] = (
        Column("goal", lambda row: row.goal.value, lambda goal: GOAL_WORDS[TuneGoal(goal)], right=False),
        Column("before", lambda row: sum(row.before) / len(row.before), rate, "the plan"),
        Column("after", lambda row: sum(row.after) / len(row.after), rate, "tuned"),
        Column("gain", lambda row: row.gain.mean, lambda gain: f"{100 * gain:+.1f} %", "better by"),
        Column("low", lambda row: row.gain.low, lambda low: f"{100 * low:+.1f} %", "95 %, from"),
        Column("high", lambda row: row.gain.high, lambda high: f"{100 * high:+.1f} %", "to"),
    )
    return table_of(columns, tuned.gains)


def knobs_table(tuned: TunedPlan) -> Table[Knob]:
    """A row a knob: as the plan has it, and as the best setting has."""
    columns: tuple[Column[Knob], ...] = (
        Column("knob", lambda row: row.name),
        Column("choices", lambda row: row.choices, whole),
        Column("before", lambda row: row.before, str, "the plan"),
        Column("after", lambda row: row.after, str, "best other"),
    )
    return table_of(columns, tuned.knobs)


_Numbered = tuple[int, TuneTrial]


def trials_table(tuned: TunedPlan) -> Table[_Numbered]:
    """A row a setting, for programs."""
    columns: list[Column[_Numbered]] = [
        Column("trial", lambda row: row[0]),
        Column("round", lambda row: row[1].round),
    ]
    for number, goal in enumerate(tuned.settings.goals):
        columns += [_short(number, goal), _long(number, goal)]
    columns += [_set_to(name) for name, _ in tuned.trials[0].setting]
    return table_of(tuple(columns), list(enumerate(tuned.trials)))


def _short(number: int, goal: TuneGoal) -> Column[_Numbered]:
    return Column(f"short_{goal.value}", lambda row: row[1].short[number])


def _long(number: int, goal: TuneGoal) -> Column[_Numbered]:
    return Column(f"long_{goal.value}", lambda row: None if row[1].long is None else row[1].long[number])


def _set_to(name: str) -> Column[_Numbered]:
    return Column(name, lambda row: dict(row[1].setting)[name])


def _streams_plot(tuned: TunedPlan, row: TuneGain) -> Plot:
    """The plan and the best setting stream by stream."""
    streams = tuple(
        f"seed {stream.seed}"
        + ("" if stream.between is None else f", {stream.between[0]:.0f} to {stream.between[1]:.0f} s")
        for stream in tuned.fresh
    )
    return Plot(
        name=f"fresh-{row.goal.value}",
        title=f"{GOAL_WORDS[row.goal]} on fresh streams",
        says="The plan and the best setting of the search, met by the same requests.",
        kind=Kind.DOTS,
        x="stream",
        y=GOAL_WORDS[row.goal],
        series=(Series(name="the plan", x=streams, y=row.before), Series(name="tuned", x=streams, y=row.after)),
        from_zero=False,
    )


def _streams(tuned: TunedPlan) -> str:
    settings = tuned.settings
    return (
        f"{counted(len(tuned.trials), 'setting')} in short replays of {whole(settings.requests)} requests, "
        f"{len([trial for trial in tuned.trials if trial.long])} of them on {counted(len(tuned.streams), 'stream')} of "
        f"twice as many; {counted(len(tuned.fresh), 'fresh stream')}. Requests: {escaped(tuned.arrivals)}; seed "
        f"{settings.seed}; {rate(settings.rate_rps)} requests/s."
    )


def _capacity(tuned: TunedPlan) -> str:
    if tuned.tuned_capacity_rps is None:
        return ""
    return (
        f"By the model of queues the tuned plan's capacity is {significant(tuned.tuned_capacity_rps, 4)} requests/s, "
        f"{significant(tuned.capacity_rps, 4)} before: its promise follows from that figure, not from the replays."
    )


def tuned_page(tuned: TunedPlan) -> Page:
    """The report."""
    charts = [chart_of(_streams_plot(tuned, row)) for row in tuned.gains]
    fixed = [f"{what}: {escaped(why)}" for what, why in tuned.fixed]
    return Page(
        title=f"Tune: {tuned.plan}",
        verdict=verdict(tuned),
        sections=(
            section("gain", "What it gains", *charts, gains_table(tuned).block(), *paragraphs(_capacity(tuned)))
            if tuned.gains
            else section("gain", "What it gains", *paragraphs("Nothing was held against fresh requests.")),
            section("knobs", "Knobs", knobs_table(tuned).block()),
            section("how", "How", *paragraphs(_HOW, _streams(tuned))),
            section("fixed", "What is not turned", *listed(fixed)),
        ),
    )


def tuned_document(tuned: TunedPlan) -> dict[str, object]:
    """The same as plain values."""
    return {
        "plan": tuned.plan,
        "trace": tuned.trace,
        "chosen": tuned.chosen,
        "gains": gains_table(tuned).records(),
        "knobs": knobs_table(tuned).records(),
        "fixed": dict(tuned.fixed),
        "settings_tried": len(tuned.trials),
        "capacity_rps": tuned.capacity_rps,
        "tuned_capacity_rps": tuned.tuned_capacity_rps,
    }
