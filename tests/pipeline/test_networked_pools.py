"""Pools behind buckets that hand KV caches over a network: by hand, against every pool, and how plans tell it."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pipeline_scenarios import bucketed
from test_enumerated_pools import GAP, LEVELS, evaluator_of, every_choice, offers_of

from planner.domain import BucketPool, NetworkSettings, Phase, Plan, Question, kv_gb
from planner.domain.arrivals import ReplaySettings
from planner.domain.explanations import Limit
from planner.errors import InconsistentPlanError, InfeasibleError
from planner.evaluation.buckets.rivals import PoolPlace, rival_servers
from planner.evaluation.buckets.service import BucketService, PricedPools
from planner.evaluation.buckets.transfer import UplinkLoad
from planner.evaluation.evaluator import Evaluator
from planner.files import encode_plan
from planner.files.plan.plan_reader import decode_plan
from planner.pipeline import plan, replay
from planner.plans.audit import audit
from planner.proposing.buckets.pools import BucketChoice, solve_buckets
from planner.report import summary
from planner.workload import question_of

FEW = {"H20": 3, "H200": 1}
CASES: dict[str, tuple[dict[str, int], dict[str, Any]]] = {
    "hardly anything passes": (FEW, {"network": {"uplinks_gb_s": {"H20": 0.1}}}),
    "some passes": (FEW, {"network": {"uplinks_gb_s": {"H20": 2.0}}}),
    "all passes": (FEW, {"network": {"uplinks_gb_s": {"H20": 10.0}}}),
    "buckets keep types apart": (FEW, {"network": {"uplinks_gb_s": {"H200": 1.0}}, "routing": {"most": 2}}),
    "under levels": ({"H20": 2, "L40S": 2}, {"network": {"uplinks_gb_s": {"L40S": 1.0}}, "slo": LEVELS}),
    "narrow NICs": (FEW, {"network": {"nic_share": 0.01}}),
    "both forms": ({"H20": 2, "H200": 2}, {"network": {"nic_share": 0.01}, "serving": "auto"}),
}


DEAR = {"prices_usd_per_gpu_hour": {"H20": 3.0, "H200": 3.5}}


def chosen(network: dict[str, Any] | None, inventory: dict[str, int] = FEW, **changes: Any) -> BucketChoice:
    return solve_buckets(evaluator_of(inventory, network=network, **changes))


def every_rate(judge: Evaluator) -> list[tuple[float, float]]:
    """(USD/hour, requests/s) of all pools there are, as they serve together."""
    stocks, offers = offers_of(judge)
    service = BucketService(judge.question)
    return [
        (offer.charge_of(answer.pools), service.priced(judge.prices.pools(answer, stocks)).rate_rps)
        for offer, partition in product(offers, judge.prices.partitions)
        for answer in every_choice(offer, partition)
    ]


@pytest.mark.parametrize("name", CASES)
def test_no_pools_serve_more(name: str) -> None:
    inventory, changes = CASES[name]
    judge = evaluator_of(inventory, **changes)
    choice, best = solve_buckets(judge), max(rate for _, rate in every_rate(judge))
    # Token budgets are chosen anew once shares are known: more than the best of the first prices may be served.
    assert choice.priced.rate_rps >= best * (1 - GAP)
    assert choice.priced.rate_rps == BucketService(judge.question).priced(choice.priced.pools).rate_rps
    assert choice.bound >= max(best, choice.priced.rate_rps) * (1 - 1e-6)


@pytest.mark.parametrize(("target_rps", "width"), [(12.0, 0.1), (18.0, 1.0)])
def test_no_pools_reach_a_target_for_less_than_the_bound(target_rps: float, width: float) -> None:
    """Nor does the plan fall short where the programme's pools fill the uplink before, nor where none surely fit."""
    objective = {"kind": "target", "target_rps": target_rps}
    judge = evaluator_of({"H20": 4, "H200": 2}, network={"uplinks_gb_s": {"H20": width}}, objective=objective, **DEAR)
    choice = solve_buckets(judge)
    least = min(usd for usd, rate in every_rate(judge) if rate >= target_rps)
    cost = sum(DEAR["prices_usd_per_gpu_hour"][pool.gpu] * pool.gpus for pool in choice.priced.pools)
    assert choice.priced.rate_rps >= target_rps * (1 - 1e-4)
    assert choice.bound <= least * (1 + 1e-6)
    assert cost == pytest.approx(least, rel=0.01)


