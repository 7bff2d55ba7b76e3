"""llm-d's picker: plugins that exist, ranges that its own rule lets pass, refusals in words, and hand edits found."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import yaml
from contract_plans import beside_plan, two_range_plan
from export_plans import example_plan, plan_of, route
from quick_yaml import load_documents
from routed_plans import bucketed_plan
from router_reading.comparing import router_faults

from planner.domain import LengthMeasure, Phase, Plan, RouterPolicy
from planner.domain.serving.programs import Surroundings
from planner.errors import ExportError
from planner.export import NO_ROUTER, ROUTERS, render
from planner.export.routers.llm_d import LENGTH_LABEL, ROLE_LABEL
from planner.runs.deployments import render_plan

FILE = "llm-d-router.yaml"
# `Type:` of the READMEs below pkg/epp/framework/plugins of llm-d/llm-d-router (Apache-2.0), v0.10
PLUGINS = {
    "token-producer": "producer",
    "inflight-load-producer": "producer",
    "approx-prefix-cache-producer": "producer",
    "label-selector-filter": "filter",
    "prefill-filter": "filter",
    "decode-filter": "filter",
    "context-length-aware": "filter",
    "token-load-scorer": "scorer",
    "active-request-scorer": "scorer",
    "kv-cache-utilization-scorer": "scorer",
    "prefix-cache-scorer": "scorer",
    "max-score-picker": "picker",
    "always-disagg-pd-decider": "decider",
    "disagg-profile-handler": "handler",
    "single-profile-handler": "handler",
}


def values(files: Mapping[str, str]) -> dict[str, Any]:
    """The chart's values."""
    (config_map,) = load_documents(files[FILE])
    document: dict[str, Any] = yaml.safe_load(config_map["data"]["values.yaml"])
    return document["router"]


def picker(files: Mapping[str, str]) -> dict[str, Any]:
    """The configuration inside the values."""
    epp = values(files)["epp"]
    document: dict[str, Any] = yaml.safe_load(epp["pluginsCustomConfig"][epp["pluginsConfigFile"]])
    return document


