"""Services: whom they select, and where a workload answers. The way of a request: port of the routing table, the
Service's port and its target, the container's port, `--port` of the engine; the leaders of copies."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from planner.export.checking.tables import FoundTable
from planner.export.engines.arguments import read_count, read_flags
from planner.export.engines.dialects import ENGINES
from planner.export.engines.seam import Engine
from planner.export.found import Fault, FoundPod, FoundWorkload, Manifest
from planner.export.objects.names import slug
from planner.export.objects.pods import ENGINE_LABEL, ISLAND_LABEL, PHASE_LABEL
from planner.export.objects.router_objects import of_router


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering:
    """Who answers at a host name, and at which ports."""

    workload: FoundWorkload
    ports: frozenset[int]


def engine_port(pod: FoundPod, engine: Engine) -> int:
    """Where the engine of a pod listens."""
    if pod.command_path:
        return read_count(read_flags(pod.arguments or ()), "port", engine.http_port)
    return pod.engine_port or engine.http_port


def answering_port(pod: FoundPod, engine: Engine) -> int:
    """Where a pod takes requests: its engine, or what stands in front of it."""
    return pod.answers_at or engine_port(pod, engine)


def engine_of(workload: FoundWorkload) -> Engine | None:
    """The engine that the workload's label names, None where there is none of that name."""
    return ENGINES.get(workload.labels.get(ENGINE_LABEL, ""))


def answering_ports(pod: FoundPod, engine: Engine) -> tuple[int, ...]:
    """All ports at which a pod takes requests: one, or one for each of its ranks."""
    if pod.answers_at and pod.answers_at != pod.engine_port:
        return (pod.answers_at,)
    ports = engine.answering_ports(pod.arguments or ()) if pod.command_path else ()
    return ports or (answering_port(pod, engine),)


def ranks_answer(workload: FoundWorkload) -> bool:
    """Whether every pod of a copy takes requests, for its own ranks."""
    engine = engine_of(workload)
    return engine is not None and all(engine.by_rank(pod.arguments or ()) for pod in workload.pods if pod.count)


def leader_ports(workload: FoundWorkload) -> tuple[int, ...]:
    """Where each copy's leader takes requests; one port for all where copies start alike."""
    engine = engine_of(workload)
    return tuple(answering_port(copy[0], engine) for copy in workload.copies if copy) if engine else ()


def container_ports(pod: FoundPod) -> dict[str, int]:
    """Name (or number, where it has none) -> number of each port that the containers list."""
    rows = [port for container in pod.spec["containers"] for port in container.get("ports", ())]
    return {str(port.get("name", port["containerPort"])): port["containerPort"] for port in rows}


def resolved(target: object, pod: FoundPod) -> int | None:
    """The number that a port's name stands for in the pod; a number as it is."""
    return target if isinstance(target, int) else container_ports(pod).get(str(target))


def answering(service: Manifest, workload: FoundWorkload, pod: FoundPod) -> tuple[Answering, tuple[Fault, ...]]:
    """Under which of its ports a Service reaches the engine, and what is wrong with its targets."""
    engine, ports = engine_of(workload), container_ports(pod)
    reachable: set[int] = set()
    faults: list[Fault] = []
    for index, port in enumerate(service.body["spec"]["ports"]):
        number = resolved(port.get("targetPort", port["port"]), pod)
        rule = _target_rule(port, number, pod, ports)
        if rule:
            where = f"spec.ports.{index}.targetPort"
            faults.append(service.fault(where, rule, port.get("targetPort", port["port"])))
        elif engine and number in answering_ports(pod, engine):
            reachable.add(port["port"])
    return Answering(workload=workload, ports=frozenset(reachable)), tuple(faults)


def _target_rule(port: Mapping[str, Any], number: int | None, pod: FoundPod, ports: Mapping[str, int]) -> str:
    """What must hold for a Service's port, empty where it does."""
    if number not in ports.values():
        return "must be a port of the pods"
    if pod.answers_at and number == pod.engine_port != pod.answers_at:
        return f"must be {pod.answers_at}, as requests go through what stands in front of the engine"
    named_port = ports.get(port["name"], number)
    if not pod.answers_at and number != named_port:
        return f"must lead to the container's port {port['name']}, {named_port}"
    return ""


