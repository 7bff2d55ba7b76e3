"""Caches below device memory in manifests: what engines are told, what their pods have for it, and what is refused.

Sizes are worked out here from the scenario alone: a node of eight GPUs with 1,000 GB of host memory and 4,000 GB of SSD
gives each GPU 125 and 500 GB of them. That parsers take the flags is in `test_engine_parsers`.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import Any

import pytest
from dynamo_plans import two_pool_plan
from engine_parsers.installing import folder, missing
from export_plans import DENSE, MODEL, dense_layers
from quick_yaml import load_documents
from tiered_plans import BOTH, EIGHT, FOUR, HOST, by_prefix, mixed_plan, split_plan, tiered

from planner.domain import GroupedAttention, ParallelConfig, Plan
from planner.domain.serving.caches.tiers import RemoteStore
from planner.domain.serving.programs import Surroundings
from planner.errors import ExportError, PlannerError
from planner.export import ROUTERS, TARGETS, ExportOptions, compare, find_faults, read_plan, render, summarize_plan
from planner.export.engines.arguments import read_flags
from planner.files import load_engine

GPUS_OF_A_NODE = 8
GIB = 2**30
STORE = RemoteStore(gb=1e5, gb_per_s_per_node=10.0)
WINDOWED = replace(
    DENSE, name="windowed", groups=dense_layers(GroupedAttention(heads=64, kv_heads=8, head_dim=128, window=4096))
)


def containers(files: dict[str, str], phase: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Pod spec and engine's container of every pod of a phase, of target lws."""
    for text in files.values():
        for thing in load_documents(text):
            if thing["kind"] == "LeaderWorkerSet" and thing["metadata"]["labels"]["planner/phase"] == phase:
                for template in thing["spec"]["leaderWorkerTemplate"].values():
                    if isinstance(template, dict) and "spec" in template:
                        yield template["spec"], template["spec"]["containers"][0]


def prefill(files: dict[str, str]) -> tuple[dict[str, Any], dict[str, Any], dict[str, str], dict[str, str]]:
    """Spec, container, flags and variables of the one prefill pod, or the one of both phases."""
    ((spec, container),) = [*containers(files, "prefill"), *containers(files, "mixed")]
    variables = {row["name"]: row["value"] for row in container.get("env", ()) if "value" in row}
    return spec, container, read_flags(container["args"]), variables


def sizes_of(spec: dict[str, Any]) -> dict[str, int]:
    """Volume -> its limit (GiB)."""
    return {
        volume["name"]: int(volume["emptyDir"]["sizeLimit"].removesuffix("Gi"))
        for volume in spec["volumes"]
        if "emptyDir" in volume
    }


def gib(gigabytes: float) -> int:
    """Whole GiB that hold so many GB."""
    return ceil(Fraction(gigabytes) * 10**9 / GIB)


@pytest.mark.parametrize(("parallel", "gpus"), [(FOUR, 4), (EIGHT, 8), (ParallelConfig(tp=1, dp=1, replicas=3), 1)])
def test_vllm_keeps_a_ranks_part_of_the_nodes_memory_in_its_pods_shared_memory(
    parallel: ParallelConfig, gpus: int
) -> None:
    plain = prefill(render(split_plan(parallel), engine="vllm"))
    spec, container, flags, _ = prefill(render(tiered(split_plan(parallel), **HOST), engine="vllm"))
    config = json.loads(flags["kv-transfer-config"])
    assert (config["kv_connector"], config["kv_role"]) == ("MultiConnector", "kv_producer")
    offloading, nixl = config["kv_connector_extra_config"]["connectors"]
    assert nixl == {"kv_connector": "NixlConnector", "kv_role": "kv_producer"}
    assert offloading["kv_connector"] == "OffloadingConnector"
    told = offloading["kv_connector_extra_config"]["cpu_bytes_to_use"]
    assert told == 1000 * 10**9 * gpus // GPUS_OF_A_NODE
    assert told <= (sizes_of(spec)["shared-memory"] - sizes_of(plain[0])["shared-memory"]) * GIB < told + gpus * GIB
    more = memory_gib(container) - memory_gib(plain[1])
    assert more == gpus * gib(125)
    assert more * GIB >= told


def memory_gib(container: dict[str, Any]) -> int:
    resources = container["resources"]
    assert resources["limits"]["memory"] == resources["requests"]["memory"], "class Guaranteed"
    return int(resources["limits"]["memory"].removesuffix("Gi"))


