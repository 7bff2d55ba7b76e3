"""Which keys of a scenario decide a search: what its evaluations are, and which layouts are evaluated.

The other keys may change before a search is resumed: how long it goes on, when it gives up, how its plan is shown,
bounded and put on nodes.
"""

import hashlib
import json
from collections.abc import Iterator

from planner.domain import CacheRate, Encoding, Goal, Scenario, SizeSet
from planner.files.scenario.scenario_documents import scenario_document

FREE = frozenset(
    {
        "name",
        "node_selectors",
        "deploy",
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


def deciding_differences(begun: Scenario, came: Scenario) -> tuple[str, ...]:
    """A phrase for each key that decides the search and is not as it was begun with: `search.seed 0, got 4`; of long
    values the key alone."""
    free = _free(begun) & _free(came)
    return _differences(_keys(begun, free), _keys(came, free))


def all_differences(begun: Scenario, came: Scenario) -> tuple[str, ...]:
    """The same for every key but the number of processes, which shows in no figure."""
    free = frozenset({"search.processes"})
    return _differences(_keys(begun, free), _keys(came, free))


def scenario_keys(scenario: Scenario) -> Flat:
    """Every key of a scenario with those above it, parted by dots, and its value; lists whole."""
    return _keys(scenario, frozenset())


def _differences(begun: Flat, came: Flat) -> tuple[str, ...]:
    keys = [key for key in {**begun, **came} if begun.get(key) != came.get(key)]
    phrases = [_phrase(key, begun.get(key, ABSENT), came.get(key, ABSENT)) for key in keys[:MOST_SHOWN]]
    return (*phrases, *([f"and {len(keys) - MOST_SHOWN} more keys"] if len(keys) > MOST_SHOWN else []))


def _phrase(key: str, begun: object, came: object) -> str:
    values = f"{begun}, got {came}"
    return f"{key} {values}" if len(values) <= LONGEST_VALUE else key


def _keys(scenario: Scenario, free: frozenset[str]) -> Flat:
    """Dotted keys with their values, lists whole; none that is `free` or stands below one."""
    pairs = _flat(scenario_document(scenario))
    return {key: value for key, value in pairs if not any(part in free for part in _above(key))}


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
