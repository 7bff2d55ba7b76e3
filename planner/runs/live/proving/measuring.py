"""What a generator recorded, judged as a replay is, beside replays of the same requests."""

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from planner.domain import Band, Phase, Plan
from planner.domain.arrivals import ReplaySettings, Requests
from planner.domain.fleet import ReplayFleet, ReplayPool
from planner.domain.replay import ReplayGroup, ReplayResult, Times
from planner.domain.serving.observed import ComparedFigure, Verdict
from planner.evaluation.replay.paces import FittedTime, fit_times, slowed
from planner.evaluation.replay.replaying import PlanReplay
from planner.files.benchmarks.aiperf_records import AiperfRequest
from planner.replay import judge
from planner.replay.measures.columns import Columns
from planner.replay.measures.results import RecordedRun, SeedRun
from planner.replay.requests import RequestLog, RequestTable
from planner.replay.simulate import played
from planner.runs.live.proving.generator import Sent
from planner.runs.live.proving.records import ProvedRequest
from planner.runs.live.proving.settings import DRAIN_S
from planner.units import MS_PER_S

UNANSWERED = "not answered in time"
TOLERANCE = 0.1
"""Of times that no band of the plan bears on."""
_FEWEST, _FEWEST_LATE = 10, 3
"""Requests of a bucket below which nothing is said of its median; those beyond a quantile."""


