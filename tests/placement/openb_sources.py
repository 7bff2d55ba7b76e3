"""Alibaba's openb traces and the reference's results on them, where they are at hand."""

import csv
from functools import cache
from pathlib import Path

import pytest

from planner.domain import TraceNode, TracePod, TypicalPod
from planner.files.openb_traces import read_order, read_trace_nodes, read_trace_pods
from planner.placement.online.arrivals import arrivals_in_order
from planner.placement.typical_pods import target_workload

SHARED = Path(__file__).parents[3] / "shared"
DATA, GOLDENS = SHARED / "data" / "openb", SHARED / "goldens" / "openb"
needs_openb = pytest.mark.skipif(
    not (DATA.exists() and GOLDENS.exists()), reason="needs ../shared/data/openb and ../shared/goldens/openb"
)
POINTS = (80, 90, 95, 100, 110, 120, 130)


@cache
def nodes() -> tuple[TraceNode, ...]:
    return read_trace_nodes(DATA / "openb_node_list_gpu_node.csv")


@cache
def pods(trace: str = "default") -> tuple[TracePod, ...]:
    return read_trace_pods(DATA / f"openb_pod_list_{trace}.csv", [node.gpu_model for node in nodes()])


@cache
def workload(trace: str = "default") -> tuple[TypicalPod, ...]:
    return target_workload(pods(trace))


@cache
def arrivals(seed: int, trace: str = "default") -> tuple[TracePod, ...]:
    return arrivals_in_order(pods(trace), read_order(GOLDENS / f"arrivals_{trace}_seed{seed}.csv", "pod"))


@cache
def tie_order(seed: int, trace: str = "default") -> tuple[str, ...]:
    return read_order(GOLDENS / f"tie_order_{trace}_seed{seed}.csv", "node")


def golden(name: str) -> list[dict[str, str]]:
    with (GOLDENS / name).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))
