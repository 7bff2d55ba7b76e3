"""The result of one rate: groups of requests, islands, levels and moments, over the seeds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.domain.fleet import ReplayFleet
from planner.domain.layout import PHASES, Phase
from planner.domain.replay import COMPUTED, GPU_CACHE, FoundShare, IslandUse, Moment, ReplayGroup, TurnReplay
from planner.domain.serving.levels import LevelCheck, Spread
from planner.domain.slo import SloSettings
from planner.replay.measures.columns import Column, Columns, kept_share, quantiles, spread, times
from planner.replay.requests import RequestLog, RequestTable
from planner.replay.stations.serving import PlayedRun
from planner.replay.stations.usage import Usage
from planner.units import MS_PER_S

_SLOW_SHARE = 0.05  # of the requests get fewer tokens a second
_ALL = (0, 0)
_Row = tuple[Column, Column, NDArray[np.bool_]]  # of the requests of a seed with a bound: values, bounds, who kept them


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """Requests that something else than a replay answered, as measures see a run. `sent_to`: numbers of intervals."""

    requests: RequestTable
    log: RequestLog
    sent_to: Sequence[int]
    usages: list[list[Usage]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedRun:
    """One run with its columns; `span_s`: from the first request that counts to the last arrival."""

    engine: PlayedRun
    columns: Columns

    @property
    def span_s(self) -> float:
        """Seconds that count."""
        arrival = self.columns.arrival
        # One request has no span, and rates are over it.
        return max(float(arrival[-1] - arrival[0]) / MS_PER_S, 1e-9) if len(arrival) else 1e-9

    def members(self, start: int, end: int) -> NDArray[np.bool_]:
        """Requests with prompts of `start` <= tokens < `end`; all with end 0."""
        prompt = self.columns.prompt
        return (prompt >= start) & (prompt < end) if end else np.ones(len(prompt), dtype=bool)


def groups_of(
    runs: Sequence[SeedRun], fleet: ReplayFleet, slo: SloSettings
) -> tuple[ReplayGroup, tuple[ReplayGroup, ...]]:
    """(all requests, those of each bucket)."""
    good_rows = [np.logical_and(*run.columns.within_bounds(slo)) for run in runs]
    spans = [(interval.start, interval.end) for interval in fleet.intervals]
    total, *buckets = (_group(runs, good_rows, span) for span in (_ALL, *spans))
    return total, tuple(buckets)


def _group(runs: Sequence[SeedRun], good_rows: Sequence[NDArray[np.bool_]], span: tuple[int, int]) -> ReplayGroup:
    members = [run.members(*span) for run in runs]

    def over(name: str) -> list[tuple[float, ...] | None]:
        return [quantiles(getattr(run.columns, name)[mask]) for run, mask in zip(runs, members, strict=True)]

    pairs = list(zip(runs, members, strict=True))
    within = [float(good[mask].mean()) if mask.any() else 1.0 for good, mask in zip(good_rows, members, strict=True)]
    good_rps = [float(good[m].sum()) / run.span_s for run, good, m in zip(runs, good_rows, members, strict=True)]
    return ReplayGroup(
        start=span[0],
        end=span[1],
        requests=sum(int(mask.sum()) for mask in members),
        rate_rps=sum(int(mask.sum()) / run.span_s for run, mask in zip(runs, members, strict=True)) / len(runs),
        within_levels=spread(within),
        goodput_rps=spread(good_rps),
        ttft_ms=times(over("ttft")),
        tpot_ms=times(over("tpot")),
        end_to_end_ms=times(over("end_to_end")),
        queue_ms=times(over("queue")),
        transfer_ms=times(over("transfer")),
        place_ms=times(over("place")),
        tokens_per_s_p05=_slow_tokens(runs, members),
        hit_share=spread([_share(run.columns.hits[mask], run.columns.prompt[mask]) for run, mask in pairs]),
        found_at=_found_at(runs, members),
    )


def _found_at(runs: Sequence[SeedRun], members: Sequence[NDArray[np.bool_]]) -> tuple[FoundShare, ...]:
    """Where the prompts' tokens were; nothing without tiers."""
    tiers = tuple(runs[0].engine.log.loads)
    if not tiers:
        return ()
    rows = []
    for run, mask in zip(runs, members, strict=True):
        prompt, hits, loads = run.columns.prompt[mask], run.columns.hits[mask], run.columns.loads[mask]
        parts = (hits - loads.sum(axis=1), *loads.T, prompt - hits)
        rows.append([_share(part, prompt) for part in parts])
    places = (GPU_CACHE, *tiers, COMPUTED)
    return tuple(FoundShare(place=p, share=spread(of)) for p, of in zip(places, zip(*rows, strict=True), strict=True))


