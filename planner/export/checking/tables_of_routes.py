"""The routing table as written: every range in both phases, shares that sum to 1, names that somebody answers to."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from planner.domain import PHASES, Phase
from planner.export.checking.expectation import Expectation
from planner.export.checking.services import Answering, address_faults
from planner.export.checking.tables import FoundTable, routing_tables
from planner.export.found import Fault, Manifest
from planner.export.objects.pods import PHASE_LABEL

_SHARE_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    phase: Phase
    span: tuple[int, int]
    service: str
    share: float

    @property
    def title(self) -> str:
        return f"{self.phase} {self.span[0]}-{self.span[1] - 1}"


def routing_faults(
    manifests: Sequence[Manifest], endpoints: Mapping[str, Answering], expected: Expectation
) -> Iterator[Fault]:
    """What is wrong with the table; `endpoints`: host name -> who answers there."""
    tables, unreadable = routing_tables(manifests)
    yield from unreadable
    if len(tables) + len(unreadable) != 1:
        got = f"{len(tables)} of them"
        yield Fault(where="Manifests", expected="must hold exactly one routing table", got=got)
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
    yield from address_faults(table, endpoints)
    yield from _share_faults(table, rows, expected)
    yield from _stay_faults(table, rows, endpoints)


def _rows(table: Mapping[str, Any]) -> list[_Row]:
    return [
        _Row(
            phase=_half(row["phase"]),
            span=(int(row["range_start"]), int(row["range_end"])),
            service=str(row["service"]),
            share=float(row["share"]),
        )
        for row in table["routes"]
    ]


def _half(text: str) -> Phase:
    """The half of a request's life that a row routes: no row routes both."""
    phase = Phase(text)
    if phase not in PHASES:
        raise ValueError(f"{phase.value!r} is not a phase of a route")
    return phase


def _serves(answers: Answering | None, phase: Phase) -> bool:
    label = answers.workload.labels.get(PHASE_LABEL) if answers is not None else None
    return label is not None and label in (phase.value, Phase.MIXED.value)


def _stay_faults(table: FoundTable, rows: Sequence[_Row], endpoints: Mapping[str, Answering]) -> Iterator[Fault]:
    """A request stays on an island that does both phases: it takes the same share of a range in both."""
    taken: dict[tuple[str, tuple[int, int]], dict[Phase, float]] = defaultdict(lambda: dict.fromkeys(PHASES, 0.0))
    for row in rows:
        answers = endpoints.get(row.service)
        if answers is not None and answers.workload.labels.get(PHASE_LABEL) == Phase.MIXED.value:
            taken[row.service, row.span][row.phase] += row.share
    for (service, (start, end)), shares in sorted(taken.items()):
        prefill, decode = (shares[phase] for phase in PHASES)
        if abs(prefill - decode) > _SHARE_TOLERANCE:
            rule = f"{service} must take the same share in both phases, as it does both"
            yield table.fault(f"{start}-{end - 1}", rule, f"{prefill:.6g} and {decode:.6g}")


def _span_faults(table: FoundTable, rows: Sequence[_Row]) -> Iterator[Fault]:
    """Ranges of a phase are the same or meet, from no tokens on, and both phases go as far: every prompt has one."""
    ends: dict[Phase, int] = {}
    for phase in PHASES:
        spans = sorted({row.span for row in rows if row.phase is phase})
        for start, end in spans:
            if start >= end:
                yield table.fault(f"{phase} {start}-{end - 1}", "range_end must be above range_start", end)
        for (start, end), other in pairwise(spans):
            if other[0] < end:
                rule = f"must not overlap {start}-{end - 1}"
                yield table.fault(f"{phase} {other[0]}-{other[1] - 1}", rule, f"{other[0]} < {end}")
        for (_, end), (start, _) in pairwise([(0, 0), *spans]):
            if end < start:
                yield table.fault(str(phase), f"must route {end}-{start - 1}, from no tokens on without gaps", "no row")
        if spans:
            ends[phase] = spans[-1][1]
    if len(set(ends.values())) > 1:
        got = " and ".join(f"{phase} {end}" for phase, end in ends.items())
        yield table.fault("", "must end at the same length in both phases", got)


def _service_faults(table: FoundTable, rows: Sequence[_Row], endpoints: Mapping[str, Answering]) -> Iterator[Fault]:
    listed = {service["service"] for service in table.table.get("services", ())}
    for row in rows:
        if not _serves(endpoints.get(row.service), row.phase):
            yield table.fault(row.title, f"must name a Service of an island that serves {row.phase}", row.service)
        elif row.service not in listed:
            yield table.fault(row.title, "must name one of the table's services, which tell the ports", row.service)


def _in_buckets(table: FoundTable) -> bool:
    """Whether each phase has ranges of its own; in tables of shares both have the same."""
    head = table.table.get("plan", {})
    routing = head.get("routing", {}) if isinstance(head, dict) else {}
    return isinstance(routing, dict) and routing.get("form") == "buckets"


def _share_faults(table: FoundTable, rows: Sequence[_Row], expected: Expectation) -> Iterator[Fault]:
    sums: dict[tuple[Phase, tuple[int, int]], float] = defaultdict(float)
    for row in rows:
        if not 0.0 <= row.share <= 1.0 + _SHARE_TOLERANCE:
            yield table.fault(row.title, "share must lie in 0..1", row.share)
        sums[row.phase, row.span] += row.share
    planned = {(r.phase, (r.range_start, r.range_end)) for r in expected.plan.routes} if expected.plan else set()
    for phase in PHASES:
        for span in sorted({span for of, span in {*sums, *planned} if of is phase or not _in_buckets(table)}):
            if abs(sums[phase, span] - 1.0) > _SHARE_TOLERANCE:
                yield table.fault(f"{phase} {span[0]}-{span[1] - 1}", "shares must sum to 1", sums[phase, span])
