"""The services of a routing table: whom they stand for, at which port, and the leaders of their copies."""

from collections.abc import Iterator, Mapping
from typing import Any

from planner.export.checking.routing.ports import Answering, leader_ports
from planner.export.checking.tables import FoundTable
from planner.export.found import Fault, FoundWorkload
from planner.export.objects.names import slug
from planner.export.objects.pods import ISLAND_LABEL, PHASE_LABEL


def address_faults(table: FoundTable, endpoints: Mapping[str, Answering]) -> Iterator[Fault]:
    """What is wrong with the rows of the table's services."""
    for row in table.table.get("services", ()):
        where, answers = f"services {row['service']}", endpoints.get(row["service"])
        if answers is None or answers.workload.labels.get(ISLAND_LABEL) != slug(str(row["island"])):
            yield table.fault(where, f"must answer for island {row['island']}", "another or none")
            continue
        phase = answers.workload.labels.get(PHASE_LABEL)
        if row.get("phase", phase) != phase:
            yield table.fault(where, f"phase must be {phase}, which its island serves", row["phase"])
        port = row.get("port")
        if type(port) is not int or port not in answers.ports:
            listening = (
                ", ".join(str(port) for port in sorted(answers.ports)) or "one that its Service has for the engine"
            )
            yield table.fault(where, f"port must be {listening}, where the engine is reached", port or "none")
        yield from _leader_faults(table, row, answers.workload)


def _leader_faults(table: FoundTable, row: Mapping[str, Any], workload: FoundWorkload) -> Iterator[Fault]:
    """Where copies are named, each has its leader in the table, at the engine's own port."""
    where, leaders = f"services {row['service']}", row.get("leaders", [])
    if not isinstance(leaders, list) or not all(isinstance(leader, str) for leader in leaders):
        yield table.fault(where, "leaders must be a list of HOST:PORT", repr(leaders))
        return
    if workload.leader_host is not None and len(leaders) != workload.replicas:
        rule = f"leaders must name one for each of {workload.replicas} copies"
        yield table.fault(where, rule, ", ".join(leaders) or "none")
        return
    ports = leader_ports(workload)
    earlier: set[str] = set()
    for copy, leader in enumerate(leaders):
        host, _, port = leader.rpartition(":")
        expected = (workload.leader_host or "").replace("{}", str(copy))
        if not host or (expected and host != expected and not host.startswith(f"{expected}.")):
            yield table.fault(where, f"leader {copy} must be {expected or 'HOST'}:PORT", leader)
        elif ports and port != str(ports[min(copy, len(ports) - 1)]):
            rule = f"leader {copy} must be reached at port {ports[min(copy, len(ports) - 1)]}, where its engine listens"
            yield table.fault(where, rule, leader)
        elif leader in earlier:
            yield table.fault(where, f"leader {copy} must be another than those before", leader)
        earlier.add(leader)
