"""The `placement:`, `routing:` and `survive:` sections of a scenario, and what goes together with them."""

import re
from dataclasses import astuple, replace

from planner.domain import (
    CostMode,
    CostSource,
    Encoding,
    PlacementSettings,
    Qos,
    RoutingForm,
    RoutingSettings,
    Scenario,
    ServingForm,
    SurvivalSettings,
    require_buckets,
)
from planner.domain.serving.routing import DEFAULT_FORM
from planner.errors import InputError
from planner.files.cluster.cluster_sections import read_taints
from planner.files.records import read_record, record_document
from planner.files.sections import Section

_QOS = {qos.value: qos for qos in Qos} | {qos.kubelet_policy: qos for qos in Qos}
_PRIORITY_CLASS = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def read_placement(section: Section) -> PlacementSettings:
    """How the plan is put on nodes. `qos` is a word for both phases or one a phase, FlexTopo's or the kubelet's."""
    settings = read_record(
        PlacementSettings,
        section,
        prefill_qos=lambda section: _qos(section)[0],
        decode_qos=lambda section: _qos(section)[1],
        tolerations=lambda section: read_taints(section, "tolerations"),
        priority_class=_priority_class,
    )
    if not any(astuple(settings.weights)):
        text = "must have a weight above 0; all are 0"
        raise section.refusal("weights", text, hint="Leave a weight out for its default.", by_itself=False)
    return settings


def _priority_class(section: Section) -> str:
    """It ends up in manifests, and Kubernetes takes a DNS label."""
    if "priority_class" not in section:
        return ""
    word = section.text("priority_class")
    if not _PRIORITY_CLASS.fullmatch(word):
        raise section.fault("priority_class", "a DNS label: at most 63 small letters, digits and '-', none at its ends")
    return word


def _qos(section: Section) -> tuple[Qos, Qos]:
    """The QoS of prefill and of decode islands."""
    default = PlacementSettings()
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


def placement_settings_document(settings: PlacementSettings) -> dict[str, object]:
    """The section that `read_placement` reads back as the same settings."""
    qos = {"prefill": settings.prefill_qos.value, "decode": settings.decode_qos.value}
    return record_document(settings, prefill_qos=qos)


def _require_no_graph(file: str, scenario: Scenario) -> None:
    """InputError where a search is to cut the graph of a cluster's GPUs and there is no cluster."""
    search = scenario.search
    if search.encoded is Encoding.GRAPH and not search.method.row.solves:
        key = "method" if search.method.row.encoding else "encoding"
        raise InputError(
            f"{file}: cluster must be given where search.{key} is graph: it cuts the graph of a cluster's GPUs; it is "
            "missing.",
            hint="Add the path of a cluster file, or choose divider or direct.",
        )


def require_placeable(file: str, scenario: Scenario) -> None:
    """InputError where islands are to lie on nodes, and something that this takes is missing, or where lost work is to
    count in a search that does not look at nodes."""
    if scenario.placement.lost_gpu_hour_rps and not scenario.objective.kind.row.placed:
        raise InputError(
            f"{file}: placement.lost_gpu_hour_rps goes with objective.kind placed: only there a search judges what "
            f"evictions lose; objective.kind is {scenario.objective.kind.value}.",
            hint="Set objective: placed, or limit placement.most_lost_gpu_hours instead.",
        )
    if scenario.placement.exchange and scenario.objective.kind.row.placed:
        raise InputError(
            f"{file}: placement.exchange must be left out where objective.kind is placed, which compares layouts "
            f"whose servers have other names, got {scenario.placement.exchange!r}.",
            hint="Leave it out, or set objective: rate.",
        )
    if scenario.cluster is None:
        _require_no_graph(file, scenario)
        if scenario.objective.kind.row.placed:
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
                f"compact ones, got {value.value}.",
                hint=f"Set {key} to {needed.value}, or leave out cluster.",
            )


def read_routing(section: Section) -> RoutingSettings:
    """How requests find their island; without a form it is up to `with_form`."""
    return read_record(RoutingSettings, section, form=_form)


def _form(section: Section) -> RoutingForm | None:
    return DEFAULT_FORM if section.is_empty("form") else section.choice("form", RoutingForm)


def read_survival(section: Section) -> SurvivalSettings:
    """What must remain of the rate when nodes are lost."""
    return read_record(SurvivalSettings, section)


def with_form(file: str, scenario: Scenario) -> Scenario:
    """The scenario with its forms of routing and serving resolved. InputError where one does not go with the rest."""
    if scenario.bucketed and scenario.beyond_buckets:
        key = scenario.beyond_buckets.partition(":")[0]
        raise InputError(
            f"{file}: routing.form: buckets does not go with {scenario.beyond_buckets}, which their programme does not "
            "know.",
            hint=f"Set routing.form to table, or change or leave out {key}.",
        )
    if scenario.survive.share:
        require_buckets(scenario, "where survive.share is set", origin=file, instead="leave out survive")
    if scenario.tiers is not None:
        require_buckets(scenario, "where tiers are given", origin=file, instead="leave out tiers")
    if scenario.serving_form is not ServingForm.SPLIT and scenario.beyond_mixed:
        raise InputError(
            f"{file}: serving must be split with {scenario.beyond_mixed}, which servers of both phases do not know, "
            f"got {scenario.serving_form.value}.",
            hint=f"Set serving to split, or change {scenario.beyond_mixed.partition(':')[0]}.",
        )
    routing = replace(scenario.routing, form=scenario.routing_form)
    return replace(scenario, routing=routing, serving=scenario.serving_form)
