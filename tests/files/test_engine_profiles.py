"""Engine profiles: every file is read strictly, and a scenario names its engine by name or by version."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from published import config_of

from planner.domain import EngineProfile, LengthProfile, RequestTrace, Scenario
from planner.errors import InputError
from planner.files import (
    engine_profiles,
    load_engine,
    load_model,
    scenario_document,
    scenario_from_document,
    shipped_models,
)
from planner.files.engines import profile_from_section
from planner.files.sections import Section

FOLDER = Path(__file__).parents[2] / "planner/files/engine_profiles"
SCENARIO: dict[str, Any] = {
    "name": "s",
    "model": "deepseek-v3",
    "workload": "normal-500-2000",
    "inventory": {"H200": 16},
}


def no_trace(trace: RequestTrace) -> LengthProfile:
    raise AssertionError(trace.name)


def read(**keys: Any) -> Scenario:
    return scenario_from_document(SCENARIO | keys, origin="test", base=Path(), summarize=no_trace)


def test_a_version_is_one_file() -> None:
    names = {f"{profile.name}-{profile.version}.yaml" for profile in engine_profiles()}
    assert names == {path.name for path in FOLDER.glob("*.yaml")}
    assert {"vllm-0.33.0.yaml", "vllm-0.31.0.yaml", "sglang-0.5.21.yaml", "sglang-0.5.23.yaml"} < names


@pytest.mark.parametrize("profile", engine_profiles(), ids=str)
def test_a_profile_says_where_it_comes_from_and_names_pinned_images(profile: EngineProfile) -> None:
    assert profile.sources
    assert set(profile.vendors or ("NVIDIA", "AMD")) <= set(dict(profile.images))
    assert all(re.search(rf":v?{re.escape(profile.version)}\b", image) for _, image in profile.images)


@pytest.mark.parametrize(
    ("value", "name", "version"),
    [
        ("vllm", "vllm", "0.33.0"),
        ("sglang", "sglang", "0.5.23"),
        ("trtllm", "trtllm", "1.2.1"),
        ({"name": "sglang"}, "sglang", "0.5.23"),
        ({"name": "sglang", "version": "0.5.21"}, "sglang", "0.5.21"),
        ({"name": "vllm", "version": "0.31.0"}, "vllm", "0.31.0"),
    ],
)
def test_a_scenario_names_its_engine(value: object, name: str, version: str) -> None:
    engine = read(engine=value).engine
    assert (engine.name, engine.version) == (name, version)


def test_the_default_is_what_the_export_writes() -> None:
    assert read().engine == load_engine() == load_engine("vllm", "0.33.0")


@pytest.mark.parametrize("value", ["sglang", {"name": "vllm", "version": "0.31.0"}, None])
def test_a_scenario_comes_back_with_its_engine(value: object) -> None:
    scenario = read(engine=value)
    document = scenario_document(scenario)
    again = scenario_from_document(document, origin="test", base=Path(), summarize=no_trace)
    assert again.engine == scenario.engine
    assert (scenario.engine == EngineProfile()) is (value is None)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("vlm", ("test: engine must be an engine with a profile, got 'vlm' (str).", "Did you mean vllm?")),
        ("trt", ("The engines are sglang, trtllm, vllm.",)),
        ({"name": "trt"}, ("engine.name must be an engine with a profile",)),
        (
            {"name": "sglang", "version": "0.5.19"},
            (
                "engine.version must be a version of sglang with a profile, got '0.5.19' (str).",
                "The versions are 0.5.18, 0.5.21, 0.5.23.",
            ),
        ),
        ({"name": "sglang", "version": 0.5}, ("engine.version must be a text", "Put it in quotes.")),
        ({"name": "sglang", "image": "x"}, ("engine.image is not a known key.",)),
        ({"version": "0.5.23"}, ("engine.name must be a text; it is missing.",)),
        (7, ("engine must be a text",)),
    ],
)
def test_what_is_no_engine_is_refused(value: object, words: tuple[str, ...]) -> None:
    with pytest.raises(InputError) as error:
        read(engine=value)
    told = f"{error.value.message} {error.value.hint}"
    assert all(word in told for word in words), told


def test_a_version_without_code_for_the_model_is_refused() -> None:
    name = "deepseek-ai/deepseek-v4-flash"
    model = config_of(name) | {"_planner": {"uri": f"hf://{name}", "name": "v4"}}
    with pytest.raises(InputError) as error:
        read(engine={"name": "vllm", "version": "0.18.0"}, model=model)
    assert "engine must be one that loads DeepseekV4ForCausalLM (v4), vllm 0.18.0 does not." in error.value.message
    assert error.value.hint == (
        "These do: sglang 0.5.18, sglang 0.5.21, sglang 0.5.23, trtllm 1.3.0rc29, vllm 0.31.0, vllm 0.33.0."
    )
    for engine in ("vllm", "sglang", None):
        assert read(engine=engine, model=model).model.architecture == "DeepseekV4ForCausalLM"
    text_alone = config_of("minimaxai/minimax-m3") | {"_planner": {"uri": "hf://org/m3", "name": "m3"}}
    assert read(model=text_alone).model.architecture == "MiniMaxM3SparseForConditionalGeneration"


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_newest_versions_load_all_shipped_models(engine: str) -> None:
    unknown = {name for name in shipped_models() if not load_engine(engine).loads(load_model(name).architecture)}
    assert unknown == set()
    assert not load_engine(engine).loads("FooForCausalLM")
    assert EngineProfile().loads("FooForCausalLM")


def a_profile(**changes: Any) -> Section:
    document = yaml.safe_load((FOLDER / "sglang-0.5.23.yaml").read_text(encoding="utf-8"))
    return Section(document | changes, file="profile.yaml")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"layers": {"dense": "node"}}, "layers.dense must be one of group, stage, ranks, got 'node'"),
        ({"layers": {"width": 1}}, "layers.width is not a known key."),
        ({"prefill_budgets": []}, "prefill_budgets must be a list of distinct whole numbers"),
        ({"prefill_budgets": [8192, "16k"]}, "prefill_budgets must be a list of distinct whole numbers"),
        ({"exchange": {"node_gpus": 0}}, "exchange.node_gpus must be a whole number of at least 1"),
        ({"exchange": {"capabilities": ["9"]}}, "exchange.capabilities must be a list of distinct whole numbers"),
        ({"precisions": [{"format": "int3", "vendor": "AMD", "arithmetic": "native"}]}, "format must be one of"),
        ({"speed": 1}, "speed is not a known key."),
    ],
)
def test_a_profile_with_a_mistake_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as error:
        profile_from_section(a_profile(**changes))
    assert f"profile.yaml: {words}" in error.value.message or words in error.value.message


@pytest.mark.parametrize("key", ["images", "layers", "precisions", "sources", "greatest_batch", "prefill_budgets"])
def test_a_profile_gives_every_key(key: str) -> None:
    document = a_profile().plain()
    del document[key]
    with pytest.raises(InputError) as error:
        profile_from_section(Section(document, file="profile.yaml"))
    assert f"{key} must be" in error.value.message
