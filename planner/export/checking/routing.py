"""The routing table as written: every range in both phases, shares that sum to 1, names that somebody answers to."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from planner.domain import Phase
from planner.export.checking.expectation import Expectation
from planner.export.checking.kinds import ROUTING_TABLE
from planner.export.documents import json_document
from planner.export.found import Fault, FoundWorkload, Manifest
from planner.export.names import slug
from planner.export.pods import ISLAND_LABEL, PHASE_LABEL
from planner.export.routing import ROUTING_KEY

_SHARE_TOLERANCE = 1e-6


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
    faults: list[Fault] = []
    for manifest in manifests:
        if manifest.kind == ROUTING_TABLE:
            _sort_in(FoundTable(manifest=manifest, field="routes", table=manifest.body), tables, faults)
        elif manifest.kind == "ConfigMap" and ROUTING_KEY in manifest.body["data"]:
            field = f"data[{ROUTING_KEY}]"
            try:
                table = json_document(manifest.body["data"][ROUTING_KEY])
                _sort_in(FoundTable(manifest=manifest, field=field, table=dict(table)), tables, faults)
            except (ValueError, TypeError) as error:
                told = "must hold JSON rows of phase, range, service and share"
                faults.append(manifest.fault(field, told, error))
    return tuple(tables), tuple(faults)


def _sort_in(found: FoundTable, tables: list[FoundTable], faults: list[Fault]) -> None:
    """Among the tables, or among the faults where its head or its services are not what a table has."""
    head, services = found.table.get("plan", {}), found.table.get("services", [])
    inventory = head.get("inventory", {}) if isinstance(head, dict) else None
    if not isinstance(inventory, dict) or any(type(count) is not int or count < 0 for count in inventory.values()):
        faults.append(found.fault("plan.inventory", "must hold whole numbers of GPUs by type", repr(inventory)))
        return
    if not isinstance(services, list):
        faults.append(found.fault("services", "must be a list", repr(services)))
        return
    for row in services:
        if not isinstance(row, dict) or any(not isinstance(row.get(key), str) for key in ("service", "island")):
            faults.append(found.fault("services", "must be rows with the names of service and island", repr(row)))
            return
    tables.append(found)


def told_inventory(manifests: Sequence[Manifest]) -> dict[str, int]:
    """GPUs that there are, by type, as the routing table's head tells; empty where it does not."""
    tables, _ = routing_tables(manifests)
    head = tables[0].table.get("plan", {}) if len(tables) == 1 else {}
    inventory = head.get("inventory", {}) if isinstance(head, dict) else {}
    return dict(inventory) if isinstance(inventory, dict) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    phase: Phase
    span: tuple[int, int]
    service: str
    share: float

    @property
    def told(self) -> str:
        return f"{self.phase} {self.span[0]}-{self.span[1] - 1}"


def routing_faults(
    manifests: Sequence[Manifest], endpoints: Mapping[str, FoundWorkload], expected: Expectation
) -> Iterator[Fault]:
    """What is wrong with the table; `endpoints`: host name -> the workload that answers there."""
    tables, unreadable = routing_tables(manifests)
    yield from unreadable
    if len(tables) + len(unreadable) != 1:
        told = f"{len(tables)} of them"
        yield Fault(where="Manifests", expected="must hold exactly one routing table", got=told)
    if unreadable or len(tables) != 1:
        return
    table = tables[0]
    try:
        rows = _rows(table.table)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        yield table.fault("", "must hold JSON rows of phase, range, service and share", repr(error))
        return
    if not rows:
        yield table.fault("", "must route a range", "no rows")
        return
    yield from _span_faults(table, rows)
    yield from _service_faults(table, rows, endpoints)
    yield from _share_faults(table, rows, expected)


def _rows(table: Mapping[str, Any]) -> list[_Row]:
    return [
        _Row(
            phase=Phase(row["phase"]),
            span=(int(row["range_start"]), int(row["range_end"])),
            service=str(row["service"]),
            share=float(row["share"]),
        )
        for row in table["routes"]
    ]


def _span_faults(table: FoundTable, rows: Sequence[_Row]) -> Iterator[Fault]:
    """Ranges of a phase are the same or apart: a prompt has one."""
    for phase in Phase:
        spans = sorted({row.span for row in rows if row.phase is phase})
        for start, end in spans:
            if start >= end:
                yield table.fault(f"{phase} {start}-{end - 1}", "range_end must be above range_start", end)
        for (start, end), other in pairwise(spans):
            if other[0] < end:
                told = f"must not overlap {start}-{end - 1}"
                yield table.fault(f"{phase} {other[0]}-{other[1] - 1}", told, f"{other[0]} < {end}")


def _service_faults(table: FoundTable, rows: Sequence[_Row], endpoints: Mapping[str, FoundWorkload]) -> Iterator[Fault]:
    for row in rows:
        workload = endpoints.get(row.service)
        if workload is None or workload.labels.get(PHASE_LABEL) != row.phase:
            yield table.fault(row.told, f"must name a Service of an island that serves {row.phase}", row.service)
    for service in table.table.get("services", ()):
        workload = endpoints.get(service["service"])
        if workload is None or workload.labels.get(ISLAND_LABEL) != slug(str(service["island"])):
            yield table.fault(
                f"services {service['service']}", f"must answer for island {service['island']}", "another or none"
            )


def _share_faults(table: FoundTable, rows: Sequence[_Row], expected: Expectation) -> Iterator[Fault]:
    sums: dict[tuple[Phase, tuple[int, int]], float] = defaultdict(float)
    for row in rows:
        if not 0.0 <= row.share <= 1.0 + _SHARE_TOLERANCE:
            yield table.fault(row.told, "share must lie in 0..1", row.share)
        sums[row.phase, row.span] += row.share
    planned = {(r.range_start, r.range_end) for r in expected.plan.routes} if expected.plan else set()
    for phase in Phase:
        for span in sorted({span for _, span in sums} | planned):
            if abs(sums[phase, span] - 1.0) > _SHARE_TOLERANCE:
                yield table.fault(f"{phase} {span[0]}-{span[1] - 1}", "shares must sum to 1", sums[phase, span])
