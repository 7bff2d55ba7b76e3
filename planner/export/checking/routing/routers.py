"""Routers' own configurations against the routing table: the same lengths to the same islands."""

from collections.abc import Iterator, Mapping, Sequence
from math import isclose

from planner.export.checking.expectation import Owned
from planner.export.checking.routing.routes import told_routes
from planner.export.checking.routing.servers import listed_faults
from planner.export.checking.tables import routing_tables
from planner.export.found import Fault, Manifest
from planner.export.objects.names import pods_service
from planner.export.routers.intervals import RoutedBucket, routed_buckets
from planner.export.routers.registry import ROUTERS
from planner.export.seams import Addresses

_SHARE_TOLERANCE = 0.005
"""Weights of gateways are whole numbers of at most three digits."""


def router_faults(manifests: Sequence[Manifest], owned: Sequence[Owned]) -> Iterator[Fault]:
    """Where what a router would do differs from the routing table, which other checks hold against the plan."""
    planned = routed_buckets(told_routes(manifests))
    if not planned:
        return
    addresses = island_addresses(manifests, owned)
    for router in ROUTERS.values():
        routes = router.read(manifests, addresses)
        if routes is None:
            continue
        differences = tuple(_differences(planned, routed_buckets(routes), exact=router.exact_shares))
        for expected, got in differences:
            yield Fault(where=f"Router {router.name}", expected=f"must send {expected} as the routing table", got=got)
        if router.servers and not differences:
            listed = router.servers(manifests, addresses)
            yield from listed_faults(router.name, listed, planned, addresses, server_names(manifests, owned))


def island_addresses(manifests: Sequence[Manifest], owned: Sequence[Owned]) -> Addresses:
    """The names under which finished manifests have their islands answer."""
    tables, _ = routing_tables(manifests)
    hosts: dict[str, str] = {}
    named: dict[str, tuple[str, ...]] = {}
    for row in (row for table in tables for row in table.table.get("services", ())):
        named[row["island"]] = tuple(map(str, row.get("leaders", ())))
        every = pods_service(row["service"])
        hosts |= dict.fromkeys((row["service"], every, f"{every}:{row.get('port')}"), row["island"])
        for leader in row.get("leaders", ()):
            hosts[str(leader)] = hosts[str(leader).rpartition(":")[0]] = row["island"]
    leaders = [(item.island, item.workload.pods[0]) for item in owned if item.workload.pods]
    return Addresses(
        hosts=hosts,
        pods=tuple((island.id, pod.labels) for island, pod in leaders),
        annotations={island.id: pod.annotations for island, pod in leaders},
        followers=tuple((item.island.id, pod.labels) for item in owned for pod in item.workload.pods[1:] if pod.count),
        longest={island.id: island.longest_prompt for island, _ in leaders},
        leaders=named,
    )


def server_names(manifests: Sequence[Manifest], owned: Sequence[Owned]) -> dict[str, tuple[str, ...]]:
    """Island -> the names of its servers: a leader each, or as often as there are copies what stands for all."""
    tables, _ = routing_tables(manifests)
    copies = {item.island.id: item.workload.replicas for item in owned}
    return {
        row["island"]: tuple(map(str, row.get("leaders", ())))
        or (f"{pods_service(row['service'])}:{row.get('port')}",) * copies.get(row["island"], 0)
        for table in tables
        for row in table.table.get("services", ())
    }


def _differences(
    planned: Sequence[RoutedBucket], read: Sequence[RoutedBucket], *, exact: bool
) -> Iterator[tuple[str, str]]:
    """What must hold and what came, at each end of each bucket."""
    lengths = {(b.phase, length) for b in (*planned, *read) for length in (b.start, b.last)}
    for phase, length in sorted(lengths):
        wanted, came = (_islands_at(buckets, phase, length) for buckets in (planned, read))
        if wanted and not _alike(wanted, came, exact=exact):
            yield f"{phase} of {length} tokens to {_text(wanted)}", _text(came)


def _islands_at(buckets: Sequence[RoutedBucket], phase: str, length: int) -> dict[str, float]:
    return next((dict(b.islands) for b in buckets if b.phase == phase and b.start <= length < b.end), {})


def _alike(wanted: Mapping[str, float], came: Mapping[str, float], *, exact: bool) -> bool:
    return wanted.keys() == came.keys() and (
        not exact or all(isclose(came[name], share, abs_tol=_SHARE_TOLERANCE) for name, share in wanted.items())
    )


def _text(shares: Mapping[str, float]) -> str:
    return ", ".join(shares) or "nobody"
