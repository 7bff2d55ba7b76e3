"""Tiny fleets planned the long way: every division of whole nodes, each service planned by itself on its share."""

import json
import math
import random
import re
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, cast

import pytest

from planner import pipeline
from planner.domain import Plan
from planner.domain.fleets import FleetPlan, FleetScenario
from planner.errors import InfeasibleError, InputError
from planner.files import encode_plan
from planner.files.scenario.fleets import fleet_from_document
from planner.files.scenario.scenarios import scenario_from_document
from planner.proposing.fleets import dividing
from planner.proposing.fleets.deployments import deployments_of
from planner.workload import summarize

SLO = {"ttft_ms": 2000, "tpot_ms": 40, "percentile": 95}
SMALL, OTHER = "qwen3-30b-a3b-fp8", "gpt-oss-20b"
CONV, CODE = "azure-conv-2023", "azure-code-2023"
FULL = {"H20": 16, "H200": 8}
"""Two nodes and one."""

COMMON: dict[str, Any] = {
    "engine": {"name": "vllm", "version": "0.33.0"},
    "prices_usd_per_gpu_hour": {"H20": 1, "H200": 4},
    "routing": {"most": 1},
    "serving": "aggregated",
}
PLANS_DIFFER = 0.002
"""The gap of a search: what a plan may lack of the best."""


def service(name: str, model: str, workload: str, demand: float, **more: object) -> dict[str, Any]:
    return {"name": name, "model": model, "workload": workload, "slo": SLO, "demand": demand, **more}


def fleet_of(*services: dict[str, Any], inventory: dict[str, int] | None = None, **objective: object) -> FleetScenario:
    document = {**COMMON, "name": "tiny", "inventory": inventory or FULL, "services": list(services)}
    if objective:
        document["objective"] = objective
    return fleet_from_document(document, origin="tiny.yaml", base=Path(), summarize=summarize)


def chat_and_code(
    chat_rps: float, code_rps: float, *, chat: object = 1, code: object = 1, key: str = "priority"
) -> tuple[dict[str, Any], ...]:
    return (
        service("chat", SMALL, CONV, chat_rps, **{key: chat}),
        service("code", OTHER, CODE, code_rps, **{key: code}),
    )


@cache
def rate_alone(name: str, model: str, workload: str, gpus: tuple[tuple[str, int], ...]) -> float:
    """What a service's own plan promises on so many GPUs, asked as an ordinary scenario."""
    items = {gpu: n for gpu, n in gpus if n}
    if not items:
        return 0.0
    document = {**COMMON, "name": name, "model": model, "workload": workload, "slo": SLO, "inventory": items}
    document["prices_usd_per_gpu_hour"] = {gpu: price for gpu, price in (("H20", 1), ("H200", 4)) if gpu in items}
    scenario = scenario_from_document(document, origin=name, base=Path(), summarize=summarize)
    try:
        return pipeline.plan(scenario).throughput_rps * scenario.routing.margin
    except InfeasibleError:
        return 0.0


def divisions() -> list[tuple[float, tuple[float, float]]]:
    """(rent, what is promised to chat and code) of every division of the nodes; some may be left."""
    rows = []
    for (a, b), (c, d) in product(product((0, 8, 16), (0, 8)), repeat=2):
        if a + c <= FULL["H20"] and b + d <= FULL["H200"]:
            chat = rate_alone("chat", SMALL, CONV, (("H20", a), ("H200", b)))
            code = rate_alone("code", OTHER, CODE, (("H20", c), ("H200", d)))
            rows.append((float(a + c + 4 * (b + d)), (chat, code)))
    return rows


def planned(*services: dict[str, Any], **more: Any) -> FleetPlan:
    return pipeline.plan_fleet(fleet_of(*services, **more))


def require_whole(plan: FleetPlan) -> None:
    """Every part lies on whole nodes, all parts within the inventory; shares follow from the parts' plans."""
    used = {gpu: sum(dict(part.gpus).get(gpu, 0) for part in plan.plans) for gpu in FULL}
    for item in plan.fleet.inventory.items:
        assert used.get(item.gpu.name, 0) <= item.count
    assert all(count % 8 == 0 for part in plan.plans for _, count in part.gpus)
    for part in plan.plans:
        inventory = {item.gpu.name: item.count for item in part.plan.scenario.inventory.items}
        assert inventory == dict(part.gpus)
    for share in plan.shares:
        assert share.promised_rps == pytest.approx(sum(part.promised_to(share.service) for part in plan.parts))


def test_no_division_has_a_larger_multiple() -> None:
    plan = planned(*chat_and_code(30, 40))
    truth = max(min(chat / 30, code / 40) for _, (chat, code) in divisions())
    require_whole(plan)
    assert plan.value >= truth * (1 - PLANS_DIFFER)
    assert plan.bound >= truth
    assert plan.value == pytest.approx(min(share.share for share in plan.shares))


