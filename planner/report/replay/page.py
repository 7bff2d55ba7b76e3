"""The page of a replay in Markdown: the verdict first, then levels, times, waiting, islands, what was left out."""

from collections.abc import Mapping

from planner.domain.replay import Moment, ReplayResult, ReplaySweep
from planner.report.kit.markdown import bullets, escaped, pictures
from planner.report.kit.quantities import counted, percent, rate, significant, whole
from planner.report.replay.tables import (
    goodput_table,
    islands_table,
    latency_table,
    levels_table,
    stations_table,
    sweep_table,
)
from planner.report.replay.verdict import sweep_verdict, verdict
from planner.report.replay.words import ARRIVALS, MOST_BUCKETS

NO_FIGURES: Mapping[str, str] = {}


def sweep_page(sweep: ReplaySweep) -> str:
    """A sweep as Markdown, ending in a newline."""
    title = f"# Rates: {escaped(sweep.results[0].plan)}"
    return "\n\n".join([title, sweep_verdict(sweep), sweep_table(sweep)]) + "\n"


def replay_page(result: ReplayResult, sweep: ReplaySweep | None = None, figures: Mapping[str, str] = NO_FIGURES) -> str:
    """The replay as Markdown, ending in a newline. `figures`: path of each picture by its title."""
    parts = [
        f"# Replay: {escaped(result.plan)}",
        verdict(result),
        _setting(result),
        *(["## Levels", levels_table(result)] if result.levels else []),
        "## Times\n\n" + latency_table(result),
        _INTERVALS if len(result.seeds) > 1 else _ONE_SEED,
        "## Goodput\n\n" + goodput_table(result),
        _GOODPUT,
        *_misrouted(result),
        *_unlisted(result),
        *_waiting(result),
        "## Islands\n\n" + islands_table(result),
        _ISLANDS,
        *_over_time(result),
        *([] if sweep is None else ["## Rates", sweep_verdict(sweep), sweep_table(sweep)]),
        *_left_out(result),
        *(["## Notes", bullets([escaped(note) for note in result.notes])] if result.notes else []),
        *pictures(figures),
    ]
    return "\n\n".join(parts) + "\n"


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


def _misrouted(result: ReplayResult) -> list[str]:
    """What the router's measure of a prompt costs."""
    if not result.misrouted:
        return []
    refused = (
        f"; {percent(result.refused)} are longer than the servers take that they came to" if result.refused else ""
    )
    return [f"{percent(result.misrouted)} of the requests came to another bucket than their length's{refused}."]


def _unlisted(result: ReplayResult) -> list[str]:
    count = len(result.buckets)
    return [f"Figures of each of the {count} ranges of length are in groups.csv."] if count > MOST_BUCKETS else []


def _setting(result: ReplayResult) -> str:
    """What was replayed, in a paragraph."""
    arrivals = ARRIVALS.get(result.arrivals, result.arrivals)
    seeds = f"{'seed' if len(result.seeds) == 1 else 'seeds'} {', '.join(map(str, result.seeds))}"
    promise = f"promise {rate(result.promise_rps)}, " if result.promise_rps else ""
    return (
        f"Requests of {escaped(result.trace)} at {rate(result.rate_rps)} requests/s ({promise}capacity "
        f"{rate(result.capacity_rps)}), arrivals {escaped(arrivals)}, router {escaped(result.policy.value)}; "
        f"{whole(result.total.requests)} requests counted over {significant(result.seconds)} s with {seeds}, after "
        f"{significant(result.warm_up_s)} s of warm-up."
    )


def _waiting(result: ReplayResult) -> list[str]:
    total = result.total
    if (total.queue_ms, total.transfer_ms, total.place_ms) == (None, None, None):
        return []
    return ["## Where requests wait", stations_table(result)]


def _over_time(result: ReplayResult) -> list[str]:
    """Events, and the moment with most requests waiting."""
    lines = [f"At {significant(at_s)} s: {escaped(text)}." for at_s, text in result.events]
    if result.moments:
        lines.append(_fullest(max(result.moments, key=lambda moment: moment.waiting)))
    return ["## Over time", bullets(lines)] if lines else []


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
    return ["## Left out", bullets(lines)] if lines else []