def test_a_target_that_rough_rows_miss_is_not_said_to_be_out_of_reach() -> None:
    """14 USD/hour would do: where a search of rows ends without pools, the refusal claims no more than that."""
    objective = {"kind": "target", "target_rps": 18.0}
    prices = {"prices_usd_per_gpu_hour": {"H20": 2.0, "H200": 6.0}}
    asked = evaluator_of({"H20": 4, "H200": 2}, network={"uplinks_gb_s": {"H20": 1.0}}, objective=objective, **prices)
    scenario = asked.question.scenario
    by_formulas = replace(scenario, cost=replace(scenario.cost, engine=""))  # by measured kernels the search finds some
    judge = Evaluator(replace(asked.question, scenario=by_formulas))
    assert min(usd for usd, rate in every_rate(judge) if rate >= 18.0) == 14.0
    with pytest.raises(
        InfeasibleError, match=r"no pools were found that pass 18 requests/s through network\.uplinks_gb_s"
    ):
        solve_buckets(judge)


def test_no_pools_serve_more_per_dollar() -> None:
    """The programme's own pools cross the uplink, and serve next to nothing."""
    network = {"uplinks_gb_s": {"H20": 0.1}}
    judge = evaluator_of({"H20": 4, "H200": 2}, network=network, objective={"kind": "per_dollar"}, **DEAR)
    choice = solve_buckets(judge)
    cost = sum(DEAR["prices_usd_per_gpu_hour"][pool.gpu] * pool.gpus for pool in choice.priced.pools)
    best = max(rate / usd for usd, rate in every_rate(judge))
    assert choice.priced.rate_rps / cost == pytest.approx(best, rel=GAP)
    assert choice.bound >= best * (1 - 1e-6)


def mean_gb(question: Question) -> float:
    """KV cache of a request of the whole mix."""
    model, spans = question.scenario.model, question.workload.ranges
    return sum(span.probability * kv_gb(model, span.mean_input_tokens) for span in spans)


def test_a_server_hands_over_what_its_nics_carry() -> None:
    judge = evaluator_of(FEW, network={"nic_share": 0.01})
    gb = mean_gb(judge.question)
    narrow = {(pool.gpu, pool.phase): pool for pool in solve_buckets(judge).priced.pools}
    assert {phase for _, phase in narrow} == {Phase.PREFILL, Phase.DECODE}
    for (gpu, _), pool in narrow.items():
        nic = judge.question.scenario.inventory.item(gpu).gpu.nic_gb_s
        assert pool.capacity_rps == pytest.approx(min(pool.full_rps, pool.gpus / pool.count * nic * 0.01 / gb))
        assert pool.capacity_rps < pool.full_rps


def shared(question: Question) -> tuple[BucketPool, ...]:
    """Pools of both types in both phases, of one server each."""
    free = replace(question, scenario=replace(question.scenario, network=None))
    prices = Evaluator(free).prices
    return tuple(prices.pool(gpu, phase, 0, 0, 1) for phase in (Phase.PREFILL, Phase.DECODE) for gpu in ("H20", "H200"))


def test_a_router_that_knows_no_types_sends_half_of_the_half_across() -> None:
    """With shares a and b of prefill and decode on H20, a (1 - b) of all KV caches leave it, and (1 - a) b enter it."""
    judge = evaluator_of({"H20": 2, "H200": 2}, network={"nic_share": 1.0})  # decode goes by what its NICs carry
    pools, gb = shared(judge.question), mean_gb(judge.question)
    free = BucketService(judge.question).priced(pools)
    a, b = (next(p.share for p in free.pools if (p.gpu, p.phase) == ("H20", half)) for half in Phase if half != "mixed")
    assert 0.01 < a < 0.99
    assert 0.01 < b < 0.99
    crossing = {"out of": a * (1 - b) * gb, "into": (1 - a) * b * gb}
    way = max(crossing, key=lambda name: crossing[name])
    width = 0.5 * free.rate_rps * crossing[way]
    network = NetworkSettings(nic_share=1.0, switch_gb_s=(("H20", width),))
    narrow = BucketService(replace(judge.question, scenario=replace(judge.question.scenario, network=network)))
    priced = narrow.priced(pools)
    assert priced.rate_rps == pytest.approx(0.5 * free.rate_rps)
    assert (priced.prefill_rps, priced.decode_rps) == pytest.approx((priced.rate_rps, priced.rate_rps))
    assert priced.network_bottleneck == f"uplink {way} H20 islands"
    assert [pool.share for pool in priced.pools] == pytest.approx([pool.share for pool in free.pools])


