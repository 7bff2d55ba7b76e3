"""The way of the KV cache from prefill to decode: both sides agree on it, and each announces its own address."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.domain import Phase
from planner.export.checking.commands.agreement import agreement
from planner.export.checking.commands.command_words import is_dynamo, variables
from planner.export.checking.commands.engine_rules import RULES
from planner.export.checking.commands.flags import defaults_of
from planner.export.checking.expectation import Expectation, Owned
from planner.export.checking.routing.routes import told_routes
from planner.export.engines.arguments import read_flags
from planner.export.found import Fault, FoundPod, FoundWorkload, Manifest
from planner.export.objects.pods import ENGINE_LABEL
from planner.export.partners import clusters, partners

_POD_ADDRESS = {"fieldRef": {"fieldPath": "status.podIP"}}
_SCRIPT_ADDRESS = "$own_address"
_CONNECTOR = "kv_connector"
_NIXL = "nixl"
_LEFT_OUT = "left out"


def transfer_faults(manifests: Sequence[Manifest], owned: Sequence[Owned], expected: Expectation) -> Iterator[Fault]:
    """Connector, backend and form of the KV cache are the same in all pods; what engines read caches with is the same
    in islands that hand them to each other."""
    settings: dict[tuple[str, frozenset[str]], list[tuple[Manifest, FoundPod, str, str]]] = {}
    routes = expected.plan.routes if expected.plan else told_routes(manifests)
    together = clusters(partners({item.island.id: item.island.phase for item in owned}, routes))
    for item in owned:
        engine = item.workload.labels.get(ENGINE_LABEL, "")
        rules = RULES.get(engine)
        defaults = defaults_of(engine, expected.serving.get(item.island.id)) if rules else {}
        for pod in (pod for copy in item.workload.copies for pod in copy) if rules else ():
            if pod.arguments is None or rules is None:
                continue
            values = read_flags(pod.arguments)
            for flag in (*rules.alike, *rules.exchanged):
                came = _carried(values.get(flag, _LEFT_OUT))
                apart = flag in rules.exchanged or item.island.phase is Phase.MIXED  # it hands nothing over
                sides = together[item.island.id] if apart else frozenset()
                row = (item.workload.manifest, pod, came, defaults.get(flag, came))
                settings.setdefault((flag, sides), []).append(row)
    for (flag, _), rows in settings.items():
        said = [came for _, _, came, _ in rows if came != _LEFT_OUT]
        # an engine that is told nothing agrees with the others where it does by itself what they are told
        read = [(m, pod, own if came == _LEFT_OUT and own in said else came) for m, pod, came, own in rows]
        right = agreement([(manifest.file, came) for manifest, _, came in read])
        expects = f"--{flag} must be the same on both sides of a KV transfer, {right.value} as in {right.file}"
        yield from (m.fault(pod.arguments_path, expects, came) for m, pod, came in read if came != right.value)


def _carried(value: str) -> str:
    """What the sides have to agree on: of a JSON object its connector, as roles differ."""
    try:
        config = json.loads(value)
    except (ValueError, RecursionError):
        return value or "there"
    return str(config.get(_CONNECTOR, "no connector")) if isinstance(config, dict) else value


def address_variable_faults(workload: FoundWorkload) -> Iterator[Fault]:
    """A pod whose KV cache NIXL carries announces its own address to the other side: by default `localhost`."""
    rules = RULES.get(workload.labels.get(ENGINE_LABEL, ""))
    for pod in (pod for copy in workload.copies for pod in copy) if rules else ():
        if pod.arguments is None or rules is None or not _by_nixl(pod):
            continue
        environment = dict(variables(pod))
        for name in rules.addresses:
            row = environment.get(name)
            if row is None and is_dynamo(pod):
                continue  # Dynamo's worker sets it
            if row is None or not _is_own(row):
                came = "none" if row is None else row.get("valueFrom", row.get("value"))
                rule = f"{name} must be the pod's own address, status.podIP"
                yield workload.manifest.fault(f"{pod.path}.containers.0.env", rule, came)


def _is_own(row: Mapping[str, Any]) -> bool:
    return row.get("valueFrom") == _POD_ADDRESS or str(row.get("value", "")).strip('"') == _SCRIPT_ADDRESS


def _by_nixl(pod: FoundPod) -> bool:
    return _NIXL in read_flags(pod.arguments or ()).get("kv-transfer-config", "").lower()
