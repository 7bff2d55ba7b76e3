"""Scenarios: what is read, what is refused and how, and the way back."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.domain import CostMode, CostSettings, Formulation, Scenario, SearchMethod, Surrogate
from planner.domain.serving.speculation import DraftMethod, DraftModel, Speculation
from planner.files import load_scenario, scenario_document, shipped_rate_curves, shipped_scenarios
from planner.workload import summarize

Refused = Callable[..., None]
Write = Callable[[str, str], Path]
Read = Callable[[Mapping[str, Any]], Scenario]


def test_shipped_scenarios_cost_512_usd_an_hour() -> None:
    """All but the fleets of production pools, of which schedules rent what they need."""
    loaded = {name: load_scenario(path, summarize) for name, path in shipped_scenarios().items()}
    pools = {f"pool-{rates.removeprefix('servegen-')}" for rates in shipped_rate_curves()}
    assert pools <= set(loaded)
    assert set(loaded) - pools == {
        "agents-fleet",
        "quickstart",
        "mixed-fleet",
        "azure-code-512usd",
        "azure-code-512usd-reference",
        "azure-code-128xH200-reference",
        "azure-conv-512usd-reference",
        "azure-conv-128xH200-reference",
    }
    pools |= {"agents-fleet"}
    for name, scenario in loaded.items():
        assert scenario.name == name
        assert name in pools or scenario.inventory.price_usd_per_hour == 512
        assert (scenario.cost.mode is CostMode.REFERENCE) == name.endswith("-reference")
        assert scenario.assignment.formulation is Formulation.MAX_RATE


def test_everything_left_out_takes_its_default(read: Read, document: dict[str, Any]) -> None:
    scenario = read(document)
    assert (scenario.search.iterations, scenario.search.batch_size, scenario.ranges.width) == (15, 16, 256)
    assert [(i.gpu.name, i.price_usd_per_gpu_hour) for i in scenario.inventory.items] == [
        ("H20", 1),
        ("H200", 4),
    ]


def test_prices_and_selectors_of_the_scenario_come_first(read: Read, document: dict[str, Any]) -> None:
    document["prices_usd_per_gpu_hour"] = {"H200": 3.5}
    document["node_selectors"] = {"H20": {"pool": "cheap", "zone": "b"}}
    inventory = read(document).inventory
    assert inventory.price_usd_per_hour == 16 * 3.5 + 8 * 1
    assert inventory.item("H20").gpu.node_selector == (("pool", "cheap"), ("zone", "b"))
    assert inventory.item("H200").gpu.node_selector == (("nvidia.com/gpu.product", "NVIDIA-H200"),)


@pytest.mark.parametrize(("word", "size"), [("auto", 1.0), ("bf16", 2.0), ("fp8", 1.0)])
def test_the_cache_has_the_elements_that_a_scenario_asks_for(
    read: Read, document: dict[str, Any], word: str, size: float
) -> None:
    """And keeps them where the scenario is written and read again."""
    scenario = read(document | {"cost": {"kv_cache_dtype": word}})
    assert scenario.model == replace(read(document).model, kv_bytes=size)
    assert replace(read(scenario_document(scenario)), inputs=scenario.inputs) == scenario


def test_every_cost_setting_is_written_back(read: Read, document: dict[str, Any]) -> None:
    written = cast(dict[str, Any], scenario_document(read(document))["cost"])
    internal = {"reach", "engine", "prefixes", "paces"}
    elsewhere = {"source", "calibration", "profile", "kv_cache_dtype", "speculation", *internal}
    assert set(written) >= {field.name for field in fields(CostSettings)} - elsewhere
    assert written["max_pipeline_stages"] is None


@pytest.mark.parametrize(
    ("asked", "read_as"),
    [
        ("auto", Speculation()),
        ("none", None),
        ({"tokens": 2}, Speculation(tokens=2)),
        ({"tokens": "auto", "acceptance": 0.7}, Speculation(acceptance=(0.7,))),
        (
            {"method": "eagle", "tokens": 3, "draft": "mine/draft", "acceptance": [0.7, 0.6]},
            Speculation(method=DraftMethod.EAGLE, tokens=3, draft=DraftModel(uri="mine/draft"), acceptance=(0.7, 0.6)),
        ),
        (
            {"method": "eagle", "draft": {"uri": "mine/draft", "vocab_size": 64000, "ffn_size": 8192}},
            Speculation(method=DraftMethod.EAGLE, draft=DraftModel(uri="mine/draft", vocab_size=64_000, ffn_size=8192)),
        ),
    ],
)
def test_drafts_are_read_and_written_back(
    read: Read, document: dict[str, Any], asked: object, read_as: Speculation | None
) -> None:
    scenario = read(document | {"cost": {"speculation": asked}})
    assert scenario.cost.speculation == read_as
    assert read(scenario_document(scenario)).cost == scenario.cost


@pytest.mark.parametrize(
    ("key", "model", "named"),
    [
        ("mtp_tokens", "llama-3.1-70b", "model.mtp_layers"),
        ("mtp_tokens", "mixtral-8x7b", "model.mtp_layers"),
        ("redundant_experts", "llama-3.1-70b", "no experts"),
        ("images_per_request", "llama-3.1-70b", "reads images"),
    ],
)
def test_what_the_model_lacks_cannot_be_asked_for(
    read: Read, document: dict[str, Any], refused: Refused, key: str, model: str, named: str
) -> None:
    asked = document | {"model": model, "cost": {key: 1}}
    refused(lambda: read(asked), f"cost.{key}", named, model, "got 1", hint="Choose a model with")
    assert replace(read(asked | {"cost": {key: 0}}), inputs=())


def test_numpy_counts_are_counts(read: Read, document: dict[str, Any]) -> None:
    numpy = pytest.importorskip("numpy")
    document["inventory"] = {"H200": numpy.int64(16)}
    assert read(document).inventory.item("H200").count == 16


def _at(document: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    *above, last = path.split(".")
    place = document
    for key in above:
        place = place.setdefault(key, {})
    place[last] = value
    return document


@pytest.mark.parametrize(
    ("path", "value", "words", "hint"),
    [
        ("name", "a b", ("name", "at most 63", "'a b'"), "Rename"),
        ("name", "a" * 64, ("name", "at most 63"), "Rename"),
        ("name", "-a", ("name", "begins with a letter or digit", "'-a'"), "Rename"),
        ("name", "a\n", ("name",), "Rename"),
        ("name", "../x", ("name",), "Rename"),
        ("name", 5, ("name", "a text", "5 (int)"), "quotes"),
        ("inventory", {}, ("inventory", "at least one GPU type"), "H200: 64"),
        ("inventory", [1], ("inventory", "mapping"), "indented"),
        ("inventory.H300", 4, ("inventory.H300", "not a known GPU type"), "Did you mean H800 or H200"),
        ("inventory.H200", -1, ("inventory.H200", "at least 1", "-1 (int)"), ""),
        ("inventory.H200", 0, ("inventory.H200", "at least 1", "0 (int)"), "Leave H200 out"),
        ("inventory.H200", 1.5, ("inventory.H200", "whole number", "1.5 (float)"), ""),
        ("inventory.H200", True, ("inventory.H200", "whole number", "True (bool)"), ""),
        ("inventory.H200", "64", ("inventory.H200", "whole number", "'64' (str)"), ""),
        ("prices_usd_per_gpu_hour.H2OO", 2, ("prices_usd_per_gpu_hour.H2OO", "a known GPU type"), "or H200"),
        ("prices_usd_per_gpu_hour.H800", "two", ("prices_usd_per_gpu_hour.H800", "a number", "'two'"), ""),
        ("prices_usd_per_gpu_hour.H200", -4, ("prices_usd_per_gpu_hour.H200", "at least 0", "-4"), ""),
        ("prices_usd_per_gpu_hour.H200", float("nan"), ("prices_usd_per_gpu_hour.H200", "finite", "nan"), ""),
        ("node_selectors.H800", {"a": "b"}, ("node_selectors.H800", "of the inventory"), "H200"),
        ("node_selectors.H200", {}, ("node_selectors.H200", "at least one label"), "default"),
        ("node_selectors.H200", {"a": "b; c"}, ("node_selectors.H200.a", "label value", "'b; c'"), "kubectl"),
        ("node_selectors.H200", {"a b": "c"}, ("node_selectors.H200.a b", "label key"), "kubectl"),
        ("ranges.width", 0, ("ranges.width", "at least 1", "0"), ""),
        ("ranges.widht", 256, ("ranges.widht", "not a known key"), "Did you mean width"),
        ("cost.mode", "exact", ("cost.mode", "one of default, reference", "'exact'"), "default"),
        ("cost.kv_cache_rate", 1, ("cost.kv_cache_rate", "less than 1"), ""),
        ("cost.kv_cache_rate", -0.1, ("cost.kv_cache_rate", "at least 0"), ""),
        ("cost.max_tokens_per_step", 0, ("cost.max_tokens_per_step", "at least 1"), ""),
        ("cost.two_micro_batches", 1, ("cost.two_micro_batches", "true or false", "1 (int)"), ""),
        ("cost.balanced_experts", "yes", ("cost.balanced_experts", "true or false", "'yes'"), ""),
        ("cost.redundant_experts", -1, ("cost.redundant_experts", "at least 0"), ""),
        ("cost.redundant_experts", 4097, ("cost.redundant_experts", "at most 4096"), ""),
        ("cost.mtp_tokens", 9, ("cost.mtp_tokens", "at most 8"), ""),
        ("cost.mtp_acceptance", 0, ("cost.mtp_acceptance", "more than 0"), ""),
        ("cost.mtp_acceptance", 1.01, ("cost.mtp_acceptance", "at most 1"), ""),
        ("cost.speculation", 3, ("cost.speculation", "auto, none, or a section", "3 (int)"), ""),
        ("cost.speculation", {"method": "medusa"}, ("cost.speculation.method", "one of mtp, eagle"), ""),
        ("cost.speculation", {"tokens": 9}, ("cost.speculation.tokens", "at most 8"), ""),
        ("cost.speculation", {"acceptance": []}, ("cost.speculation.acceptance", "1 to 8 numbers"), ""),
        ("cost.speculation", {"acceptance": [0.8, 1.1]}, ("cost.speculation.acceptance", "at most 1"), ""),
        ("cost.speculation", {"method": "eagle"}, ("cost.speculation.draft", "given where method is eagle"), "Name"),
        ("cost.speculation", {"draft": "a/b"}, ("cost.speculation.draft", "left out where method is mtp"), ""),
        ("cost", {"speculation": "auto", "mtp_tokens": 1}, ("cost.mtp_tokens", "left out where cost.speculation"), ""),
        ("cost", {"speculation": "auto", "mode": "reference"}, ("cost.speculation", "say its tokens"), "Give tokens"),
        ("cost.max_pipeline_stages", 0, ("cost.max_pipeline_stages", "at least 1"), ""),
        ("cost.max_pipeline_stages", 65, ("cost.max_pipeline_stages", "at most 64"), ""),
        ("cost.gpus_per_switch", 0, ("cost.gpus_per_switch", "at least 1"), ""),
        ("cost.cross_switch_bandwidth", 0, ("cost.cross_switch_bandwidth", "more than 0"), ""),
        ("cost.cross_switch_bandwidth", 1.1, ("cost.cross_switch_bandwidth", "at most 1"), ""),
        ("cost.redundant_expert", 8, ("cost.redundant_expert", "not a known key"), "Did you mean redundant_experts"),
        ("assignment.formulation", "max", ("assignment.formulation", "max_rate, deviation"), "max_rate"),
        ("assignment.solver", "gurobi", ("assignment.solver", "highs, cbc", "'gurobi'"), ""),
        ("assignment.work_limit", 0, ("assignment.work_limit", "more than 0"), ""),
        ("assignment.gap", 1, ("assignment.gap", "less than 1"), ""),
        ("assignment.tau", -1, ("assignment.tau", "at least 0"), ""),
        ("assignment.deviation_weight", float("inf"), ("assignment.deviation_weight", "finite"), ""),
        (
            "search.method",
            "hill",
            ("search.method", "graph, random, sobol, grid, genetic, exact, auto"),
            "",
        ),
        ("search.surrogate", "rf", ("search.surrogate", "gp, saasbo"), ""),
        ("search.candidates", "all", ("search.candidates", "neighbours, acquisition"), ""),
        ("search.iterations", 0, ("search.iterations", "at least 1", "0"), ""),
        ("search.batch_size", 0, ("search.batch_size", "at least 1"), ""),
        ("search.min_island_size", 0, ("search.min_island_size", "at least 1"), ""),
        ("search.skew", 0, ("search.skew", "more than 0"), ""),
        ("search.skew", 20.5, ("search.skew", "at most 20", "20.5"), ""),
        ("search.slots", 65, ("search.slots", "at most 64", "65"), ""),
        ("search.seed", -1, ("search.seed", "at least 0"), ""),
        ("search.processes", 0, ("search.processes", "at least 1"), ""),
        ("serach", {}, ("serach", "not a known key"), "Did you mean search"),
        ("prices", {}, ("prices", "not a known key"), "Did you mean prices_usd_per_gpu_hour"),
        ("search", None, ("search", "mapping", "None"), ""),
        ("workload", "azure", ("workload", "'azure'"), "azure-code-2023"),
        ("workload", "none.csv", ("workload", "none.csv", "no such file"), ""),
        ("workload", 5, ("workload", "a text"), ""),
        ("model", "gpt", ("model", "'gpt'"), "deepseek-v3"),
        ("model", "./none.json", ("model", "none.json", "no such file"), ""),
    ],
)
def test_what_cannot_be_is_refused_by_key(
    read: Read,
    document: dict[str, Any],
    refused: Refused,
    path: str,
    value: object,
    words: tuple[str, ...],
    hint: str,
) -> None:
    refused(lambda: read(_at(document, path, value)), "notebook", *words, hint=hint)


def test_a_search_needs_islands_that_the_inventory_can_form(
    read: Read, document: dict[str, Any], refused: Refused
) -> None:
    """Pools that are solved for come from one GPU on and form no islands."""
    document["search"] = {"min_island_size": 17}
    read(document)
    document["routing"] = {"form": "table"}
    words = ("notebook", "search.min_island_size", "at most", "16 (H200)", "17")
    refused(lambda: read(document), *words, hint="Lower")


@pytest.mark.parametrize("key", ["name", "model", "workload", "inventory"])
def test_a_missing_key_is_named(read: Read, document: dict[str, Any], refused: Refused, key: str) -> None:
    del document[key]
    refused(lambda: read(document), "notebook", key, "it is missing")


UNPRICED = "name: s\nmodel: deepseek-v3\nworkload: normal-500-2000\ninventory: {H200: 8, Rubin-NVL144: 144}\n"


@pytest.mark.parametrize(
    ("objective", "why"),
    [
        ("{kind: budget, budget_usd_per_hour: 9}", "where objective.kind is budget"),
        ("{kind: target, target_rps: 1}", "where objective.kind is target"),
        ("{kind: per_dollar}", "where objective.kind is per_dollar"),
        ("{kind: pareto, goals: [rate, price]}", "where price is among objective.goals"),
    ],
)
def test_a_missing_price_stops_what_counts_money_and_names_gpu_file_and_both_remedies(
    write: Write, refused: Refused, objective: str, why: str
) -> None:
    method = "{method: divider}" if "pareto" in objective else "{method: exact}"
    path = write("s.yaml", f"{UNPRICED}objective: {objective}\nsearch: {method}\n")
    for remedy in (f"under prices_usd_per_gpu_hour in {path}", "gpu_specs/prices.yaml", "count no money need none"):
        refused(lambda: load_scenario(path, summarize), str(path), "Rubin-NVL144 must be", why, "no price", hint=remedy)


@pytest.mark.parametrize(
    "objective",
    ["rate", "{kind: watts, target_rps: 1}", "{kind: pareto, goals: [rate, watts]}"],
)
def test_a_missing_price_stops_nothing_that_counts_no_money(write: Write, objective: str) -> None:
    method = "{method: divider}" if "pareto" in objective else "{method: exact}"
    text = f"{UNPRICED}objective: {objective}\nsearch: {method}\n"
    inventory = load_scenario(write("s.yaml", text), summarize).inventory
    assert inventory.without_price == ("Rubin-NVL144",)
    assert [(item.gpu.name, item.price_usd_per_gpu_hour) for item in inventory.items] == [
        ("H200", 4),
        ("Rubin-NVL144", 0),
    ]


def test_a_price_of_null_is_none_whatever_the_list_says(read: Read, document: dict[str, Any]) -> None:
    """As plan.json keeps a type without a price, so that a later list changes no plan."""
    document["prices_usd_per_gpu_hour"] = {"H200": None}
    inventory = read(document).inventory
    assert (inventory.without_price, inventory.item("H20").price_usd_per_gpu_hour) == (("H200",), 1)


def test_prices_of_types_that_are_not_at_hand_are_passed_over(read: Read, document: dict[str, Any]) -> None:
    """A price list is longer than an inventory; what is not a GPU type at all is a slip of the pen."""
    document["prices_usd_per_gpu_hour"] = {"H200": 3, "H20": 1, "H800": 2, "MI355X": 8}
    inventory = read(document).inventory
    assert {item.gpu.name: item.price_usd_per_gpu_hour for item in inventory.items} == {"H200": 3, "H20": 1}
    assert inventory.unused_prices == ("H800", "MI355X")


def test_a_document_of_other_than_plain_values_is_refused(
    read: Read, document: dict[str, Any], refused: Refused
) -> None:
    refused(lambda: read(document | {"name": object()}), "notebook", "object")
    refused(lambda: read(cast(Mapping[str, Any], [document])), "notebook", "mapping", "list")


def test_inputs_are_the_hashes_of_every_file_read(tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("arrival_s,input_tokens,output_tokens\n0,5,1\n1,9,3\n", encoding="utf-8")
    path = tmp_path / "s.yaml"
    path.write_text("name: s\nmodel: deepseek-v3\nworkload: t.csv\ninventory: {H20: 8}\n", encoding="utf-8")
    scenario = load_scenario(path, summarize)
    hashes = {entry.name: entry.sha256 for entry in scenario.inputs}
    assert set(hashes) == {"s.yaml", "H20.yaml", "prices.yaml", "deepseek-v3.json", "t.csv"}
    assert hashes["t.csv"] == hashlib.sha256(trace.read_bytes()).hexdigest()
    assert scenario.workload.arrival_rps == 1


def test_prices_file_counts_as_input_only_where_it_was_used(read: Read, document: dict[str, Any]) -> None:
    document["prices_usd_per_gpu_hour"] = {"H200": 3, "H20": 1}
    assert "prices.yaml" not in {entry.name for entry in read(document).inputs}


def test_the_order_of_keys_changes_nothing(read: Read, document: dict[str, Any]) -> None:
    turned = dict(reversed(list(document.items())))
    turned["inventory"] = dict(reversed(list(document["inventory"].items())))
    assert read(document) == read(turned)
    assert read(document).inputs[0].name == "scenario"
    assert read(document | {"name": "other"}).inputs[0] != read(document).inputs[0]


def test_shipped_scenarios_survive_the_way_through_a_document(read: Read) -> None:
    for path in shipped_scenarios().values():
        scenario = load_scenario(path, summarize)
        again = read(scenario_document(scenario))
        assert replace(again, inputs=()) == replace(scenario, inputs=())


def test_own_model_and_trace_survive_without_their_files(tmp_path: Path, read: Read, document: dict[str, Any]) -> None:
    (tmp_path / "t.csv").write_text("arrival_s,input_tokens,output_tokens\n0,5,1\n1,9,3\n", encoding="utf-8")
    own = scenario_document(read(document))["model"]
    assert own == "deepseek-v3"
    first = read(document | {"workload": "t.csv"})
    altered = replace(first, model=replace(first.model, name="mine", weight_bytes=2.0, max_context=4096))
    written = yaml.safe_load(yaml.safe_dump(scenario_document(altered)))
    (tmp_path / "t.csv").unlink()
    assert replace(read(written), inputs=()) == replace(altered, inputs=())


settings_documents = st.fixed_dictionaries(
    {
        "ranges": st.fixed_dictionaries({"width": st.integers(1, 10_000)}),
        "cost": st.fixed_dictionaries(
            {
                "mode": st.sampled_from([m.value for m in CostMode]),
                "kv_cache_rate": st.floats(0, 0.999),
                "max_tokens_per_step": st.integers(1, 100_000),
                "two_micro_batches": st.booleans(),
                "balanced_experts": st.booleans(),
                "redundant_experts": st.integers(0, 4096),
                "mtp_tokens": st.integers(0, 8),
                "mtp_acceptance": st.floats(0.001, 1),
                "max_pipeline_stages": st.none() | st.integers(1, 64),
                "gpus_per_switch": st.integers(1, 1_000_000),
                "cross_switch_bandwidth": st.floats(0.001, 1),
            }
        ),
        "assignment": st.fixed_dictionaries(
            {
                "formulation": st.sampled_from([f.value for f in Formulation]),
                "solver": st.sampled_from(["highs", "cbc"]),
                "work_limit": st.floats(0.1, 1e4),
                "gap": st.floats(0, 0.5),
                "tau": st.floats(0, 10),
                "deviation_weight": st.floats(0, 1e6),
            }
        ),
        "search": st.fixed_dictionaries(
            {
                "method": st.sampled_from([m.value for m in SearchMethod if m is not SearchMethod.GRAPH]),  # no cluster
                "surrogate": st.sampled_from([s.value for s in Surrogate]),
                "iterations": st.integers(1, 99),
                "batch_size": st.integers(1, 99),
                "min_island_size": st.integers(1, 16),
                "skew": st.floats(0.001, 20),
                "slots": st.integers(1, 64),
                "seed": st.integers(0, 2**32 - 1),
                "processes": st.integers(1, 64),
            }
        ),
    }
)


@given(parts=settings_documents, count=st.integers(16, 4096), price=st.floats(0, 100))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_every_setting_survives_the_way_through_a_document(
    read: Read, parts: dict[str, Any], count: int, price: float
) -> None:
    document = {
        "name": "any",
        "model": "deepseek-r1",
        "workload": {
            "name": "two",
            "kind": "lengths",
            "max_output_tokens": 4,
            "mean_output_tokens": 2.5,
            "lengths": "input_tokens,probability\n7,0.25\n90,0.75\n",
        },
        "inventory": {"GB200-NVL72": count},
        "prices_usd_per_gpu_hour": {"GB200-NVL72": price},
        **parts,
    }
    scenario = read(document)
    normalised = scenario_document(scenario)
    for key, given_settings in parts.items():
        written = cast(dict[str, Any], normalised[key])
        assert {name: written[name] for name in given_settings} == given_settings
    assert replace(read(normalised), inputs=()) == replace(scenario, inputs=())
