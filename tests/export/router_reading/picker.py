"""llm-d's endpoint picker: who takes which lengths by its configuration and the pods' labels."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from yaml import YAMLError

from planner.domain import PHASES, DeployedRoute, Phase
from planner.export.found import Manifest
from planner.export.objects.documents import yaml_documents
from planner.export.routers.llm_d import LENGTH_LABEL, ROLE_LABEL, VALUES_KEY, WORKER_LABEL
from router_reading.records import Addresses

_OBJECT = "LLMInferenceService"
_SPLIT, _DECIDER = "disagg-profile-handler", "always-disagg-pd-decider"


def read(manifests: Sequence[Manifest], addresses: Addresses, /) -> tuple[DeployedRoute, ...] | None:
    for manifest in manifests:
        if (values := _values_of(manifest)) is not None:
            return _read_values(values, addresses)
        if manifest.kind == _OBJECT and "router" in manifest.body["spec"]:
            config = manifest.body["spec"]["router"]["scheduler"]["config"]["inline"]
            return read_picker(config, _pods(addresses)) or ()
    return None


def _pods(addresses: Addresses) -> list[tuple[str, Mapping[str, str]]]:
    """All pods that the picker may find: one that answers nobody must not be among those that it takes."""
    followers = [(f"followers of {name}", {WORKER_LABEL: "1", **labels}) for name, labels in addresses.followers]
    return [*addresses.pods, *followers]


def _read_values(values: Mapping[str, Any], addresses: Addresses) -> tuple[DeployedRoute, ...]:
    """None of the pods where the values are not those of the schema, which other checks report."""
    try:
        pool, picker = values["router"]["modelServers"]["matchLabels"], values["router"]["epp"]
        text = picker["pluginsCustomConfig"][picker["pluginsConfigFile"]]
        pods = [(name, labels) for name, labels in _pods(addresses) if pool.items() <= labels.items()]
    except (KeyError, TypeError, AttributeError):
        return ()
    return read_picker(_document(text), pods) or ()


def _values_of(manifest: Manifest) -> Mapping[str, Any] | None:
    """The chart's values in a ConfigMap; None: it is another."""
    if manifest.kind != "ConfigMap" or VALUES_KEY not in manifest.body["data"]:
        return None
    return _document(manifest.body["data"][VALUES_KEY])


def _document(text: str) -> Mapping[str, Any]:
    """The picker's configuration in a text; empty where it is none."""
    try:
        document = next(iter(yaml_documents(text)), None)
    except YAMLError:
        return {}
    return document if isinstance(document, dict) else {}


_ROLES: Mapping[str, frozenset[str | None]] = {
    "prefill-filter": frozenset({"prefill", "encode-prefill", "prefill-decode", "both", "encode-prefill-decode"}),
    "decode-filter": frozenset({"decode", "prefill-decode", "both", "encode-prefill-decode", None}),
}


_ANY = (0, 2**31)


def read_picker(
    config: Mapping[str, Any], pods: Sequence[tuple[str, Mapping[str, str]]]
) -> tuple[DeployedRoute, ...] | None:
    """Who takes which lengths of the `pods` (name, labels), by this configuration; None where it is none."""
    try:
        plugins = {str(plugin.get("name", plugin["type"])): plugin for plugin in config["plugins"]}
        profiles = {
            str(p["name"]): [str(ref["pluginRef"]) for ref in p["plugins"]] for p in config["schedulingProfiles"]
        }
        routes: tuple[DeployedRoute, ...] = ()
        for phase, profile in _phase_profiles(plugins, profiles):
            used = [plugins[ref] for ref in profile if ref in plugins]
            spans = {name: span for name, labels in pods if (span := _span(used, labels)) is not None}
            routes += spanned_routes(phase, spans)
    except (KeyError, TypeError, AttributeError):
        return None
    return routes


def _phase_profiles(
    plugins: Mapping[str, Mapping[str, Any]], profiles: Mapping[str, list[str]]
) -> Iterator[tuple[Phase, list[str]]]:
    """The profile that runs for each phase; none for prefill where nobody decides to split."""
    handler = next((plugin for plugin in plugins.values() if plugin["type"] == _SPLIT), None)
    if handler is None:
        (only,) = list(profiles.values())[:1]
        yield from ((phase, only) for phase in PHASES)
        return
    parameters = handler.get("parameters") or {}
    decider = (parameters.get("deciders") or {}).get("prefill", "")
    for phase in PHASES:
        if phase is Phase.DECODE or plugins.get(decider, {}).get("type") == _DECIDER:
            yield phase, profiles[(parameters.get("profiles") or {}).get(phase.value, phase.value)]


def _span(used: Sequence[Mapping[str, Any]], labels: Mapping[str, str]) -> tuple[int, int] | None:
    """Lengths (start, end) that a pod with these labels gets past the profile's filters; None: none."""
    span = _ANY
    for plugin in used:
        kind, parameters = plugin["type"], plugin.get("parameters") or {}
        if kind in _ROLES and labels.get(ROLE_LABEL) not in _ROLES[kind]:
            return None
        if kind == "label-selector-filter" and not _selected(parameters, labels):
            return None
        label = labels.get(str(parameters.get("label", LENGTH_LABEL)))
        if kind != "context-length-aware" or not parameters.get("enableFiltering") or label is None:
            continue
        first, _, last = label.partition("-")
        if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
            return None
        span = max(span[0], int(first)), min(span[1], int(last) + 1)
    return span if span[0] < span[1] else None


def _selected(parameters: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """As Kubernetes' label selectors have it."""
    rows = parameters.get("matchExpressions") or ()
    alike = (parameters.get("matchLabels") or {}).items() <= labels.items()
    return alike and all(_holds(row, labels.get(row["key"])) for row in rows)


def _holds(row: Mapping[str, Any], value: str | None) -> bool:
    there = value in row["values"] if row["operator"] in ("In", "NotIn") else value is not None
    return there == (row["operator"] in ("In", "Exists"))


def spanned_routes(phase: Phase, spans: Mapping[str, tuple[int, int]]) -> tuple[DeployedRoute, ...]:
    """Routes of a router that balances over the islands whose interval (start, end) a prompt's length lies in."""
    cuts = sorted({end for span in spans.values() for end in span})
    return tuple(
        DeployedRoute(phase=phase, range_start=start, range_end=end, island=name, share=1 / len(names))
        for start, end in pairwise(cuts)
        for names in ([name for name, (low, high) in sorted(spans.items()) if low <= start and end <= high],)
        for name in names
    )