def turns_of(runs: Sequence[SeedRun], fleet: ReplayFleet, slo: SloSettings) -> tuple[TurnReplay, ...]:
    """First turns of sessions, then later ones; nothing where sessions are not known."""
    if any(run.engine.requests.turns is None for run in runs):
        return ()
    turns = []
    for turn, later in (("first", False), ("later", True)):
        of_turn = [replace(run, columns=run.columns.of_rows(run.columns.later == later)) for run in runs]
        members = [run for run in of_turn if len(run.columns.arrival)]
        if members:
            total, _ = groups_of(members, fleet, slo)
            turns.append(TurnReplay(turn=turn, group=total, levels=levels_of(members, fleet, slo)))
    return tuple(turns)


def _share(part: Column, of_tokens: NDArray[np.int64]) -> float:
    return float(part.sum() / of_tokens.sum()) if of_tokens.sum() else 0.0


def _slow_tokens(runs: Sequence[SeedRun], members: Sequence[NDArray[np.bool_]]) -> Spread | None:
    """Tokens a second after the first that all but one in twenty get at least."""
    slow = []
    for run, mask in zip(runs, members, strict=True):
        tpot = run.columns.tpot[mask]
        tpot = tpot[~np.isnan(tpot)]
        slow_ms = float(np.quantile(tpot, 1 - _SLOW_SHARE, method="inverted_cdf")) if len(tpot) else 0.0
        if slow_ms:  # answers measured to come in one piece have no rate
            slow.append(MS_PER_S / slow_ms)
    return spread(slow) if slow else None


def misroutes_of(runs: Sequence[SeedRun], fleet: ReplayFleet) -> tuple[float, float]:
    """(share of all requests that came to another interval than their length's, share that came to servers whose
    context is too short for prompt and answer)."""
    starts = np.array([interval.start for interval in fleet.intervals])
    contexts = np.array([interval.context or np.iinfo(np.int64).max for interval in fleet.intervals])
    misrouted = refused = total = 0
    for run in runs:
        requests, sent_to = run.engine.requests, np.array(run.engine.sent_to)
        prompts = np.array(requests.prompt)
        misrouted += int((np.searchsorted(starts, prompts, side="right") - 1 != sent_to).sum())
        refused += int((prompts + np.array(requests.answer) > contexts[sent_to]).sum())
        total += len(prompts)
    return misrouted / total, refused / total


def islands_of(runs: Sequence[SeedRun], fleet: ReplayFleet) -> tuple[IslandUse, ...]:
    """What the servers of every pool did."""
    return tuple(_island(runs, fleet, number) for number in range(len(fleet.pools)))


def _island(runs: Sequence[SeedRun], fleet: ReplayFleet, number: int) -> IslandUse:
    pool = fleet.pools[number]
    rows: dict[str, list[float]] = {name: [] for name in ("busy", "batch", "tokens", "kv", "most", "preempted", "hit")}
    waits, served, rates = [], 0, 0.0
    for run in runs:
        columns = run.columns
        mask = (columns.decode if pool.phase is Phase.DECODE else columns.prefill) == number
        usages, many = run.engine.usages[number], max(1, int(mask.sum()))
        elapsed_ms = run.span_s * MS_PER_S * pool.servers
        busy = sum(usage.busy_ms for usage in usages)
        rows["busy"].append(busy / elapsed_ms)
        rows["batch"].append(sum(usage.batch_ms for usage in usages) / busy if busy else 0.0)
        rows["tokens"].append(sum(u.tokens for u in usages) / max(1, sum(u.steps for u in usages)))
        rows["kv"].append(sum(usage.kv_ms for usage in usages) / elapsed_ms)
        rows["most"].append(max(usage.most_kv for usage in usages))
        rows["preempted"].append(1000 * sum(usage.preempted for usage in usages) / many)
        rows["hit"].append(_share(columns.hits[mask], columns.prompt[mask]))
        waits.append(quantiles((columns.place if pool.phase is Phase.DECODE else columns.queue)[mask]))
        served += int(mask.sum())
        rates += int(mask.sum()) / run.span_s / len(runs)
    return IslandUse(
        island=pool.island,
        gpu=pool.gpu,
        phase=pool.phase,
        servers=pool.servers,
        requests=served,
        rate_rps=rates,
        utilisation=spread(rows["busy"]),
        batch=spread(rows["batch"]),
        step_tokens=spread(rows["tokens"]),
        kv_share=spread(rows["kv"]),
        most_kv_share=spread(rows["most"]),
        preempted=spread(rows["preempted"]),
        wait_ms=times(waits),
        hit_share=spread(rows["hit"]),
    )


