"""Routing tables as they are found in files: where they are, and whether their heads can be read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.export.checking.structure import ROUTING_TABLE
from planner.export.found import Fault, Manifest
from planner.export.objects.documents import json_document
from planner.export.routers.routing import PART_KEY, ROUTING_KEY


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTable:
    """A routing table and the field that holds it."""

    manifest: Manifest
    field: str
    table: Mapping[str, Any]

    def fault(self, row: str, expected: str, got: object) -> Fault:
        """A fault in one of its rows, or (row "") in all of it."""
        return self.manifest.fault(f"{self.field} {row}".strip(), expected, got)


def routing_tables(manifests: Sequence[Manifest]) -> tuple[tuple[FoundTable, ...], tuple[Fault, ...]]:
    """The routing tables of the files, in a ConfigMap or in a file of their own; and those that cannot be read."""
    tables: list[FoundTable] = []
    parts: list[FoundTable] = []
    faults: list[Fault] = []
    for manifest in manifests:
        if manifest.kind == ROUTING_TABLE:
            _sort_in(FoundTable(manifest=manifest, field="routes", table=manifest.body), tables, faults)
        elif manifest.kind == "ConfigMap" and ROUTING_KEY in manifest.body["data"]:
            field = f"data[{ROUTING_KEY}]"
            try:
                table = json_document(manifest.body["data"][ROUTING_KEY])
                read_table = FoundTable(manifest=manifest, field=field, table=dict(table))
                _sort_in(read_table, parts if PART_KEY in read_table.table else tables, faults)
            except (ValueError, TypeError) as error:
                rule = "must hold JSON rows of phase, range, service and share"
                faults.append(manifest.fault(field, rule, error))
    if parts and not faults:
        joined = _joined(parts)
        if isinstance(joined, Fault):
            faults.append(joined)
        else:
            tables.append(joined)
    return tuple(tables), tuple(faults)


def _joined(parts: Sequence[FoundTable]) -> FoundTable | Fault:
    """The table whose parts these are; what is wrong where they are not all parts of one, each once."""
    numbers: dict[int, FoundTable] = {}
    count = _part_of(parts[0])[1]
    head = parts[0].table.get("plan")
    for part in parts:
        number, of = _part_of(part)
        if of != count or not 1 <= number <= of or number in numbers:
            rule = f"must be a part of {count}, numbered from 1, each once"
            return part.fault(f"{PART_KEY}.number", rule, repr(part.table[PART_KEY]))
        if part.table.get("plan") != head:
            return part.fault("plan", "must be the same in all parts of the table", repr(part.table.get("plan")))
        if not isinstance(part.table.get("routes"), list):
            return part.fault("", "must hold JSON rows of phase, range, service and share", "no list of routes")
        numbers[number] = part
    if len(numbers) < count:
        missing = next(number for number in range(1, count + 1) if number not in numbers)
        return parts[0].fault(PART_KEY, f"must have all {count} parts beside it", f"no part {missing}")
    ordered = [numbers[number].table for number in sorted(numbers)]
    rows = {key: [row for table in ordered for row in table.get(key, ())] for key in ("services", "routes")}
    first = numbers[1]
    return FoundTable(manifest=first.manifest, field=first.field, table={"plan": head, **rows})


def _part_of(part: FoundTable) -> tuple[int, int]:
    """Number and number of parts; (0, 0), which no part has, where they are not told."""
    words = part.table[PART_KEY]
    number, of = (words.get("number"), words.get("of")) if isinstance(words, dict) else (0, 0)
    return (number, of) if type(number) is int and type(of) is int else (0, 0)


def _sort_in(table: FoundTable, tables: list[FoundTable], faults: list[Fault]) -> None:
    """Among the tables, or among the faults where its head or its services are not what a table has."""
    head, services = table.table.get("plan", {}), table.table.get("services", [])
    inventory = head.get("inventory", {}) if isinstance(head, dict) else None
    if not isinstance(inventory, dict) or any(type(count) is not int or count < 0 for count in inventory.values()):
        faults.append(table.fault("plan.inventory", "must hold whole numbers of GPUs by type", repr(inventory)))
        return
    if not isinstance(services, list):
        faults.append(table.fault("services", "must be a list", repr(services)))
        return
    for row in services:
        if not isinstance(row, dict) or any(not isinstance(row.get(key), str) for key in ("service", "island")):
            faults.append(table.fault("services", "must be rows with the names of service and island", repr(row)))
            return
    tables.append(table)


def told_inventory(manifests: Sequence[Manifest]) -> dict[str, int]:
    """GPUs that there are, by type, from the routing table's head; empty where it names none."""
    tables, _ = routing_tables(manifests)
    head = tables[0].table.get("plan", {}) if len(tables) == 1 else {}
    inventory = head.get("inventory", {}) if isinstance(head, dict) else {}
    return dict(inventory) if isinstance(inventory, dict) else {}
