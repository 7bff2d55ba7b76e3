"""Caches below device memory in the objects of targets that write pods, ranks and copies in ways of their own."""

import re
from dataclasses import replace
from typing import Any

import pytest
from dynamo_plans import graphs
from export_plans import MODEL
from quick_yaml import load_documents
from tiered_plans import BOTH, EIGHT, FOUR, HOST, by_prefix, mixed_plan, split_plan, tiered

from planner.domain import ParallelConfig
from planner.export import ExportOptions, render

PER_GPU_GIB = 117  # 125 GB
WIDE = ParallelConfig(tp=1, dp=8)


def test_dynamos_operator_is_told_of_the_shared_memory_and_workers_of_their_address() -> None:
    """Its worker sets the address itself beside a plain NixlConnector, not inside vLLM's MultiConnector."""
    (components,) = graphs(render(tiered(split_plan(EIGHT), **HOST), target="dynamo", engine="vllm")).values()
    sizes = {name: row.get("sharedMemorySize") for name, row in components.items()}
    assert (sizes["h200-0"], sizes["h20-0"]) == (f"{16 + 8 * PER_GPU_GIB}Gi", "16Gi")
    variables = {
        name: {row["name"] for row in components[name]["podTemplate"]["spec"]["containers"][0]["env"]}
        for name in ("h200-0", "h20-0")
    }
    assert "VLLM_NIXL_SIDE_CHANNEL_HOST" in variables["h200-0"]
    assert "VLLM_NIXL_SIDE_CHANNEL_HOST" not in variables["h20-0"], "as ever"


def test_kserves_presets_get_the_volume_and_the_shared_memory() -> None:
    for sizes, volume, shared in ((BOTH, True, 16), (HOST, False, 16 + 8 * PER_GPU_GIB)):
        files = render(tiered(split_plan(EIGHT), **sizes), target="kserve", engine="vllm")
        services = [d for text in files.values() for d in load_documents(text) if d["kind"] == "LLMInferenceService"]
        spec: dict[str, Any] = services[0]["spec"]["prefill"]["template"]
        (container, *_) = spec["containers"]
        names = {row["name"]: row.get("emptyDir", {}) for row in spec["volumes"]}
        assert ("kv-cache" in names) == volume
        assert ("/var/cache/kv" in {row["mountPath"] for row in container["volumeMounts"]}) == volume
        assert names["dshm"]["sizeLimit"] == f"{shared}Gi"
        assert "/var/cache/kv" not in str(services[0]["spec"]["template"]), "decode has none"


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_copies_that_share_a_host_have_folders_of_their_own(engine: str) -> None:
    files = render(tiered(split_plan(FOUR), **BOTH), target="script", engine=engine)
    folders = re.findall(r"/var/cache/kv(?:/\d+)?", next(text for name, text in files.items() if "h200-0" in name))
    assert len(set(folders) - {"/var/cache/kv"}) == 1, "of the second of two copies, whose ports are others"


def test_a_rank_that_is_an_endpoint_remembers_its_own_part() -> None:
    """125 GB of each of eight ranks; 61 layers keep 576 numbers of a token in 8 bits each."""
    counted = [
        int(re.findall(r"lruCapacityPerServer: (\d+)", "\n".join(files.values()))[0])
        for ranks in ("rank", "server")
        for plan in [by_prefix(tiered(mixed_plan(WIDE, model=replace(MODEL, kv_bytes=1.0)), **HOST))]
        for files in [render(plan, target="lws", engine="vllm", router="llm-d", options=ExportOptions(ranks=ranks))]
    ]
    by_rank = 125 * 10**9 // (61 * 576) // 64
    assert counted == [by_rank, pytest.approx(8 * by_rank, rel=1e-5)]