def test_a_lost_load_is_computed_again_where_prompts_are_taken_in() -> None:
    """Where a decode server loses what it was handed, the request fails, as without tiers."""
    files = render(tiered(split_plan(), **HOST), engine="vllm")
    *_, flags, _ = prefill(files)
    assert json.loads(flags["kv-transfer-config"])["kv_load_failure_policy"] == "recompute"
    ((_, decode),) = containers(files, "decode")
    ((_, plain),) = containers(render(split_plan(), engine="vllm"), "decode")
    assert decode == plain, "decode begins with caches that it is sent"


def test_servers_of_both_phases_have_the_tier_alone() -> None:
    *_, flags, _ = prefill(render(tiered(mixed_plan(), **HOST), engine="vllm"))
    config = json.loads(flags["kv-transfer-config"])
    assert (config["kv_connector"], config["kv_role"]) == ("OffloadingConnector", "kv_both")
    assert config["kv_connector_extra_config"] == {"cpu_bytes_to_use": 10**12}


def test_every_data_parallel_rank_has_its_part() -> None:
    """vLLM counts a rank's bytes: eight ranks of one GPU share the node."""
    wide = mixed_plan(ParallelConfig(tp=1, dp=8), model=MODEL)
    spec, _, flags, _ = prefill(render(tiered(wide, **HOST), engine="vllm"))
    told = json.loads(flags["kv-transfer-config"])["kv_connector_extra_config"]["cpu_bytes_to_use"]
    assert told == 125 * 10**9
    assert 8 * told <= (sizes_of(spec)["shared-memory"] - 16) * GIB


def test_vllm_keeps_disks_by_lmcache_in_a_volume_with_a_limit() -> None:
    spec, container, flags, variables = prefill(render(tiered(split_plan(), **BOTH), engine="vllm"))
    names = [row["kv_connector"] for row in connectors(flags)]
    assert names == ["LMCacheConnectorV1", "NixlConnector"]
    told = {name: value for name, value in variables.items() if name.startswith("LMCACHE_")}
    assert told == {
        "LMCACHE_LOCAL_CPU": "True",
        "LMCACHE_MAX_LOCAL_CPU_SIZE": "116.41",  # 125 GB in GiB, rounded down
        "LMCACHE_LOCAL_DISK": "file:///var/cache/kv/",
        "LMCACHE_MAX_LOCAL_DISK_SIZE": "465.66",
    }
    sizes, gpus = sizes_of(spec), 4
    assert sizes["kv-cache"] == gpus * gib(1.05 * 500), "a pod that fills its limit is evicted"
    assert sizes["shared-memory"] == 16, "LMCache pins memory of its own"
    assert container["resources"]["requests"]["ephemeral-storage"] == f"{sizes['kv-cache']}Gi"
    assert "ephemeral-storage" not in container["resources"]["limits"], "of all folders of the pod together"
    assert {"name": "kv-cache", "mountPath": "/var/cache/kv"} in container["volumeMounts"]


