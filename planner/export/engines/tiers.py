"""Caches below device memory: what an engine is told of a plan's `tiers`, and what its pods need for them.

Engines that take prompts in have them; those that decode alone begin with caches that they are sent.

symbol   meaning                                                         unit   source
G        what a tier holds of a GPU's caches                             GB     CacheTier.gb_per_gpu
gpus     GPUs of a pod, or of an attention rank (tp x pp)                1      PodGrouping, ParallelConfig
SLACK    of a volume beyond what engines keep there: a pod that fills    1      an assumption: blocks of the file
         its limit is evicted                                                   system, files half written

engine   tier         told by                                     of     unit     source
vllm     host alone   OffloadingConnector, cpu_bytes_to_use       rank   bytes    vllm/v1/kv_offload/cpu/spec.py
         host, ssd    LMCacheConnectorV1, LMCACHE_MAX_LOCAL_CPU_  GPU    GiB      LMCache, lmcache/v1/storage_backend
                      SIZE and LMCACHE_MAX_LOCAL_DISK_SIZE                        (local_cpu_, local_disk_backend.py)
         remote       the same, LMCACHE_REMOTE_URL                store  -        LMCache, docs on remote backends
sglang   host         --hicache-size                              GPU    GB       srt/mem_cache/pool_host/base.py
         ssd          backend `file`, SGLANG_HICACHE_FILE_        GPU    bytes    srt/mem_cache/storage/file
                      BACKEND_MAX_SIZE                                            (from 0.5.21, pull request 26670)
         remote       backend `mooncake`, MOONCAKE_MASTER         store  -        srt/mem_cache/storage/mooncake_store
trtllm   host         kv_cache_config.host_cache_size             GPU    bytes    docs of KvCacheConfig, "per rank"

vLLM's own connector lays the host's part out in /dev/shm (shared_offload_region.py), so that the pod's shared memory
grows by it; SGLang and LMCache pin memory of their processes, and TensorRT-LLM too. All of it counts towards the pod's
memory. vLLM has a tier of files, too, without a bound (issue 54779): it would fill any disk, so that LMCache takes its
place, which knows one group of layers alone. A store that servers share has an address that the options tell, and a
size of its own: engines lend it no memory. LMCache's keys are Python's hashes, so that all servers need one seed.

Local disk is an `emptyDir` with a limit: level `restricted` of Pod Security admits it, a hostPath is above `baseline`
already, it ends with the pod as its engine's index does, and it lies where the kubelet has its pods' files, which is
where nodes with local SSDs have them mounted.
"""

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from planner.domain import MlaAttention
from planner.domain.serving.caches.tiers import HOST, REMOTE, SSD
from planner.errors import ExportError
from planner.export.engines.arguments import FlagValue
from planner.export.islands import ServingIsland

FOLDER = "/var/cache/kv"
"""Where engines keep caches on local disk."""
LMCACHE, OFFLOADING = "LMCacheConnectorV1", "OffloadingConnector"
CPU_BYTES = "cpu_bytes_to_use"
LMCACHE_CPU, LMCACHE_DISK = "LMCACHE_MAX_LOCAL_CPU_SIZE", "LMCACHE_MAX_LOCAL_DISK_SIZE"
FILE_SIZE, FILE_FOLDER = "SGLANG_HICACHE_FILE_BACKEND_MAX_SIZE", "SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR"
BOUNDED_FILES = (0, 5, 21)
"""The version of SGLang from which on its files have a bound."""
_OF_LMCACHE, _OF_SGLANG = ("lm", "redis", "mooncakestore"), ("mooncake",)
_SLACK = Fraction(21, 20)
_GB, _GIB = 10**9, 2**30
_HUNDREDTHS = 100
_NAMES: Mapping[str, str] = MappingProxyType(
    {HOST: "host_gb_per_node", SSD: "ssd_gb_per_node", REMOTE: "remote"},
)


def tier_bytes(island: ServingIsland, tier: str, gpus: int) -> int:
    """Bytes of a tier for so many of the island's GPUs, rounded down; 0 where there is no such tier."""
    return int(Fraction(island.tier_gb(tier)) * gpus * _GB)


