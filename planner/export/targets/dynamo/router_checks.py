"""The GlobalRouter's configuration against the graphs and the routing table: every length goes to a pool whose islands
serve it. The pool of a length is found as the GlobalRouter finds it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from planner.domain import PHASES, DeployedPlan, Phase
from planner.export.found import Fault, Manifest
from planner.export.objects.documents import json_document
from planner.export.objects.names import slug
from planner.export.objects.pods import ISLAND_LABEL
from planner.export.routers.routing import ROUTING_KEY
from planner.export.targets.dynamo.checks import (
    LOCAL_ROUTER_MODULE,
    components,
    module_of,
    namespace_of,
    phase_of,
    worker_namespaces,
)
from planner.export.targets.dynamo.components import CONFIG_KEY, KIND
from planner.export.targets.dynamo.router import LENGTHS, TIMES

_GLOBAL_ROUTER_MODULE = "dynamo.global_router"
_Component = Mapping[str, Any]
_Pools = Mapping[str, Sequence[_Component]]
_FIELD = f"data[{CONFIG_KEY}]"


def router_faults(manifests: Sequence[Manifest], plan: DeployedPlan | None) -> Iterator[Fault]:
    """What is wrong with how the GlobalRouter reaches the pools."""
    graphs = [manifest for manifest in manifests if manifest.kind == KIND]
    workers = worker_namespaces(graphs)
    routed = [namespace_of(graph) for graph in graphs if _runs(graph, LOCAL_ROUTER_MODULE)]
    pools = {name: workers.get(name, []) for name in routed}
    routers = [graph for graph in graphs if _runs(graph, _GLOBAL_ROUTER_MODULE)]
    configs = [
        manifest for manifest in manifests if manifest.kind == "ConfigMap" and CONFIG_KEY in manifest.body["data"]
    ]
    if not (pools or routers or configs):
        return
    if len(routers) != 1 or len(configs) != 1:
        got = f"{len(routers)} and {len(configs)}"
        yield Fault(where="Manifests", expected="must hold one GlobalRouter and its configuration", got=got)
        return
    yield from _reference_faults(routers[0], configs[0])
    config, faults = _parsed(configs[0])
    yield from faults
    if faults:
        return
    for phase in PHASES:
        strategy = _Strategy(manifest=configs[0], phase=phase, config=config)
        wrong = [*_shape_faults(strategy), *_namespace_faults(strategy, pools)]
        yield from wrong
        if not wrong:
            yield from _route_faults(strategy, pools, _ranges(manifests, plan, phase))


def _runs(manifest: Manifest, module: str) -> bool:
    return any(module_of(component) == module for _, component in components(manifest))


def _reference_faults(router: Manifest, config: Manifest) -> Iterator[Fault]:
    """The router mounts the configuration."""
    path, component = next((p, c) for p, c in components(router) if module_of(c) == _GLOBAL_ROUTER_MODULE)
    spec = component["podTemplate"]["spec"]
    maps = [volume["configMap"]["name"] for volume in spec.get("volumes", ()) if "configMap" in volume]
    if config.name not in maps:
        yield router.fault(f"{path}.podTemplate.spec.volumes", f"must hold the ConfigMap {config.name}", maps)


def _parsed(manifest: Manifest) -> tuple[Mapping[str, Any], list[Fault]]:
    try:
        config = json_document(manifest.body["data"][CONFIG_KEY])
    except ValueError as error:
        return {}, [manifest.fault(_FIELD, "must be JSON", error)]
    text = resources.files("planner.export").joinpath("schemas", "globalrouter.json").read_text(encoding="utf-8")
    faults = []
    for violation in Draft202012Validator(json.loads(text)).iter_errors(config):
        deepest = best_match([violation]) or violation
        field = ".".join(str(part) for part in deepest.absolute_path)
        faults.append(manifest.fault(f"{_FIELD} {field}".strip(), "must follow the schema", deepest.message))
    return config, faults


@dataclass(frozen=True, slots=True, kw_only=True)
class _Strategy:
    """How the router chooses a pool in one phase."""

    manifest: Manifest
    phase: Phase
    config: Mapping[str, Any]

    @property
    def key(self) -> str:
        return f"{self.phase}_pool_selection_strategy"

    @property
    def rows(self) -> Mapping[str, Any]:
        rows: Mapping[str, Any] = self.config[self.key]
        return rows

    @property
    def namespaces(self) -> Sequence[str]:
        namespaces: Sequence[str] = self.config[f"{self.phase}_pool_dynamo_namespaces"]
        return namespaces

    @property
    def mapping(self) -> Sequence[Sequence[int]]:
        mapping: Sequence[Sequence[int]] = self.rows[f"{self.phase}_pool_mapping"]
        return mapping

    def row(self, tokens: int) -> int:
        """The cell of a prompt; what is longer or shorter than the grid goes to its end."""
        name = LENGTHS[self.phase]
        low, high, count = (self.rows[f"{name}_{part}"] for part in ("min", "max", "resolution"))
        return max(0, min(int((tokens - low) / ((high - low) / count)), int(count) - 1))

    def fault(self, where: str, expected: str, got: object) -> Fault:
        """A fault in the strategy's field `where`."""
        return self.manifest.fault(f"{_FIELD} {where}", expected, got)