def test_a_network_that_is_wide_enough_changes_no_pool() -> None:
    """NICs of a thousand times the bandwidth carry all that any server does."""
    for changes in ({"slo": LEVELS}, {"serving": "auto", "routing": {"most": 2}}):
        pools: list[tuple[BucketPool, ...]] = []
        for network in (None, NetworkSettings(switch_gb_s=(("H20", 1e6), ("H200", 1e6)))):
            question = evaluator_of({"H20": 3, "H200": 2}, **changes).question
            items = question.scenario.inventory.items
            fast = tuple(replace(item, gpu=replace(item.gpu, nic_gb_s=1000 * item.gpu.nic_gb_s)) for item in items)
            inventory = replace(question.scenario.inventory, items=fast)
            wide = replace(question.scenario, inventory=inventory, network=network)
            pools.append(solve_buckets(Evaluator(replace(question, scenario=wide))).priced.pools)
        assert pools[0] == pools[1]


@pytest.mark.parametrize(
    ("most", "networks"),
    [
        (1, [None, *({"nic_share": share} for share in (0.03, 0.003))]),
        (1, [None, *({"uplinks_gb_s": {"H20": width}} for width in (2.0, 0.1))]),
        (1, [{"uplinks_gb_s": {"H20": 2.0}}, {"uplinks_gb_s": {"H20": 2.0, "H200": 1.0}}]),
        (2, [None, {"uplinks_gb_s": {"H20": 1.0}}]),
    ],
)
def test_a_narrower_network_never_serves_more(most: int, networks: Sequence[dict[str, Any] | None]) -> None:
    choices = [chosen(network, routing={"most": most}) for network in networks]
    for before, after in pairwise(choices):
        assert after.priced.rate_rps <= before.priced.rate_rps * (1 + GAP)
        assert after.bound <= before.bound * (1 + GAP)


def test_what_is_left_after_a_loss_keeps_to_the_network_too() -> None:
    network = {"uplinks_gb_s": {"H20": 1.0}}
    judge = evaluator_of({"H20": 16, "H200": 8}, network=network, survive={"share": 0.4, "nodes": 1}, slo=LEVELS)
    service, priced = BucketService(judge.question), solve_buckets(judge).priced
    assert all(loss.rate_rps >= 0.4 * priced.rate_rps * (1 - 1e-6) for loss in service.losses(priced.pools, 1))


@pytest.fixture(scope="module")
def told() -> Plan:
    """A whole plan whose uplink holds it back."""
    document = {"model": "qwen3-30b-a3b", "workload": "azure-code-2023", "ranges": {"width": 2048}}
    return plan(bucketed(FEW, **document, routing={"most": 1}, network={"uplinks_gb_s": {"H20": 2.0}}, simplicity=0))


def test_a_plan_tells_who_hands_over_what(told: Plan) -> None:
    assert told.network_bottleneck == "uplink into H20 islands"
    assert f"network: {told.network_bottleneck} is the bottleneck." in summary(told)
    assert "which these figures do not count" not in summary(told)
    sums: dict[tuple[Phase, str], float] = defaultdict(float)
    gpus = {island.id: island.gpu for island in told.islands}
    crossing = 0.0
    for flow in told.flows:
        sums[Phase.PREFILL, flow.prefill] += flow.rate_rps
        sums[Phase.DECODE, flow.decode] += flow.rate_rps
        crossing += flow.gb_s if (gpus[flow.prefill], gpus[flow.decode]) == ("H200", "H20") else 0.0
    assert crossing == pytest.approx(2.0)
    rates = {(route.phase, route.island): route.rate_rps for route in told.routing}
    assert sums == pytest.approx(rates)
    assert told.outlook.promise_rps == pytest.approx(0.9 * told.throughput_rps)
    assert told.certificate is not None
    assert (told.certificate.objective_bound or 0.0) >= told.throughput_rps
    again = decode_plan(encode_plan(told), Path("plan.json"))
    assert (again.flows, again.network_bottleneck) == (told.flows, told.network_bottleneck)