def levels_of(runs: Sequence[SeedRun], fleet: ReplayFleet, slo: SloSettings) -> tuple[LevelCheck, ...]:
    """The scenario's bounds. With a percentile so many requests of each bucket must keep them, or of all where
    its scope says so; else the mean must keep the mean of their bounds. Requests without a bound do not count."""
    spans = [_ALL] if slo.over_all else [(i.start, i.end) for i in fleet.intervals]
    keeping = [run.columns.within_bounds(slo) for run in runs]
    bounds = [run.columns.bounds(slo) for run in runs]
    checks = []
    for place, phase in enumerate(PHASES):
        values = [(run.columns.ttft, run.columns.tpot)[place] for run in runs]
        for span in spans:
            rows: list[_Row] = []
            for run, column, bound, good in zip(runs, values, bounds, keeping, strict=True):
                mask = run.members(*span) & np.isfinite(bound[place])
                rows.append((column[mask], bound[place][mask], good[place][mask]))
            # A bound on no request at all is neither kept nor broken.
            if any(len(column) for column, _, _ in rows):
                checks.append(_level(phase, span, rows, slo, sum(len(run.columns.arrival) for run in runs)))
    return tuple(checks)


def _level(phase: Phase, span: tuple[int, int], rows: Sequence[_Row], slo: SloSettings, requests: int) -> LevelCheck:
    """The bound on the requests of `rows`, a row a seed, of so many requests in all."""
    every = np.concatenate([bounds for _, bounds, _ in rows])
    values = [column[~np.isnan(column)] for column, _, _ in rows]
    needed = slo.needed
    at = [float(np.quantile(v, needed, method="inverted_cdf") if needed else v.mean()) for v in values if len(v)]
    return LevelCheck(
        phase=phase,
        start=span[0],
        end=span[1],
        part=len(every) / requests,
        bound_ms=float(every[0]) if (every == every[0]).all() else float(every.mean()),
        needed=needed,
        share=kept_share([good for _, _, good in rows]),
        value_ms=spread(at),
        requests=len(every),
    )


def moments_of(run: SeedRun, slo: SloSettings, parts: int) -> tuple[Moment, ...]:
    """The time of the first seed in equal parts, by when requests came."""
    columns = run.columns
    if not len(columns.arrival):
        return ()
    start, end = float(columns.arrival[0]), float(columns.arrival[-1])
    edges = np.linspace(start, max(end, start + 1.0), parts + 1)
    part = np.clip(np.searchsorted(edges, columns.arrival, side="right") - 1, 0, parts - 1)
    late = ~np.logical_and(*columns.within_bounds(slo))
    length_ms = float(edges[1] - edges[0])
    # Up to `parts`: what ends after the last arrival falls behind the last part.
    ended = np.clip(np.searchsorted(edges, columns.ended, side="right") - 1, 0, parts)
    waiting = _inside(columns.arrival, columns.started, edges) / length_ms
    answering = _inside(columns.placed, columns.ended, edges) / length_ms
    moments = []
    for k in range(parts):
        ttft = quantiles(columns.ttft[part == k])
        moments.append(
            Moment(
                start_s=float(edges[k]) / MS_PER_S,
                seconds=length_ms / MS_PER_S,
                arrived=int((part == k).sum()),
                finished=int((ended == k).sum()),
                late=int(late[part == k].sum()),
                waiting=float(waiting[k]),
                answering=float(answering[k]),
                ttft_p99_ms=None if ttft is None or not np.isfinite(ttft[-1]) else ttft[-1],
            )
        )
    return tuple(moments)


def _inside(start: Column, end: Column, edges: Column) -> Column:
    """Time that intervals have within each part (ms): differences of what lies before the edges."""
    before = np.array([np.clip(np.minimum(end, edge) - start, 0.0, None)[np.isfinite(start)].sum() for edge in edges])
    return np.diff(before)
