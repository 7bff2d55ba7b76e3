"""The way of a request: port of the routing table, the Service's port and its target, the container's port, `--port` of
the engine; and where and what probes ask."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.export.engines.arguments import read_count, read_flags
from planner.export.engines.dialects import ENGINES
from planner.export.engines.seam import Engine
from planner.export.found import Fault, FoundPod, FoundWorkload, Manifest
from planner.export.objects.pods import ENGINE_LABEL


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
        elif engine and number == answering_port(pod, engine):
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