def test_a_replay_keeps_up_to_the_rate_at_which_the_uplink_is_full_and_no_further(told: Plan) -> None:
    """Requests one by one, each cache over the uplink after those before it; the same servers without it go on."""
    settings = ReplaySettings(seeds=(0,), requests=4000)
    free = replace(told, scenario=replace(told.scenario, network=None), flows=())
    medians: dict[tuple[float, str], float] = {}
    for share, (name, through) in product((0.9, 1.2), (("uplink", told), ("free", free))):
        ttft_ms = replay(through, told.scenario.workload, settings, share * told.throughput_rps).total.ttft_ms
        assert ttft_ms is not None
        medians[share, name] = ttft_ms.p50.mean or 0.0
    assert 0 < medians[0.9, "uplink"] < 3 * medians[0.9, "free"]
    assert medians[1.2, "uplink"] > 8 * medians[1.2, "free"] > 0


@pytest.mark.parametrize("busy", [0.3, 0.6, 0.85])
def test_the_wait_for_an_uplink_is_that_of_a_simulated_queue(busy: float) -> None:
    """Caches come by chance and wait for those before them: Lindley's recursion, a million of them."""
    gb, parts = np.array([0.02, 0.1, 0.4]), np.array([0.3, 0.15, 0.05])
    load = UplinkLoad(name="", gb_s=2.0, parts=parts, gb=gb, spans=np.zeros(3))
    rate, random = busy * load.full_rps, np.random.default_rng(0)
    seconds = random.choice(gb, size=1_000_000, p=parts / parts.sum()) / load.gb_s
    gaps = random.exponential(1 / (rate * parts.sum()), size=len(seconds))
    walk = np.concatenate([[0.0], np.cumsum(seconds[:-1] - gaps[1:])])
    delays_ms = 1000 * (walk - np.minimum.accumulate(walk) + seconds)
    assert load.delay_ms(rate, None) == pytest.approx(delays_ms.mean(), rel=0.03)
    assert load.delay_ms(rate, 0.01) == pytest.approx(np.quantile(delays_ms, 0.99), rel=0.1)
    assert load.delay_ms(load.full_rps, 0.01) == math.inf


def test_the_promise_under_a_bound_on_ttft_counts_the_wait_for_the_uplink() -> None:
    """One GPU a type, so that every cache crosses: without the wait P99 is 7 s at a promise of 1.5 s."""
    network, levels = {"uplinks_gb_s": {"H20": 0.8}}, {**LEVELS, "ttft_ms": 1500}
    finished = plan(evaluator_of({"H20": 1, "H200": 1}, slo=levels, network=network).question.scenario)
    settings = ReplaySettings(seeds=(0,), requests=4000)
    ttft_ms = replay(finished, finished.scenario.workload, settings, finished.outlook.promise_rps).total.ttft_ms
    assert ttft_ms is not None
    assert finished.network_bottleneck
    assert 0.5 * levels["ttft_ms"] < (ttft_ms.p99.mean or 0.0) <= levels["ttft_ms"]


def test_a_plan_whose_uplink_carries_more_is_refused(told: Plan) -> None:
    question = question_of(told.scenario)
    audit(told, question.workload)
    network = NetworkSettings(switch_gb_s=(("H20", 1.9),))
    with pytest.raises(InconsistentPlanError, match=r"the uplink of H20 carries 2 GB/s, its capacity is 1\.9"):
        audit(replace(told, scenario=replace(told.scenario, network=network)), question.workload)
    less = (replace(told.flows[0], rate_rps=0.5 * told.flows[0].rate_rps, gb_s=0.5 * told.flows[0].gb_s),)
    with pytest.raises(InconsistentPlanError, match="are not its routes"):
        audit(replace(told, flows=(*less, *told.flows[1:])), question.workload)


def test_a_rival_is_said_to_be_limited_by_its_nics() -> None:
    judge = evaluator_of(FEW, network={"nic_share": 0.001})
    priced: PricedPools = solve_buckets(judge).priced
    for pool in priced.pools:
        rivals = rival_servers(judge.prices, PoolPlace.of(pool, 0, 0.0))
        assert {rival.limit for rival in rivals} == {Limit.NIC}
