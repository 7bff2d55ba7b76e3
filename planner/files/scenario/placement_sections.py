"""The `placement:` section of a scenario, and what a scenario with a cluster has to keep to."""

import re

from planner.domain import (
    CostMode,
    CostSource,
    EvictionRule,
    ObjectiveKind,
    PlacementSettings,
    PlacementWeights,
    Qos,
    Scenario,
)
from planner.domain.preemption import HIGHEST_PRIORITY, LOWEST_PRIORITY
from planner.errors import InputError
from planner.files.cluster.cluster_documents import taint_rows
from planner.files.cluster.cluster_sections import read_taints
from planner.files.sections import Section

_QOS = {qos.value: qos for qos in Qos} | {qos.kubelet_policy: qos for qos in Qos}
_KEYS = ("qos", "cpus_per_gpu", "memory_gb_per_gpu", "tolerations", "weights", "preempt", "priority", "power_cap_w")
_EVICTION_KEYS = (
    "priority_class",
    "victim_rule",
    "most_victims",
    "most_lost_gpu_hours",
    "lost_gpu_hour_rps",
    "assumed_checkpoint_age_s",
)
_WEIGHTS = tuple(PlacementWeights.__dataclass_fields__)
_MOST_CPUS_PER_GPU = 1_024
_MOST_GB_PER_GPU = 1e6
_MOST_W = 1e12
_MOST_VICTIMS = 10**9
_MOST_LOST = 1e12
_PRIORITY_CLASS = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def read_placement(section: Section) -> PlacementSettings:
    """How the plan is put on nodes. `qos` is a word for both phases or one a phase, FlexTopo's or the kubelet's."""
    section.allow_only(*_KEYS, *_EVICTION_KEYS)
    default = PlacementSettings()
    prefill, decode = _qos(section, default)
    return PlacementSettings(
        prefill_qos=prefill,
        decode_qos=decode,
        cpus_per_gpu=section.integer("cpus_per_gpu", default=default.cpus_per_gpu, low=0, high=_MOST_CPUS_PER_GPU),
        memory_gb_per_gpu=section.number(
            "memory_gb_per_gpu", default=default.memory_gb_per_gpu, low=0, high=_MOST_GB_PER_GPU
        ),
        tolerations=read_taints(section, "tolerations"),
        weights=_weights(section.section("weights", optional=True)),
        preempt=section.flag("preempt", default.preempt),
        priority=section.integer("priority", default=default.priority, low=LOWEST_PRIORITY, high=HIGHEST_PRIORITY),
        priority_class=_priority_class(section),
        victim_rule=section.choice("victim_rule", EvictionRule, default=default.victim_rule),
        most_victims=section.integer("most_victims", low=0, high=_MOST_VICTIMS) if "most_victims" in section else None,
        most_lost_gpu_hours=_optional(section, "most_lost_gpu_hours", _MOST_LOST),
        lost_gpu_hour_rps=section.number(
            "lost_gpu_hour_rps", default=default.lost_gpu_hour_rps, low=0, high=_MOST_LOST
        ),
        assumed_checkpoint_age_s=_optional(section, "assumed_checkpoint_age_s", _MOST_LOST),
        power_cap_w=section.number("power_cap_w", default=default.power_cap_w, low=0, high=_MOST_W),
    )


def _optional(section: Section, key: str, high: float) -> float | None:
    return section.number(key, low=0, high=high) if key in section else None


def _priority_class(section: Section) -> str:
    """It ends up in manifests, and Kubernetes takes a DNS label."""
    if "priority_class" not in section:
        return ""
    word = section.text("priority_class")
    if not _PRIORITY_CLASS.fullmatch(word):
        raise section.fault("priority_class", "a DNS label: at most 63 small letters, digits and '-', none at its ends")
    return word


def _qos(section: Section, default: PlacementSettings) -> tuple[Qos, Qos]:
    """The QoS of prefill and of decode islands."""
    if section.holds_section("qos"):
        phases = section.section("qos")
        phases.allow_only("prefill", "decode")
        return _word(phases, "prefill", default.prefill_qos), _word(phases, "decode", default.decode_qos)
    if "qos" not in section:
        return default.prefill_qos, default.decode_qos
    both = _word(section, "qos", default.prefill_qos)
    return both, both


def _word(section: Section, key: str, default: Qos) -> Qos:
    return _QOS[section.one_of(key, tuple(_QOS), default=default.value)]


def _weights(section: Section) -> PlacementWeights:
    section.allow_only(*_WEIGHTS)
    default = PlacementWeights()
    given = {key: section.number(key, default=getattr(default, key), low=0, high=1e6) for key in _WEIGHTS}
    if not any(given.values()):
        raise InputError(
            f"{section.file}: {section.path} must have a weight above 0; all are 0.",
            hint="Leave a weight out for its default.",
        )
    return PlacementWeights(**given)


def placement_settings_document(settings: PlacementSettings) -> dict[str, object]:
    """The section that `read_placement` reads back as the same settings."""
    return {
        "qos": {"prefill": settings.prefill_qos.value, "decode": settings.decode_qos.value},
        "cpus_per_gpu": settings.cpus_per_gpu,
        "memory_gb_per_gpu": settings.memory_gb_per_gpu,
        "tolerations": taint_rows(settings.tolerations),
        "weights": {key: getattr(settings.weights, key) for key in _WEIGHTS},
        "preempt": settings.preempt,
        "priority": settings.priority,
        **({"power_cap_w": settings.power_cap_w} if settings.power_cap_w else {}),
        **_eviction_settings(settings),
    }


def _eviction_settings(settings: PlacementSettings) -> dict[str, object]:
    """What differs from the defaults, so that sections of before are written as they were."""
    default = PlacementSettings()
    told = {key: getattr(settings, key) for key in _EVICTION_KEYS if getattr(settings, key) != getattr(default, key)}
    return {key: value.value if isinstance(value, EvictionRule) else value for key, value in told.items()}


def require_placeable(file: str, scenario: Scenario) -> None:
    """InputError where islands are to lie on nodes, and something that this takes is missing, or where lost work is to
    count in a search that does not look at nodes."""
    if scenario.placement.lost_gpu_hour_rps and scenario.objective.kind is not ObjectiveKind.PLACED:
        raise InputError(
            f"{file}: placement.lost_gpu_hour_rps goes with objective.kind placed: only there a search judges what "
            f"evictions lose; objective.kind is {scenario.objective.kind.value}.",
            hint="Set objective: placed, or limit placement.most_lost_gpu_hours instead.",
        )
    if scenario.cluster is None:
        if scenario.objective.kind is ObjectiveKind.PLACED:
            raise InputError(
                f"{file}: cluster must be given where objective.kind is placed; it is missing.",
                hint="Add the path of a cluster file.",
            )
        return
    for key, value, needed in (
        ("cost.mode", scenario.cost.mode, CostMode.DEFAULT),
        ("cost.source", scenario.cost.source, CostSource.ANALYTIC),
    ):
        if value is not needed:
            raise InputError(
                f"{file}: {key} must be {needed.value} where cluster is given: nothing else tells placed islands from "
                f"compact ones; came {value.value}.",
                hint=f"Set {key} to {needed.value}, or leave out cluster.",
            )
