"""A fleet that runs is changed as little as will do: every division looked at, every step's nodes counted."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import product
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
import yaml
from small_fleets import FLEET, small_fleet

from planner import pipeline
from planner.domain import Plan
from planner.domain.fleets import FleetAim, FleetObjective, FleetPlan, FleetScenario
from planner.domain.serving.fleets.changes import DeploymentChange, FleetChange, FleetTerms
from planner.domain.stocks import Stock
from planner.errors import InfeasibleError, InputError
from planner.files import encode_plan
from planner.files.scenario.fleets import fleet_from_document
from planner.files.scenario.settings import Setting, with_settings
from planner.proposing.fleets.deployments import deployments_of
from planner.proposing.fleets.dividing import DividedFleet, SharePlans, worth_of_rates
from planner.replanning.fleets import near_divisions
from planner.replanning.fleets.near_divisions import near_division
from planner.replanning.fleets.standing import standing_nodes
from planner.workload import summarize

if TYPE_CHECKING:
    from planner.assignment import NodePrices
    from planner.proposing.fleets.dividing import FleetPricing

NODE = 8
GPUS = ("H20", "H200")
PLANS_DIFFER = 0.003
"""What two ways to a plan may differ by: the gap of a search."""

Shares = tuple[tuple[int, int], tuple[int, int]]
"""GPUs of chat and of oss, by type."""


def asked(**values: Any) -> FleetScenario:
    """The small fleet's question with keys set anew, a dot written as two underscores."""
    settings = [Setting(key.replace("__", "."), value) for key, value in values.items()]
    document = with_settings(yaml.safe_load(FLEET), settings, "the tests")
    return fleet_from_document(document, origin="the tests", base=Path.cwd(), summarize=summarize)


@cache
def changed(number: int) -> FleetChange:
    """The small fleet changed, once a process."""
    values, terms = CHANGES[number]
    return pipeline.replan_fleet(small_fleet(), asked(**values), FleetTerms(**terms))


@cache
def share_plans() -> SharePlans:
    """Plans of services by themselves, once a process."""
    return SharePlans(deployments_of(small_fleet().fleet))


@cache
def rate_alone(place: int, gpus: tuple[int, int]) -> float:
    """What the plan of a service by itself promises on so many GPUs."""
    deployment, stocks = deployments_of(small_fleet().fleet)[place], [Stock(gpu=gpu, units=16) for gpu in GPUS]
    return share_plans().rate(place, stocks, gpus)[0] * deployment.promised


def divisions() -> Iterator[Shares]:
    """All of two nodes of each type among two services; some may be left."""
    counts = list(product((0, 8, 16), repeat=2))
    for chat, oss in product(counts, repeat=2):
        if all(a + b <= 16 for a, b in zip(chat, oss, strict=True)):
            yield chat, oss


def moved(old: Shares, new: Shares) -> int:
    """Nodes that change hands."""
    total = 0
    for t in range(2):
        more = [b[t] - a[t] for a, b in zip(old, new, strict=True)]
        total += max(sum(n for n in more if n > 0), -sum(n for n in more if n < 0))
    return total // NODE


def value(fleet: FleetScenario, shares: Shares) -> float:
    """Of a division, the more the better: the multiple, the rent that is not paid, or requests by weight."""
    promised = [rate_alone(place, gpus) for place, gpus in enumerate(shares)]
    demands = [service.demand_rps for service in fleet.interactive]
    match fleet.objective.kind:
        case FleetAim.MULTIPLE:
            return min(rps / demand for rps, demand in zip(promised, demands, strict=True))
        case FleetAim.TARGET:
            short = any(rps < demand for rps, demand in zip(promised, demands, strict=True))
            return float("-inf") if short else -sum(h20 + 4 * h200 for h20, h200 in shares)
        case _:
            weights = [service.weight for service in fleet.interactive]
            return sum(w * min(r, d) for w, r, d in zip(weights, promised, demands, strict=True))


