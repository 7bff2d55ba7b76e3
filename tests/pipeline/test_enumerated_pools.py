"""Plans of small fleets against every pool that they could have: what is chosen, its bound, and targets that are
raised."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import pytest
from pipeline_scenarios import bucketed

from planner.assignment import BucketAnswer, BucketOffer, Partition, PoolCount
from planner.assignment.buckets.offer import places_of
from planner.domain import ServingForm
from planner.domain.stocks import Stock
from planner.evaluation.buckets.service import BucketService, PricedPools
from planner.evaluation.evaluator import Evaluator
from planner.proposing.buckets.infeasible import stocks_of
from planner.proposing.buckets.pools import BucketChoice, fastest_pools, solve_buckets
from planner.proposing.certificate import layout_settings
from planner.workload import question_of

from assignment.enumerated_buckets import numbers_of  # isort: skip

GAP = 0.005
PRICES = {"H20": 1.5, "H200": 3.5, "H800": 2.5, "L40S": 1.0, "MI300X": 2.2}
LEVELS = {"ttft_ms": 4000, "tpot_ms": 60, "percentile": 99}
QUICK = {"ttft_ms": 1000, "tpot_ms": 40, "percentile": 90}
TIGHT = {"ttft_ms": 600, "tpot_ms": 40, "percentile": 95}
LOOSE = {"ttft_ms": 8000, "tpot_ms": 200, "percentile": 90}
FLEETS: dict[str, tuple[dict[str, int], dict[str, Any]]] = {
    "two families, the first wins": ({"H20": 6, "MI300X": 2}, {"slo": LEVELS}),
    "two families, the other wins": ({"H20": 4, "MI300X": 4}, {"slo": LEVELS}),
    "two families, two buckets": ({"H200": 2, "H20": 3, "MI300X": 3}, {"slo": QUICK, "routing": {"most": 2}}),
    "two families for a rent": (
        {"H20": 6, "MI300X": 4},
        {"slo": LEVELS, "objective": {"kind": "budget", "budget_usd_per_hour": 7.0}},
    ),
    "two families for a rate": (
        {"H20": 6, "MI300X": 4},
        {"slo": LEVELS, "objective": {"kind": "target", "target_rps": 15.0}},
    ),
    "two buckets": ({"H20": 4, "L40S": 4}, {"slo": QUICK, "routing": {"most": 2}}),
    "one type takes little in": ({"H800": 3, "L40S": 3}, {"slo": TIGHT}),
    "both forms": ({"H20": 3, "H200": 1}, {"slo": LEVELS, "serving": "auto"}),
    "both forms, two families, split wins": ({"H20": 2, "MI300X": 2}, {"slo": LEVELS, "serving": "auto"}),
    "both forms, two families, aggregated wins": ({"H20": 2, "MI300X": 2}, {"slo": LOOSE, "serving": "auto"}),
    "one GPU": ({"H200": 1}, {"slo": LEVELS, "serving": "aggregated"}),
}
each_fleet = pytest.mark.parametrize("name", FLEETS)


def evaluator_of(inventory: Mapping[str, int], **changes: Any) -> Evaluator:
    """Qwen3-30B-A3B on a few GPUs, with nothing given up for simplicity."""
    document = {
        "model": "qwen3-30b-a3b",
        "workload": "azure-code-2023",
        "ranges": {"width": 2048},
        "routing": {"most": 1},
        "search": {"timings": False, "gap": GAP, "min_island_size": 1},
        "simplicity": 0,
        "prices_usd_per_gpu_hour": {gpu: PRICES[gpu] for gpu in inventory},
        **changes,
    }
    return Evaluator(question_of(bucketed(inventory, **document)))


@cache
def evaluator(name: str) -> Evaluator:
    inventory, changes = FLEETS[name]
    return evaluator_of(inventory, **changes)


@cache
def solved(name: str) -> BucketChoice:
    return solve_buckets(evaluator(name))


def offers_of(judge: Evaluator) -> tuple[tuple[Stock, ...], tuple[BucketOffer, ...]]:
    """The stocks, and what may be made of them: an offer for each family of GPU types."""
    stocks = stocks_of(judge.question, judge.question.scenario.objective)
    return stocks, judge.prices.offers(stocks, judge.prices.partitions)


def best_of_all(judge: Evaluator, bound: float, form: ServingForm | None = None) -> float:
    """The best value of any pools of any family as they serve together, or of those of a form; infinite, or 0, where
    none reach `bound`.

    Prices before pools are known are too kind: what they hold for worse than the bound need not be looked at.
    """
    objective, service = judge.question.scenario.objective, BucketService(judge.question)
    stocks, offers = offers_of(judge)
    least = objective.target_rps if objective.minimises else bound * (1 - 2 * GAP)
    budget = objective.budget_usd_per_hour if objective.kind.row.budgeted else float("inf")
    best = float("inf") if objective.minimises else 0.0
    for offer, partition in product(offers, judge.prices.partitions):
        for answer in every_choice(offer, partition):
            if form not in (None, answer.form):
                continue
            cost = offer.charge_of(answer.pools)
            if estimated_rps(offer, answer) < least or cost > budget or (objective.minimises and cost >= best):
                continue
            rate = service.priced(judge.prices.pools(answer, stocks)).rate_rps
            if not objective.minimises:
                best = max(best, rate)
            elif rate >= least * (1 - 1e-4):
                best = cost
    return best


def estimated_rps(offer: BucketOffer, answer: BucketAnswer) -> float:
    """What pools serve at the first prices: what servers of the slowest bucket do, mixed ones in both phases."""
    return min(
        sum(pool.count * pool.option.rate_rps for pool in answer.pools if place in offer.served_by(pool.place))
        / offer.probabilities[place]
        for place in places_of(answer.partition)
    )


@each_fleet
def test_no_pools_of_any_family_serve_more_or_cost_less(name: str) -> None:
    """As they serve together: what is chosen is the best, and its bound is one, near for a rate."""
    judge = evaluator(name)
    choice = solved(name)
    best = best_of_all(judge, choice.bound)
    if judge.question.scenario.objective.minimises:
        assert choice.value == pytest.approx(best, rel=GAP)
        assert choice.bound <= best * (1 + 1e-6)
        return
    assert choice.priced.rate_rps == pytest.approx(best, rel=GAP)
    assert best * (1 - 1e-6) <= choice.bound <= best * (1 + 3 * GAP)  # a further bucket must add more than the gap


@pytest.mark.parametrize("name", ["two families, two buckets", "two families for a rent", "both forms", "one GPU"])
def test_so_do_those_of_a_point_of_the_frontier(name: str) -> None:
    judge = evaluator(name)
    objective = judge.question.scenario.objective
    priced, bound, _ = fastest_pools(judge, objective, layout_settings(judge.question.scenario))
    assert bound >= best_of_all(judge, bound) * (1 - 1e-6)
    assert bound >= priced.rate_rps * (1 - 1e-6)


@pytest.mark.parametrize("name", [name for name, (_, changes) in FLEETS.items() if changes.get("serving") == "auto"])
def test_nor_do_those_of_a_form_serve_more_than_its_bound(name: str) -> None:
    """Of any family: what the other form may do is told beside the choice, and the chosen one's bound is the proof."""
    judge = evaluator(name)
    forms = solved(name).forms
    assert forms.other_bound is not None
    assert 0 < best_of_all(judge, forms.own_bound, forms.chosen) <= forms.own_bound * (1 + 1e-6)
    assert best_of_all(judge, forms.other_bound, forms.other) <= forms.other_bound * (1 + 1e-6)


