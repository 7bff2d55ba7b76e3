"""Services: whom they select, and where a workload answers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from planner.export.checking.routing.ports import Answering, answering, leader_ports
from planner.export.found import Fault, FoundPod, FoundWorkload, Manifest
from planner.export.objects.programs.fields import of_router


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
        if workers and not names_all:
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
