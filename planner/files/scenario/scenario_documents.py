"""A scenario as a mapping with every key and its value: as text, for a plan's record, and those that decide a search.

The other keys may change before a search is resumed: how long it goes on, when it gives up, how its plan is shown,
bounded and put on nodes.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping

import yaml

from planner.domain import (
    CacheRate,
    DeploySettings,
    Encoding,
    Goal,
    LengthProfile,
    ModelSpec,
    PlacementSettings,
    Scenario,
    SizeSet,
)
from planner.domain.changes import ChangePolicy
from planner.domain.serving.doubt import DoubtSettings
from planner.domain.serving.promise import PromiseSettings
from planner.files.cluster.cluster_documents import cluster_document
from planner.files.disk.names import shipped_models, shipped_workloads
from planner.files.engines import engine_document
from planner.files.models.model_documents import model_document
from planner.files.models.models import load_model
from planner.files.records import record_document
from planner.files.scenario.cost_sections import cost_document
from planner.files.scenario.objective_sections import objective_document
from planner.files.scenario.placement_sections import placement_settings_document
from planner.files.scenario.search_sections import search_document
from planner.files.scenario.tiers import tiers_document
from planner.files.tables.workloads import read_workload, workload_document


def scenario_document(scenario: Scenario, cluster: dict[str, object] | None = None) -> dict[str, object]:
    """The mapping that `scenario_from_document` reads back as the same scenario (its `inputs` aside).

    A shipped model or workload stands by its name, any other and a cluster in full, so the record needs no other file;
    `cluster`: what stands for the scenario's cluster instead.
    """
    items = scenario.inventory.items
    return {
        "name": scenario.name,
        "model": _model(scenario.model),
        "workload": _workload(scenario.workload),
        "inventory": {item.gpu.name: item.count for item in items},
        "prices_usd_per_gpu_hour": {i.gpu.name: i.price_usd_per_gpu_hour if i.price_known else None for i in items},
        "node_selectors": {item.gpu.name: dict(item.gpu.node_selector) for item in items},
        "ranges": record_document(scenario.ranges),
        "cost": cost_document(scenario.cost),
        "slo": record_document(scenario.slo),
        "objective": objective_document(scenario.objective),
        "assignment": record_document(scenario.assignment),
        "search": search_document(scenario.search),
        **({} if scenario.network is None else {"network": record_document(scenario.network)}),
        **({} if scenario.tiers is None else {"tiers": tiers_document(scenario.tiers)}),
        **_placement(scenario, cluster),
        "engine": engine_document(scenario.engine),
        "routing": record_document(scenario.routing, form=scenario.routing_form.value),
        "simplicity": scenario.simplicity,
        "serving": scenario.serving_form.value,
        "survive": record_document(scenario.survive),
        **({"doubt": record_document(scenario.doubt)} if scenario.doubt != DoubtSettings() else {}),
        **({"promise": record_document(scenario.promise)} if scenario.promise != PromiseSettings() else {}),
        **({"deploy": record_document(scenario.deploy)} if scenario.deploy != DeploySettings() else {}),
        **_changes(scenario),
    }


def _changes(scenario: Scenario) -> dict[str, object]:
    """What changes take, where somebody said so, or the search counts it."""
    counts = Goal.CHANGE_COST in scenario.objective.goals
    return {"changes": record_document(scenario.changes)} if counts or scenario.changes != ChangePolicy() else {}


def _placement(scenario: Scenario, cluster: dict[str, object] | None) -> dict[str, object]:
    """The cluster, and how it is used; neither where islands stay off nodes."""
    if scenario.cluster is None and scenario.placement == PlacementSettings():
        return {}
    nodes = {} if scenario.cluster is None else {"cluster": cluster or cluster_document(scenario.cluster)}
    return {**nodes, "placement": placement_settings_document(scenario.placement)}


def _model(model: ModelSpec) -> str | dict[str, object]:
    shipped = model.name in shipped_models() and load_model(model.name) == model
    return model.name if shipped else model_document(model)


def _workload(profile: LengthProfile) -> str | dict[str, object]:
    path = shipped_workloads().get(profile.name)
    return profile.name if path is not None and read_workload(path)[0] == profile else workload_document(profile)


_WIDTH = 118
_LARGE = 1e15


def scenario_text(document: Mapping[str, object], head: str = "", notes: Mapping[str, str] | None = None) -> str:
    """YAML that reads back as `document`. `head`: comment lines above; `notes`: a comment after a key's line."""
    comments = "".join(f"# {line}\n" for line in head.splitlines())
    rows = (_row(key, value, (notes or {}).get(key, "")) for key, value in document.items())
    return comments + "".join(rows)


