"""Alibaba's openb traces and the reference's results on them."""

from functools import cache
from pathlib import Path

from reference_data import reference_path, reference_rows

from planner.domain import TraceNode, TracePod, TypicalPod
from planner.placement.fragmentation import target_workload
from planner.studies.policies.inputs import read_order, read_trace_nodes, read_trace_pods
from planner.studies.policies.online.arrivals import arrivals_in_order

POINTS = (80, 90, 95, 100, 110, 120, 130)


@cache
def nodes() -> tuple[TraceNode, ...]:
    return read_trace_nodes(reference_path("openb/openb_node_list_gpu_node.csv"))


@cache
def pods(trace: str = "default") -> tuple[TracePod, ...]:
    return read_trace_pods(reference_path(f"openb/openb_pod_list_{trace}.csv"), [node.gpu_model for node in nodes()])


@cache
def workload(trace: str = "default") -> tuple[TypicalPod, ...]:
    return target_workload(pods(trace))


@cache
def arrivals(seed: int, trace: str = "default") -> tuple[TracePod, ...]:
    return arrivals_in_order(pods(trace), read_order(_reference(f"arrivals_{trace}_seed{seed}.csv"), "pod"))


@cache
def tie_order(seed: int, trace: str = "default") -> tuple[str, ...]:
    return read_order(_reference(f"tie_order_{trace}_seed{seed}.csv"), "node")


def golden(name: str) -> list[dict[str, str]]:
    return reference_rows(f"openb_reference/{name}")


def _reference(name: str) -> Path:
    return reference_path(f"openb_reference/{name}")