def proved_requests(requests: Requests, sent: Sent) -> list[ProvedRequest]:
    """Those that were sent, in the order in which they came. One without a record came when the schedule says, and was
    not answered in time; if it had less than `DRAIN_S` until the time was up, it is left out."""
    records = sent.records
    start_ms = min(record.start_ms for record in records.values())
    lags_ms = [record.start_ms - requests.arrival_ms[number] for number, record in records.items()]
    offset_ms = sorted(lags_ms)[len(lags_ms) // 2] - start_ms
    rows = []
    for number, arrival_ms in enumerate(requests.arrival_ms):
        record = records.get(number)
        came_ms = record.start_ms - start_ms if record else max(0.0, arrival_ms + offset_ms)
        if record is None and start_ms + came_ms + DRAIN_S * MS_PER_S > sent.ended_ms:
            continue
        row = ProvedRequest(
            number=number,
            arrival_ms=came_ms,
            prompt_tokens=requests.prompt_tokens[number],
            answer_tokens=requests.answer_tokens[number],
            failure=UNANSWERED if record is None else record.failure,
        )
        rows.append(row if record is None or record.failure else _answered(row, record))
    return sorted(rows, key=lambda row: (row.arrival_ms, row.number))


def _answered(row: ProvedRequest, record: AiperfRequest) -> ProvedRequest:
    """With its times, and its tokens as the server counted them."""
    if record.ttft_ms is None or record.latency_ms is None:
        return replace(row, failure="no tokens came")
    return replace(
        row,
        prompt_tokens=max(1, record.input_tokens or row.prompt_tokens),
        answer_tokens=max(1, record.output_tokens or row.answer_tokens),
        first_ms=row.arrival_ms + record.ttft_ms,
        ended_ms=row.arrival_ms + record.latency_ms,
    )


class Measured:
    """Requests as they were sent and answered, beside a plan."""

    def __init__(self, plan: Plan, replay: PlanReplay, rate_rps: float, rows: Sequence[ProvedRequest]) -> None:
        self._plan, self._replay, self._rate_rps = plan, replay, rate_rps
        self._requests = Requests(
            name=replay.promise.trace,
            arrival_ms=[row.arrival_ms for row in rows],
            prompt_tokens=[row.prompt_tokens for row in rows],
            answer_tokens=[row.answer_tokens for row in rows],
        )
        self._run = _run(replay.fleet, replay.settings, self._requests, rows)
        self.result = judge(replay.fleet, replay.promise, replay.settings, rate_rps, [self._run])
        self.predicted = self._replayed(replay.fleet)

    def _replayed(self, fleet: ReplayFleet) -> ReplayResult:
        return judge(fleet, self._replay.promise, self._replay.settings, self._rate_rps, [self._played(fleet)])

    def _played(self, fleet: ReplayFleet) -> SeedRun:
        """The same requests, before such a fleet."""
        (run,) = played(fleet, self._replay.settings, self._rate_rps, lambda _rate, _seed: self._requests)
        return run

    def time_factors(self) -> tuple[FittedTime, ...]:
        """Of step times over the plan's, by phase."""
        return fit_times(self._replay.fleet, lambda fleet: self._played(fleet).columns, self._run.columns)

    def figures(self) -> tuple[ComparedFigure, ...]:
        """Times of all requests and of every bucket, where enough came."""
        ends = self._ends()
        groups = [(result.total, *result.buckets) for result in (self.result, self.predicted, *ends)]
        judged = self._replay.promise.slo.statistic
        statistics = [name for name in dict.fromkeys(("P50", judged, "P99")) if name in _STATISTICS]
        return tuple(figure for of_group in zip(*groups, strict=True) for figure in _figures(of_group, statistics))

    def _ends(self) -> tuple[ReplayResult, ...]:
        """The same requests before servers all at P90 of their speeds, and all at P10; empty without bands."""
        bands = {(row.gpu, row.phase): row.band for row in self._plan.provenance.estimates if row.band is not None}
        pools = self._replay.fleet.pools
        if any(_band_of(bands, pool) is None for pool in pools):
            return ()

        def at(end: str) -> ReplayResult:
            return self._replayed(slowed(self._replay.fleet, lambda pool: _time_factor(bands, pool, end)))

        return at("high"), at("low")


def _run(fleet: ReplayFleet, settings: ReplaySettings, requests: Requests, rows: Sequence[ProvedRequest]) -> SeedRun:
    table = RequestTable(requests.arrival_ms, requests.prompt_tokens, requests.answer_tokens, fleet.lengths)
    log = RequestLog(len(table))
    for place, row in enumerate(rows):
        if row.first_ms is not None and row.ended_ms is not None:
            log.first[place], log.ended[place] = row.first_ms, row.ended_ms
    starts = [interval.start for interval in fleet.intervals]
    sent_to = [max(0, bisect_right(starts, prompt) - 1) for prompt in table.prompt]
    run = RecordedRun(requests=table, log=log, sent_to=sent_to, usages=[])
    return SeedRun(engine=run, columns=Columns.of(run, int(len(table) * settings.warm_up)))


def _band_of(bands: Mapping[tuple[str, Phase], Band], pool: ReplayPool) -> Band | None:
    """Of a pool's rates; plans of before have bands of the halves alone."""
    return bands.get((pool.gpu, pool.phase)) or bands.get((pool.gpu, Phase.DECODE))


def _time_factor(bands: Mapping[tuple[str, Phase], Band], pool: ReplayPool, end: str) -> float:
    band = _band_of(bands, pool)
    assert band is not None, "asked for where all pools have bands"
    return 1 / float(getattr(band, end))


_STATISTICS = ("mean", "P50", "P90", "P95", "P99")
_TIMES: tuple[tuple[str, Phase | None, str], ...] = (
    ("TTFT", Phase.PREFILL, "ttft_ms"),
    ("TPOT", Phase.DECODE, "tpot_ms"),
    ("end to end", None, "end_to_end_ms"),
)


def _figures(groups: Sequence[ReplayGroup], statistics: Sequence[str]) -> Iterator[ComparedFigure]:
    """Of one group, as measured, as predicted, and at the ends of the bands."""
    measured = groups[0]
    for name, phase, key in _TIMES:
        times: list[Times | None] = [getattr(group, key) for group in groups]
        for statistic in statistics:
            if measured.requests < _fewest(statistic) or None in times:
                continue
            values = [getattr(row, statistic.lower()).mean for row in times if row is not None]
            if all(map(math.isfinite, values)):
                yield _figure(measured, phase, f"{name} {statistic}", values)


def _fewest(statistic: str) -> float:
    """Requests from which on a statistic is told."""
    late = 1 - float(statistic[1:]) / 100 if statistic.startswith("P") else 0.5
    return max(_FEWEST, _FEWEST_LATE / late)


def _figure(group: ReplayGroup, phase: Phase | None, name: str, values: Sequence[float]) -> ComparedFigure:
    measured, predicted, *ends = values
    low, high = (min(ends), max(ends)) if ends else (predicted * (1 - TOLERANCE), predicted * (1 + TOLERANCE))
    better, worse = measured < low, measured > high
    return ComparedFigure(
        subject=f"{group.start}-{group.end - 1} tokens" if group.end else "all requests",
        phase=phase,
        name=name,
        unit="ms",
        promised=predicted,
        measured=measured,
        low=low,
        high=high,
        verdict=Verdict.BETTER if better else Verdict.WORSE if worse else Verdict.AS_PLANNED,
        basis="the same requests replayed"
        + (", at the ends of the bands of all speeds" if ends else f", give or take {TOLERANCE:.0%}"),
    )