def every_choice(offer: BucketOffer, partition: Partition) -> Iterator[BucketAnswer]:
    """All servers that serve every bucket of a partition, whatever they do."""
    places = [place for place in offer.options if place[1] in partition.of(place[0])]
    pairs = [(place, option) for place in places for option in offer.options[place]]
    for numbers in numbers_of([option for _, option in pairs], offer.counts):
        pools = tuple(
            PoolCount(place=place, option=option, count=number)
            for (place, option), number in zip(pairs, numbers, strict=True)
            if number
        )
        if all(any(place in offer.served_by(pool.place) for pool in pools) for place in places_of(partition)):
            yield BucketAnswer(
                partition=partition, pools=pools, rate_rps=0.0, value=0.0, bound=0.0, proven=True, solver=""
            )


TARGETS = [5.5, 12.0]


def slower_in_company(priced: PricedPools) -> PricedPools:
    """As if queues cost pools of several GPU types 15 % that nobody had estimated."""
    left = 0.85 if len({pool.gpu for pool in priced.pools}) > 1 else 1.0
    return replace(priced, prefill_rps=left * priced.prefill_rps, decode_rps=left * priced.decode_rps)


@pytest.mark.parametrize("target_rps", TARGETS)
def test_no_pools_that_reach_a_raised_target_cost_less_than_the_bound(
    target_rps: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pools are dearer than the bound of the first try where they serve less together than was estimated; the target is
    raised then, and pools that the raised one leaves out may still reach what was asked for."""
    serves = BucketService.priced
    monkeypatch.setattr(BucketService, "priced", lambda *rest: slower_in_company(serves(*rest)))
    objective = {"kind": "target", "target_rps": target_rps}
    judge = evaluator_of({"H20": 3, "L40S": 4}, slo=LEVELS, objective=objective)
    stocks, (offer,) = offers_of(judge)
    deployed = BucketService(judge.question)
    costs = [
        offer.charge_of(answer.pools)
        for answer in every_choice(offer, judge.prices.partitions[0])
        if deployed.priced(judge.prices.pools(answer, stocks)).rate_rps >= target_rps
    ]
    choice = solve_buckets(judge)
    assert choice.priced.rate_rps >= target_rps * (1 - 1e-3)
    assert choice.bound <= min(costs) * (1 + 1e-6)
