"""The architectures of engine profiles, held against the engines' own registries in their packages, which `make
engine-parsers` installs. Registries are read as text: to import an engine takes ten seconds."""

import re

import pytest
from engine_parsers.installing import DYNAMOS, EXPORTED, folder, missing

from planner.files import load_engine

_NAMED = re.compile(r"\w+(?:ForCausalLM|ForConditionalGeneration|LMHeadModel)")
_TABLES = ("TEXT_GENERATION", "MULTIMODAL", "TRANSFORMERS_SUPPORTED")
ENGINE_VERSIONS = tuple(version for version in (*EXPORTED, *DYNAMOS) if "trtllm" not in version)  # has no wheel


def vllm_registry(version: str) -> set[str]:
    text = (folder(version) / "vllm/model_executor/models/registry.py").read_text(encoding="utf-8")
    tables = [re.search(rf"^_{name}_MODELS\b.*?^}}", text, re.MULTILINE | re.DOTALL) for name in _TABLES]
    assert all(tables)
    return {key for table in tables if table for key in re.findall(r'^    "(\w+)":', table.group(), re.MULTILINE)}


def sglang_registry(version: str) -> set[str]:
    files = (folder(version) / "sglang/srt/models").rglob("*.py")
    entries = (
        entry
        for file in files
        for entry in re.findall(
            r"^EntryClass\b[^=]*=([^\n]*(?:\n[ \])][^\n]*)*)", file.read_text(encoding="utf-8"), re.M
        )
    )
    return {name for entry in entries for name in re.findall(r"\w+", entry)}


@pytest.mark.parametrize("version", ENGINE_VERSIONS)
def test_a_profile_lists_the_models_that_its_engine_has_code_for(version: str) -> None:
    if reason := missing(version):
        pytest.skip(reason)
    name = "vllm" if "vllm" in version else "sglang"
    wheel = next(folder(version).glob(f"{name}-*.dist-info")).name
    profile = load_engine(name, wheel.removeprefix(f"{name}-").removesuffix(".dist-info"))
    registry = vllm_registry(version) if name == "vllm" else sglang_registry(version)
    named = {key for key in registry if _NAMED.fullmatch(key) and not key.startswith("Transformers")}
    assert set(profile.architectures) == named
    assert len(profile.architectures) == len(named) > 150