def _row(key: str, value: object, note: str) -> str:
    value = _plain(value)
    flow = yaml.safe_dump({key: value}, default_flow_style=True, sort_keys=False, width=10**6, allow_unicode=True)
    line = flow.strip().removeprefix("{").removesuffix("}")
    if len(line) > _WIDTH:
        line = yaml.safe_dump({key: value}, default_flow_style=None, sort_keys=False, width=_WIDTH, allow_unicode=True)
    comment = f"  # {note}" if note else ""
    return f"{line.rstrip()}{comment}\n" if "\n" not in line.rstrip() else f"# {note}\n{line}" if note else line


def _plain(value: object) -> object:
    """Whole numbers without a point, at any depth."""
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < _LARGE else value


FREE = frozenset(
    {
        "name",
        "node_selectors",
        "deploy",
        "doubt",
        "changes",
        "assignment.work_limit",  # an evaluation that ended within it is the same within another
        "search.processes",
        "search.failure_limit",
        "search.work_limit",  # of the layout that a search begins with, and of its plan's bound
        "search.bound",
        "search.timings",
        "objective.pick",
        "objective.within",
    }
)
OF_SOLVED_LAYOUTS = frozenset({"search.gap"})
OF_PRICED_ROUTERS = frozenset({"deploy.target", "deploy.router", "deploy.router_counts", "deploy.ranks"})
OF_BUCKETS = frozenset({"routing.policy", "routing.most", "routing.margin", "simplicity", "serving", "survive"})
AFTER_THE_SEARCH = frozenset({"cluster", "placement"})
MOST_SHOWN = 5
LONGEST_VALUE = 40
ABSENT = "none"

Flat = dict[str, object]


def scenario_hash(scenario: Scenario) -> str:
    """SHA-256 of every key that decides a search; input files' names are not among them."""
    keys = _keys(scenario, _free(scenario))
    return hashlib.sha256(json.dumps(keys, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def deciding_differences(begun: Scenario, other: Scenario) -> tuple[str, ...]:
    """A phrase for each key that decides the search and is not as it was begun with: `search.seed 0, got 4`; of long
    values the key alone."""
    free = _free(begun) & _free(other)
    return _differences(_keys(begun, free), _keys(other, free))


def all_differences(begun: Scenario, other: Scenario) -> tuple[str, ...]:
    """The same for every key but the number of processes, which shows in no figure."""
    free = frozenset({"search.processes"})
    return _differences(_keys(begun, free), _keys(other, free))


def scenario_keys(scenario: Scenario) -> Flat:
    """Every key of a scenario with those above it, parted by dots, and its value; lists whole."""
    return _keys(scenario, frozenset())


def _differences(begun: Flat, other: Flat) -> tuple[str, ...]:
    keys = [key for key in {**begun, **other} if begun.get(key) != other.get(key)]
    phrases = [_phrase(key, begun.get(key, ABSENT), other.get(key, ABSENT)) for key in keys[:MOST_SHOWN]]
    return (*phrases, *([f"and {len(keys) - MOST_SHOWN} more keys"] if len(keys) > MOST_SHOWN else []))


def _phrase(key: str, begun: object, other: object) -> str:
    values = f"{begun}, got {other}"
    return f"{key} {values}" if len(values) <= LONGEST_VALUE else key


def _keys(scenario: Scenario, free: frozenset[str]) -> Flat:
    """Dotted keys with their values, lists whole; none that is `free` or stands below one, but what tells the router
    that plans are priced for."""
    pairs = _flat(scenario_document(scenario))
    deciding = OF_PRICED_ROUTERS if scenario.deployed_router else frozenset[str]()
    return {key: value for key, value in pairs if key in deciding or not any(part in free for part in _above(key))}


def _free(scenario: Scenario) -> frozenset[str]:
    search, objective = scenario.search, scenario.objective.kind.row
    free = FREE
    if not search.method.row.by_budget:  # a grid is as fine as its evaluations are many
        free |= {"search.iterations"}
    if not search.warm_start and not search.method.row.may_solve:  # no layout is solved for to begin with
        free |= OF_SOLVED_LAYOUTS
        if search.sizes is not SizeSet.WHOLE_NODES:  # whose encodings count nodes
            free |= {"search.sizes"}
        if objective.plain:
            free |= {"prices_usd_per_gpu_hour"}
    if not scenario.bucketed:
        free |= OF_BUCKETS
    if Goal.CHANGE_COST in scenario.objective.goals:
        free = (free - {"changes"}) | {"changes.limits", "changes.least_share"}
    if scenario.cost.kv_cache_rate == CacheRate.AUTO:  # hits depend on whom the router chooses
        free -= {"routing.policy"}
    if not objective.placed and search.encoded is not Encoding.GRAPH:  # which looks at where GPUs lie
        free |= AFTER_THE_SEARCH
    return free


def _flat(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, dict) and (value or not path):
        for key, below in value.items():
            yield from _flat(below, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


def _above(key: str) -> Iterator[str]:
    """The key and those that it stands below."""
    parts = key.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts) + 1))
