"""Every fleet of one rent: planned, and drawn together with all others of its question.

The rent is cut into equal parts, and each part rents GPUs of one type: with four parts of 128 USD/hour there are 15
fleets, of which three are of one type; the paper's three (table 5.1) are among them. Beside them stands what the best
choice for the rent takes.

Bands of two fleets are not independent: where H800 are slower than predicted, they are so in both. So every fleet is
priced in the same draws of how fast GPU types are in each phase, and the ratio is taken draw by draw.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations_with_replacement
from math import inf, isnan
from pathlib import Path
from typing import Any

from planner import files, pipeline
from planner.domain import CostMode, Plan, Question, Scenario
from planner.domain.serving.promise import quantile
from planner.evaluation.buckets.prices import BucketPrices
from planner.evaluation.doubts.drawn import drawn_paces, rates_in_draws
from planner.studies.chapter5.experiments import CODE, CONVERSATION, PRICES
from planner.studies.chapter5.mixes.records import Fleet, FleetRate, Semantics, Worth
from planner.workload import question_of, summarize

RENT = 512.0  # USD/hour, section 5.1
TRACES = (CODE, CONVERSATION)
SEMANTICS = (
    Semantics(name="reference", mode=CostMode.REFERENCE),
    Semantics(name="default", mode=CostMode.DEFAULT),
    Semantics(name="default, levels", mode=CostMode.DEFAULT, ttft_ms=4000, tpot_ms=60),
)
GAP = 0.002  # to which layouts of the reference mode are proven, as in the guide's table of optima
PARTS, DRAWS = 4, 128
BAND = 0.1  # of each end, as all bands
SURE = 0.8

Listen = Callable[[FleetRate], None]


def fleets_of(parts: int) -> tuple[Fleet, ...]:
    """Every way to rent `parts` equal parts of the rent, each of one type."""
    return tuple(
        Fleet(
            gpus=tuple(
                (gpu, round(chosen.count(gpu) * RENT / parts / price)) for gpu, price in PRICES.items() if gpu in chosen
            )
        )
        for chosen in combinations_with_replacement(PRICES, parts)
    )


def fleet_rates(
    trace: str, semantics: Semantics, *, parts: int, draws: int, seed: int, listen: Listen = lambda _: None
) -> tuple[FleetRate, ...]:
    """What every fleet of the grid serves, and the best choice of all."""
    plans = []
    for fleet in (*fleets_of(parts), None):
        plan = pipeline.plan(_scenario(trace, semantics, fleet))
        plans.append(plan)
        listen(_rate(trace, semantics, fleet, plan))
    drawn = [()] * len(plans) if semantics.mode is CostMode.REFERENCE else _drawn(trace, semantics, plans, draws, seed)
    return tuple(
        _rate(trace, semantics, fleet, plan, row)
        for fleet, plan, row in zip((*fleets_of(parts), None), plans, drawn, strict=True)
    )


def worths(rates: Sequence[FleetRate]) -> tuple[Worth, ...]:
    """Each fleet of a question beside the best one of a single type."""
    uniform = (rate for rate in rates if rate.fleet.is_uniform and not rate.fleet.chosen)
    rival = max(uniform, key=lambda rate: rate.rate_rps)
    return tuple(_worth(rate, rival) for rate in rates)


def _worth(rate: FleetRate, rival: FleetRate) -> Worth:
    worth = Worth(rate=rate, rival=rival, ratio=rate.rate_rps / rival.rate_rps)
    if not rate.drawn_rps:
        return worth
    pairs = list(zip(rate.drawn_rps, rival.drawn_rps, strict=True))
    ratios = sorted(a / b if b > 0 else inf for a, b in pairs)
    return replace(
        worth,
        low=_end(ratios, BAND),
        high=_end(ratios, 1 - BAND),
        odds=sum(a > b for a, b in pairs) / len(pairs),
        sure_rps=quantile(sorted(rate.drawn_rps), 1 - SURE),
    )


def _end(ratios: Sequence[float], share: float) -> float:
    """Of ranked ratios, without bound where that of a draw next to it is."""
    value = quantile(ratios, share)
    return inf if isnan(value) else value


def _scenario(trace: str, semantics: Semantics, fleet: Fleet | None) -> Scenario:
    """What is asked of a fleet; of None: the best choice for the rent."""
    counts = dict(fleet.gpus) if fleet else {gpu: round(RENT / price) for gpu, price in PRICES.items()}
    document: dict[str, Any] = {
        "name": "mixes",
        "model": "deepseek-v3",
        "workload": trace,
        "inventory": counts,
        "prices_usd_per_gpu_hour": {gpu: PRICES[gpu] for gpu in counts},
        "cost": {"mode": semantics.mode.value},
        "search": {"timings": False},
    }
    if fleet is None:
        document["objective"] = {"kind": "budget", "budget_usd_per_hour": RENT}
    if semantics.mode is CostMode.REFERENCE:
        document["routing"] = {"form": "table"}
        document["search"] |= {"method": "exact", "gap": GAP}
    if semantics.ttft_ms is not None:
        document["slo"] = {"ttft_ms": semantics.ttft_ms, "tpot_ms": semantics.tpot_ms, "percentile": 99}
    return files.scenario_from_document(document, origin="study mixes", base=Path.cwd(), summarize=summarize)


def _rate(trace: str, semantics: Semantics, fleet: Fleet | None, plan: Plan, drawn: Sequence[float] = ()) -> FleetRate:
    return FleetRate(
        trace=trace,
        semantics=semantics,
        fleet=fleet or Fleet(gpus=_rented(plan), chosen=True),
        rate_rps=plan.throughput_rps,
        bound_rps=plan.certificate.objective_bound if plan.certificate else None,
        drawn_rps=tuple(drawn),
    )


def _rented(plan: Plan) -> tuple[tuple[str, int], ...]:
    return tuple((gpu, plan.fleet[gpu]) for gpu in PRICES if plan.fleet.get(gpu))


def _drawn(trace: str, semantics: Semantics, plans: Sequence[Plan], draws: int, seed: int) -> list[list[float]]:
    question: Question = question_of(_scenario(trace, semantics, None)).of_rate
    paces = drawn_paces(BucketPrices(question), draws, seed)
    return rates_in_draws(question, [plan.outlook.pools for plan in plans], paces)