def test_no_division_that_meets_the_demands_is_cheaper() -> None:
    plan = planned(*chat_and_code(30, 40), kind="target")
    truth = min(rent for rent, (chat, code) in divisions() if chat >= 30 and code >= 40)
    require_whole(plan)
    assert plan.value == truth == plan.rent_usd_per_hour
    assert all(share.share >= 1 - 1e-4 for share in plan.shares)
    assert sum(share.rent_usd_per_hour or 0.0 for share in plan.shares) == pytest.approx(truth)


@pytest.mark.parametrize("chat_weight", [0.2, 1.0, 5.0])
def test_no_division_serves_more_by_weight(chat_weight: float) -> None:
    plan = planned(*chat_and_code(300, 200, chat=chat_weight, key="weight"), kind="weighted")
    truth = max(chat_weight * min(chat, 300) + min(code, 200) for _, (chat, code) in divisions())
    assert plan.value >= truth * (1 - PLANS_DIFFER)
    assert plan.bound >= truth


@pytest.mark.parametrize(("chat", "code"), [(1, 2), (2, 1), (1, 1)])
def test_who_goes_first_is_served_first(chat: int, code: int) -> None:
    demands = 150, 250
    plan = planned(*chat_and_code(*demands, chat=chat, code=code), kind="priority")
    shares = [tuple(min(1.0, r / d) for r, d in zip(rates, demands, strict=True)) for _, rates in divisions()]
    ranks = {(1, 2): (0, 1), (2, 1): (1, 0)}
    if chat == code:
        truth = [max(min(pair) for pair in shares)]
        served = [min(min(1.0, share.share) for share in plan.shares)]
    else:
        first, then = ranks[chat, code]
        truth = list(max((round(pair[first], 3), pair[then]) for pair in shares))
        served = [min(1.0, plan.shares[first].share), min(1.0, plan.shares[then].share)]
    assert served == pytest.approx(truth, abs=PLANS_DIFFER)
    assert plan.bound >= plan.value - 1e-9
    assert plan.value == pytest.approx(sum(truth), abs=2 * PLANS_DIFFER)


def test_one_service_has_the_plan_that_it_would_have_by_itself() -> None:
    common = {**COMMON, "inventory": FULL, "model": SMALL, "workload": CONV, "slo": SLO}
    fleet = fleet_from_document(
        {**common, "name": "fleet", "services": [{"name": "X", "demand": 30}]},
        origin="fleet.yaml",
        base=Path(),
        summarize=summarize,
    )
    document = {**common, "name": "X", "objective": {"demand_rps": 30}}
    alone = scenario_from_document(document, origin="x.yaml", base=Path(), summarize=summarize)
    plan = pipeline.plan_fleet(fleet)
    assert _told(plan) == _document(pipeline.plan(alone))
    assert plan.value == pytest.approx(plan.parts[0].promise_rps / 30)


def _told(plan: FleetPlan) -> dict[str, Any]:
    (part,) = plan.parts
    return _document(part.plan)


def _document(plan: Plan) -> dict[str, Any]:
    """A plan's document but for the files it came from, the seconds it took, and what is derived from these."""
    document = cast("dict[str, Any]", json.loads(encode_plan(plan)))
    del document["digests"], document["provenance"]["inputs_sha256"]
    for each in document["search"]["rounds"]:
        del each["generation_cpu_s"]
    return document


def test_shared_pools_are_taken_where_they_serve_more() -> None:
    services = service("chat", SMALL, CONV, 30), service("agents", SMALL, CODE, 10)
    apart = planned(*services)
    together = planned(services[0], {**services[1], "shares": "chat"})
    assert together.value >= apart.value * (1 - PLANS_DIFFER)
    (part,) = together.parts
    assert part.name == "chat-and-agents"
    assert [share.share for share in together.shares] == pytest.approx([together.value] * 2)


def test_unlike_services_do_not_share() -> None:
    with pytest.raises(InputError, match=r"fleet tiny: services: code: shares: .* same model, chat has another") as bad:
        planned(service("chat", SMALL, CONV, 1), service("code", OTHER, CODE, 1, shares="chat"))
    assert bad.value.hint == "Leave out shares, or give code what chat has."


def test_batches_take_what_others_leave() -> None:
    batch = {"name": "night", "model": OTHER, "workload": CODE, "batch": {"tokens_a_day": 1e9}}
    plan = planned(*chat_and_code(10, 10), batch, kind="target")
    (fill,) = plan.batches
    assert fill.part is not None
    require_whole(plan)
    taken = [part.gpus for part in plan.parts]
    left = {gpu: n - sum(dict(gpus).get(gpu, 0) for gpus in taken) for gpu, n in FULL.items()}
    assert dict(fill.part.gpus) == {gpu: n for gpu, n in left.items() if n}
    assert not plan.idle
    workload = fill.part.plan.scenario.workload
    tokens = workload.mean_input_tokens + workload.mean_output_tokens
    assert fill.tokens_a_day == pytest.approx(86_400 * tokens * fill.part.promise_rps)
    assert fill.asked_tokens_a_day == 1e9


