"""Where manifests differ from what the plan's export writes: by file, object and field, with both values."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from planner.export.checking.changes import MISSING, Change, changes, line_changes
from planner.export.checking.freedoms import Surroundings, is_allowed
from planner.export.checking.items import LINES, Item, items_of, meddling
from planner.export.found import Fault

_LONGEST = 120
_GLOBAL = frozenset({"PriorityClass", "ClusterQueue", "ResourceFlavor", "Topology", "NodeResourceTopology", "FlexTopo"})
"""Kinds whose objects lie in no namespace."""
_MIN_REPLICAS, _MAX_REPLICAS = ("minReplicas", "minReplicaCount"), ("maxReplicas", "maxReplicaCount")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What differs, and objects that the plan writes none of and that leave its own alone (as faults name them)."""

    faults: tuple[Fault, ...]
    others: tuple[str, ...] = ()


def compare(files: Mapping[str, str], planned: Mapping[str, str]) -> Compared:
    """`files` beside what the export writes (both name -> text); what operators may change is no difference.

    An object counts by version, kind and name, wherever it stands. Further objects pass unless they are the planner's,
    ask for GPUs or change the number of copies of the plan's.
    """
    written, unreadable = items_of(files)
    expected, _ = items_of(planned)
    pairs, absent, further = _paired(expected, written)
    bounds = _bounds(expected)
    faults = [
        *unreadable,
        *(_absent(item) for item in absent if item.file not in {fault.where for fault in unreadable}),
    ]
    for before, after in pairs:
        faults += _differences(Surroundings(planned=before, written=after, copies=bounds.get(before.name)))
    faults += _scattered(pairs)
    names = frozenset(item.name for item in expected if item.name)
    wrong = {item.place: reason for item in further if (reason := _obstacle(item, names))}
    faults += [Fault(where=place, expected="must be left out", got=reason) for place, reason in wrong.items()]
    others = tuple(dict.fromkeys(item.place for item in further if item.place not in wrong))
    return Compared(faults=tuple(dict.fromkeys(faults)), others=others)


def _paired(
    expected: Sequence[Item], written: Sequence[Item]
) -> tuple[list[tuple[Item, Item]], list[Item], list[Item]]:
    """Things that belong together, those that are missing, and those that are there besides; the second of two objects
    of one name is among these."""
    by_key: dict[tuple[str, ...], list[Item]] = {}
    for item in written:
        by_key.setdefault(item.key, []).append(item)
    pairs: list[tuple[Item, Item]] = []
    absent: list[Item] = []
    for item in expected:
        alike = by_key.get(item.key, [])
        if alike:
            pairs.append((item, alike.pop(next((n for n, other in enumerate(alike) if other.file == item.file), 0))))
        else:
            absent.append(item)
    further = [item for items in by_key.values() for item in items]
    for item in list(absent):  # one whose name, kind or version was changed
        renamed = next((other for other in further if other.file == item.file and _is_like(item, other)), None)
        if renamed is not None:
            pairs.append((item, renamed))
            absent.remove(item)
            further.remove(renamed)
    return pairs, absent, further


def _is_like(item: Item, other: Item) -> bool:
    """Whether two of version, kind and name are the same, or the place of two things that are not both objects."""
    if not item.name or not other.name:
        return item.number == other.number and not (item.name and other.kind)
    return sum(part == other_part for part, other_part in zip(item.key, other.key, strict=True)) > 1


def _differences(around: Surroundings) -> Iterator[Fault]:
    before, after = around.planned, around.written
    lines = before.kind == LINES and after.kind == LINES
    compared = line_changes if lines else changes
    for change in compared(before.body, after.body):
        if not is_allowed(change, around):
            yield _fault(replace(before, file=after.file), change)


def _scattered(pairs: Sequence[tuple[Item, Item]]) -> Iterator[Fault]:
    """Objects that were put into another namespace than most: names and Services hold within one."""
    free = [after for before, after in pairs if before.name and _namespace(before) == "" and after.kind not in _GLOBAL]
    spaces = Counter(_namespace(item) for item in free)
    usual = max(spaces, key=lambda space: spaces[space], default="")
    for item in free:
        if (space := _namespace(item)) != usual:
            rule = f"must be {usual!r} as in the other objects" if usual else "must be left out as in the other objects"
            yield Fault(where=f"{item.place}, metadata.namespace", expected=rule, got=repr(space))


def _namespace(item: Item) -> str:
    metadata = item.body.get("metadata") if isinstance(item.body, Mapping) else None
    return str(metadata.get("namespace", "")) if isinstance(metadata, Mapping) else ""  # an edit may leave a list


def _fault(item: Item, change: Change) -> Fault:
    start = _common(change.planned, change.written)
    rule = "must be left out" if change.planned is MISSING else f"must be {_shown(change.planned, start)} as planned"
    received = "nothing" if change.written is MISSING else _shown(change.written, start)
    return Fault(where=f"{item.place}, {change.field}", expected=rule, got=received)


def _common(planned: object, written: object) -> int:
    """From where on two long texts are worth showing: a little before they part."""
    if not isinstance(planned, str) or not isinstance(written, str) or max(len(planned), len(written)) <= _LONGEST:
        return 0
    shared = next((n for n, pair in enumerate(zip(planned, written, strict=False)) if len(set(pair)) > 1), 0)
    return max(0, shared - _LONGEST // 4)


def _absent(item: Item) -> Fault:
    rule = "must be there as the plan says" if item.name else "must be there as the export writes it"
    return Fault(where=item.place, expected=rule, got="nothing")


def _shown(value: object, start: int = 0) -> str:
    text = f"... {value[start:]}" * (start > 0) or value if isinstance(value, str) else json.dumps(value, default=str)
    quoted = f"'{text}'" if isinstance(value, str) else text
    return quoted if len(quoted) <= _LONGEST else f"{quoted[:_LONGEST]} ..."


def _obstacle(item: Item, names: frozenset[str]) -> str:
    """Why a further object cannot be passed over; empty where it can."""
    if item.kind == LINES or not isinstance(item.body, Mapping):
        return ""
    return meddling(item.body, names)


def _bounds(expected: Sequence[Item]) -> dict[str, tuple[int, int]]:
    """The copies between which autoscalers may move objects, by the objects' names."""
    bounds = {}
    for item in expected:
        spec: Any = item.body.get("spec") if isinstance(item.body, Mapping) else None
        target = spec.get("scaleTargetRef") if isinstance(spec, Mapping) else None
        if isinstance(target, Mapping):
            low, high = (next((spec[key] for key in keys if key in spec), 1) for keys in (_MIN_REPLICAS, _MAX_REPLICAS))
            bounds[str(target.get("name"))] = (low, high)
    return bounds