def labels_of(files: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Labels of each values file's pods, by release and role."""
    found = {}
    for name, text in files.items():
        if name.endswith(".values.yaml"):
            (body,) = load_documents(text)
            for role in ("prefill", "decode"):
                if body[role]["create"]:
                    found[body[role]["annotations"]["planner/island-id"]] = body["modelArtifacts"]["labels"]
    return found


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("policy", [RouterPolicy.LEAST_WORK, RouterPolicy.PREFIX_AWARE])
def test_a_configuration_names_plugins_that_exist_and_all_that_it_refers_to(mixed: bool, policy: RouterPolicy) -> None:
    config = picker(render(bucketed_plan(3, mixed=mixed, policy=policy), target="llm-d"))
    named = {plugin.get("name", plugin["type"]): plugin["type"] for plugin in config["plugins"]}
    assert set(named.values()) <= PLUGINS.keys()
    used = {ref["pluginRef"] for profile in config["schedulingProfiles"] for ref in profile["plugins"]}
    assert used <= named.keys()
    profiled = {name for name, kind in named.items() if PLUGINS[kind] in ("filter", "scorer", "picker")}
    assert used == profiled, "a plugin that no profile uses does nothing"
    assert sum(PLUGINS[kind] == "handler" for kind in named.values()) == 1
    assert ("prefix-cache-scorer" in used) == (policy is RouterPolicy.PREFIX_AWARE)
    assert [profile["name"] for profile in config["schedulingProfiles"]] == (
        ["default"] if mixed else ["prefill", "decode"]
    )


def test_every_prompt_of_a_split_plan_is_split() -> None:
    """A prefix decider with 0 tokens never splits one, says its README."""
    plugins = {plugin["type"]: plugin for plugin in picker(render(bucketed_plan(3), target="llm-d"))["plugins"]}
    decider = plugins["disagg-profile-handler"]["parameters"]["deciders"]["prefill"]
    assert plugins[decider]["type"] == "always-disagg-pd-decider"
    assert "prefix-based-pd-decider" not in plugins


def test_labels_are_the_buckets_with_both_ends_included() -> None:
    files = render(two_range_plan(), target="llm-d")
    ranges = {name: labels[LENGTH_LABEL] for name, labels in labels_of(files).items()}
    assert {ranges[f"H200-{n}"] for n in range(4)} == {"0-2047"}
    assert {ranges[f"H200-{n}"] for n in range(4, 7)} == {"2048-6094"}
    assert (ranges["H20-0"], ranges["H20-4"]) == ("0-2047", "2048-6094")


@pytest.mark.parametrize("seed", range(6))
def test_a_length_passes_the_filter_of_exactly_its_islands(seed: int) -> None:
    """The upstream rule, written anew: min <= length <= max of the label's two numbers."""
    plan = bucketed_plan(seed)
    labels = {
        name: tuple(map(int, row[LENGTH_LABEL].split("-")))
        for name, row in labels_of(render(plan, target="llm-d")).items()
    }
    for row in plan.routing:
        for length in (row.range_start, row.range_end - 1):
            passing = {name for name, (low, high) in labels.items() if low <= length <= high}
            due = {r.island for r in plan.routing if r.range_start <= length < r.range_end}
            assert passing == due, "of both phases: the role filters stand before it"


def test_roles_of_a_release_have_the_same_lengths() -> None:
    """The chart gives prefill and decode the same labels."""
    files = render(bucketed_plan(3), target="llm-d")
    bodies = [next(iter(load_documents(text))) for name, text in files.items() if name.endswith(".values.yaml")]
    assert any(not (body["prefill"]["create"] and body["decode"]["create"]) for body in bodies)
    assert "role" not in str(bodies[0]["modelArtifacts"]["labels"].keys()), "the chart's own"


def test_followers_of_a_group_are_filtered_out() -> None:
    plugins = {p.get("name", p["type"]): p for p in picker(render(example_plan(), target="llm-d"))["plugins"]}
    (rule,) = plugins["leaders"]["parameters"]["matchExpressions"]
    assert rule == {
        "key": "leaderworkerset.sigs.k8s.io/worker-index",
        "operator": "NotIn",
        "values": ["1", "2", "3"],
    }


def test_a_profile_that_lets_followers_pass_is_found() -> None:
    plan = example_plan()
    files = render(plan, target="llm-d")
    assert not router_faults(files, plan)
    wrong = edited(files, r" +- pluginRef: leaders\n", "", FILE)
    assert any("followers of" in str(fault) for fault in router_faults(wrong, plan))


@pytest.mark.parametrize(("router", "target"), [("llm-d", "llm-d"), ("aibrix", "lws"), ("sglang", "lws")])
def test_an_island_that_nothing_is_routed_to_gets_no_prompt(router: str, target: str) -> None:
    """Pods without a range take any prompt, says the plugin's README; so this one's are not in the pool."""
    plan = two_range_plan()
    spare = replace(plan.islands[0], id="H200-9")
    more = plan_of((*plan.islands, spare), routing=plan.routing)
    files = render(more, target=target, engine="sglang", router=router)
    assert not router_faults(files, more)
    (text,) = (text for text in files.values() if "Island H200-9 of plan" in text)
    assert "No range is routed here." in text
    assert not any(label in text for label in (LENGTH_LABEL, "role-name"))


def test_one_object_of_kserve_holds_the_picker_itself() -> None:
    prefill, decode = example_plan().islands[:2]
    files = render(plan_of((prefill, decode)), target="kserve")
    (body,) = load_documents(files["01.yaml"])
    config = body["spec"]["router"]["scheduler"]["config"]["inline"]
    assert config["kind"] == "EndpointPickerConfig"
    assert FILE not in files
    assert FILE in render(two_range_plan(), target="kserve")


def torn_plan() -> Plan:
    """A prefill island that serves short and long prompts, and another between."""
    prefill, decode = two_range_plan().islands[:2], two_range_plan().islands[7:9]
    rows = [
        route(islands[bucket % 2].id, phase, start, 1.0, 1024)
        for phase, islands in ((Phase.PREFILL, prefill), (Phase.DECODE, decode))
        for bucket, start in enumerate((0, 1024, 2048))
    ]
    return plan_of((*prefill, *decode), routing=tuple(rows))


@pytest.mark.parametrize(
    ("plan", "target", "words"),
    [
        (two_range_plan(), "lws", "no sidecar"),
        (beside_plan(), "llm-d", "does both phases"),
        (torn_plan(), "llm-d", "one interval of prompt lengths"),
    ],
)
def test_what_it_cannot_do_is_refused_in_words(plan: Plan, target: str, words: str) -> None:
    with pytest.raises(ExportError, match=words) as refusal:
        render(plan, target=target, router="llm-d")
    assert refusal.value.hint


def test_a_targets_own_router_gives_way_to_the_table_and_says_why() -> None:
    rendered = render_plan(torn_plan(), target="llm-d")
    files = rendered.files
    assert rendered.router == NO_ROUTER
    assert render_plan(SPLIT, target="llm-d").router == "llm-d"
    assert FILE not in files
    assert "WARNING: Router llm-d" in files["releases.yaml"]
    assert LENGTH_LABEL not in "".join(files.values())


def test_a_path_for_weights_leaves_lengths_to_an_estimate() -> None:
    plan = bucketed_plan(2)
    local = replace(plan, scenario=replace(plan.scenario, model=replace(plan.scenario.model, uri="/models/v3")))
    files = render(local, target="llm-d")
    assert "tokenizer" not in values(files)
    assert "WARNING: the weights are a path" in files[FILE]
    assert ROUTERS["llm-d"].behaviour(local, Surroundings()).measure is LengthMeasure.CHARACTERS
    assert ROUTERS["llm-d"].behaviour(plan, Surroundings()).measure is LengthMeasure.TOKENS


def edited(files: Mapping[str, str], pattern: str, replacement: str, file: str = "", count: int = 1) -> dict[str, str]:
    """The files with a text replaced in one of them, or in all."""
    changed = {
        name: re.sub(pattern, replacement, text, count=count) if name == file or not file else text
        for name, text in files.items()
    }
    assert changed != dict(files), pattern
    return changed


def swapped(files: Mapping[str, str], first: str, second: str) -> dict[str, str]:
    """The files with two texts in each other's place."""
    return {
        name: text.replace(first, "\0").replace(second, first).replace("\0", second) for name, text in files.items()
    }


SPLIT, TOGETHER = two_range_plan(), bucketed_plan(3, mixed=True)


def test_ranges_that_are_swapped_or_overlap_are_found() -> None:
    files = render(SPLIT, target="llm-d")
    assert not router_faults(files, SPLIT)
    for wrong in (
        swapped(files, f"{LENGTH_LABEL}: 0-2047", f"{LENGTH_LABEL}: 2048-6094"),
        edited(files, f"{LENGTH_LABEL}: 0-2047", f"{LENGTH_LABEL}: 0-3000", "01.values.yaml"),
        edited(files, f"{LENGTH_LABEL}: 0-2047", f"{LENGTH_LABEL}: 0-2046", "02.values.yaml"),
        edited(files, f"    {LENGTH_LABEL}: 0-2047\n", "", "01.values.yaml"),
    ):
        assert any("Router llm-d" in str(fault) for fault in router_faults(wrong, SPLIT))
        assert router_faults(wrong), "without the plan too"


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (r" +- pluginRef: prefill-filter\n", ""),
        (r" +- pluginRef: decode-filter\n", ""),
        (r" +- pluginRef: lengths\n +weight: 1\n", ""),
        (r"enableFiltering: true", "enableFiltering: false"),
        (r"prefill: always-disagg-pd-decider", "decode: always-disagg-pd-decider"),
        (r"planner/router-pool: two-ranges", "planner/router-pool: other"),
        (r"label: llm-d.ai/context-length-range", "label: llm-d.ai/other"),
        (r"pluginsConfigFile: planner.yaml", "pluginsConfigFile: other.yaml"),
    ],
)
def test_a_profile_that_misses_its_filter_is_found(pattern: str, replacement: str) -> None:
    files = render(SPLIT, target="llm-d")
    wrong = edited(files, pattern, replacement, FILE)
    assert any("Router llm-d" in str(fault) for fault in router_faults(wrong, SPLIT))


def test_a_wrong_role_is_found() -> None:
    files = render(TOGETHER, target="lws", router="llm-d")
    assert not router_faults(files, TOGETHER)
    wrong = edited(files, f"{ROLE_LABEL}: prefill-decode", f"{ROLE_LABEL}: prefill", sorted(files)[0])
    assert any("Router llm-d" in str(fault) for fault in router_faults(wrong, TOGETHER))
