"""Answers of Prometheus as a deployment would give them that runs like a replay of a plan."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from planner.cost.residuals.bands import known_as, place
from planner.domain import PHASES, Calibration, Factor, LengthProfile, Origin, Phase, Plan, RequestTrace
from planner.domain.arrivals import ReplaySettings
from planner.domain.serving.observed import EDGE, ISLAND, PLAN, Quantity
from planner.evaluation.replay.replaying import PlanReplay
from planner.export import island_labels, plan_label
from planner.proposing.feasibility import posed
from planner.replay.engine import Engine
from planner.replay.measures.columns import Columns
from planner.replay.requests import RequestTable

MS = 1000.0
TTFT_EDGES = (0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0)
TPOT_EDGES = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0)
"""As vLLM has them (vllm/v1/metrics/loggers.py, 0.18.0), up to where nothing more comes here."""

MOMENT = 1_790_000_000.0


def on_other_gpus(plan: Plan, pace: float) -> Plan:
    """The plan on GPUs whose steps go at `pace` times the speed that it was made for."""
    scenario = plan.scenario
    places = {place(item.gpu.name, known_as(scenario.model), scenario.cost.engine) for item in scenario.inventory.items}
    factors = tuple(
        Factor(name=f"pace_{phase}", family=here, value=pace, unit="1", origin=Origin.USER, source="slowed")
        for here in sorted(places)
        for phase in PHASES
    )
    cost = replace(scenario.cost, calibration=Calibration(name="slowed", factors=factors))
    return replace(plan, scenario=replace(scenario, cost=cost))


def series(
    plan: Plan, trace: RequestTrace | LengthProfile, rate_rps: float, *, at_decode: bool = False, requests: int = 4000
) -> Iterator[tuple[dict[str, str], float]]:
    """Labels and value of every series. `at_decode`: decode servers tell the user's TTFT, and prefill servers none."""
    settings = ReplaySettings(requests=requests, seeds=(0,))
    replay = PlanReplay(plan, posed(plan.scenario).workload, trace, settings)
    drawn = replay.requests(rate_rps, 0)
    table = RequestTable(drawn.arrival_ms, drawn.prompt_tokens, drawn.answer_tokens, replay.fleet.lengths, drawn.blocks)
    engine = Engine(replay.fleet, table, settings, 0)
    first = int(len(table) * settings.warm_up)
    engine.count_usage(table.arrival_ms[first], table.arrival_ms[-1])
    engine.run(progress=lambda _: None)
    columns = Columns.of(engine, 0)  # counters count whoever ends, those of the warm-up too
    begin, end = columns.arrival[first], columns.arrival[-1]
    span_s = (end - begin) / MS
    labels = {island: label for label, island in island_labels(plan).items()}
    for number, pool in enumerate(replay.fleet.pools):
        decodes, prefills = pool.phase is Phase.DECODE, pool.phase is Phase.PREFILL
        done = columns.prefilled if prefills else columns.ended
        mine = (columns.decode if decodes else columns.prefill) == number
        ended = mine & (done > begin) & (done <= end)
        given = {PLAN: plan_label(plan), ISLAND: labels[pool.island]}
        parallel = next(i.parallel for i in plan.islands if i.id == pool.island)
        ranks = parallel.replicas * parallel.dp
        usages = engine.usages[number]
        busy = sum(usage.busy_ms for usage in usages) / (end - begin) / pool.servers
        batch = sum(usage.batch_ms for usage in usages) / (end - begin) / pool.servers
        waiting = (
            _waiting(columns.prefilled[mine], columns.placed[mine], begin, end)
            if decodes
            else _waiting(columns.arrival[mine], columns.started[mine], begin, end)
        )
        values = {
            Quantity.REQUESTS: ended.sum() / span_s,
            Quantity.PROMPT_TOKENS: columns.prompt[ended].sum() / span_s,
            Quantity.COMPUTED: (columns.prompt[ended] - columns.hits[ended]).sum() / span_s,
            Quantity.GENERATED: (np.ones_like(columns.answer) if prefills else columns.answer)[ended].sum() / span_s,
            Quantity.RANKS: float(ranks),
            Quantity.RUNNING: batch,
            Quantity.WAITING: float(np.mean(waiting)) / ranks,
            Quantity.BUSY: busy,
            Quantity.BACKLOG: float(np.mean(waiting >= ranks)),
        }
        for quantity, value in values.items():
            yield {"__name__": quantity.value, **given}, float(value)
        moment = columns.arrival + columns.ttft
        start = columns.prefilled if decodes and not at_decode else columns.arrival
        ttft = (columns.prefilled if prefills else moment) - start
        if not (at_decode and prefills):
            yield from _histogram(given, Quantity.TTFT, Quantity.TTFT_SUM, TTFT_EDGES, ttft[ended] / MS, span_s)
        if not prefills:
            tpot = columns.tpot[ended & (columns.answer > 1)] / MS
            yield from _histogram(given, Quantity.TPOT, Quantity.TPOT_SUM, TPOT_EDGES, tpot, span_s)


def _waiting(came: Any, went: Any, begin: float, end: float) -> Any:
    """Requests that wait, at a thousand moments."""
    moments = np.linspace(begin, end, 1000)
    return np.searchsorted(np.sort(came), moments) - np.searchsorted(np.sort(went), moments)


def _histogram(
    labels: dict[str, str], name: Quantity, total: Quantity, edges: Sequence[float], values: Any, span_s: float
) -> Iterator[tuple[dict[str, str], float]]:
    for edge in (*edges, np.inf):
        text = "+Inf" if np.isinf(edge) else repr(edge)
        yield {"__name__": name.value, EDGE: text, **labels}, float((values <= edge).sum() / span_s)
    yield {"__name__": total.value, **labels}, float(values.sum() / span_s)


def answer(rows: Sequence[tuple[dict[str, str], float]]) -> dict[str, Any]:
    """The answer of `/api/v1/query`."""
    result = [{"metric": labels, "value": [MOMENT, repr(value)]} for labels, value in rows]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


def write(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document), encoding="utf-8")
    return path
