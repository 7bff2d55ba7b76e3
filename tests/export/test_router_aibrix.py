"""AIBrix' gateway: lengths in the pods' annotation as its code reads them, refusals, and hand edits found."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from contract_plans import beside_plan
from quick_yaml import load_documents
from routed_plans import bucketed_plan
from router_reading.comparing import router_faults

from planner.domain import Counted, Phase, Plan, Rule
from planner.domain.serving.programs import Surroundings
from planner.errors import ExportError
from planner.export import ROUTERS, render
from planner.export.engines.arguments import read_flags

SPLIT, TOGETHER = bucketed_plan(3), bucketed_plan(3, mixed=True)
ANNOTATION = "model.aibrix.ai/config"


def templates(files: Mapping[str, str], name: str) -> list[dict[str, Any]]:
    """Pod templates of the island called `name`, the leader's first."""
    for text in files.values():
        for body in load_documents(text):
            if body["kind"] == "LeaderWorkerSet" and body["metadata"]["annotations"]["planner/island-id"] == name:
                group = body["spec"]["leaderWorkerTemplate"]
                return [group[key] for key in ("leaderTemplate", "workerTemplate") if key in group]
    raise AssertionError(name)


def suits(template: Mapping[str, Any], length: int) -> bool:
    """Whether the gateway finds the pod suitable: the rule of its pd_disaggregation.go, written anew."""
    profiles = json.loads(template["metadata"]["annotations"][ANNOTATION])
    config = profiles["profiles"][profiles["defaultProfile"]]["routingConfig"]
    low = max(0, config.get("promptLenBucketMinLength", 0))
    high = config.get("promptLenBucketMaxLength", 0) or 2**31 - 1
    return low <= length <= high


@pytest.mark.parametrize("plan", [SPLIT, TOGETHER], ids=["split", "aggregated"])
def test_the_gateways_own_rule_finds_the_plans_islands(plan: Plan) -> None:
    files = render(plan, target="lws", engine="vllm", router="aibrix")
    leaders = {island.id: templates(files, island.id)[0] for island in plan.islands}
    for row in plan.routing:
        for length in (row.range_start, row.range_end - 1):
            due = {r.island for r in plan.routing if r.phase is row.phase and r.range_start <= length < r.range_end}
            half = {i.id for i in plan.islands if i.phase in (row.phase, Phase.MIXED)}
            assert {name for name in half if suits(leaders[name], length)} == due


def test_pods_are_of_one_role_set_and_name_model_port_and_engine() -> None:
    """Any prefill pod of a length may hand over to any decode pod of it."""
    files = render(SPLIT, target="lws", engine="sglang", router="aibrix")
    found = [templates(files, island.id)[0]["metadata"]["labels"] for island in SPLIT.islands]
    assert {row["roleset-name"] for row in found} == {"drawn-3"}
    assert {row["role-name"] for row in found} == {"prefill", "decode"}
    assert {row["model.aibrix.ai/engine"] for row in found} == {"sglang"}
    for island in SPLIT.islands:
        flags = read_flags(templates(files, island.id)[0]["spec"]["containers"][0]["args"])
        labels = templates(files, island.id)[0]["metadata"]["labels"]
        assert labels["model.aibrix.ai/port"] == flags["port"]
        assert labels["model.aibrix.ai/name"] == flags["served-model-name"] == "deepseek-v3"


def test_pods_of_both_phases_are_combined() -> None:
    files = render(TOGETHER, target="kubernetes", router="aibrix")
    assert '"combined": true' in files[sorted(files)[0]]
    assert "role-name: combined" in files[sorted(files)[0]]
    assert ROUTERS["aibrix"].behaviour(TOGETHER, Surroundings()).mixed[0].rule is Rule.RANDOM
    assert ROUTERS["aibrix"].behaviour(SPLIT, Surroundings()).prefill[0].counts is Counted.REQUESTS


def test_the_gateway_has_to_heed_lengths() -> None:
    (body,) = load_documents(render(SPLIT, target="lws", router="aibrix")["aibrix.yaml"])
    assert body["data"]["AIBRIX_PROMPT_LENGTH_BUCKETING"] == "true"


def hostile(name: str) -> Plan:
    """A model that no label can name."""
    return replace(SPLIT, scenario=replace(SPLIT.scenario, model=replace(SPLIT.scenario.model, name=name)))


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (hostile("a model/of mine"), "must be a label's value"),
        (hostile("x" * 64), "must be a label's value"),
        (beside_plan(), "combined pods where"),
    ],
)
def test_what_it_cannot_do_is_refused_in_words(plan: Plan, words: str) -> None:
    with pytest.raises(ExportError, match=words) as refusal:
        render(plan, target="lws", router="aibrix")
    assert refusal.value.hint


@pytest.mark.parametrize(
    ("file", "pattern", "replacement"),
    [
        ("01-p0-0.yaml", r'"promptLenBucketMaxLength": \d+', '"promptLenBucketMaxLength": 100'),
        ("01-p0-0.yaml", r'"promptLenBucketMaxLength": \d+', '"promptLenBucketMaxLength": 0'),
        ("01-p0-0.yaml", r'"promptLenBucketMinLength": 0', '"promptLenBucketMinLength": 1'),
        ("01-p0-0.yaml", "role-name: prefill", "role-name: decode"),
        ("01-p0-0.yaml", "roleset-name: drawn-3", "roleset-name: other"),
        ("01-p0-0.yaml", r"          model.aibrix.ai/name: deepseek-v3\n", ""),
        ("01-p0-0.yaml", '"defaultProfile": "default"', '"defaultProfile": "other"'),
        ("aibrix.yaml", "BUCKETING: 'true'", "BUCKETING: 'false'"),
    ],
)
def test_hand_edits_that_send_prompts_elsewhere_are_found(file: str, pattern: str, replacement: str) -> None:
    files = render(SPLIT, target="lws", router="aibrix")
    assert not router_faults(files, SPLIT)
    wrong = {**files, file: re.sub(pattern, replacement, files[file])}
    assert wrong != files
    assert any("Router aibrix" in str(fault) for fault in router_faults(wrong, SPLIT))
