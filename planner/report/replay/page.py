"""The report of a replay: the verdict first, then levels, times, waiting, islands, what was left out."""

from planner.domain.replay import Moment, ReplayResult, ReplaySweep
from planner.report.kit.markdown import escaped, listed
from planner.report.kit.plots import chart_of
from planner.report.kit.quantities import counted, percent, rate, significant, whole
from planner.report.kit.tree import Page, paragraphs, section
from planner.report.replay.plots import replay_plots
from planner.report.replay.tables import (
    found_table,
    goodput_table,
    islands_table,
    latency_table,
    levels_table,
    stations_table,
    sweep_table,
    turns_table,
)
from planner.report.replay.verdict import sweep_verdict, verdict
from planner.report.replay.words import ARRIVALS, MOST_BUCKETS


def sweep_page(sweep: ReplaySweep) -> Page:
    """A sweep of rates."""
    title = f"Rates: {sweep.results[0].plan}"
    return Page(title=title, verdict=sweep_verdict(sweep), lead=(sweep_table(sweep).block(),))


def replay_page(result: ReplayResult, sweep: ReplaySweep | None = None) -> Page:
    """The replay, and a sweep of its rates."""
    intervals = _INTERVALS if len(result.seeds) > 1 else _ONE_SEED
    rates = (*paragraphs(sweep_verdict(sweep)), sweep_table(sweep).block()) if sweep else ()
    costs = paragraphs(_GOODPUT, _misrouted(result), _unlisted(result))
    return Page(
        title=f"Replay: {result.plan}",
        verdict=verdict(result),
        lead=paragraphs(_setting(result)),
        sections=(
            section("charts-of-it", "Charts", *map(chart_of, replay_plots(result, sweep))),
            section("levels", "Levels", levels_table(result)),
            section("times", "Times", latency_table(result).block(), *paragraphs(intervals)),
            section("goodput", "Goodput", goodput_table(result), *costs),
            section("turns", "First and later turns", turns_table(result).block(), *paragraphs(_turns(result))),
            section("found", "Where prompts are found", found_table(result).block(), *paragraphs(_places(result))),
            section("waiting", "Where requests wait", stations_table(result)),
            section("islands", "Islands", islands_table(result).block(), *paragraphs(_ISLANDS)),
            section("over-time", "Over time", *listed(_over_time(result))),
            section("rates", "Rates", *rates),
            section("left-out", "Left out", *listed(_left_out(result))),
            section("notes", "Notes", *listed([escaped(note) for note in result.notes])),
        ),
    )


_INTERVALS = (
    "In brackets 95 % intervals over the seeds: chance in arrivals and routing alone. How far off the step times "
    "themselves may be is told by the band of the plan's rate."
)
_ONE_SEED = "One seed, so no intervals: chance in arrivals and routing is not told apart. `--seeds` takes more."
_GOODPUT = (
    "Goodput counts the requests that kept every bound. `Tokens/s of 95 %`: what 95 % of the requests got at least."
)
_ISLANDS = (
    "Utilisation: share of the time with a step under way; servers take in whatever waits, so they are busy long "
    "before their steps are full. Batch: sequences of an attention group; tokens a step: of a prompt rank; KV: share "
    "of the room for caches."
)


def _misrouted(result: ReplayResult) -> str:
    """What the router's measure of a prompt costs."""
    if not result.misrouted:
        return ""
    refused = (
        f"; {percent(result.refused)} are longer than the servers take that they came to" if result.refused else ""
    )
    return f"{percent(result.misrouted)} of the requests came to another bucket than their length's{refused}."


def _turns(result: ReplayResult) -> str:
    """What first turns and later ones are."""
    if not result.turns:
        return ""
    return (
        "Later turns find what the turns before them left in caches, first turns what all prompts begin with. Levels "
        "are those of all requests, kept by these alone."
    )


def _places(result: ReplayResult) -> str:
    if not result.total.found_at:
        return ""
    return (
        "Of the prompts' tokens. What is in the GPU's own cache costs nothing; what is in a tier is loaded while the "
        "prompt waits and while its other layers are computed, one load after the other over a GPU's link."
    )


def _unlisted(result: ReplayResult) -> str:
    count = len(result.buckets)
    return f"Figures of each of the {count} ranges of length are in groups.csv." if count > MOST_BUCKETS else ""


def _setting(result: ReplayResult) -> str:
    """What was replayed, in a paragraph."""
    arrivals = ARRIVALS.get(result.arrivals, result.arrivals)
    seeds = f"{'seed' if len(result.seeds) == 1 else 'seeds'} {', '.join(map(str, result.seeds))}"
    promise = f"promise {rate(result.promise_rps)}, " if result.promise_rps else ""
    return (
        f"Requests of {escaped(result.trace)} at {rate(result.rate_rps)} requests/s ({promise}capacity "
        f"{rate(result.capacity_rps)}), arrivals {escaped(arrivals)}, router {escaped(result.router)}; "
        f"{whole(result.total.requests)} requests counted over {significant(result.seconds)} s with {seeds}, after "
        f"{significant(result.warm_up_s)} s of warm-up."
    )


def _over_time(result: ReplayResult) -> list[str]:
    """Events, and the moment with most requests waiting."""
    lines = [f"At {significant(at_s)} s: {escaped(text)}." for at_s, text in result.events]
    if result.moments:
        lines.append(_fullest(max(result.moments, key=lambda moment: moment.waiting)))
    return lines


def _fullest(moment: Moment) -> str:
    late = f"; {percent(moment.late / moment.arrived)} of those that arrived then were late" if moment.arrived else ""
    return (
        f"Most requests wait from {significant(moment.start_s)} s on: {significant(moment.waiting)} in the mean of "
        f"{significant(moment.seconds)} s, {significant(moment.answering)} in decode{late}."
    )


def _left_out(result: ReplayResult) -> list[str]:
    lines = [f"{counted(count, 'request')} {escaped(reason)}." for reason, count in result.left_out]
    if result.unfinished:
        lines.append(f"{counted(result.unfinished, 'request')} had not ended when the replay stopped.")
    return lines
