"""The routing table as written: every range in both phases, shares that sum to 1, names that somebody answers to; and
against the plan: who takes which length, with which share, or without one whether those islands can take it.

A table's rows may reach over lengths that no request of the plan has, so that ranges are compared where they begin and
where they end, and not by their ends.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isclose

from planner.domain import PHASES, DeployedPlan, Phase
from planner.export.checking.owners import Owned
from planner.export.checking.services import Answering, address_faults
from planner.export.checking.tables import FoundTable, routing_tables
from planner.export.found import Fault, Manifest
from planner.export.objects.pods import PHASE_LABEL

_SHARE_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """`island`: whom the table's services say that the Service belongs to; empty: nobody."""

    phase: Phase
    span: tuple[int, int]
    service: str
    island: str
    share: float

    @property
    def title(self) -> str:
        return _title(self.phase, self.span)


def _title(phase: Phase, span: tuple[int, int]) -> str:
    return f"{phase} {span[0]}-{span[1] - 1}"


def routing_faults(
    manifests: Sequence[Manifest],
    endpoints: Mapping[str, Answering],
    owned: Sequence[Owned],
    plan: DeployedPlan | None,
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
        rows = list(_rows(table))
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        yield table.fault("", "must hold JSON rows of phase, range, service and share", repr(error))
        return
    if not rows:
        yield table.fault("", "must route a range", "no rows")
        return
    yield from _span_faults(table, rows)
    yield from _service_faults(table, rows, endpoints)
    yield from address_faults(table, endpoints)
    yield from _share_faults(table, rows, plan)
    yield from _stay_faults(table, rows, endpoints)
    if plan is None:
        yield from _length_faults(table, rows, owned)
    elif all(row.island for row in rows):
        yield from _plan_faults(table, rows, plan)
        yield from _inventory_faults(table, dict(plan.inventory))


def _rows(table: FoundTable) -> Iterator[_Row]:
    owners = {row["service"]: str(row["island"]) for row in table.table.get("services", ())}
    for row in table.table["routes"]:
        service = str(row["service"])
        yield _Row(
            phase=_half(row["phase"]),
            span=(int(row["range_start"]), int(row["range_end"])),
            service=service,
            island=owners.get(service, ""),
            share=float(row["share"]),
        )


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
    shares_taken: dict[tuple[str, tuple[int, int]], dict[Phase, float]] = defaultdict(
        lambda: dict.fromkeys(PHASES, 0.0)
    )
    for row in rows:
        answers = endpoints.get(row.service)
        if answers is not None and answers.workload.labels.get(PHASE_LABEL) == Phase.MIXED.value:
            shares_taken[row.service, row.span][row.phase] += row.share
    for (service, (start, end)), shares in sorted(shares_taken.items()):
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
                yield table.fault(_title(phase, (start, end)), "range_end must be above range_start", end)
        for (start, end), other in pairwise(spans):
            if other[0] < end:
                rule = f"must not overlap {start}-{end - 1}"
                yield table.fault(_title(phase, other), rule, f"{other[0]} < {end}")
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


def _share_faults(table: FoundTable, rows: Sequence[_Row], plan: DeployedPlan | None) -> Iterator[Fault]:
    sums: dict[tuple[Phase, tuple[int, int]], float] = defaultdict(float)
    for row in rows:
        if not 0.0 <= row.share <= 1.0 + _SHARE_TOLERANCE:
            yield table.fault(row.title, "share must lie in 0..1", row.share)
        sums[row.phase, row.span] += row.share
    planned = {(r.phase, (r.range_start, r.range_end)) for r in plan.routes} if plan else set()
    for phase in PHASES:
        for span in sorted({span for of, span in {*sums, *planned} if of is phase or not _in_buckets(table)}):
            if abs(sums[phase, span] - 1.0) > _SHARE_TOLERANCE:
                yield table.fault(_title(phase, span), "shares must sum to 1", sums[phase, span])


def _length_faults(table: FoundTable, rows: Sequence[_Row], owned: Sequence[Owned]) -> Iterator[Fault]:
    """A range begins with a length that its island is planned for: the engine's context follows from that. It may end
    beyond, as the longest prompt of a range can be shorter than the range."""
    longest = {island.id: island.longest_prompt for _, island in owned}
    for row in rows:
        longest_prompt = longest.get(row.island)
        if row.share > 0 and longest_prompt is not None and row.span[0] > longest_prompt:
            rule = f"must go to an island that takes such prompts; {row.island} takes {longest_prompt} tokens at most"
            yield table.fault(row.title, rule, row.island)


def _plan_faults(table: FoundTable, rows: Sequence[_Row], plan: DeployedPlan) -> Iterator[Fault]:
    planned: dict[tuple[Phase, int, int], dict[str, float]] = defaultdict(dict)
    for route in plan.routes:
        shares = planned[route.phase, route.range_start, route.range_end]
        shares[route.island] = shares.get(route.island, 0.0) + route.share
    tables = {phase: _shares_by_start(rows, phase) for phase in PHASES}
    for (phase, start, end), shares in sorted(planned.items()):
        for length in sorted({start, max(start, end - 1)}):
            routed = _shares_at(tables[phase], length)
            if routed and not _same(routed, shares):  # a length without a row is reported elsewhere
                rule = f"prompts of {length} tokens must go to {_shares_text(shares)} as in the plan"
                yield table.fault(_title(phase, (start, end)), rule, _shares_text(routed))
                break


_Spans = list[tuple[int, int, dict[str, float]]]


def _shares_by_start(rows: Sequence[_Row], phase: Phase) -> _Spans:
    """Start, end and shares by island of each range of a phase, sorted; ranges that overlap are reported elsewhere."""
    by_span: dict[tuple[int, int], dict[str, float]] = defaultdict(dict)
    for row in rows:
        if row.phase == phase:
            shares = by_span[row.span]
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
