"""The section `tiers` of a scenario: where KV caches of earlier prompts lie beside device memory."""

from collections.abc import Sequence

from planner.domain import CacheRate, CostSettings, GpuSpec
from planner.domain.serving.caches.tiers import TierSettings
from planner.files.records import read_record
from planner.files.sections import Section


def read_tiers(document: Section, cost: CostSettings, gpus: Sequence[GpuSpec]) -> TierSettings | None:
    """The settings; None where the section is missing or null. `gpus`: types of the inventory.

    InputError for a tier without room or without bandwidth, and where nothing tells what would be found in it.
    """
    if document.is_empty("tiers"):
        return None
    section = document.section("tiers")
    settings = read_record(TierSettings, section)
    if cost.kv_cache_rate is not CacheRate.AUTO:
        raise document.refusal(
            "tiers",
            "must be left out unless cost.kv_cache_rate is auto: a share that is given holds whatever the tiers hold",
            hint="Set cost.kv_cache_rate to auto, with a workload that knows how its prompts begin alike.",
            by_itself=False,
        )
    _require_room(section, settings)
    _require_bandwidth(section, settings, gpus)
    return settings


def _require_room(section: Section, settings: TierSettings) -> None:
    if not (settings.host_gb_per_node or settings.ssd_gb_per_node or settings.remote):
        raise section.refusal(
            "host_gb_per_node",
            "must be above 0 where no other tier has room, got 0",
            hint="Give host_gb_per_node, ssd_gb_per_node or remote, or leave out tiers.",
        )


def _require_bandwidth(section: Section, settings: TierSettings, gpus: Sequence[GpuSpec]) -> None:
    if settings.ssd_gb_per_node and not settings.ssd_gb_per_s_per_node:
        raise section.refusal(
            "ssd_gb_per_s_per_node",
            f"must be above 0 where ssd_gb_per_node is, got {settings.ssd_gb_per_s_per_node:g}",
            hint="Measure it with `fio --rw=read --bs=1M`, on all SSDs of a node together.",
        )
    unknown = [gpu.name for gpu in gpus if not (settings.host_gb_per_s_per_gpu or gpu.host_memory_gb_s)]
    if unknown:
        raise section.refusal(
            "host_gb_per_s_per_gpu",
            f"must be given where a GPU type's own host_memory_gb_s is not known, as of {unknown[0]}",
            hint="Measure it with nvbandwidth (host_to_device_memcpy_ce), or give host_memory_gb_s in the GPU's spec.",
            by_itself=False,
        )
