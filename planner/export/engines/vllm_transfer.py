"""vLLM's hand-over of KV caches: the connector of a phase, where its peers find it, and command lines held against it.
A server of both phases has none.

Sources: vLLM's docs/features/nixl_connector_usage.md; vllm/engine/arg_utils.py for chunked prefill.
"""

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from planner.domain import DeployedIsland, Phase
from planner.export.engines.arguments import FlagValue
from planner.export.islands import ServingIsland

CONNECTOR = "kv-transfer-config"
UNCHUNKED = "no-enable-chunked-prefill"
_SIDE_CHANNEL_PORT = 5600
_KV_ROLES = MappingProxyType({Phase.PREFILL: "kv_producer", Phase.DECODE: "kv_consumer"})
_ANY_KV_ROLE = "kv_both"


def transfer_flags(island: ServingIsland) -> list[tuple[str, FlagValue]]:
    """The connector of the island's phase."""
    if island.mixed:
        return []
    config = {
        "kv_connector": "NixlConnector",
        "kv_role": _KV_ROLES[island.phase],
        # a decode engine that recomputed a lost prompt would miss its latency unnoticed; the router can try again
        "kv_load_failure_policy": "fail",
    }
    return [(CONNECTOR, json.dumps(config))]


def side_channel(island: ServingIsland, port_offset: int) -> list[tuple[str, str]]:
    """The variable with the port at which peers ask for caches."""
    return [] if island.mixed else [("VLLM_NIXL_SIDE_CHANNEL_PORT", str(_SIDE_CHANNEL_PORT + port_offset))]


def address_variables(island: ServingIsland) -> tuple[str, ...]:
    """Variables that hold the pod's own address for its peers."""
    return () if island.mixed else ("VLLM_NIXL_SIDE_CHANNEL_HOST",)


def hand_over_faults(values: Mapping[str, str], island: DeployedIsland) -> Iterator[tuple[str, str]]:
    """The KV cache goes the way of the island's phase, or both; that of a mixed one stays, and its prompts come in
    chunks."""
    if island.phase is not Phase.MIXED:
        role = _KV_ROLES[island.phase]
        if (came := _read_kv_role(values)) not in (role, _ANY_KV_ROLE):
            yield f"--{CONNECTOR} must have kv_role {role}, as {island.id} serves {island.phase}", came
        return
    if CONNECTOR in values:
        rule = f"--{CONNECTOR} must be left out, as {island.id} does both phases and hands nothing over"
        yield rule, _read_kv_role(values)
    if UNCHUNKED in values:
        yield f"--{UNCHUNKED} must be left out, as {island.id} takes prompts in beside its answers", "there"


def _read_kv_role(values: Mapping[str, str]) -> str:
    try:
        config = json.loads(values.get(CONNECTOR, "{}"))
    except (ValueError, RecursionError):
        return "no JSON"
    return str(config.get("kv_role", "none")) if isinstance(config, dict) else "no JSON object"