def tier_tokens(island: ServingIsland) -> int:
    """Tokens of long prompts that the largest tier holds for what takes requests by itself: a rank, or a server. What
    faster memory holds lies there, too."""
    gpus = island.parallel.tp * island.parallel.pp if island.by_rank else island.parallel.devices
    largest = max((tier.gb_per_gpu for tier in island.tiers), default=0.0)
    return int(largest * _GB * gpus * island.max_model_len / island.model.cached_bytes(island.max_model_len))


@dataclass(frozen=True, slots=True, kw_only=True)
class PodNeeds:
    """What the pods of a copy have to have for its tiers. `shared_gib`: of /dev/shm beside what the options give it;
    `disk_gib`: of local disk at `FOLDER`, with its slack."""

    shared_gib: int = 0
    disk_gib: int = 0


def pod_needs(island: ServingIsland, *, shares: bool) -> PodNeeds:
    """`shares`: the engine keeps the host's part in /dev/shm."""
    gpus = island.grouping.gpus_per_pod
    return PodNeeds(
        shared_gib=gpus * host_gib_per_gpu(island) if shares else 0, disk_gib=gpus * disk_gib_per_gpu(island)
    )


def host_gib_per_gpu(island: ServingIsland) -> int:
    """Host memory that each GPU takes along (GiB), beside what a pod has otherwise."""
    return math.ceil(Fraction(tier_bytes(island, HOST, 1), _GIB))


def disk_gib_per_gpu(island: ServingIsland) -> int:
    """Local disk that each GPU takes along (GiB), with its slack."""
    return math.ceil(tier_bytes(island, SSD, 1) * _SLACK / _GIB)


def require_tiers(island: ServingIsland, engine: str, able: Collection[str], hint: str) -> None:
    """Refuse tiers that the engine cannot have.

    Raises:
        ExportError: the plan has a tier that is not among `able`.
    """
    for tier in island.tiers:
        if tier.name not in able:
            why = f"no flag of {engine} gives its servers that one, with a bound"
            raise tier_refusal(island, tier.name, engine, why, hint)


def _require_store(island: ServingIsland, engine: str, schemes: tuple[str, ...]) -> None:
    """Refuse a remote store without an address of a kind that the engine knows.

    Raises:
        ExportError: the address is missing, or of another scheme.
    """
    scheme = island.store.partition("://")[0]
    if island.tier_gb(REMOTE) and scheme not in schemes:
        known = ", ".join(f"{name}://" for name in schemes)
        raise ExportError(
            f"Island {island.id}, tiers.remote: {engine} must be told where the store answers, by an address that "
            f"begins with {known}, got {island.store or 'none'}.",
            hint="Give deploy.kv_store (--kv-store), for example "
            + {"lm": "lm://store:65432.", "mooncake": "mooncake://master:50051."}[schemes[0]],
        )


def tier_refusal(island: ServingIsland, tier: str, engine: str, why: str, hint: str) -> ExportError:
    """That an island's engine cannot have a tier, in words."""
    return ExportError(
        f"Island {island.id}, tiers.{_NAMES[tier]}: must be left out for {engine}, as {why}, got "
        f"{island.tier_gb(tier):g} GB for each GPU.",
        hint=hint,
    )


def vllm_shares(island: ServingIsland) -> bool:
    """Whether vLLM keeps the host's part itself, in shared memory."""
    return not island.tier_gb(SSD) and not island.tier_gb(REMOTE)


def vllm_connector(island: ServingIsland) -> dict[str, Any] | None:
    """The connector that keeps caches below device memory; None where the island has no tiers.

    Raises:
        ExportError: a tier that vLLM cannot have, ranks that span pods, or layers that LMCache does not know.
    """
    if not island.tiers:
        return None
    _require_store(island, "vLLM", _OF_LMCACHE)
    return _offloading(island) if vllm_shares(island) else _lmcache(island)


