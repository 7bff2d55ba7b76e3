"""llm-d's EndpointPickerConfig: who may take a prompt, who of them does, in words of its plugins; and read back.

symbol  meaning                                                              unit    source
range   lengths that a pod takes, `min-max`, both ends included              tokens  context-length-aware, README
tokens  of prompts that an endpoint was sent and has not answered a first    tokens  inflight-load-producer, README
        token to; the part in its cache left out

Weights: a profile adds up weight x score, each score in 0..1.
- lengths 1: pods of a bucket have the same range, so it adds the same to all; with filtering on, others are out.
- prefill: tokens in flight 1 and nothing beside it. A queue's score is spread over 0..1 whatever it is about, and one
  request of difference would outweigh 100 000 tokens.
- decode: requests in flight 2, the picker's own count and never stale; free KV cache 1, scraped, which tells long
  answers from short ones.
- prefix 4 where the plan counts on cached prompts: a whole prompt in the cache outweighs the rest.
Every prompt is split where the plan is split: `prefix-based-pd-decider` with nonCachedTokens 0 never splits one.

Sources: llm-d/llm-d-router, READMEs of pkg/epp/framework/plugins and docs/disaggregation.md, v0.10.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.domain import PHASES, DeployedRoute, Phase
from planner.export.routers.intervals import spanned_routes

API_VERSION = "llm-d.ai/v1alpha1"
KIND = "EndpointPickerConfig"
LENGTH_LABEL = "llm-d.ai/context-length-range"
ROLE_LABEL = "llm-d.ai/role"
WORKER_LABEL = "leaderworkerset.sigs.k8s.io/worker-index"
_LENGTHS, _LEADERS, _TOKENS, _PICKER = "lengths", "leaders", "tokens-in-flight", "max-score-picker"
_REQUESTS, _CACHE, _PREFIX = "active-request-scorer", "kv-cache-utilization-scorer", "prefix-cache-scorer"
_SPLIT, _ALONE, _DECIDER = "disagg-profile-handler", "single-profile-handler", "always-disagg-pd-decider"
_ROLES: Mapping[str, frozenset[str | None]] = {
    "prefill-filter": frozenset({"prefill", "encode-prefill", "prefill-decode", "both", "encode-prefill-decode"}),
    "decode-filter": frozenset({"decode", "prefill-decode", "both", "encode-prefill-decode", None}),
}
"""Roles that each filter lets pass; None: pods without the label."""
_ANY = (0, 2**31)


@dataclass(frozen=True, slots=True, kw_only=True)
class PickerSettings:
    """What a configuration depends on. `split`: prefill and decode on pods of their own; `workers`: pods of a group
    beside its leader, at most; `prefixes`: whether cached prompts count; `tokenizer`: the model whose tokenizer answers
    beside the picker (empty: lengths are estimated); `most_tokens` that may be in flight before one server, where the
    score ends."""

    split: bool
    workers: int
    prefixes: bool
    tokenizer: str
    most_tokens: int


def picker_config(settings: PickerSettings) -> dict[str, Any]:
    """The configuration."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "plugins": [*_producers(settings), *_filters(settings), *_scorers(settings), *_handlers(settings)],
        "schedulingProfiles": list(_profiles(settings)),
    }


def _producers(settings: PickerSettings) -> Iterator[dict[str, Any]]:
    if settings.tokenizer:
        yield {
            "type": "token-producer",
            "parameters": {"modelName": settings.tokenizer, "vllm": {"url": "http://localhost:8000"}},
        }
    yield {"type": "inflight-load-producer"}
    if settings.prefixes:
        yield {"type": "approx-prefix-cache-producer"}


def _filters(settings: PickerSettings) -> Iterator[dict[str, Any]]:
    if settings.workers:
        workers = [str(index) for index in range(1, settings.workers + 1)]
        others = {"key": WORKER_LABEL, "operator": "NotIn", "values": workers}
        yield {"type": "label-selector-filter", "name": _LEADERS, "parameters": {"matchExpressions": [others]}}
    if settings.split:
        yield {"type": "prefill-filter"}
    yield {"type": "decode-filter"}
    yield {
        "type": "context-length-aware",
        "name": _LENGTHS,
        "parameters": {"label": LENGTH_LABEL, "enableFiltering": True},
    }


def _scorers(settings: PickerSettings) -> Iterator[dict[str, Any]]:
    most = {"queueThresholdTokens": settings.most_tokens}
    yield {"type": "token-load-scorer", "name": _TOKENS, "parameters": most}
    if settings.split:
        yield {"type": _REQUESTS}
        yield {"type": _CACHE}
    if settings.prefixes:
        yield {"type": _PREFIX}
    yield {"type": _PICKER}


def _handlers(settings: PickerSettings) -> Iterator[dict[str, Any]]:
    if settings.split:
        yield {"type": _DECIDER}
        yield {"type": _SPLIT, "parameters": {"deciders": {"prefill": _DECIDER}}}
    else:
        yield {"type": _ALONE}


def _profiles(settings: PickerSettings) -> Iterator[dict[str, Any]]:
    by_tokens = [(_TOKENS, 1)] + ([(_PREFIX, 4)] if settings.prefixes else [])
    if not settings.split:
        yield _profile("default", ["decode-filter"], by_tokens, settings)
        return
    yield _profile("prefill", ["prefill-filter"], by_tokens, settings)
    yield _profile("decode", ["decode-filter"], [(_REQUESTS, 2), (_CACHE, 1)], settings)


def _profile(
    name: str, filters: Sequence[str], scorers: Sequence[tuple[str, int]], settings: PickerSettings
) -> dict[str, Any]:
    """Filters run in this order, so that lengths are compared among the pods of the role."""
    first = [*([_LEADERS] if settings.workers else []), *filters]
    weighted = [{"pluginRef": ref, "weight": weight} for ref, weight in ((_LENGTHS, 1), *scorers)]
    return {"name": name, "plugins": [*({"pluginRef": ref} for ref in first), *weighted, {"pluginRef": _PICKER}]}


def range_text(span: tuple[int, int]) -> str:
    """An interval start <= tokens < end as a pod's label has it."""
    return f"{span[0]}-{span[1] - 1}"


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
