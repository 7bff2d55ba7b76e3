"""Whole plans with a network: flows between named islands, their way to disk and back, and the audit."""

import json
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pipeline_scenarios import small
from planned import plan

from planner.domain import KvFlow, NetworkSettings, Phase, Plan, Workload
from planner.errors import InconsistentPlanError, InputError
from planner.files import encode_plan
from planner.files.plan.digests import sealed
from planner.files.plan.plan_document import plan_document
from planner.files.plan.plan_reader import decode_plan
from planner.plans.audit import audit
from planner.report import flows_frame, summary
from planner.runs.publication import publish
from planner.workload import divide

FLEET = {"H200": 16, "H20": 16}
NARROW = {"nic_share": 0.002, "uplinks_gb_s": {"H20": 2.0}}


SEARCH = {"method": "random", "iterations": 1, "batch_size": 4, "timings": False}


def planned(network: dict[str, Any] | None = None, **changes: Any) -> Plan:
    return plan(small(FLEET, network=network, search=SEARCH, **changes))


@pytest.fixture(scope="module")
def wide() -> Plan:
    return planned({})


@pytest.fixture(scope="module")
def narrow() -> Plan:
    return planned(NARROW)


def mix(found: Plan) -> Workload:
    return divide(found.scenario.workload, found.scenario.ranges.width)


def test_without_a_network_there_are_no_flows() -> None:
    found = planned()
    assert (found.flows, found.network_bottleneck) == ((), "")
    assert "flows.csv" not in publish(found).files
    assert (plan_document(found)["flows"], plan_document(found)["network_bottleneck"]) == ([], "")


def test_plans_of_before_flows_are_read() -> None:
    document = plan_document(planned()) | {"schema_version": 1}
    del document["flows"], document["network_bottleneck"], document["digests"]
    again = decode_plan(json.dumps(document).encode(), Path("plan.json"))
    assert (again.flows, again.network_bottleneck) == ((), "")


def test_data_sheet_nics_carry_a_plan_of_the_same_rate(wide: Plan) -> None:
    assert wide.throughput_rps == pytest.approx(planned().throughput_rps, rel=1e-5)
    assert wide.network_bottleneck == ""
    assert "network:" not in summary(wide)


def test_flows_add_up_to_the_routes_at_both_ends(wide: Plan, narrow: Plan) -> None:
    for found in (wide, narrow):
        sums: dict[tuple[Phase, str, int], float] = defaultdict(float)
        for flow in found.flows:
            sums[Phase.PREFILL, flow.prefill, flow.range_start] += flow.rate_rps
            sums[Phase.DECODE, flow.decode, flow.range_start] += flow.rate_rps
        routes = {(route.phase, route.island, route.range_start): route.rate_rps for route in found.routing}
        assert sums.keys() == routes.keys()
        assert all(sums[key] == pytest.approx(rate, rel=1e-6) for key, rate in routes.items())


def test_a_narrow_network_costs_rate_and_is_named(narrow: Plan, wide: Plan) -> None:
    assert narrow.throughput_rps < 0.9 * wide.throughput_rps
    assert re.fullmatch(
        r"NIC of \w+ (prefill|decode) islands|uplink (out of|into) \w+ islands", narrow.network_bottleneck
    )
    assert f"network: {narrow.network_bottleneck} is the bottleneck." in summary(narrow)


def test_a_bound_on_ttft_scales_the_flows() -> None:
    found = planned({}, slo={"ttft_ms": 1500})
    assert sum(flow.rate_rps for flow in found.flows) == pytest.approx(found.throughput_rps)
    assert found.network_bottleneck == ""


def test_flows_go_to_disk_and_back(narrow: Plan) -> None:
    again = decode_plan(encode_plan(narrow), Path("plan.json"))
    assert (again.flows, again.network_bottleneck) == (narrow.flows, narrow.network_bottleneck)
    assert again.scenario.network == narrow.scenario.network
    files = publish(narrow).files
    assert len(files["flows.csv"].splitlines()) == 1 + len(narrow.flows)
    assert list(flows_frame(narrow).columns) == ["prefill", "decode", "range_start", "range_end", "rate_rps", "gb_s"]


def test_a_flow_to_nobody_is_refused(narrow: Plan) -> None:
    text = encode_plan(narrow).replace(f'"decode": "{narrow.flows[0].decode}"'.encode(), b'"decode": "nobody"', 1)
    with pytest.raises(InputError, match=r"flows\.0: must be as it was written"):
        decode_plan(text, Path("plan.json"))
    with pytest.raises(InputError, match=r"flows\.0\.decode: must be an island that serves, got 'nobody'"):
        decode_plan(json.dumps(sealed(json.loads(text))).encode(), Path("plan.json"))


def tampered(found: Plan, change: Callable[[KvFlow], KvFlow]) -> Plan:
    return replace(found, flows=(change(found.flows[0]), *found.flows[1:]))


def more_rate(found: Plan) -> Plan:
    return tampered(found, lambda flow: replace(flow, rate_rps=1.1 * flow.rate_rps, gb_s=1.1 * flow.gb_s))


def less_kv(found: Plan) -> Plan:
    return tampered(found, lambda flow: replace(flow, gb_s=0.5 * flow.gb_s))


def nan_kv(found: Plan) -> Plan:
    return tampered(found, lambda flow: replace(flow, gb_s=float("nan")))


def negative(found: Plan) -> Plan:
    return tampered(found, lambda flow: replace(flow, rate_rps=-flow.rate_rps, gb_s=-flow.gb_s))


def lost(found: Plan) -> Plan:
    return replace(found, flows=found.flows[1:])


def to_nobody(found: Plan) -> Plan:
    extra = replace(found.flows[0], decode="nobody", rate_rps=0.0, gb_s=0.0)
    return replace(found, flows=(*found.flows, extra))


def network(found: Plan, settings: NetworkSettings | None) -> Plan:
    return replace(found, scenario=replace(found.scenario, network=settings))


def smaller_nic(found: Plan) -> Plan:
    return network(found, NetworkSettings(nic_share=1e-5))


def smaller_uplink(found: Plan) -> Plan:
    return network(found, NetworkSettings(switch_gb_s=(("H20", 1e-6), ("H200", 1e-6))))


def no_network(found: Plan) -> Plan:
    return network(found, None)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (more_rate, "flows of .* are not its routes"),
        (less_kv, "does not carry the KV caches of its requests"),
        (nan_kv, "does not carry the KV caches of its requests"),
        (negative, "is negative"),
        (lost, "flows of .* are not its routes"),
        (to_nobody, r"flows\.\d+\.decode: must be an island that serves"),
        (smaller_nic, "NICs of island .* carry .* more than their share"),
        (smaller_uplink, "the uplink of .* carries .* its capacity is 1e-06"),
        (no_network, "it has KV flows, the scenario no network"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_audit_names_each_damage(wide: Plan, damage: Callable[[Plan], Plan], message: str) -> None:
    audit(wide, mix(wide))
    with pytest.raises(InconsistentPlanError, match=message):
        audit(damage(wide), mix(wide))
