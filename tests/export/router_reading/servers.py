"""Routers that name servers one by one: each of an island's servers is there, once, nobody else's, and those that a
router weighs have the weights of their shares."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from planner.domain import Phase
from planner.export.found import Fault
from planner.export.routers.intervals import RoutedBucket
from planner.export.routers.intervals_served import server_weights
from router_reading.records import Addresses, ListedInterval, ListedServer


def listed_faults(
    router: str,
    listed: Sequence[ListedInterval],
    planned: Sequence[RoutedBucket],
    addresses: Addresses,
    servers: Mapping[str, tuple[str, ...]],
) -> Iterator[Fault]:
    """What is wrong with the servers of intervals whose islands are right. `servers`: island -> names of its own."""
    for interval in listed:
        where = f"Router {router}, {interval.phase} of {interval.start} to {interval.end - 1} tokens"
        named = Counter(server.host for server in interval.servers if server.host and not server.standing_for)
        hosts_of: dict[str, set[str]] = {}
        for host in named:
            hosts_of.setdefault(addresses.hosts.get(host, ""), set()).add(host)
        standing = Counter(name for server in interval.servers if server.host for name in set(server.standing_for))
        for host in named:
            if host not in addresses.hosts:
                yield Fault(where=where, expected="must name servers of these islands", got=host)
        for island in sorted(hosts_of.keys() - {""}):
            # each program that pairs names all of an island's servers
            wanted = Counter(servers.get(island, ()) * max(1, standing[island]))
            for host in sorted(wanted.keys() | hosts_of[island]):
                if addresses.hosts.get(host) == island and wanted[host] != named[host]:
                    rule = f"must name {host} of {island} {_times(wanted[host])}"
                    yield Fault(where=where, expected=rule, got=_times(named[host]))
        if interval.phase is Phase.PREFILL:  # whose shares they are; what is paired with it has no say
            yield from _weight_faults(where, interval, planned, addresses)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _weight_faults(
    where: str, interval: ListedInterval, planned: Sequence[RoutedBucket], addresses: Addresses
) -> Iterator[Fault]:
    """Weights that are not those of the table's shares."""
    shares = next(
        (dict(b.islands) for b in planned if b.phase is interval.phase and b.start <= interval.start < b.end), {}
    )
    for door in dict.fromkeys(server.door for server in interval.servers):
        weighed = [server for server in interval.servers if server.weight is not None and server.door == door]
        yield from _unlike_shares(where, weighed, shares, addresses)


def _unlike_shares(
    where: str, weighed: Sequence[ListedServer], shares: Mapping[str, float], addresses: Addresses
) -> Iterator[Fault]:
    groups = Counter(_islands(server, addresses) for server in weighed)
    parts = [(sum(shares.get(name, 0.0) for name in group), count) for group, count in groups.items()]
    expected = dict(zip(groups, server_weights(parts), strict=False))
    for server in weighed:
        right = expected.get(_islands(server, addresses))
        if right is not None and server.weight != right:
            rule = f"{server.host} must have weight {right}, its share"
            yield Fault(where=where, expected=rule, got=str(server.weight))


def _islands(server: ListedServer, addresses: Addresses) -> tuple[str, ...]:
    return server.standing_for or (addresses.hosts.get(server.host, ""),)