def _offloading(island: ServingIsland) -> dict[str, Any]:
    rank, gpus = island.parallel.tp * island.parallel.pp, island.grouping.gpus_per_pod
    if rank > gpus:
        raise tier_refusal(
            island,
            HOST,
            "vLLM",
            f"its region is one for a rank, in the shared memory of one pod, and a rank of {rank} GPUs spans pods of "
            f"{gpus}",
            "Plan with islands whose ranks fit a host, or export for sglang.",
        )
    return {
        "kv_connector": OFFLOADING,
        "kv_role": "kv_both",
        "kv_connector_extra_config": {CPU_BYTES: tier_bytes(island, HOST, rank)} | _block_sizes_told(island),
    }


def _block_sizes_told(island: ServingIsland) -> dict[str, bool]:
    """That events of offloaded blocks say which tokens they are of, as those of device memory do."""
    return {"self_describing_kv_events": True} if island.events_port else {}


def _lmcache(island: ServingIsland) -> dict[str, Any]:
    indexed = any(isinstance(kind, MlaAttention) and kind.indexer is not None for kind, _ in island.model.attentions)
    if island.model.windowed or island.model.stateful or indexed:
        raise tier_refusal(
            island,
            SSD if island.tier_gb(SSD) else REMOTE,
            "vLLM",
            f"LMCache keeps layers of one kind alone, and {island.model.name} has several",
            "Plan with host_gb_per_node alone, or export for sglang.",
        )
    return {"kv_connector": LMCACHE, "kv_role": "kv_both"}


def vllm_tier_environment(island: ServingIsland, port_offset: int) -> list[tuple[str, str]]:
    """LMCache's settings; sizes are a GPU's, in hundredths of a GiB."""
    if not island.tiers or vllm_shares(island):
        return []
    host = island.tier_gb(HOST)
    # without a tier in host memory it still has to pass what it writes and reads through some: its own default
    memory = [("LMCACHE_LOCAL_CPU", "True"), (LMCACHE_CPU, _hundredths(tier_bytes(island, HOST, 1)))]
    disk = [
        ("LMCACHE_LOCAL_DISK", f"file://{folder(port_offset)}/"),
        (LMCACHE_DISK, _hundredths(tier_bytes(island, SSD, 1))),
    ]
    return [
        *(memory if host else [("LMCACHE_LOCAL_CPU", "False")]),
        *(disk if island.tier_gb(SSD) else []),
        *([("LMCACHE_REMOTE_URL", island.store), ("PYTHONHASHSEED", "0")] if island.tier_gb(REMOTE) else []),
    ]


def _hundredths(size: int) -> str:
    return f"{size * _HUNDREDTHS // _GIB / _HUNDREDTHS:.2f}"


def folder(port_offset: int) -> str:
    """A copy's folder; copies that share a host have one each."""
    return f"{FOLDER}/{port_offset}" if port_offset else FOLDER


def sglang_rows(island: ServingIsland, *, bounded_files: bool) -> list[tuple[str, FlagValue]]:
    """HiCache's flags: written through, as plans count on, by the kernels and in the layout that go together.

    Raises:
        ExportError: a tier that SGLang cannot have: less than a GB, disk without a host's part or, not
            `bounded_files`, in a version whose files have no bound.
    """
    if not island.tiers:
        return []
    _require_store(island, "SGLang", _OF_SGLANG)
    size, disk, remote = tier_bytes(island, HOST, 1) // _GB, island.tier_gb(SSD), island.tier_gb(REMOTE)
    if disk and remote:
        raise tier_refusal(
            island, SSD, "SGLang", "it has one store below the host's memory", "Plan with one of ssd and remote."
        )
    if disk and not bounded_files:
        raise tier_refusal(
            island, SSD, "SGLang", "its files have no bound before 0.5.21", "Plan for a younger version of the engine."
        )
    if size < 1:
        raise tier_refusal(
            island,
            HOST if island.tier_gb(HOST) else SSD if disk else REMOTE,
            "SGLang",
            "it counts the host's part in whole GB a GPU, and what lies below passes through that",
            "Plan with a host_gb_per_node of a GB for each GPU at least.",
        )
    rows: list[tuple[str, FlagValue]] = [
        ("enable-hierarchical-cache", None),
        ("hicache-size", size),
        ("hicache-write-policy", "write_through"),
        ("hicache-io-backend", "kernel"),
        ("hicache-mem-layout", "page_first"),
    ]
    backend = "file" if disk else "mooncake" if remote else ""
    return rows + ([("hicache-storage-backend", backend)] if backend else [])


