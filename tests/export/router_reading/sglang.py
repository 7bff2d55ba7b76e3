"""SGLang's buckets: who takes which lengths by them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from itertools import pairwise
from typing import Any

from jsonschema import Draft202012Validator

from planner.domain import DeployedRoute, Phase
from planner.export.found import Manifest
from planner.export.objects.documents import json_document
from planner.export.routers.sglang import _SCHEMA, KEY, KIND, asked_answer
from router_reading.records import Addresses


def _configs(manifests: Sequence[Manifest]) -> Iterator[tuple[Manifest, str, Any]]:
    """Each buckets file: its manifest, the field that holds it, its content (None: no JSON)."""
    for manifest in manifests:
        if manifest.kind == KIND:
            yield manifest, "", manifest.body
        elif manifest.kind == "ConfigMap" and KEY in manifest.body["data"]:
            yield manifest, f"data[{KEY}]", _document(manifest.body["data"][KEY])


def _document(text: str) -> Any:
    try:
        return json_document(text)
    except ValueError:
        return None


def read(manifests: Sequence[Manifest], addresses: Addresses, /) -> tuple[DeployedRoute, ...] | None:
    for _, _, config in _configs(manifests):
        return read_buckets(config, addresses) if _validator().is_valid(config) else ()
    return None


def _validator() -> Draft202012Validator:
    text = resources.files("planner.export").joinpath("schemas", _SCHEMA).read_text(encoding="utf-8")
    return Draft202012Validator(json.loads(text))


_ANY = (0, 2**31)


def read_buckets(config: Mapping[str, Any], addresses: Addresses) -> tuple[DeployedRoute, ...]:
    """Who takes which prompts: of the buckets that fit, that of the smallest rank, its missing ends open."""
    rows = sorted(config["buckets"], key=lambda row: row["rank"])
    decode = [row for row in rows if row["stage"] == "decode"]
    contexts = {
        name: row["max_context_tokens"]
        for row in decode
        for name in _islands(row, addresses)
        if _bounded(row, addresses)
    }
    answer = asked_answer(contexts, addresses.longest)
    routes = tuple(_stage_routes(Phase.PREFILL, [row for row in rows if row["stage"] == "prefill"], addresses, 0))
    if decode:
        return routes + tuple(_stage_routes(Phase.DECODE, decode, addresses, answer))
    # without buckets of decode each engine answers what it took in
    return routes + tuple(_stage_routes(Phase.DECODE, rows, addresses, 0))


def _bounded(row: Mapping[str, Any], addresses: Addresses) -> bool:
    return "max_context_tokens" in row and all(name in addresses.longest for name in _islands(row, addresses))


def _stage_routes(
    phase: Phase, rows: Sequence[Mapping[str, Any]], addresses: Addresses, answer: int
) -> Iterator[DeployedRoute]:
    spans = [(_span(row, answer), _islands(row, addresses)) for row in rows]
    cuts = sorted({end for span, _ in spans for end in span} | set(_ANY))
    for start, end in pairwise(cuts):
        names = next((names for (low, high), names in spans if low <= start and end <= high), ())
        for name in names:
            yield DeployedRoute(phase=phase, range_start=start, range_end=end, island=name, share=1 / len(names))


def _span(row: Mapping[str, Any], answer: int) -> tuple[int, int]:
    """Prompts (start, end) that fit."""
    kind = "extend" if row["stage"] == "prefill" else "sequence"
    low, high = row.get(f"min_{kind}_tokens"), row.get(f"max_{kind}_tokens")
    start = _ANY[0] if low is None else max(0, low - answer)
    return start, _ANY[1] if high is None else max(start, high + 1 - answer)


def _islands(row: Mapping[str, Any], addresses: Addresses) -> tuple[str, ...]:
    """Islands all of whose leaders are workers of the bucket, and of hosts that nobody knows, the hosts."""
    workers = [str(url).removeprefix("http://") for url in row["worker_ids"]]
    named = dict.fromkeys(addresses.hosts.get(worker, worker) for worker in workers)
    return tuple(name for name in named if set(addresses.leaders.get(name, ())) <= set(workers))
