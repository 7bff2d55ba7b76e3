"""Outcomes judged as a replay's are: the same columns, whatever chose the servers."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence

from planner.domain import Phase
from planner.domain.arrivals import Requests
from planner.domain.fleet import ReplayFleet
from planner.domain.replay import ReplayResult
from planner.domain.slo import SloSettings
from planner.replay.measures.columns import Columns
from planner.replay.measures.results import RecordedRun, SeedRun
from planner.replay.requests import RequestLog, RequestTable
from planner.runs.rehearsal.records import Lateness, PoolUse, quantile
from planner.runs.rehearsal.stations import ClockedStations
from planner.runs.rehearsal.traffic import Outcome

_LATE_PART, _LATE_MS = 0.02, 50.0
"""Of the tightest bound on TTFT, or without one in ms: what a word of an engine may be late."""


def rehearsed_run(
    requests: Requests,
    outcomes: Sequence[Outcome],
    stations: ClockedStations,
    warm_up: float,
    numbers: Sequence[int] | None = None,
) -> SeedRun:
    """What became of each request: first and last token as its sender saw them, all else of its last attempt.
    `numbers`: those by which outcomes and stations know the requests (None: their places)."""
    places = {number: place for place, number in enumerate(range(len(requests)) if numbers is None else numbers)}
    fleet = stations.fleet
    table = RequestTable(requests.arrival_ms, requests.prompt_tokens, requests.answer_tokens, fleet.lengths)
    log = RequestLog(len(table))
    for row, number in enumerate(stations.table.numbers):  # later attempts write over earlier ones
        if number in places:
            _copy(stations.log, row, log, places[number])
    for outcome in outcomes:
        place = places[outcome.number]
        log.first[place], log.ended[place] = outcome.first_ms, outcome.ended_ms
    run = RecordedRun(requests=table, log=log, sent_to=_sent_to(fleet, table, log), usages=stations.usages)
    return SeedRun(engine=run, columns=Columns.of(run, int(len(table) * warm_up)))


def _copy(source: RequestLog, row: int, target: RequestLog, number: int) -> None:
    for name in ("started", "prefilled", "arrived", "placed", "prefill", "decode", "hits", "preempted"):
        getattr(target, name)[number] = getattr(source, name)[row]


def _sent_to(fleet: ReplayFleet, table: RequestTable, log: RequestLog) -> list[int]:
    """The interval that each request came to: its own where the server takes that, else the server's first one."""
    starts = [interval.start for interval in fleet.intervals]
    taking = [{row.pool for row in interval.prefill} for interval in fleet.intervals]
    numbers = []
    for prompt, pool in zip(table.prompt, log.prefill, strict=True):
        right = max(0, bisect_right(starts, prompt) - 1)
        others = (number for number, pools in enumerate(taking) if pool in pools)
        numbers.append(right if pool < 0 or pool in taking[right] else next(others, right))
    return numbers


def pool_uses(
    fleet: ReplayFleet, prompts: Sequence[int], rehearsed: ReplayResult, replayed: ReplayResult
) -> tuple[PoolUse, ...]:
    """Shares by pool, of those that take prompts in and of those that decode alone; planned ones by exact lengths."""
    planned, uses = _planned(fleet, prompts), list[PoolUse]()
    for decodes in (False, True):
        numbers = [n for n, pool in enumerate(fleet.pools) if (pool.phase is Phase.DECODE) is decodes]
        sent_to = [[float(use.requests) for use in result.islands] for result in (rehearsed, replayed)]
        columns = [planned, *sent_to]
        totals = [sum(column[number] for number in numbers) or 1 for column in columns]
        for number in numbers:
            of_plan, sent, replayed_share = (c[number] / total for c, total in zip(columns, totals, strict=True))
            pool = fleet.pools[number]
            uses.append(
                PoolUse(island=pool.island, phase=pool.phase, planned=of_plan, rehearsed=sent, replayed=replayed_share)
            )
    return tuple(uses)


def _planned(fleet: ReplayFleet, prompts: Sequence[int]) -> list[float]:
    """Requests by pool, as the plan shares them."""
    starts = [interval.start for interval in fleet.intervals]
    counts = Counter(max(0, bisect_right(starts, prompt) - 1) for prompt in prompts)
    requests = [0.0] * len(fleet.pools)
    for number, interval in enumerate(fleet.intervals):
        split = sum(row.share for row in interval.prefill if fleet.pools[row.pool].phase is not Phase.MIXED)
        for row in interval.prefill:
            requests[row.pool] += row.share * counts[number]
        for row in interval.decode:
            requests[row.pool] += row.share * split * counts[number]
    return requests


def lateness_of(
    late_ms: Sequence[float], outcomes: Sequence[Outcome], slo: SloSettings, prompts: Sequence[int]
) -> Lateness:
    """How well the process kept up."""
    bounds = [bound for tokens in set(prompts) if (bound := slo.bounds(tokens)[0]) is not None]
    allowed_ms = _LATE_PART * min(bounds) if bounds else _LATE_MS
    return Lateness(
        words=len(late_ms),
        p99_ms=quantile(late_ms, 0.99),
        share=sum(late > allowed_ms for late in late_ms) / max(1, len(late_ms)),
        allowed_ms=allowed_ms,
        sent_p99_ms=quantile([outcome.sent_late_ms for outcome in outcomes], 0.99),
    )