def sglang_addresses(island: ServingIsland) -> tuple[str, ...]:
    """Variables that hold the pod's own address, for the store to write to."""
    return ("MOONCAKE_LOCAL_HOSTNAME",) if island.tier_gb(REMOTE) else ()


def sglang_tier_environment(island: ServingIsland, port_offset: int) -> list[tuple[str, str]]:
    """Where files lie, and how many bytes of them are a GPU's; or where the store's master answers."""
    if island.tier_gb(REMOTE):
        return [
            ("MOONCAKE_MASTER", island.store.partition("://")[2]),
            ("MOONCAKE_TE_META_DATA_SERVER", "P2PHANDSHAKE"),
            ("MOONCAKE_GLOBAL_SEGMENT_SIZE", "0"),
        ]
    if not island.tier_gb(SSD):
        return []
    return [(FILE_FOLDER, folder(port_offset)), (FILE_SIZE, str(tier_bytes(island, SSD, 1)))]


def tier_notes(island: ServingIsland) -> tuple[str, ...]:
    """What the reader must know of the tiers."""
    if not island.tiers:
        return ()
    sizes = ", ".join(f"{tier.gb_per_gpu:g} GB of {tier.name}" for tier in island.tiers)
    notes = [
        f"Caches below device memory: {sizes} for each GPU, beside the memory that pods have otherwise "
        "(deploy.memory_gib_per_gpu)."
    ]
    if island.tier_gb(SSD):
        notes.append(
            f"Caches on disk lie in {FOLDER}: mount local SSDs where the kubelet keeps its pods' volumes, or there "
            "where no pods are started."
        )
    if island.store.startswith(_OF_SGLANG) and island.tier_gb(REMOTE):
        notes.append(
            "Mooncake reads by RDMA (MOONCAKE_PROTOCOL) unless told otherwise: give pods devices (deploy.rdma)."
        )
    return tuple(notes)


def vllm_tier_notes(island: ServingIsland) -> tuple[str, ...]:
    """The same of vLLM: what keeps the host's part, and where."""
    if not island.tiers:
        return ()
    if not vllm_shares(island):
        return (*tier_notes(island), "LMCache keeps them: the image has to have it.")
    size = host_gib_per_gpu(island)
    where = (
        f"They lie in /dev/shm, {size} GiB for each GPU: pods are given that, and where none are started hosts need it."
    )
    return (*tier_notes(island), where)


def sglang_tier_notes(island: ServingIsland) -> tuple[str, ...]:
    """The same of SGLang, which starts with 10 GiB to spare alone (HICACHE_HOST_MEMORY_RESERVE_BYTES)."""
    spare = "SGLang starts only where 10 GiB of the pod's memory are left beside them."
    return (*tier_notes(island), spare) if island.tiers else ()


def merged(connectors: list[dict[str, Any]], role: str) -> dict[str, Any]:
    """One connector as it is, several as children of vLLM's MultiConnector: a prompt's cache is read from the first
    that has it, and written to all."""
    if len(connectors) == 1:
        return connectors[0]
    return {
        "kv_connector": "MultiConnector",
        "kv_role": role,
        "kv_connector_extra_config": {"connectors": connectors},
    }


def event_rows(island: ServingIsland, *, switched: bool) -> list[tuple[str, FlagValue]]:
    """That an engine tells what its caches hold; of data-parallel ranks each at a port of its own, the next ones.
    `switched`: it has a switch for it beside the socket."""
    if not island.events_port:
        return []
    socket = {"publisher": "zmq", "topic": "kv-events", "endpoint": f"tcp://*:{island.events_port}"}
    return [("kv-events-config", json.dumps(({"enable_kv_cache_events": True} if switched else {}) | socket))]


def transfer_text(connectors: list[dict[str, Any]], role: str, policy: str) -> str:
    """The value of --kv-transfer-config."""
    return json.dumps(merged(connectors, role) | {"kv_load_failure_policy": policy})