def connectors(flags: dict[str, str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(flags["kv-transfer-config"])["kv_connector_extra_config"]["connectors"]
    return found


def test_disk_without_host_memory_is_lmcaches_too() -> None:
    *_, flags, variables = prefill(render(tiered(split_plan(), **{**BOTH, "host_gb_per_node": 0.0}), engine="vllm"))
    assert connectors(flags)[0]["kv_connector"] == "LMCacheConnectorV1"
    assert variables["LMCACHE_LOCAL_CPU"] == "False"
    assert "LMCACHE_MAX_LOCAL_CPU_SIZE" not in variables


def test_sglang_counts_whole_gigabytes_of_a_gpu() -> None:
    odd = {"host_gb_per_node": 1007.0, "ssd_gb_per_node": 4000.0, "ssd_gb_per_s_per_node": 20.0}
    spec, container, flags, variables = prefill(render(tiered(split_plan(), **odd), engine="sglang"))
    assert flags["hicache-size"] == "125"  # 1,007 / 8, rounded down
    assert {"enable-hierarchical-cache", "hicache-write-policy", "hicache-mem-layout"} <= flags.keys()
    assert flags["hicache-storage-backend"] == "file"
    assert variables["SGLANG_HICACHE_FILE_BACKEND_MAX_SIZE"] == str(500 * 10**9)
    assert variables["SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR"] == "/var/cache/kv"
    assert sizes_of(spec)["shared-memory"] == 16
    assert memory_gib(container) == 4 * (64 + gib(1007 / 8))


def test_tensorrt_llm_counts_bytes_of_a_gpu() -> None:
    spec, container, _, _ = prefill(render(tiered(split_plan(), **HOST), engine="trtllm"))
    options = json.loads(next(word for word in container["args"] if word.startswith("{")))
    assert options["kv_cache_config"]["host_cache_size"] == 125 * 10**9
    assert memory_gib(container) == 4 * (64 + gib(125))
    assert "kv-cache" not in sizes_of(spec)


REFUSED = (
    ("trtllm", split_plan(), BOTH, ("tiers.ssd_gb_per_node", "TensorRT-LLM", "host_gb_per_node alone")),
    ("vllm", split_plan(model=WINDOWED), BOTH, ("tiers.ssd_gb_per_node", "vLLM", "LMCache", "windowed")),
    ("sglang", split_plan(), {"host_gb_per_node": 7.0}, ("tiers.host_gb_per_node", "SGLang", "whole GB")),
    ("sglang", split_plan(), {**BOTH, "host_gb_per_node": 0.0}, ("tiers.ssd_gb_per_node", "SGLang", "below passes")),
    *(
        (engine, split_plan(), {**HOST, "remote": STORE}, ("tiers.remote", *words))
        for engine, words in (
            ("vllm", ("vLLM", "got none", "--kv-store", "lm://")),
            ("sglang", ("SGLang", "got none", "--kv-store", "mooncake://")),
            ("trtllm", ("TensorRT-LLM", "host_gb_per_node alone")),
        )
    ),
)


@pytest.mark.parametrize(("engine", "plan", "sizes", "words"), REFUSED)
def test_what_an_engine_cannot_have_is_refused(
    engine: str, plan: Plan, sizes: dict[str, Any], words: tuple[str, ...]
) -> None:
    with pytest.raises(ExportError) as refusal:
        render(tiered(plan, **sizes), engine=engine)
    told = f"{refusal.value} {refusal.value.hint}"
    assert [word for word in ("H200-0", *words) if word not in told] == []


def test_a_shared_store_is_reached_at_its_address() -> None:
    """By LMCache with one seed of hashes everywhere; by Mooncake with no memory of the engines'."""
    plan = tiered(split_plan(), **HOST, remote=STORE)
    files = render(plan, engine="vllm", options=ExportOptions(kv_store="redis://caches.stores.svc:6379"))
    *_, flags, variables = prefill(files)
    assert connectors(flags)[0]["kv_connector"] == "LMCacheConnectorV1"
    assert variables["LMCACHE_REMOTE_URL"] == "redis://caches.stores.svc:6379"
    assert variables["PYTHONHASHSEED"] == "0"
    assert "LMCACHE_LOCAL_DISK" not in variables
    assert "port: 6379" in files["network-policies.yaml"]
    files = render(plan, engine="sglang", options=ExportOptions(kv_store="mooncake://master:50051"))
    _, container, flags, variables = prefill(files)
    assert (flags["hicache-storage-backend"], flags["hicache-size"]) == ("mooncake", "125")
    assert (variables["MOONCAKE_MASTER"], variables["MOONCAKE_GLOBAL_SEGMENT_SIZE"]) == ("master:50051", "0")
    assert "MOONCAKE_LOCAL_HOSTNAME" in {row["name"] for row in container["env"]}


@pytest.mark.parametrize(
    ("engine", "sizes", "address", "words"),
    [
        ("vllm", {"remote": STORE}, "mooncake://master:50051", ("tiers.remote", "lm://", "mooncake://master:50051")),
        ("sglang", {**HOST, "remote": STORE}, "lm://store:65432", ("tiers.remote", "mooncake://")),
        ("sglang", {"remote": STORE}, "mooncake://master:50051", ("tiers.remote", "whole GB")),
        ("sglang", {**BOTH, "remote": STORE}, "mooncake://master:50051", ("one store", "ssd_gb_per_node")),
        ("vllm", HOST, "lm://store:65432", ("deploy.kv_store", "tiers.remote")),
        ("vllm", {"remote": STORE}, "redis://me:secret@store:6379", ("deploy.kv_store", "without user and password")),
        ("vllm", {"remote": STORE}, "store:65432", ("deploy.kv_store", "HOST:PORT")),
    ],
)
def test_a_store_that_cannot_be_reached_so_is_refused(
    engine: str, sizes: dict[str, Any], address: str, words: tuple[str, ...]
) -> None:
    with pytest.raises(PlannerError) as refusal:
        render(tiered(split_plan(), **sizes), engine=engine, options=ExportOptions(kv_store=address))
    told = f"{refusal.value} {refusal.value.hint}"
    assert [word for word in words if word not in told] == []


def test_a_rank_that_spans_pods_cannot_share_one_region() -> None:
    wide = split_plan(ParallelConfig(tp=16, dp=1))
    with pytest.raises(ExportError, match=re.escape("tiers.host_gb_per_node")) as refusal:
        render(tiered(wide, **HOST), engine="vllm")
    assert "sglang" in (refusal.value.hint or "")
    *_, flags = read_flags(next(iter(containers(render(tiered(wide, **HOST), engine="sglang"), "prefill")))[1]["args"])
    assert flags


def test_files_without_a_bound_are_refused() -> None:
    plan = tiered(split_plan(), **BOTH)
    older = replace(plan, scenario=replace(plan.scenario, engine=load_engine("sglang", "0.5.18")))
    with pytest.raises(ExportError, match=re.escape("before 0.5.21")):
        render(older, engine="sglang")


@pytest.mark.parametrize("target", ["slurm", "kueue"])
def test_other_targets_ask_for_the_memory_too(target: str) -> None:
    options = ExportOptions(memory_gib_per_gpu=64)
    (before, after) = (
        "\n".join(render(plan, target=target, engine="sglang", options=options).values())
        for plan in (split_plan(), tiered(split_plan(), **HOST))
    )
    mark = {"slurm": r"--mem=(\d+)G", "kueue": r"memory\n +nominalQuota: (\d+)Gi"}[target]
    sizes = [sorted(int(size) for size in re.findall(mark, text)) for text in (before, after)]
    assert sizes[0] != sizes[1]
    assert max(sizes[1]) - max(sizes[0]) == 8 * gib(125), "two copies of four GPUs share a node"


def test_queues_have_room_for_the_disks() -> None:
    """Kueue admits nothing that asks for what a queue does not cover."""
    text = "\n".join(render(tiered(split_plan(), **BOTH), target="kueue", engine="vllm").values())
    quotas = [int(size) for size in re.findall(r"ephemeral-storage\n +nominalQuota: (\d+)Gi", text)]
    assert quotas == [0, 8 * gib(525)], "of H20, which decodes, and of H200"


@pytest.mark.parametrize(("engine", "sizes"), [("vllm", HOST), ("vllm", BOTH), ("sglang", BOTH), ("trtllm", HOST)])
def test_every_target_reads_back_what_it_writes(engine: str, sizes: dict[str, float]) -> None:
    plan = tiered(split_plan(), **sizes)
    for target, row in TARGETS.items():
        if engine not in row.engines or not any(kind.workloads for kind in row.kinds):
            continue
        files = render(plan, target=target, engine=engine)
        assert find_faults(files) == ()
        found = read_plan(files)
        assert found == summarize_plan(plan, engine=engine, target=target), target
        (taking,) = [island for island in found.islands if island.host_cache_gb]
        assert (taking.id, taking.host_cache_gb, taking.disk_cache_gb) == (
            "H200-0",
            125.0,
            sizes.get("ssd_gb_per_node", 0.0) / GPUS_OF_A_NODE,
        )


EDITS = (  # engine, tiers, what becomes what, a word of the fault
    ("vllm", HOST, '"cpu_bytes_to_use": 500000000000', '"cpu_bytes_to_use": 400000000000', "125 GB"),
    ("vllm", HOST, "OffloadingConnector", "OffloadingConnectors", ""),
    ("vllm", BOTH, "'465.66'", "'46.57'", "500 GB"),
    ("vllm", BOTH, "'116.41'", "'200'", "125 GB"),
    ("sglang", HOST, "--hicache-size=125", "--hicache-size=250", "got 250 GB"),
    ("sglang", BOTH, "'500000000000'", "'5e11x'", "got 0 GB"),
    ("trtllm", HOST, '"host_cache_size": 125000000000', '"host_cache_size": 1', "125 GB"),
    ("vllm", HOST, "planner/host-cache-gb: '125.0'", "planner/host-cache-gb: '12.5'", "12.5 GB"),
    ("vllm", HOST, f"memory: {4 * (64 + 117)}Gi", "memory: 256Gi", "466 GiB"),
    ("vllm", HOST, f"sizeLimit: {16 + 4 * 117}Gi", "sizeLimit: 16Gi", ""),
)


@pytest.mark.parametrize(("engine", "sizes", "old", "new", "told"), EDITS)
def test_a_size_edited_by_hand_is_told(engine: str, sizes: dict[str, float], old: str, new: str, told: str) -> None:
    """Beside the plan every edit; without it those that make flags, annotations and memory disagree."""
    files = render(tiered(split_plan(), **sizes), engine=engine)
    (name,) = [name for name, text in files.items() if old in text]
    edited = {**files, name: files[name].replace(old, new)}
    assert compare(edited, files).faults
    alone = "\n".join(map(str, find_faults(edited)))
    assert (told in alone) if told else not alone


def test_less_shared_memory_is_free_where_no_caches_lie_there() -> None:
    files = render(split_plan(), engine="vllm")
    less = {name: text.replace("sizeLimit: 16Gi", "sizeLimit: 8Gi", 1) for name, text in files.items()}
    assert less != files
    assert not compare(less, files).faults


ASKED = {  # version -> what its own code reads
    "vllm-0.33.0": {
        "vllm/v1/kv_offload/cpu/spec.py": ("cpu_bytes_to_use",),
        "vllm/v1/kv_offload/cpu/shared_offload_region.py": ("/dev/shm/",),
        "vllm/v1/kv_offload/base.py": ("self_describing_kv_events",),
        "vllm/distributed/kv_transfer/kv_connector/factory.py": ("OffloadingConnector", "LMCacheConnectorV1"),
        "vllm/distributed/kv_transfer/kv_connector/v1/multi_connector.py": ('"connectors"',),
    },
    "sglang-0.5.23": {
        "sglang/srt/environ.py": (
            "SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR",
            "SGLANG_HICACHE_FILE_BACKEND_MAX_SIZE",
            *("MOONCAKE_MASTER", "MOONCAKE_TE_META_DATA_SERVER", "MOONCAKE_GLOBAL_SEGMENT_SIZE"),
            "MOONCAKE_LOCAL_HOSTNAME",
        ),
        "sglang/srt/mem_cache/pool_host/base.py": ("host_size * 1e9",),
    },
}


@pytest.mark.parametrize("version", ASKED)
def test_what_no_parser_looks_at_is_read_by_the_engines_own_code(version: str) -> None:
    if reason := missing(version):
        pytest.skip(reason)
    for file, words in ASKED[version].items():
        text = (folder(version) / file).read_text(encoding="utf-8")
        assert [word for word in words if word not in text] == [], file


@pytest.mark.parametrize(("router", "engine"), [("vllm", "vllm"), ("model-gateway", "sglang")])
def test_a_router_remembers_as_much_text_as_the_tier_holds(router: str, engine: str) -> None:
    """A server of four GPUs holds 500 GB; 80 layers of 8 heads of 128 take 163,840 bytes a token in 8 bits; a token is
    four characters of text."""
    plan = by_prefix(tiered(split_plan(), host_gb_per_node=8000.0))
    words = render(plan, engine=engine, router=router)["router.yaml"]
    tokens = 4000 * 10**9 // (80 * 2 * 8 * 128)
    assert f"- --max-tree-size\n        - '{4 * tokens}'" in re.sub(r" +- ", "        - ", words).replace(
        "        - --max-tree-size", "- --max-tree-size"
    )
    for other in (tiered(split_plan(), host_gb_per_node=8000.0), by_prefix(split_plan())):
        assert "max-tree-size" not in render(other, engine=engine, router=router)["router.yaml"]


def test_the_endpoint_picker_remembers_as_many_blocks() -> None:
    plan = by_prefix(tiered(split_plan(), **HOST))
    text = "\n".join(render(plan, target="llm-d", engine="vllm").values())
    blocks = 500 * 10**9 // (80 * 2 * 8 * 128) // 64
    assert f"lruCapacityPerServer: {blocks}" in text
    assert "lruCapacityPerServer" not in "\n".join(render(by_prefix(split_plan()), target="llm-d").values())


def test_dynamos_workers_tell_what_their_caches_hold() -> None:
    """Those that take prompts in, of plans that go by prefix; else load alone decides, as ever."""
    pools = tiered(two_pool_plan(), **HOST)
    for plan, told, loads in ((by_prefix(pools), 2, 1), (pools, 0, 3)):
        text = "\n".join(render(plan, target="dynamo", engine="vllm").values())
        assert text.count("--kv-events-config") == text.count("self_describing_kv_events") == told
        assert text.count("--no-router-kv-events") == loads, "the router of decode always, those of both prefill pools"
        assert text.count("- --router-kv-events") == told
    assert ROUTERS["dynamo"].behaviour(by_prefix(pools), Surroundings()).prefixes
    assert not ROUTERS["dynamo"].behaviour(pools, Surroundings()).prefixes


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_one_front_end_over_all_goes_by_prefix_as_well(engine: str) -> None:
    text = "\n".join(render(by_prefix(tiered(split_plan(), **HOST)), target="dynamo", engine=engine).values())
    flag = {"trtllm": "--publish-kv-events"}.get(engine, "--kv-events-config")
    assert (text.count(flag), text.count("- --router-kv-events")) == (1, 1)
    assert "by prefix and load" in text