def shares_of(gpus: Mapping[str, Mapping[str, int]] | FleetPlan) -> Shares:
    rows = {part.name: dict(part.gpus) for part in gpus.parts} if isinstance(gpus, FleetPlan) else gpus
    chat, oss = (tuple(rows.get(name, {}).get(gpu, 0) for gpu in GPUS) for name in ("chat", "oss"))
    return (chat[0], chat[1]), (oss[0], oss[1])


@pytest.mark.parametrize(("kind", "demands"), [("multiple", (60, 20)), ("target", (250, 200))])
def test_no_division_as_good_moves_fewer_nodes(kind: str, demands: tuple[float, float]) -> None:
    saved = small_fleet()
    fleet = asked(services__chat__demand=demands[0], services__oss__demand=demands[1])
    fleet = replace(fleet, objective=FleetObjective(kind=FleetAim(kind)))
    standing = standing_nodes(saved, fleet, FleetTerms())
    near = near_division(fleet, deployments_of(fleet), standing.gpus, {}, lambda _: None)

    names = [deployment.name for deployment in deployments_of(fleet)]
    old, chosen = shares_of(saved), shares_of(dict(zip(names, near.division.gpus, strict=True)))
    worths = {shares: value(fleet, shares) for shares in divisions()}
    best = max(worths.values())
    good = {s for s, worth in worths.items() if worth >= best - (0.01 - PLANS_DIFFER) * abs(best)}
    assert worths[chosen] >= best - (0.01 + PLANS_DIFFER) * abs(best)
    assert moved(old, chosen) == sum(n for _, n in near.moved) // NODE <= min(moved(old, shares) for shares in good)
    assert abs(near.division.value) == pytest.approx(abs(worths[chosen]), rel=PLANS_DIFFER)


NODES = 3
"""Of each type, of fleets whose rates are drawn."""


def drawn_rates(draw: random.Random) -> dict[tuple[int, int], float]:
    """Of a deployment on any number of nodes: no less on more of them, and nothing on too few."""
    slopes, smallest = [draw.uniform(0, 10) for _ in GPUS], draw.uniform(0, 15)
    rates: dict[tuple[int, int], float] = {}
    for counts in product(range(NODES + 1), repeat=2):
        rate = sum(slope * n for slope, n in zip(slopes, counts, strict=True)) * draw.uniform(0.9, 1)
        fewer = [(counts[0] - 1, counts[1]), (counts[0], counts[1] - 1)]
        rates[counts] = max([rate if rate > smallest else 0.0, *(rates.get(less, 0.0) for less in fewer)])
    return rates