def _shape_faults(strategy: _Strategy) -> Iterator[Fault]:
    rows, key = strategy.rows, strategy.key
    for name in (LENGTHS[strategy.phase], TIMES[strategy.phase]):
        if rows[f"{name}_min"] >= rows[f"{name}_max"]:
            yield strategy.fault(f"{key}.{name}_max", f"must be above {name}_min", rows[f"{name}_max"])
    count, pools = strategy.config[f"num_{strategy.phase}_pools"], len(strategy.namespaces)
    if count != pools:
        yield strategy.fault(f"num_{strategy.phase}_pools", f"must be the {pools} namespaces'", count)
    lengths, times = (rows[f"{names[strategy.phase]}_resolution"] for names in (LENGTHS, TIMES))
    where = f"{key}.{strategy.phase}_pool_mapping"
    if len(strategy.mapping) != lengths:
        yield strategy.fault(where, f"must have {lengths} rows, the resolution of lengths", len(strategy.mapping))
    for index, row in enumerate(strategy.mapping):
        if len(row) != times:
            yield strategy.fault(f"{where}.{index}", f"must have {times} entries, the resolution of times", len(row))
        for pool in row:
            if not 0 <= pool < pools:
                yield strategy.fault(f"{where}.{index}", f"must name a pool of 0 to {pools - 1}", pool)


def _namespace_faults(strategy: _Strategy, pools: _Pools) -> Iterator[Fault]:
    where = f"{strategy.phase}_pool_dynamo_namespaces"
    mine = {
        name for name, workers in pools.items() if {phase_of(worker) for worker in workers} == {strategy.phase.value}
    }
    for index, name in enumerate(strategy.namespaces):
        if name not in mine or name in strategy.namespaces[:index]:
            yield strategy.fault(
                f"{where}.{index}", f"must be a {strategy.phase} graph of these files, each once", name
            )
    for name in sorted(mine - set(strategy.namespaces)):
        yield strategy.fault(where, f"must hold every {strategy.phase} graph", f"no {name}")


def _ranges(
    manifests: Sequence[Manifest], plan: DeployedPlan | None, phase: Phase
) -> dict[tuple[int, int], frozenset[str]]:
    """Range -> slugs of the islands that take it: the plan's, else those of the routing table."""
    if plan is not None:
        rows = [(r.range_start, r.range_end, slug(r.island), r.share) for r in plan.routes if r.phase is phase]
    else:
        tables = [m.body["data"][ROUTING_KEY] for m in manifests if ROUTING_KEY in m.body.get("data", {})]
        rows = _table_rows(tables[0], phase) if tables else []
    spans = {(start, end) for start, end, _, _ in rows}
    return {
        span: frozenset(island for start, end, island, share in rows if (start, end) == span and share > 0)
        for span in sorted(spans)
    }


def _table_rows(text: str, phase: Phase) -> list[tuple[int, int, str, float]]:
    """Range, slug of the island and share of each row; none where the checks of the table have something to tell."""
    try:
        table = json_document(text)
        owners = {row["service"]: slug(str(row["island"])) for row in table["services"]}
        return [
            (int(r["range_start"]), int(r["range_end"]), owners.get(r["service"], ""), float(r["share"]))
            for r in table["routes"]
            if r["phase"] == phase
        ]
    except (ValueError, KeyError, TypeError, OverflowError):
        return []


def _route_faults(
    strategy: _Strategy, pools: _Pools, ranges: Mapping[tuple[int, int], frozenset[str]]
) -> Iterator[Fault]:
    islands = [
        frozenset(component["podTemplate"]["metadata"]["labels"].get(ISLAND_LABEL, "") for component in pools[name])
        for name in strategy.namespaces
    ]
    for (start, end), serving in ranges.items():
        first, last = strategy.row(start), strategy.row(end - 1)
        if start > 0 and strategy.row(start - 1) == first:
            expected = f"cells must not cut the plan's ranges, of which one is {start}-{end - 1}"
            yield strategy.fault(
                f"{strategy.key}.{LENGTHS[strategy.phase]}_resolution", expected, f"cells {first} to {last}"
            )
            return
        for cell, pool in ((at, pool) for at in range(first, last + 1) for pool in strategy.mapping[at]):
            if islands[pool] != serving:
                where, got = f"{strategy.key}.{strategy.phase}_pool_mapping.{cell}", ", ".join(sorted(islands[pool]))
                expected = f"prompts of {start}-{end - 1} tokens must go to {_islands_text(serving)}"
                yield strategy.fault(where, expected, f"pool {pool} ({got})")


def _islands_text(islands: frozenset[str]) -> str:
    return ", ".join(sorted(islands))
