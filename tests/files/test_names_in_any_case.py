"""Names of GPUs and models without regard to case and separators; records hold them as they are shipped."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from planner.errors import InputError
from planner.files import load_engine, load_gpu_spec, load_model, scenario_from_document, shipped_models
from planner.files.disk.names import canonical, same_names
from planner.files.models.gpu_specs import gpu_spec_files
from planner.workload import summarize

GPUS, MODELS = tuple(gpu_spec_files()), tuple(shipped_models())


@st.composite
def respelt(draw: Any, names: tuple[str, ...]) -> tuple[str, str]:
    """A name, and the same in other letters and with other separators."""
    name = draw(st.sampled_from(names))
    separator = draw(st.sampled_from(["", " ", "-", "_", "."]))
    letters = "".join(draw(st.sampled_from([c.lower(), c.upper()])) for c in name)
    return name, re.sub(r"[-._ ]", separator, letters)


@given(respelt(GPUS))
def test_gpu_types_are_found_however_they_are_written(pair: tuple[str, str]) -> None:
    name, written = pair
    assert canonical(written, GPUS) == name


@given(respelt(MODELS))
def test_models_are_found_however_they_are_written(pair: tuple[str, str]) -> None:
    name, written = pair
    assert load_model(written).name == name


def test_no_two_shipped_names_are_the_same_but_for_case() -> None:
    for names in (GPUS, MODELS):
        assert [name for name in names if len(same_names(name.upper() + " ", names)) > 1] == []


def test_what_may_be_several_is_refused() -> None:
    with pytest.raises(InputError, match="may be H-100 or H100"):
        canonical("h100", ["H-100", "H100"])
    assert canonical("H100", ["H-100", "H100"]) == "H100"


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("DeepSeek V3", "deepseek-v3"),
        ("deepseek_v3", "deepseek-v3"),
        ("Qwen3-235B-A22B", "qwen3-235b-a22b"),
        ("deepseek-ai/DeepSeek-V3", "deepseek-v3"),
    ],
)
def test_models_of_the_field(written: str, name: str) -> None:
    assert load_model(written).name == name


def test_engines_and_gpus() -> None:
    assert load_engine("vLLM").name == "vllm"
    assert load_gpu_spec("rtx pro 6000").name == "RTX-PRO-6000"
    assert load_gpu_spec("h200").price == load_gpu_spec("H200").price


def document(**changes: Any) -> dict[str, Any]:
    base = {"name": "a", "model": "DeepSeek V3", "workload": "Normal-500-2000", "inventory": {"h200": 16, "H20": 16}}
    return base | changes


def read(source: dict[str, Any]) -> planner.domain.Scenario:
    return scenario_from_document(source, origin="notebook", base=Path(), summarize=summarize)


def test_a_scenario_holds_the_names_that_are_shipped() -> None:
    scenario = read(
        document(
            prices_usd_per_gpu_hour={"h200": 3, "h20": 1.5},
            node_selectors={"H-20": {"pool": "x"}},
            network={"uplinks_gb_s": {"h20": 100}},
            search={"method": "random", "warm_start": [[["h200", 16, 1], ["h20", 16, 1]]]},
            engine="VLLM",
        )
    )
    assert scenario.model.name == "deepseek-v3"
    assert scenario.workload.name == "normal-500-2000"
    prices = {item.gpu.name: item.price_usd_per_gpu_hour for item in scenario.inventory.items}
    assert prices == {"H20": 1.5, "H200": 3}
    assert scenario.inventory.item("H20").gpu.node_selector == (("pool", "x"),)
    assert scenario.network.switch_gb_s == (("H20", 100.0),)
    assert {island.gpu for layout in scenario.search.earlier for island, _ in layout.counts} == {"H20", "H200"}


def test_the_same_type_twice_is_refused() -> None:
    with pytest.raises(InputError, match=r"inventory\.H200 is H200 once more"):
        read(document(inventory={"h200": 16, "H200": 8}))


def test_price_lists_may_name_types_that_nobody_knows() -> None:
    prices = {"H200": 3, "H20": 1, "TPU-v5e": 1.2, "V100": 0.9}
    inventory = read(document(prices_usd_per_gpu_hour=prices)).inventory
    assert inventory.unused_prices == ("TPU-v5e", "V100")
    assert {item.gpu.name: item.price_usd_per_gpu_hour for item in inventory.items} == {"H200": 3, "H20": 1}


@pytest.mark.parametrize("prices", [{"H200": 3, "h200": 2}, {"h-200": None, "H200": 3}], ids=str)
def test_a_type_has_one_price(prices: dict[str, float | None]) -> None:
    with pytest.raises(InputError, match=r"prices_usd_per_gpu_hour.*is H200 once more"):
        read(document(prices_usd_per_gpu_hour=prices))


def test_a_price_for_a_type_misspelt_is_refused_where_it_would_be_missed() -> None:
    with pytest.raises(InputError, match=r"prices_usd_per_gpu_hour\.H2OO must be a known GPU type"):
        read(document(prices_usd_per_gpu_hour={"H2OO": 3, "H20": 1}))


@settings(max_examples=20, deadline=None)
@given(st.text(min_size=1, max_size=12))
def test_strange_names_are_refused_with_the_nearest(name: str) -> None:
    if same_names(name, GPUS):
        return
    with pytest.raises(InputError) as error:
        read(document(inventory={name: 8}))
    assert "not a known GPU type" in str(error.value) or "surrogate" in str(error.value)