@cache
def drawn_fleet(kind: FleetAim) -> FleetScenario:
    """Three services whose rates are drawn."""
    rows = [
        {"name": f"s{j}", "model": "gpt-oss-20b", "demand": 4 * j + 3, "weight": j + 1, "priority": 1 + j // 2}
        for j in range(3)
    ]
    document = {**yaml.safe_load(FLEET), "inventory": dict.fromkeys(GPUS, NODES * NODE), "services": rows}
    fleet = fleet_from_document(document, origin="drawn", base=Path.cwd(), summarize=summarize)
    return replace(fleet, objective=FleetObjective(kind=kind))


@pytest.mark.parametrize("kind", list(FleetAim))
@pytest.mark.parametrize("seed", range(20))
def test_nor_of_drawn_rates(kind: FleetAim, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw, fleet = random.Random(f"{kind}{seed}"), drawn_fleet(kind)
    deployments, tables = deployments_of(fleet), [drawn_rates(draw) for _ in range(3)]

    def rate(j: int, gpus: tuple[int, ...]) -> float:
        return tables[j][gpus[0] // NODE, gpus[1] // NODE]

    def worth(shares: tuple[tuple[int, ...], ...]) -> tuple[tuple[float, ...], float]:
        rent = sum(h20 + 4 * h200 for h20, h200 in shares)
        return worth_of_rates(fleet, deployments, [rate(j, gpus) for j, gpus in enumerate(shares)], rent)

    def far(shares: tuple[tuple[int, ...], ...]) -> int:
        total = 0
        for t in range(2):
            more = [b[t] - a[t] for a, b in zip(old, shares, strict=True)]
            total += max(sum(n for n in more if n > 0), -sum(n for n in more if n < 0))
        return total

    by_type = [c for c in product(range(NODES + 1), repeat=3) if sum(c) <= NODES]
    every = [tuple((a[j] * NODE, b[j] * NODE) for j in range(3)) for a, b in product(by_type, repeat=2)]
    worths = {shares: worth(shares) for shares in every}
    best = max(every, key=lambda shares: worths[shares])
    old = draw.choice(every)
    if not isfinite(worths[best][1]):
        return  # such demands are refused before
    goal = DividedFleet(
        pricing=cast("FleetPricing", None),
        gpus=tuple(dict(zip(GPUS, gpus, strict=True)) for gpus in best),
        rates_rps=tuple(rate(j, gpus) for j, gpus in enumerate(best)),
        value=worths[best][1],
        bound=0.0,
        prices=cast("NodePrices", None),
    )
    monkeypatch.setattr(near_divisions, "best_division", lambda *_: goal)
    monkeypatch.setattr(near_divisions.SharePlans, "rate", lambda _, j, __, gpus: (rate(j, gpus), None))
    standing = {f"s{j}": dict(zip(GPUS, gpus, strict=True)) for j, gpus in enumerate(old)}
    near = near_division(fleet, deployments, standing, {}, lambda _: None)

    top = worths[best][0]
    good = [
        shares
        for shares, (rank, reached) in worths.items()
        if isfinite(reached) and all(a >= b - 0.01 * abs(b) for a, b in zip(rank, top, strict=True))
    ]
    fewest = min(map(far, good))
    assert sum(count for _, count in near.moved) == fewest
    assert near.division.value == max(worths[shares] for shares in good if far(shares) == fewest)[1]
    assert sum(count for _, count in near.best_moved) == far(best)


CHANGES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"services__chat__demand": 60}, {}),
    ({"services__oss__demand": 40}, {"meanwhile": {"H20": 24}}),
    ({}, {"lost": {"H20": 8}}),
    ({}, {"lost_of": {"chat": {"H200": 8}}, "least_share": 0.0}),
    ({"inventory__H20": 24}, {}),
]


MORE_CHAT, LENT, NEW_NODE = 1, 2, 5


