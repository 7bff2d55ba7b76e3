"""Target `disaggregatedset`: roles, generated names, placement policy, and what upstream's webhook refuses."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from contract_plans import placed_plan
from export_plans import DECODE, PREFILL, example_plan, island, plan_of
from hypothesis import given
from hypothesis import strategies as st
from quick_yaml import load_document, load_documents

from planner.domain import Cluster, ParallelConfig, Phase, Plan
from planner.errors import ExportError, InputError
from planner.export import ExportOptions, render

EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"
LEVELS = ExportOptions(topology_labels=(("asw", "example.com/rack"), ("aggregation", "example.com/block")))
SMALL = ParallelConfig(tp=8, dp=1)


def the_set(files: dict[str, str]) -> dict[str, Any]:
    """The one DisaggregatedSet."""
    body: dict[str, Any] = load_document(files["disaggregatedset.yaml"])
    return body


def dset(plan: Plan, engine: str = "vllm", options: ExportOptions | None = None) -> dict[str, str]:
    return render(plan, target="disaggregatedset", engine=engine, options=options, router="none")


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_roles_are_the_islands_of_target_lws(engine: str) -> None:
    roles = the_set(dset(example_plan(), engine))["spec"]["roles"]
    sets = [
        d
        for text in render(example_plan(), engine=engine, router="none").values()
        for d in load_documents(text)
        if d["kind"] == "LeaderWorkerSet"
    ]
    assert [role["name"] for role in roles] == ["h200-0", "h20-0", "h20-1"]
    assert [role["spec"] for role in roles] == [one["spec"] for one in sets]
    assert [role["metadata"]["labels"] for role in roles] == [one["metadata"]["labels"] for one in sets]


def test_services_select_the_leaders_of_one_role_by_the_controllers_labels() -> None:
    files = dset(example_plan())
    services = list(load_documents(files["services.yaml"]))
    assert [service["spec"]["selector"] for service in services] == [
        {
            "disaggregatedset.x-k8s.io/name": "mixed-fleet",
            "disaggregatedset.x-k8s.io/role": role,
            "leaderworkerset.sigs.k8s.io/worker-index": "0",
        }
        for role in ("h200-0", "h20-0", "h20-1")
    ]
    table = json.loads(load_document(files["routing.yaml"])["data"]["routing.json"])
    assert {row["service"] for row in table["routes"]} == {service["metadata"]["name"] for service in services}


def some_islands(prefill: int, decode: int) -> Plan:
    """Islands of a node each."""
    counts = ((Phase.PREFILL, "H200", prefill), (Phase.DECODE, "H20", decode))
    return plan_of(
        tuple(island(f"{phase}-{n}", kind, phase, SMALL) for phase, kind, count in counts for n in range(count))
    )


@pytest.mark.parametrize(("prefill", "decode"), [(1, 1), (9, 1), (5, 5)])
def test_two_to_ten_islands_are_one_set(prefill: int, decode: int) -> None:
    assert len(the_set(dset(some_islands(prefill, decode)))["spec"]["roles"]) == prefill + decode


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (lambda: plan_of((DECODE,), routing=()), "a set has at least 2 roles, .*, got 1 serving island"),
        (lambda: some_islands(2, 0), "got no island that serves decode"),
        (lambda: some_islands(0, 12), "got no island that serves prefill"),
    ],
)
def test_what_no_sets_can_hold_is_refused(plan: Callable[[], Plan], message: str) -> None:
    with pytest.raises(ExportError, match=message) as refused:
        dset(plan())
    assert refused.value.exit_status == 3


def test_a_switch_above_the_whole_plan_becomes_the_placement_policy() -> None:
    plan = placed_plan()
    cluster = plan.scenario.cluster
    one_block = Cluster(name="room", nodes=tuple(replace(node, aggregation="all") for node in cluster.nodes))
    plan = replace(plan, scenario=replace(plan.scenario, cluster=one_block))
    files = dset(plan, options=LEVELS)
    assert the_set(files)["spec"]["placementPolicy"] == {"type": "ExclusiveSlice", "topology": "example.com/block"}
    assert EXCLUSIVE not in files["disaggregatedset.yaml"]
    assert "placementPolicy" not in the_set(dset(plan))["spec"]
    queued = replace(LEVELS, queue="serving")
    assert "placementPolicy" not in the_set(dset(plan, options=queued))["spec"]


def test_without_a_common_switch_roles_keep_their_own_packing() -> None:
    roles = the_set(dset(placed_plan(), options=LEVELS))["spec"]["roles"]
    held = [role["metadata"]["annotations"].get(EXCLUSIVE) for role in roles]
    assert held == ["example.com/rack", "example.com/block"]
    assert "placementPolicy" not in the_set(dset(placed_plan(), options=LEVELS))["spec"]


def generated_names(body: dict[str, Any]) -> list[str]:
    """The longest names that the controllers make of each role: a worker's StatefulSet revision, and a Service."""
    name = body["metadata"]["name"]
    sets = [(f"{name}-0-{'f' * 8}-{role['name']}", role["spec"]["replicas"]) for role in body["spec"]["roles"]]
    return [f"{one}-{replicas - 1}-{'h' * 10}" for one, replicas in sets] + [f"{one}-prv" for one, _ in sets]


@given(
    name=st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=1, max_size=90).filter(
        lambda text: any(c.isalnum() for c in text)
    ),
    role=st.from_regex(r"[a-z][a-z0-9-]{0,28}[a-z0-9]", fullmatch=True),
    replicas=st.sampled_from([1, 2, 10, 11, 120]),
)
def test_generated_names_fit_whatever_the_plan_is_called(name: str, role: str, replicas: int) -> None:
    parts = (
        island(role, "H200", Phase.PREFILL, ParallelConfig(tp=8, dp=1, replicas=replicas)),
        island("d", "H20", Phase.DECODE, SMALL),
    )
    try:
        files = dset(plan_of(parts, name=name))
    except InputError as error:
        assert "must have at most" in error.message or "both become" in error.message  # noqa: PT017  # a role too long
        return
    assert max(len(one) for one in generated_names(the_set(files))) <= 63


def test_a_role_that_leaves_no_room_is_refused_in_words() -> None:
    long = island("x" * 34, "H200", Phase.PREFILL, SMALL)
    with pytest.raises(InputError, match="must have at most 63 characters"):
        dset(plan_of((long, DECODE), name="a-name-of-some-length"))


def test_the_prefill_islands_replicas_are_all_positive_as_the_sets_rule_demands() -> None:
    roles = the_set(dset(plan_of((PREFILL, DECODE))))["spec"]["roles"]
    assert all(role["spec"]["replicas"] > 0 for role in roles)


def test_nothing_is_written_where_no_set_can_hold_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from planner import files, pipeline
    from planner.cli.app import build

    monkeypatch.setattr(files, "load_run", lambda _: some_islands(3, 0))
    monkeypatch.setattr(pipeline, "recheck", lambda plan, _: plan)
    out = tmp_path / "out"
    result = CliRunner().invoke(build(), ["export", "run", "--target", "disaggregatedset", "--out", str(out)])
    assert getattr(result.exception, "exit_status", result.exit_code) == 3
    assert not out.exists()
