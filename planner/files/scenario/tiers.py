"""The section `tiers` of a scenario: where KV caches of earlier prompts lie beside device memory."""

from collections.abc import Sequence
from dataclasses import replace

from planner.domain import CacheRate, CostSettings, GpuSpec
from planner.domain.serving.caches.tiers import TierSettings
from planner.files.records import read_record, record_document
from planner.files.sections import Section

_HOST, _MOST_GB, _FEWEST = "host_gb_per_node", 1_000_000, 2


def read_tiers(document: Section, cost: CostSettings, gpus: Sequence[GpuSpec]) -> TierSettings | None:
    """The settings; None where the section is missing or null. `gpus`: types of the inventory.

    InputError for a tier without bandwidth, and where nothing tells what would be found in it.
    """
    if document.is_empty("tiers"):
        return None
    section = document.section("tiers")
    sizes = _sizes(section)
    if sizes:
        settings = read_record(TierSettings, section, host_gb_per_node=lambda _: sizes[0])
        settings = replace(settings, host_sizes_gb=sizes)
    else:
        settings = read_record(TierSettings, section)
    if cost.kv_cache_rate is not CacheRate.AUTO:
        raise document.refusal(
            "tiers",
            "must be left out unless cost.kv_cache_rate is auto: a share that is given holds whatever the tiers hold",
            hint="Set cost.kv_cache_rate to auto, with a workload that knows how its prompts begin alike.",
            by_itself=False,
        )
    _require_bandwidth(section, settings, gpus)
    return settings


def tiers_document(settings: TierSettings) -> dict[str, object]:
    """The section that `read_tiers` reads back as the same settings."""
    sizes = settings.host_sizes_gb
    return record_document(settings, **({"host_gb_per_node": [int(size) for size in sizes]} if sizes else {}))


def _sizes(section: Section) -> tuple[float, ...]:
    """Sizes of host memory to choose from; none where one is given."""
    key = _HOST
    if not section.holds_list(key):
        return ()
    sizes = section.integers(key, low=0, high=_MOST_GB)
    if len(sizes) < _FEWEST:
        raise section.fault(key, "a number, or a list of at least two", hint="Such as [0, 500, 1000].")
    return tuple(map(float, sizes))


def _require_bandwidth(section: Section, settings: TierSettings, gpus: Sequence[GpuSpec]) -> None:
    if settings.ssd_gb_per_node and not settings.ssd_gb_per_s_per_node:
        raise section.refusal(
            "ssd_gb_per_s_per_node",
            f"must be above 0 where ssd_gb_per_node is, got {settings.ssd_gb_per_s_per_node:g}",
            hint="Measure it with fio, reads of 1 MB from all SSDs of a node together.",
        )
    unknown = [gpu.name for gpu in gpus if not (settings.host_gb_per_s_per_gpu or gpu.host_memory_gb_s)]
    if unknown:
        raise section.refusal(
            "host_gb_per_s_per_gpu",
            f"must be given where a GPU type's own host_memory_gb_s is not known, as of {unknown[0]}",
            hint="Measure it with nvbandwidth (host_to_device_memcpy_ce), or give host_memory_gb_s in the GPU's spec.",
            by_itself=False,
        )
