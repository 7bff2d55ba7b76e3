"""The exported routing table has a row for every prompt that the engines take, whatever lengths the trace had."""

import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from export_plans import gpu, island, plan_of, route
from hypothesis import given
from hypothesis import strategies as st
from quick_yaml import load_document

from planner.domain import PHASES, ParallelConfig, Phase, Plan
from planner.export import TARGETS, find_faults, read_plan, render, summarize_plan

SHORT = island("H200-0", "H200", Phase.PREFILL, ParallelConfig(tp=8, dp=1))
DECODE = island("H20-0", "H20", Phase.DECODE, ParallelConfig(tp=8, dp=1), batch_size=8)
LONG = island("H200-1", "H200", Phase.PREFILL, ParallelConfig(tp=8, dp=1))
SERVING = [name for name, target in TARGETS.items() if any(kind.workloads for kind in target.kinds)]
Shares = dict[str, float]


def holey_plan() -> Plan:
    """Prompts of 512 to 1023 and of 3072 to 3583 tokens, and none besides."""
    rows = (
        route(SHORT.id, Phase.PREFILL, 512, 1.0, 512),
        route(SHORT.id, Phase.PREFILL, 3072, 0.25, 512),
        route(LONG.id, Phase.PREFILL, 3072, 0.75, 512),
        route(DECODE.id, Phase.DECODE, 512, 1.0, 512),
        route(DECODE.id, Phase.DECODE, 3072, 1.0, 512),
    )
    return plan_of((SHORT, LONG, DECODE), gpus=(gpu("H20"), gpu("H200")), routing=rows)


def table_of(files: dict[str, str]) -> dict[str, Any]:
    """The routing table, wherever a target writes it."""
    text = files.get("routing.json") or load_document(files["routing.yaml"])["data"]["routing.json"]
    found: dict[str, Any] = json.loads(text)
    return found


def asked(files: dict[str, str], phase: Phase, tokens: int) -> Shares:
    """Island -> share, as a router reads the table."""
    return shares_in(table_of(files), phase, tokens)


def shares_in(table: dict[str, Any], phase: Phase, tokens: int) -> Shares:
    """Island -> share of prompts of so many tokens."""
    owners = {row["service"]: row["island"] for row in table["services"]}
    rows = [r for r in table["routes"] if r["phase"] == phase and r["range_start"] <= tokens < r["range_end"]]
    return {owners[r["service"]]: r["share"] for r in rows}


def least_context(files: dict[str, str]) -> int:
    """Tokens that the engines are started for, the least of all."""
    words = [word for text in files.values() for word in text.split() if word.startswith("--max-model-len=")]
    return min(int(word.partition("=")[2]) for word in words)


@pytest.mark.parametrize("target", ["lws", "kubernetes", "script", "llm-d"])
def test_every_length_has_a_row(target: str) -> None:
    files = render(holey_plan(), target=target)
    below, above = {SHORT.id: 1.0}, {SHORT.id: 0.25, LONG.id: 0.75}
    wanted = {0: below, 511: below, 512: below, 1023: below, 1024: above, 2000: above, 3071: above, 3072: above}
    context = least_context(files)
    for tokens, shares in {**wanted, 3583: above, 3584: above, context - 1: above, context: {}}.items():
        assert asked(files, Phase.PREFILL, tokens) == shares
        assert asked(files, Phase.DECODE, tokens) == ({DECODE.id: 1.0} if shares else {})


@pytest.mark.parametrize("target", SERVING)
def test_the_covering_table_is_read_back_and_the_plans_own_stays(target: str) -> None:
    plan = holey_plan()
    if target == "dynamo":  # a grid of 512 tokens, and no shares
        rows = tuple(r for r in plan.routing if r.share == 1.0)
        plan = plan_of((SHORT, LONG, DECODE), routing=(*rows, route(LONG.id, Phase.PREFILL, 3072, 1.0, 512)))
    if target == "ray":  # a copy for each partner
        two = island(DECODE.id, "H20", Phase.DECODE, ParallelConfig(tp=8, dp=1, replicas=2), batch_size=8)
        plan = plan_of((SHORT, LONG, two), gpus=(gpu("H20"), gpu("H200")), routing=plan.routing)
    own = plan.routing
    files = render(plan, target=target)
    assert find_faults(files, plan) == find_faults(files) == ()
    engine = "vllm"
    assert read_plan(files) == summarize_plan(plan, engine=engine, target=target)
    assert plan.routing == own
    assert {row["probability"] for row in table_of(files)["routes"]} == {route.probability for route in own}


@given(st.sets(st.integers(0, 9), min_size=1, max_size=5), st.data())
def test_any_holes_are_covered_once(cells: set[int], data: st.DataObject) -> None:
    """Truth, length by length: the plan's own range, else the next above, else the last."""
    width, owner = 400, {cell: data.draw(st.sampled_from([SHORT.id, LONG.id])) for cell in cells}
    rows = [route(owner[cell], Phase.PREFILL, cell * width, 1.0, width) for cell in sorted(cells)]
    rows += [route(DECODE.id, Phase.DECODE, cell * width, 1.0, width) for cell in sorted(cells)]
    files = render(plan_of((SHORT, LONG, DECODE), routing=tuple(rows)))
    table, end = table_of(files), max(least_context(files), (max(cells) + 1) * width)
    for tokens in range(0, end, 50):
        above = [cell for cell in sorted(cells) if cell >= tokens // width]
        assert shares_in(table, Phase.PREFILL, tokens) == {owner[above[0] if above else max(cells)]: 1.0}
        assert shares_in(table, Phase.DECODE, tokens) == {DECODE.id: 1.0}
    assert shares_in(table, Phase.PREFILL, end) == shares_in(table, Phase.DECODE, end) == {}


def edited(change: Callable[[list[dict[str, Any]]], object]) -> list[str]:
    """Faults of a script export whose rows `change` has edited."""
    files = render(holey_plan(), target="script")
    table = table_of(files)
    change(table["routes"])
    return [str(fault) for fault in find_faults({**files, "routing.json": json.dumps(table)})]


def shifted(rows: list[dict[str, Any]], key: str, old: int, new: int, phases: str = "prefill decode") -> None:
    """Rows of `phases` with `key` at `old` get `new`."""
    hits = defaultdict(int)
    for row in rows:
        if row["phase"] in phases.split() and row[key] == old:
            row[key] = new
            hits[row["phase"]] += 1
    assert set(hits) == set(phases.split())


def test_holes_in_a_table_are_faults_of_its_phase() -> None:
    told = edited(lambda rows: shifted(rows, "range_start", 1024, 3072))
    for phase in PHASES:
        assert any(f"routes {phase}: must route 1024-3071, from no tokens on without gaps" in fault for fault in told)
    told = edited(lambda rows: shifted(rows, "range_start", 0, 512, "decode"))
    assert any("routes decode: must route 0-511" in fault for fault in told)
    assert not any("prefill: must route" in fault for fault in told)


def test_phases_that_end_apart_are_a_fault() -> None:
    end = max(row["range_end"] for row in table_of(render(holey_plan(), target="script"))["routes"])
    told = edited(lambda rows: shifted(rows, "range_end", end, end + 100, "decode"))
    assert any(
        f"must end at the same length in both phases, got prefill {end} and decode {end + 100}" in t for t in told
    )
