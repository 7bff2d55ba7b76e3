"""Dynamo's GlobalRouter: who takes which lengths by its configuration, and by the islands of each pool's workers."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from planner.domain import PHASES, DeployedRoute, Phase
from planner.export.found import Manifest
from planner.export.objects.documents import json_document
from planner.export.objects.pods import ISLAND_LABEL
from router_reading.records import Addresses

_KIND, _KEY = "DynamoGraphDeployment", "global-router.json"
_LENGTHS = {Phase.PREFILL: "isl", Phase.DECODE: "context_length"}


_NO_END = 2**31


def read(manifests: Sequence[Manifest], addresses: Addresses, /) -> tuple[DeployedRoute, ...] | None:
    texts = [m.body["data"][_KEY] for m in manifests if m.kind == "ConfigMap" and _KEY in m.body["data"]]
    if not texts:
        return None
    islands = {labels.get(ISLAND_LABEL, ""): name for name, labels in addresses.pods}
    pools = _pools(manifests, islands)
    try:
        config = json_document(texts[0])
        return tuple(route for phase in PHASES for route in _phase_routes(config, phase, pools))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return ()  # the target's checks tell what is wrong with it


def _pools(manifests: Sequence[Manifest], islands: Mapping[str, str]) -> dict[str, list[str]]:
    """Dynamo's namespace of a pool -> ids of the islands whose workers register there."""
    pools: dict[str, list[str]] = {}
    for manifest in manifests:
        for component in manifest.body["spec"]["components"] if manifest.kind == _KIND else ():
            template = component["podTemplate"]
            slug = template["metadata"]["labels"].get(ISLAND_LABEL)
            words = [str(word) for word in template["spec"]["containers"][0].get("args", ())]
            if slug in islands:
                pools.setdefault(dict(pairwise(words)).get("--namespace", ""), []).append(islands[slug])
    return pools


def _phase_routes(
    config: Mapping[str, Any], phase: Phase, pools: Mapping[str, Sequence[str]]
) -> Iterator[DeployedRoute]:
    """A route for each cell and island; what is longer or shorter than the grid goes to its ends. The time that a
    request asks for is the middle of the range, where it asks for none."""
    strategy = config[f"{phase}_pool_selection_strategy"]
    names, length = config[f"{phase}_pool_dynamo_namespaces"], _LENGTHS[phase]
    low, high, cells = (strategy[f"{length}_{key}"] for key in ("min", "max", "resolution"))
    mapping = strategy[f"{phase}_pool_mapping"]
    ends = [0, *(-(-(low * (cells - k) + high * k) // cells) for k in range(1, cells)), _NO_END]
    for cell, (start, end) in enumerate(pairwise(ends)):
        row = mapping[cell]
        islands = pools[names[row[len(row) // 2]]]
        for name in islands:
            yield DeployedRoute(phase=phase, range_start=start, range_end=end, island=name, share=1 / len(islands))
