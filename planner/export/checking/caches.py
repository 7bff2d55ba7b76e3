"""Whether engines are told of as much cache below device memory as their island has there, and pods have room for it.

What an island has stands in its annotations; what engines are told is read from their flags and variables, as
`engines.tiers` writes them: in whole GB, hundredths of a GiB or bytes, rounded down, so that less than a GB of a GPU is
no difference. Without a plan, too: a folder tells both.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from planner.domain.serving.caches.tiers import HOST, SSD
from planner.errors import InputError
from planner.export.checking.owners import Owned
from planner.export.engines.arguments import read_count, read_flags
from planner.export.engines.kv_caches import CONNECTOR
from planner.export.engines.tiers import CPU_BYTES, FILE_SIZE, LMCACHE_CPU, LMCACHE_DISK
from planner.export.engines.trtllm_options import FLAG, read_options
from planner.export.found import Fault, FoundPod, FoundWorkload
from planner.export.objects.documents import amount, json_document, whole_number
from planner.export.objects.pods import GPU_RESOURCES
from planner.units import GB, GIB

_UNIT_GB = 1.0
"""Of the coarsest flag, SGLang's."""


def cache_faults(owned: Owned) -> Iterator[Fault]:
    """Sizes that are not the island's, and pods whose memory is smaller than what their engine keeps there."""
    workload, island = owned
    planned = {HOST: island.host_cache_gb, SSD: island.disk_cache_gb}
    for copy in workload.copies:
        for pod in copy:
            if pod.arguments is None:
                continue
            told = told_gb(workload, pod)
            for tier, size in planned.items():
                if not size - _UNIT_GB < told[tier] <= size + 1e-6:
                    yield workload.manifest.fault(
                        f"{pod.path}, caches of tier {tier}",
                        f"must be the {size:g} GB for each GPU of {island.id}",
                        f"{told[tier]:g} GB",
                    )
            yield from _too_small(workload, pod, told[HOST])


def _too_small(workload: FoundWorkload, pod: FoundPod, host_gb: float) -> Iterator[Fault]:
    limits = pod.spec["containers"][0].get("resources", {}).get("limits", {})
    memory = amount(limits.get("memory"))
    needed = host_gb * GB * sum(whole_number(limits.get(name, 0)) for name in GPU_RESOURCES.values())
    if memory is not None and memory < needed:
        yield workload.manifest.fault(
            f"{pod.path}.containers.0.resources.limits.memory",
            f"must hold the {needed / GIB:.0f} GiB of caches that the engine keeps there",
            limits["memory"],
        )


def told_gb(workload: FoundWorkload, pod: FoundPod) -> dict[str, float]:
    """What an engine is told to keep of each of its GPUs' caches (GB), by tier; 0 where nothing can be read."""
    words = tuple(pod.arguments or ())
    values, variables = read_flags(words), _variables(workload, pod)
    rank = read_count(values, "tensor-parallel-size", 1) * read_count(values, "pipeline-parallel-size", 1)
    lmcache = variables.get("LMCACHE_LOCAL_CPU") == "True"
    host = (
        _number(values.get("hicache-size")),
        _of_connectors(values.get(CONNECTOR, "")) / max(1, rank) / GB,
        _number(variables.get(LMCACHE_CPU)) * GIB / GB if lmcache else 0.0,
        _of_options(words) / GB,
    )
    disk = (_number(variables.get(LMCACHE_DISK)) * GIB / GB, _number(variables.get(FILE_SIZE)) / GB)
    return {HOST: max(host), SSD: max(disk)}


def _variables(workload: FoundWorkload, pod: FoundPod) -> dict[str, str]:
    """Of the container, of a line as `env NAME=VALUE program`, and of an object that has them beside its pods."""
    rows = pod.spec["containers"][0].get("env", ())
    words = [word.partition("=") for word in pod.arguments or () if not word.startswith("-")]
    beside = workload.template.get("env_vars", {})
    return {
        **{name: value for name, equals, value in words if equals},
        **{str(row.get("name")): str(row["value"]) for row in rows if "value" in row},
        **{str(name): str(value) for name, value in beside.items()},
    }


def _number(text: str | None) -> float:
    try:
        number = float(text or 0)
    except ValueError:
        return 0.0
    return number if 0 <= number < float("inf") else 0.0


def _of_connectors(text: str) -> float:
    """Bytes of a rank in the configuration of a connector, or of one of several."""
    try:
        found = list(_values_of(json_document(text) if text else {}, CPU_BYTES))
    except ValueError:
        return 0.0
    return max(map(_number, found), default=0.0)


def _of_options(words: tuple[str, ...]) -> float:
    """Bytes of a GPU in TensorRT-LLM's options: of its file, or as a flag of Dynamo's workers."""
    try:
        options = read_options([word for word in words if word.startswith(FLAG) or '"kv_cache_config"' in word])
    except InputError:
        return 0.0
    flat = options.get("kv_cache_config.host_cache_size")
    found = [str(flat)] if flat is not None else list(_values_of(options, "host_cache_size"))
    return max(map(_number, found), default=0.0)


def _values_of(document: Any, key: str) -> Iterator[str]:
    if isinstance(document, Mapping):
        for name, value in document.items():
            if name == key:
                yield json.dumps(value)
            yield from _values_of(value, key)
    elif isinstance(document, list):
        for value in document:
            yield from _values_of(value, key)
