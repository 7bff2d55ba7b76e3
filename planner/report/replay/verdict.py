"""The verdict on a replay, in two sentences: does the promise hold, by how much, and what holds the rate back."""

import math

from planner.domain.replay import ReplayResult, ReplaySweep
from planner.domain.serving.levels import LevelCheck, Standing
from planner.domain.serving.server import SAME_RATE
from planner.report.buckets.view import bound_span
from planner.report.kit.markdown import escaped
from planner.report.kit.quantities import counted, percent, significant, whole
from planner.report.replay.words import needed_share, ratio, share_interval, share_with, time_words


def verdict(result: ReplayResult) -> str:
    """Two sentences, in Markdown."""
    return f"**{_holding(result)}**: {_how_far(result)}. {_behind(result)}"


def _holding(result: ReplayResult) -> str:
    """Whether it holds, at which rate."""
    rate = result.rate_rps
    at = f"at {significant(rate)} requests/s"
    where = f"{at}, {_share_words(result)}"
    if result.standing is Standing.UNTOLD:
        return f"Too short to tell {where}"
    if not result.levels:
        return f"The fleet {'falls behind' if result.unfinished else 'keeps up'} {where}"
    if not _promises(result):
        return f"The levels {'hold' if result.holds else 'break'} {where}"
    if abs(rate - result.promise_rps) <= SAME_RATE * result.promise_rps:
        return f"The promise {'holds' if result.holds else 'breaks'} {at}"
    if rate < result.promise_rps:
        return f"The levels hold {where}" if result.holds else f"The promise breaks: levels break {where}"
    return f"The promise holds with room: levels hold {where}" if result.holds else f"The levels break {where}"


def _promises(result: ReplayResult) -> bool:
    """Whether the plan promises less than its capacity; with a margin of 1 there is nothing to tell of its own."""
    return 0 < result.promise_rps < (1 - SAME_RATE) * result.capacity_rps


def _share_words(result: ReplayResult) -> str:
    """The rate as a part of the promise, or of the capacity where there is none."""
    if _promises(result):
        return f"{ratio(result.rate_rps, result.promise_rps)} of the promise"
    return f"{ratio(result.rate_rps, result.capacity_rps)} of the capacity"


def _how_far(result: ReplayResult) -> str:
    """The level with the least room, or that the fleet falls behind."""
    if result.standing is Standing.UNTOLD:
        return _longer(result)
    if result.refused and not result.holds and all(level.seems_kept for level in result.levels):
        return f"{percent(result.refused)} of the requests are longer than the servers take that they came to"
    if result.unfinished:
        return f"{counted(result.unfinished, 'request')} had not ended when the replay stopped"
    return level_words(tightest(result)) if result.levels else "no service levels are set"


def _longer(result: ReplayResult) -> str:
    """How long requests came, and how many more tell: at least so many, as queues that are not full yet, and answers
    that take longer than requests came, look shorter than they are."""
    seconds = significant(result.seconds + result.warm_up_s)
    untold = [level for level in result.levels if level.standing is Standing.UNTOLD]
    level_note = f"; {level_words(min(untold, key=room_of))}" if untold else ""
    counting = f"{counted(result.total.requests, 'request')} of {counted(len(result.seeds), 'seed')} count"
    longer = f"It takes at least {whole(result.requests_to_tell)} a seed to tell (`--requests`)"
    return f"requests came for {seconds} s, {counting}{level_note}. {longer}"


def tightest(result: ReplayResult) -> LevelCheck:
    """The level with the least room, broken ones first."""
    return min(result.levels, key=lambda level: (level.standing is not Standing.BREAKS, room_of(level)))


def room_of(level: LevelCheck) -> float:
    """How far the time at the share that must keep the bound lies below it, as a share of the bound.

    Where bounds differ by prompt, so that there is no one bound, how many more keep theirs than must."""
    return 1 - level.time_ms / level.bound_ms if level.bound_ms else level.keeping - level.needed


def level_words(level: LevelCheck) -> str:
    """`TTFT: 99.4 % of the requests keep 4 s where 99 % must (2.36 s there, 41 % to spare)`."""
    name, bound, value = escaped(level.name), bound_words(level), time_words(level.value_ms)
    far = f", {_room_words(level)}" if level.bound_ms and level.seems_kept == (room_of(level) >= 0) else ""
    if not level.needed:
        return f"{name} is {value} in the mean of {bound}{far}"
    share = f"{share_with(level.share)} of the requests keep {bound} where {needed_share(level)} must"
    narrow = ", too close to call with these requests" if is_narrow(level) else ""
    return f"{name}: {share} ({value} there{far}){narrow}"


def _room_words(level: LevelCheck) -> str:
    room = room_of(level)
    if not math.isfinite(room):
        return "far too long"
    return f"{percent(room)} to spare" if room >= 0 else f"{percent(-room)} too long"


def bound_words(level: LevelCheck) -> str:
    """The bound: 4 s, or that it goes by the prompt."""
    return bound_span((level.bound_ms,)) if level.bound_ms else "the bound of their length"


def is_narrow(level: LevelCheck) -> bool:
    """Whether the interval of the requests holds both answers."""
    ends = share_interval(level.share)
    return ends is not None and ends[0] < level.needed <= ends[1]


def _behind(result: ReplayResult) -> str:
    """Goodput and bottleneck."""
    goodput = f"Goodput is {significant(result.total.goodput_rps.mean)} requests/s"
    if not result.bottleneck:
        return f"{goodput}."
    return f"{goodput}; bottleneck: {escaped(result.bottleneck.rstrip('.'))}."


def sweep_verdict(sweep: ReplaySweep) -> str:
    """The highest rate that holds, against promise and capacity, in Markdown."""
    last = sweep.results[-1]
    if sweep.held_rps is None:
        lowest = significant(sweep.results[0].rate_rps)
        return f"**No rate that was tried holds the levels**, the lowest {lowest} requests/s."
    if sweep.requests_to_tell:
        return (
            f"**Too short to tell**: levels seem to hold up to {significant(sweep.held_rps)} requests/s; it "
            f"takes at least {whole(sweep.requests_to_tell)} requests a seed to tell (`--requests`)."
        )
    parts = [f"{ratio(sweep.held_rps, last.capacity_rps)} of the capacity of {significant(last.capacity_rps)}"]
    if last.promise_rps:
        parts.insert(0, f"{ratio(sweep.held_rps, last.promise_rps)} of the promise of {significant(last.promise_rps)}")
    above = " and no rate that was tried breaks them" if all(result.seems_to_hold for result in sweep.results) else ""
    within = f" (to {significant(sweep.step_rps, 2)})" if sweep.step_rps else ""
    return f"**Levels hold up to {significant(sweep.held_rps)} requests/s**{within}, {' and '.join(parts)}{above}."