def nodes_in_use(plan: Plan, counts: Mapping[str, int]) -> dict[str, int]:
    """GPUs of the nodes that servers of a plan's islands lie on."""
    gpus: dict[str, int] = {}
    for pool in plan.outlook.pools:
        gpus[pool.gpu] = gpus.get(pool.gpu, 0) + counts.get(pool.island, 0) * pool.server.parallel.devices
    return {gpu: -(-n // NODE) * NODE for gpu, n in gpus.items() if n}


def pools(plan: Plan | None) -> dict[str, tuple[str, int, int]]:
    rows = () if plan is None else plan.outlook.pools
    return {pool.island: (pool.gpu, pool.server.parallel.devices, pool.count) for pool in rows}


def run_through(row: DeploymentChange, own_step: int) -> list[dict[str, int]]:
    """GPUs of nodes that a deployment's servers lie on before a step of its own, when its stops are done, and after."""
    old = row.replan.before if row.replan is not None else None if row.before is None else row.before.plan
    new = None if row.after is None else row.after.plan
    known = pools(old) | pools(new)
    counts = {island: count for island, (_, _, count) in pools(old).items()}
    states = [dict(counts)]
    assert row.roll_out is not None
    for step in row.roll_out.steps[:own_step]:
        for side, sign in ((step.stops, -1), (step.starts, 1)):
            for item in side:
                role = item.before if sign < 0 else item.after
                assert role is not None
                counts[role.island] = counts.get(role.island, 0) + sign * item.count
            states.append(dict(counts))
    assert all(count >= 0 for state in states for count in state.values())
    gpus = []
    for state in states:
        used: dict[str, int] = {}
        for island, count in state.items():
            gpu, devices, _ = known[island]
            used[gpu] = used.get(gpu, 0) + count * devices
        gpus.append({gpu: -(-n // NODE) * NODE for gpu, n in used.items() if n})
    return gpus


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_nodes_are_free_before_somebody_takes_them(number: int) -> None:
    change, (values, terms) = changed(number), CHANGES[number]
    rows = {row.name: row for row in change.deployments}
    there = dict(asked(**values).inventory.counts)
    for lost in (terms.get("lost", {}), *terms.get("lost_of", {}).values()):
        there |= {gpu: there[gpu] - count for gpu, count in lost.items()}
    there |= terms.get("meanwhile", {})
    done = dict.fromkeys(rows, 0)
    for step in change.steps:
        stopped, after = dict.fromkeys(GPUS, 0), dict.fromkeys(GPUS, 0)
        moving = [name for name, _ in step.moves]
        for name, row in rows.items():
            if name in moving:
                done[name] += 1
                assert dict(step.moves)[name] == row.roll_out.steps[done[name] - 1]  # type: ignore[union-attr]
            states = [dict(row.before.gpus)] * 2 if row.stays and row.before else run_through(row, done[name])
            during = states[-2] if name in moving else states[-1]
            for gpu in GPUS:
                stopped[gpu] += during.get(gpu, 0)
                after[gpu] += states[-1].get(gpu, 0)
        assert all(max(stopped[gpu], after[gpu]) <= there[gpu] for gpu in GPUS)
    for name, row in rows.items():
        assert done[name] == (0 if row.roll_out is None else len(row.roll_out.steps))
        if row.after is not None and row.roll_out is not None:
            ends = {island: count for island, (_, _, count) in pools(row.after.plan).items()}
            assert run_through(row, done[name])[-1] == nodes_in_use(row.after.plan, ends)
    assert change.reached_share >= change.least_share * (1 - 1e-6)


def test_what_is_asked_as_before_stays_byte_for_byte() -> None:
    saved = small_fleet()
    change = changed(0)
    assert (change.steps, change.running_on_share) == ((), 1)
    assert sum(n for _, n in change.moved_gpus) == 0
    assert [encode_plan(part.plan) for part in change.plan.plans] == [encode_plan(part.plan) for part in saved.plans]
    assert change.plan.value == saved.value


def test_who_gives_and_gets_nothing_keeps_its_plan() -> None:
    change = changed(NEW_NODE)
    rows = {row.name: row for row in change.deployments}
    assert (rows["chat"].stays, rows["oss"].stays) == (True, False)
    assert rows["oss"].servers_running_on == rows["oss"].servers_before
    assert dict(change.plan.part("oss").gpus) == {"H20": 16, "H200": 8}


def test_promises_of_a_step_are_of_what_runs_then() -> None:
    change = changed(MORE_CHAT)
    old, new = ({row.service: row.promised_rps for row in plan.shares} for plan in (small_fleet(), change.plan))
    lower = {name: min(old[name], new[name]) for name in old}
    assert dict(change.lower_rps) == pytest.approx(lower, rel=1e-6)
    for step in change.steps:
        moves = dict(step.moves)
        for name, rps in step.promised_rps:
            if name in moves:
                assert rps == pytest.approx(0.9 * moves[name].during_rps)
    shares = [rps / lower[name] for step in change.steps for name, rps in step.promised_rps]
    assert change.reached_share == pytest.approx(min(shares))


def test_a_share_that_no_order_leaves_is_refused_with_what_would_do() -> None:
    with pytest.raises(InfeasibleError, match=r"at best 0\.0% can be left") as refusal:
        pipeline.replan_fleet(small_fleet(), asked(services__oss__demand=40))
    assert "--least-share 0 " in refusal.value.hint
    assert "--meanwhile H20=24" in refusal.value.hint
    assert changed(LENT).reached_share >= 0.9  # with these lent meanwhile


def test_lost_nodes_are_of_whom_one_says() -> None:
    saved, fewer = small_fleet(), asked(inventory__H20=8)
    named = standing_nodes(saved, fewer, FleetTerms(lost_of={"chat": {"H20": 8}}))
    assert (named.gone, named.guessed, named.short) == ({"chat": {"H20": 8}, "oss": {}}, False, ())
    guess = standing_nodes(saved, fewer, FleetTerms(lost={"H20": 8}))
    assert (guess.gone, guess.guessed, guess.short) == ({"chat": {}, "oss": {"H20": 8}}, True, ())
    unsaid = standing_nodes(saved, fewer, FleetTerms())
    assert (unsaid.gone, unsaid.guessed, unsaid.short) == (guess.gone, False, ("H20",))
    lent = standing_nodes(saved, fewer, FleetTerms(meanwhile={"H20": 16}))
    assert (lent.gone, lent.short) == ({"chat": {}, "oss": {}}, ())


def test_services_come_and_go() -> None:
    document = yaml.safe_load(FLEET)
    document["services"] = [
        {**document["services"][0], "demand": 20},
        {"name": "fresh", "model": "gpt-oss-20b", "demand": 20},
    ]
    fleet = fleet_from_document(document, origin="the tests", base=Path.cwd(), summarize=summarize)
    change = pipeline.replan_fleet(small_fleet(), fleet)
    rows = {row.name: row for row in change.deployments}
    assert (rows["oss"].after, rows["fresh"].before) == (None, None)
    assert rows["chat"].stays
    assert dict(change.lower_rps) == {"chat": pytest.approx(change.plan.shares[0].promised_rps)}
    assert {name for step in change.steps for name, _ in step.moves} == {"oss", "fresh"}
    assert change.reached_share == 1


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"lost": {"H20": 24}}, "at most the inventory's 16 GPUs, got 24"),
        ({"lost": {"H20": 4}}, "whole nodes of 8 GPUs"),
        ({"lost": {"A100": 8}}, "at most the inventory's 0 GPUs"),
        ({"lost_of": {"chat": {"H20": 16}}}, "at most the 8 GPUs that the deployment has, got 16"),
        ({"lost": {"H20": 16, "H200": 16}}, "must leave a GPU"),
        ({"meanwhile": {"H20": 8}}, "at least the inventory's 16"),
        ({"least_share": 1.5}, "from 0 to 1, got 1.5"),
    ],
)
def test_terms_that_do_not_suit_the_fleet_are_refused(terms: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as refusal:
        pipeline.replan_fleet(small_fleet(), asked(), FleetTerms(**terms))
    assert refusal.value.hint


def test_batches_give_first_and_take_what_is_left_then() -> None:
    """Chat needs a node of another type, and gives one of its own: the batch, whose requests wait, is in between."""
    services = {"services__chat__demand": 150, "services__oss__demand": 100, "objective": {"kind": "target"}}
    change = pipeline.replan_fleet(
        pipeline.plan_fleet(asked(**services)), asked(**{**services, "services__chat__demand": 300})
    )
    assert {name: dict(counts) for name, counts in change.steps[0].nodes} == {
        "chat": {"H200": 8},
        "nightly": {"H200": -8},
    }
    assert {name: dict(counts) for name, counts in change.steps[-1].nodes} == {
        "chat": {"H20": -8},
        "nightly": {"H20": 8},
    }
    assert change.reached_share >= 1 - 1e-9
    rows = {row.name: row for row in change.deployments}
    assert rows["chat"].replan is not None  # near what runs, not from scratch
    assert rows["oss"].stays


def test_what_replays_judge_is_not_changed() -> None:
    with pytest.raises(InputError, match=r"objective\.judged: must be formula where a fleet is changed, got replayed"):
        pipeline.replan_fleet(small_fleet(), asked(objective={"judged": "replayed"}))
