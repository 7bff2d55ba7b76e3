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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

API_VERSION = "llm-d.ai/v1alpha1"
KIND = "EndpointPickerConfig"
LENGTH_LABEL = "llm-d.ai/context-length-range"
ROLE_LABEL = "llm-d.ai/role"
WORKER_LABEL = "leaderworkerset.sigs.k8s.io/worker-index"
_LENGTHS, _LEADERS, _TOKENS, _PICKER = "lengths", "leaders", "tokens-in-flight", "max-score-picker"
_REQUESTS, _CACHE, _PREFIX = "active-request-scorer", "kv-cache-utilization-scorer", "prefix-cache-scorer"
_SPLIT, _ALONE, _DECIDER = "disagg-profile-handler", "single-profile-handler", "always-disagg-pd-decider"


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
