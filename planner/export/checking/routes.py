"""The routing table against the plan: who takes which length in which phase, and with which share; and whether those
islands can take it.

A table's rows may reach over lengths that no request of the plan has, so that ranges are compared where they begin and
where they end, and not by their ends.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isclose

from planner.domain import PHASES, Phase
from planner.export.checking.expectation import Expectation, Owned
from planner.export.checking.tables import FoundTable, routing_tables
from planner.export.found import Fault, Manifest

_SHARE_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    phase: str
    start: int
    end: int
    island: str
    share: float

    @property
    def title(self) -> str:
        return f"{self.phase} {self.start}-{self.end - 1}"


def route_faults(manifests: Sequence[Manifest], owned: Sequence[Owned], expected: Expectation) -> Iterator[Fault]:
    """Where the table differs from the plan; without one, prompts that are longer than their island takes. Nothing
    where the table cannot be read, which other checks report.
    """
    tables, _ = routing_tables(manifests)
    if len(tables) != 1:
        return
    rows, faults = _rows(tables[0])
    yield from faults
    if expected.plan is None:
        yield from _length_faults(tables[0], rows, owned)
    elif not faults:
        yield from _plan_faults(tables[0], rows, expected)
        yield from _inventory_faults(tables[0], dict(expected.plan.inventory))


def _rows(table: FoundTable) -> tuple[list[_Row], list[Fault]]:
    """The rows with their islands, and those whose Service the table knows nothing of."""
    owners = {row["service"]: str(row["island"]) for row in table.table.get("services", ())}
    rows: list[_Row] = []
    faults: list[Fault] = []
    try:
        for row in table.table["routes"]:
            phase, start, end = str(row["phase"]), int(row["range_start"]), int(row["range_end"])
            island = owners.get(row["service"])
            if island is None:
                rule = "must be among the table's services"
                faults.append(table.fault(f"{phase} {start}-{end - 1}, service", rule, row["service"]))
                continue
            rows.append(_Row(phase=phase, start=start, end=end, island=island, share=float(row["share"])))
    except (ValueError, KeyError, TypeError, OverflowError):
        return [], []
    return rows, faults


def _length_faults(table: FoundTable, rows: Sequence[_Row], owned: Sequence[Owned]) -> Iterator[Fault]:
    """A range begins with a length that its island is planned for: the engine's context follows from that. It may end
    beyond, as the longest prompt of a range can be shorter than the range."""
    longest = {item.island.id: item.island.longest_prompt for item in owned}
    for row in rows:
        most = longest.get(row.island)
        if row.share > 0 and most is not None and row.start > most:
            rule = f"must go to an island that takes such prompts; {row.island} takes {most} tokens at most"
            yield table.fault(row.title, rule, row.island)


def _plan_faults(table: FoundTable, rows: Sequence[_Row], expected: Expectation) -> Iterator[Fault]:
    assert expected.plan is not None
    planned: dict[tuple[Phase, int, int], dict[str, float]] = defaultdict(dict)
    for route in expected.plan.routes:
        shares = planned[route.phase, route.range_start, route.range_end]
        shares[route.island] = shares.get(route.island, 0.0) + route.share
    tables = {phase: _shares_by_start(rows, phase) for phase in PHASES}
    for (phase, start, end), shares in sorted(planned.items()):
        for length in sorted({start, max(start, end - 1)}):
            routed = _shares_at(tables[phase], length)
            if routed and not _same(routed, shares):  # a length without a row is reported elsewhere
                rule = f"prompts of {length} tokens must go to {_shares_text(shares)} as in the plan"
                yield table.fault(f"{phase} {start}-{end - 1}", rule, _shares_text(routed))
                break


_Spans = list[tuple[int, int, dict[str, float]]]


def _shares_by_start(rows: Sequence[_Row], phase: Phase) -> _Spans:
    """Start, end and shares by island of each range of a phase, sorted; ranges that overlap are reported elsewhere."""
    by_span: dict[tuple[int, int], dict[str, float]] = defaultdict(dict)
    for row in rows:
        if row.phase == phase:
            shares = by_span[row.start, row.end]
            shares[row.island] = shares.get(row.island, 0.0) + row.share
    return [(start, end, shares) for (start, end), shares in sorted(by_span.items(), key=lambda item: item[0])]


def _shares_at(spans: _Spans, length: int) -> dict[str, float]:
    at = bisect_right(spans, length, key=lambda span: span[0]) - 1
    return spans[at][2] if at >= 0 and length < spans[at][1] else {}


def _same(routed: Mapping[str, float], planned: Mapping[str, float]) -> bool:
    names = routed.keys() | planned.keys()
    return all(isclose(routed.get(name, 0.0), planned.get(name, 0.0), abs_tol=_SHARE_TOLERANCE) for name in names)


def _shares_text(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{island} ({share:.6g})" for island, share in sorted(shares.items()) if share > 0) or "nobody"


def _inventory_faults(table: FoundTable, planned: Mapping[str, int]) -> Iterator[Fault]:
    head = table.table.get("plan", {})
    inventory = head.get("inventory", {}) if isinstance(head, dict) else {}
    for gpu, count in sorted(inventory.items()):
        if count != planned.get(gpu, 0):
            yield table.fault("plan.inventory", f"must hold the plan's {planned.get(gpu, 0)} GPUs of type {gpu}", count)
