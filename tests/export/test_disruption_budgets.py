"""PodDisruptionBudgets against brute force: whoever uses all of them at once, on whichever copies, leaves what the plan
promises; and mistakes in them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import pytest
from export_plans import gpu, island, plan_of
from hypothesis import given
from hypothesis import strategies as st
from quick_yaml import load_documents

from planner.domain import (
    BucketPlan,
    BucketPool,
    NodeLoss,
    ParallelConfig,
    Phase,
    Plan,
    Route,
    ServerConfig,
    SurvivalSettings,
    halves_of,
)
from planner.export import find_faults, read_manifests, render
from planner.export.objects.operating.allowances import _priced_copies, _spare_copies, budgets_of, crews_of

FILE = "disruption-budgets.yaml"
RATE = 100.0
Row = tuple[Phase, int, int, float, int]
"""Phase, bucket (0 or 1), copies, requests/s of one of them, copies that the plan was priced to lose."""


def bucket_plan(rows: Sequence[Row], share: float, gpus: int = 8) -> Plan:
    """A plan with a pool for each row, at half of what its buckets can serve; one server fills a node."""
    shape = ParallelConfig(tp=gpus, dp=1)
    spans = ((0, 2048), (2048, 4096))
    capacity = {
        (phase, at): sum(n * c for p, b, n, c, _ in rows if b == at and phase in halves_of(p))
        for phase in Phase
        for at in (0, 1)
    }
    islands, pools, routes, losses = [], [], [], []
    for number, (phase, at, copies, each, priced) in enumerate(rows):
        name = f"H20-{number}"
        islands.append(island(name, "H20", phase, replace(shape, replicas=copies), batch_size=8))
        pools.append(
            BucketPool(
                gpu="H20",
                phase=phase,
                server=ServerConfig(parallel=shape, tokens_per_step=8192, batch_size=8),
                count=copies,
                start=spans[at][0],
                end=spans[at][1],
                capacity_rps=each,
                full_rps=each,
                island=name,
            )
        )
        losses.append(NodeLoss(island=name, nodes=1, servers=priced, rate_rps=0.0))
        for half in halves_of(phase):
            part = copies * each / capacity[half, at]
            routes.append(_route(name, half, spans[at], part, RATE / 2 * part * 0.5))
    plan = plan_of(tuple(islands), gpus=(gpu("H20"),), name="buckets", routing=tuple(routes))
    buckets = BucketPlan(
        promise_rps=RATE / 2,
        burst_rps=None,
        unrestricted_rps=None,
        survival_cost_rps=None,
        levels_set=False,
        pools=tuple(pools),
        latencies=(),
        simpler=(),
        losses=tuple(losses),
    )
    scenario = replace(plan.scenario, survive=SurvivalSettings(nodes=1, share=share))
    return replace(plan, scenario=scenario, buckets=buckets)


def _route(name: str, phase: Phase, span: tuple[int, int], share: float, rate: float) -> Route:
    return Route(
        phase=phase,
        range_start=span[0],
        range_end=span[1],
        probability=0.5,
        island=name,
        share=share,
        rate_rps=rate,
        assigned_rps=rate,
        capacity_rps=max(rate, 1e-6),
        batch_size=8,
        step_ms=30.0,
    )


def worst_left(plan: Plan, taken: Sequence[tuple[Sequence[str], int]]) -> Iterator[tuple[int, float, float]]:
    """Copies, requests/s and load that every (phase, bucket) has left, for every choice of copies that budgets
    (islands, number) can take."""
    pools = {pool.island: pool for pool in plan.buckets.pools}
    choices = []
    for names, number in taken:
        copies = [name for name in names for _ in range(pools[name].count)]
        choices.append({tuple(sorted(chosen)) for chosen in combinations(copies, min(number, len(copies)))})
    cells = {(half, p.start) for p in pools.values() for half in halves_of(p.phase)}
    for lost in product(*choices):
        gone = [name for part in lost for name in part]
        for half, start in cells:
            mine = [p for p in pools.values() if p.start == start and half in halves_of(p.phase)]
            load = sum(r.rate_rps for r in plan.routing if r.phase is half and r.range_start == start)
            left = sum(p.count - gone.count(p.island) for p in mine)
            yield left, sum((p.count - gone.count(p.island)) * p.capacity_rps for p in mine), load


_ROWS = st.tuples(
    st.sampled_from(list(Phase)),
    st.integers(0, 1),
    st.integers(1, 4),
    st.sampled_from([1.0, 2.5, 4.0]),
    st.integers(1, 3),
)


@given(rows=st.lists(_ROWS, min_size=1, max_size=5), factor=st.floats(0.0, 1.0), joinable=st.booleans())
def test_used_up_at_once_they_leave_what_must_survive(rows: list[Row], factor: float, joinable: bool) -> None:
    plan = loaded(bucket_plan(rows, share=factor), rows)
    crews = crews_of(plan)
    budgets = budgets_of(crews, joinable=joinable)
    assert sorted(name for budget in budgets for name in budget.islands) == sorted(i.id for i in plan.islands)
    rests = list(worst_left(plan, [(budget.islands, budget.copies) for budget in budgets]))
    for copies, rate, load in rests:
        assert copies >= 1
        assert rate >= factor * load * (1 - 1e-6)
    assert crews.remaining(budgets) == pytest.approx(min(1.0, *(rate / load for _, rate, load in rests)))


def test_what_remains_is_not_known_where_a_copy_serves_several_stretches() -> None:
    rows = [(Phase.PREFILL, 0, 3, 2.5, 1), (Phase.PREFILL, 1, 3, 2.5, 1), (Phase.DECODE, 0, 3, 2.5, 1)]
    plan = bucket_plan(rows, share=0.0)
    other = _route(plan.islands[0].id, Phase.PREFILL, (2048, 4096), 0.5, RATE / 4)
    one, several = (crews_of(replace(plan, routing=routes)) for routes in (plan.routing, (*plan.routing, other)))
    assert one.remaining(budgets_of(one, joinable=False)) is not None
    assert several.remaining(budgets_of(several, joinable=False)) is None


@given(rows=st.lists(_ROWS, min_size=1, max_size=6))
def test_where_no_rate_must_survive_the_quick_count_is_the_long_one(rows: list[Row]) -> None:
    crews = crews_of(loaded(bucket_plan(rows, share=0.0), rows))
    assert _spare_copies(crews) == _priced_copies(crews)


@given(rows=st.lists(_ROWS, min_size=1, max_size=4), factor=st.floats(0.1, 1.0))
def test_no_island_alone_could_be_given_more(rows: list[Row], factor: float) -> None:
    """Nothing is held back: one more copy of any island would break a rule, or is beyond what was priced."""
    plan = loaded(bucket_plan(rows, share=factor), rows)
    crews = crews_of(plan)
    budgets = budgets_of(crews, joinable=False)
    priced = {loss.island: loss.servers for loss in plan.buckets.losses}
    for number, budget in enumerate(budgets):
        (name,) = budget.islands
        more = [(b.islands, b.copies + (at == number)) for at, b in enumerate(budgets)]
        broken = any(n < 1 or rate < factor * load * (1 - 1e-6) for n, rate, load in worst_left(plan, more))
        bucket = [b for b in budgets if _meets(plan, name, b.islands[0])]
        share = sum((b.copies + (b is budget)) / priced[b.islands[0]] for b in bucket)
        assert broken or share > 1 or budget.copies >= min(priced[name], crews.crews[name].copies)


def _meets(plan: Plan, one: str, other: str) -> bool:
    """Whether two islands serve a phase of one bucket."""
    assert plan.buckets is not None
    first, second = (next(p for p in plan.buckets.pools if p.island == name) for name in (one, other))
    return first.start == second.start and bool(set(halves_of(first.phase)) & set(halves_of(second.phase)))


def loaded(plan: Plan, rows: Sequence[Row]) -> Plan:
    """The plan at four fifths of what each bucket can serve."""
    capacity: dict[tuple[Phase, int], float] = {}
    for phase, at, copies, each, _ in rows:
        for half in halves_of(phase):
            capacity[half, at * 2048] = capacity.get((half, at * 2048), 0.0) + copies * each
    routes = tuple(replace(r, rate_rps=0.8 * r.share * capacity[r.phase, r.range_start]) for r in plan.routing)
    return replace(plan, routing=routes)


PREFILL, DECODE = Phase.PREFILL, Phase.DECODE
ROWS: list[Row] = [
    (PREFILL, 0, 4, 4.0, 2),
    (PREFILL, 1, 2, 4.0, 1),
    (PREFILL, 1, 2, 2.5, 1),
    (DECODE, 0, 3, 2.5, 1),
    (DECODE, 1, 4, 1.0, 2),
]


def written(files: dict[str, str]) -> list[dict[str, Any]]:
    """The budgets of an export."""
    return [body for body in load_documents(files[FILE]) if body]


def selects(budget: dict[str, Any], labels: dict[str, str]) -> bool:
    """As the API server reads a selector."""
    selector = budget["spec"]["selector"]
    rules = selector.get("matchExpressions", [])
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        labels.get(rule["key"]) in rule["values"] for rule in rules
    )


@pytest.mark.parametrize("target", ["lws", "kubernetes", "disaggregatedset", "llm-d", "kserve", "dynamo"])
def test_every_pod_is_in_one_budget_and_all_at_once_leave_the_share(target: str) -> None:
    plan = loaded(bucket_plan(ROWS, share=0.6), ROWS)
    files = render(plan, target=target)
    budgets = written(files)
    owners: dict[int, set[str]] = {number: set() for number in range(len(budgets))}
    for manifest, kind in read_manifests(files).sound:
        for workload in kind.workloads(manifest) if kind and kind.workloads else ():
            for pod in workload.pods:
                chosen = [number for number, budget in enumerate(budgets) if selects(budget, dict(pod.labels))]
                assert len(chosen) == 1
                owners[chosen[0]].add(workload.annotations["planner/island-id"])
    taken = [(sorted(owners[at]), budget["spec"]["maxUnavailable"]) for at, budget in enumerate(budgets)]
    assert sorted(name for names, _ in taken for name in names) == [f"H20-{number}" for number in range(5)]
    assert all(copies >= 1 and rate >= 0.6 * load for copies, rate, load in worst_left(plan, taken))
    assert sum(number for _, number in taken) >= 3
    assert find_faults(files, plan) == ()


def test_islands_that_could_spare_none_alone_share_a_budget() -> None:
    plan = loaded(bucket_plan(ROWS, share=0.6), ROWS)
    files = render(plan)
    joint = [b for b in written(files) if "matchExpressions" in b["spec"]["selector"]]
    assert [b["spec"]["selector"]["matchExpressions"][0]["values"] for b in joint] == [["h20-1", "h20-2"]]
    assert joint[0]["spec"]["maxUnavailable"] == 1
    assert "H20-1 and H20-2 together: 1 of 4 copies." in files[FILE]
    assert re.search(r"used at once \d+% of the plan's rate remains .* at least the 60% of survive.share", files[FILE])


def test_the_only_copy_is_not_evicted_and_the_file_says_so() -> None:
    node = ParallelConfig(tp=8, dp=1)
    plan = plan_of((island("a", "H20", PREFILL, node), island("b", "H20", DECODE, node)))
    files = render(plan, target="kubernetes")
    assert [b["spec"]["maxUnavailable"] for b in written(files)] == [0, 0]
    assert "a: 0 of 1, none can be spared: to drain its node, delete this budget first." in files[FILE]