@pytest.mark.parametrize("objective", [{"kind": "target"}, {"kind": "weighted", "floor": 0.9}])
def test_what_is_short_says_how_far_and_what_to_add(objective: dict[str, Any]) -> None:
    services = chat_and_code(300, 400)
    with pytest.raises(InfeasibleError, match=r"fleet tiny: services: the .* cannot be met together") as short:
        planned(*services, **objective)
    best = max(min(chat / 300, code / 400) for _, (chat, code) in divisions())
    assert f"at most {100 * best:.3g} %" in short.value.message
    added = {gpu: int(n) for n, gpu in re.findall(r"(\d+) (H\w+)", short.value.hint.partition("(")[0])}
    assert added
    grown = {gpu: n + added.get(gpu, 0) for gpu, n in FULL.items()}
    plan = planned(*services, inventory=grown, **objective)
    assert all(share.share >= objective.get("floor", 1.0) * (1 - 1e-4) for share in plan.shares)


def test_checkpoints_of_one_model_are_as_good_as_the_best_of_them() -> None:
    names = ["qwen3-235b-a22b-fp8", "qwen3-235b-a22b-nvfp4"]
    values = []
    for model in ({"checkpoints": names}, *names):
        document = {
            "name": "mixed",
            "engine": COMMON["engine"],
            "inventory": {"H200": 16, "DGX-B200": 16},
            "services": [service("chat", SMALL, CONV, 10) | {"model": model}],
        }
        fleet = fleet_from_document(document, origin="mixed.yaml", base=Path(), summarize=summarize)
        values.append(pipeline.plan_fleet(fleet))
    both, alone = values[0], values[1:]
    assert both.value >= max(plan.value for plan in alone) * (1 - PLANS_DIFFER)
    on_blackwell = [part for part in both.parts if "DGX-B200" in dict(part.gpus)]
    assert [part.plan.scenario.model.name for part in on_blackwell] == [names[1]]


@pytest.mark.parametrize("kind", ["multiple", "priority", "weighted", "target"])
@pytest.mark.parametrize("seed", range(3))
def test_plans_that_serve_less_than_was_thought_are_divided_anew(
    seed: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each share a plan is made to serve a drawn part of what it can, and no less than of smaller shares: the best
    division by these is still found, and no bound is below it."""
    source, demands = random.Random(seed), (250.0, 250.0) if kind == "priority" else (100.0, 100.0)
    shares = list(product((0, 8, 16), (0, 8)))
    tables = []
    for name, model, workload in (("chat", SMALL, CONV), ("code", OTHER, CODE)):
        full = {
            g: source.uniform(0.3, 1) * rate_alone(name, model, workload, (("H20", g[0]), ("H200", g[1])))
            for g in shares
        }
        tables.append({g: max(r for s, r in full.items() if s[0] <= g[0] and s[1] <= g[1]) for g in shares})
    fleet = fleet_of(*chat_and_code(*demands, chat=1, code=2), kind=kind)
    deployments = deployments_of(fleet)
    monkeypatch.setattr(
        dividing.SharePlans, "rate", lambda _, j, __, gpus: (tables[j][gpus] / deployments[j].promised, None)
    )
    pairs = [
        (a + c + 4.0 * (b + d), (tables[0][a, b] / demands[0], tables[1][c, d] / demands[1]))
        for (a, b), (c, d) in product(shares, repeat=2)
        if a + c <= FULL["H20"] and b + d <= FULL["H200"]
    ]
    met = [rent for rent, pair in pairs if min(pair) >= 1]
    first = max(min(1.0, chat) for _, (chat, _) in pairs)
    truth = {
        "multiple": max(min(pair) for _, pair in pairs),
        "weighted": max(100 * (min(1.0, chat) + min(1.0, code)) for _, (chat, code) in pairs),
        "priority": first + max(min(1.0, code) for _, (chat, code) in pairs if chat >= first * (1 - 1e-3)),
        "target": min(met, default=math.inf),
    }[kind]
    if math.isinf(truth):
        with pytest.raises(InfeasibleError):
            dividing.divided(fleet, deployments)
        return
    division = dividing.divided(fleet, deployments)
    assert division.value == pytest.approx(truth, rel=PLANS_DIFFER)
    sign = -1.0 if kind == "target" else 1.0
    assert sign * division.bound >= sign * truth * (1 - sign * 1e-3)
