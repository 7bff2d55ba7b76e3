"""Routers' own configurations against the routing table: the same lengths to the same islands.

The planner itself writes them again and compares (`planner export --check`); here they are read as their routers do, so
that what is written is what the plan says.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.domain import DeployedRoute, Phase, Plan
from planner.export import find_faults, read_manifests
from planner.export.checking.owners import Owned, owned_workloads
from planner.export.checking.services import ranks_answer
from planner.export.checking.tables import routing_tables
from planner.export.found import Fault, Manifest
from planner.export.objects.names import pods_service
from planner.export.routers.intervals import RoutedBucket, routed_buckets
from planner.export.routers.registry import ROUTERS
from planner.export.summary import deployed_plan
from router_reading import aibrix, dynamo, picker, sglang
from router_reading.programs import listed_intervals, read_routes
from router_reading.records import Addresses
from router_reading.servers import listed_faults

_READERS = {"aibrix": aibrix.read, "dynamo": dynamo.read, "llm-d": picker.read, "sglang": sglang.read}


def read_router(name: str, manifests: Sequence[Manifest], addresses: Addresses) -> tuple[DeployedRoute, ...] | None:
    """Who takes which prompts, islands alike; None where the manifests have no such router."""
    reader = _READERS.get(name)
    return reader(manifests, addresses) if reader else read_routes(manifests, addresses, name)


def router_faults(files: Mapping[str, str], plan: Plan | None = None) -> tuple[Fault, ...]:
    """What is wrong with the manifests; where nothing is, what of their routers' configurations differs."""
    faults = find_faults(files, plan)
    return faults or tuple(_router_faults(files, plan))


def owned_of(files: Mapping[str, str], plan: Plan | None) -> tuple[list[Manifest], tuple[Owned, ...]]:
    """All objects, and each island's workload."""
    sound = read_manifests(files).sound
    workloads = [w for m, kind in sound if kind and kind.workloads for w in kind.workloads(m)]
    owned, faults = owned_workloads(workloads, deployed_plan(plan) if plan else None)
    assert not faults
    return [manifest for manifest, _ in sound], owned


def _router_faults(files: Mapping[str, str], plan: Plan | None) -> Iterator[Fault]:
    manifests, owned = owned_of(files, plan)
    planned = routed_buckets(_table_routes(manifests))
    addresses = island_addresses(manifests, owned)
    for router in ROUTERS:
        routes = read_router(router, manifests, addresses)
        if routes is None:
            continue
        differences = tuple(_differences(planned, routed_buckets(routes)))
        for expected, got in differences:
            yield Fault(where=f"Router {router}", expected=f"must send {expected} as the routing table", got=got)
        if router not in _READERS and not differences:
            listed = listed_intervals(manifests, addresses, router) or ()
            yield from listed_faults(router, listed, planned, addresses, server_names(manifests, owned))


def _table_routes(manifests: Sequence[Manifest]) -> Iterator[DeployedRoute]:
    (table,), _ = routing_tables(manifests)
    owners = {row["service"]: row["island"] for row in table.table["services"]}
    for row in table.table["routes"]:
        yield DeployedRoute(
            phase=Phase(row["phase"]),
            range_start=row["range_start"],
            range_end=row["range_end"],
            island=owners[row["service"]],
            share=row["share"],
        )


def island_addresses(manifests: Sequence[Manifest], owned: Sequence[Owned]) -> Addresses:
    """The names under which finished manifests have their islands answer."""
    tables, _ = routing_tables(manifests)
    hosts: dict[str, str] = {}
    named: dict[str, tuple[str, ...]] = {}
    for row in (row for table in tables for row in table.table.get("services", ())):
        named[row["island"]] = _answering(row)
        hosts |= dict.fromkeys((row["service"], pods_service(row["service"]), *_every(row)), row["island"])
        for leader in (*row.get("leaders", ()), *row.get("ranks", ())):
            hosts[str(leader)] = hosts[str(leader).rpartition(":")[0]] = row["island"]
    leaders = [(island, workload.pods[0]) for workload, island in owned if workload.pods]
    return Addresses(
        hosts=hosts,
        pods=tuple((island.id, pod.labels) for island, pod in leaders),
        annotations={island.id: pod.annotations for island, pod in leaders},
        followers=tuple(
            (island.id, pod.labels)
            for workload, island in owned
            for pod in workload.pods[1:]
            if pod.count and not ranks_answer(workload)
        ),
        longest={island.id: island.longest_prompt for island, _ in leaders},
        leaders=named,
    )


def _answering(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The ranks of a row of the table, or else its leaders."""
    return tuple(map(str, row.get("ranks") or row.get("leaders", ())))


def _every(row: Mapping[str, Any]) -> tuple[str, ...]:
    """What stands for all pods of a row, by rank."""
    ports = row.get("rank_ports") or [row.get("port")]
    return tuple(f"{pods_service(row['service'], rank)}:{port}" for rank, port in enumerate(ports))


def server_names(manifests: Sequence[Manifest], owned: Sequence[Owned]) -> dict[str, tuple[str, ...]]:
    """Island -> the names of its servers: a leader or rank each, or as often as there are pods what stands for them."""
    tables, _ = routing_tables(manifests)
    pods = {
        island.id: workload.replicas * (workload.pods_per_copy if ranks_answer(workload) else 1)
        for workload, island in owned
    }
    return {
        row["island"]: _answering(row) or _every(row) * pods.get(row["island"], 0)
        for table in tables
        for row in table.table.get("services", ())
    }


def _differences(planned: Sequence[RoutedBucket], read: Sequence[RoutedBucket]) -> Iterator[tuple[str, str]]:
    """What must hold and what came, at each end of each bucket."""
    lengths = {(b.phase, length) for b in (*planned, *read) for length in (b.start, b.last)}
    for phase, length in sorted(lengths):
        expected, got = (_islands_at(buckets, phase, length) for buckets in (planned, read))
        if expected and expected != got:
            yield f"{phase} of {length} tokens to {', '.join(expected)}", ", ".join(got) or "nobody"


def _islands_at(buckets: Sequence[RoutedBucket], phase: Phase, length: int) -> tuple[str, ...]:
    return next((b.names for b in buckets if b.phase == phase and b.start <= length < b.end), ())