def service_faults(
    manifests: Sequence[Manifest], workloads: Sequence[FoundWorkload]
) -> tuple[dict[str, Answering], tuple[Fault, ...]]:
    """Host name -> who answers there, and what is wrong with the Services."""
    endpoints = {
        name: Answering(workload=workload, ports=frozenset(workload.endpoint_ports or leader_ports(workload)))
        for workload in workloads
        for name in workload.endpoints
    }
    faults: list[Fault] = []
    pods = [(workload, pod) for workload in workloads for pod in workload.pods]
    by_label: dict[tuple[str, str], list[tuple[FoundWorkload, FoundPod]]] = {}
    for workload, pod in pods:
        for label in pod.labels.items():
            by_label.setdefault(label, []).append((workload, pod))
    for service in manifests:
        if service.kind != "Service" or of_router(service):
            continue
        selector = service.body["spec"]["selector"]
        candidates = min((by_label.get(label, []) for label in selector.items()), key=len, default=pods)
        selected = [(w, pod) for w, pod in candidates if selector.items() <= pod.labels.items()]
        owners = {id(workload): workload for workload, _ in selected}
        if len(owners) != 1:
            faults.append(_selection_fault(service, selector, workloads, len(owners)))
            continue
        answers, wrong = answering(service, *selected[0])
        workers = [pod for workload, pod in selected if pod is not workload.pods[0]]
        names_all = (
            bool(workers) and service.body["spec"].get("clusterIP") == "None"
        )  # for discovery: takes no requests
        endpoints[service.name] = replace(answers, ports=frozenset()) if names_all else answers
        faults += wrong
        if workers and not names_all and not ranks_answer(owners[id(selected[0][0])]):
            rule = "must select leaders alone, as workers take no requests"
            faults.append(service.fault("spec.selector", rule, f"those of {workers[0].path}, too"))
    return endpoints, tuple(faults)


def _selection_fault(
    service: Manifest, selector: Mapping[str, str], workloads: Sequence[FoundWorkload], owners: int
) -> Fault:
    """Names the first key of the selector at which no pod is left; else all of it."""
    labels = [pod.labels for workload in workloads for pod in workload.pods]
    for key, value in selector.items():
        labels = [row for row in labels if row.get(key) == value]
        if not labels:
            return service.fault(f"spec.selector.{key}", "must select pods of these files", value)
    return service.fault("spec.selector", "must select the pods of one workload", f"{owners} workloads")


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
        yield from _rank_faults(table, row, answers)
        port = row.get("port")
        if type(port) is not int or port not in answers.ports:
            listening = (
                ", ".join(str(port) for port in sorted(answers.ports)) or "one that its Service has for the engine"
            )
            yield table.fault(where, f"port must be {listening}, where the engine is reached", port or "none")
        yield from _leader_faults(table, row, answers.workload)


def _rank_faults(table: FoundTable, row: Mapping[str, Any], answers: Answering) -> Iterator[Fault]:
    """A row names the ports of ranks, and where pods have names all ranks, if and only if they answer by themselves."""
    where, workload = f"services {row['service']}", answers.workload
    engine, by_rank = engine_of(workload), ranks_answer(workload)
    ports = list(answering_ports(workload.pods[0], engine)) if engine and by_rank else []
    if row.get("rank_ports", []) != ports:
        shown_ports = ", ".join(map(str, ports)) or "absent, as a copy is one endpoint"
        yield table.fault(where, f"rank_ports must be {shown_ports}", row.get("rank_ports", "none"))
        return
    named = workload.leader_host is not None and by_rank
    expected = workload.replicas * workload.pods_per_copy * len(ports) if named else 0
    ranks = row.get("ranks", [])
    if not isinstance(ranks, list) or len(set(map(str, ranks))) != expected or len(ranks) != expected:
        yield table.fault(where, f"ranks must name {expected} different HOST:PORT", len(ranks) or "none")


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
