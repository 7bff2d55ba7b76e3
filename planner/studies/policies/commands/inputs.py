"""What the commands of online policies are given: traces and orders; faults name the file."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from planner.errors import InputError

if TYPE_CHECKING:
    from planner.domain import PowerTable, TraceNode, TracePod

Found = TypeVar("Found")


def power_table() -> "PowerTable":
    """The table of the studies, and the GPU types that the planner knows."""
    from planner import files
    from planner.placement.power_model import OPENB_POWER, with_gpu_specs

    return with_gpu_specs(OPENB_POWER, files.load_gpu_specs().values())


def read_traces(nodes: Path, pods: Path, power: "PowerTable") -> "tuple[tuple[TraceNode, ...], tuple[TracePod, ...]]":
    """Nodes and pods; InputError as `files` tells it, or models without watts, or no GPUs in either."""
    from planner.studies.policies.inputs import read_trace_nodes, read_trace_pods

    trace = read_trace_nodes(nodes)
    _require_watts(nodes, trace, power)
    if not any(node.gpus for node in trace):
        raise InputError(f"{nodes}: column gpu must be above 0 in some row; it is 0 in all.", hint="Add nodes.")
    requests = read_trace_pods(pods, [node.gpu_model for node in trace if node.gpus])
    if not any(pod.gpus for pod in requests):
        raise InputError(f"{pods}: column num_gpu must be above 0 in some row; it is 0 in all.", hint="Add pods.")
    return trace, requests


def _require_watts(path: Path, nodes: "Sequence[TraceNode]", power: "PowerTable") -> None:
    gpus, cpus = {gpu.name for gpu in power.gpus}, {cpu.name for cpu in power.cpus}
    for row, node in enumerate(nodes, start=1):
        for column, came, models in (("model", node.gpu_model, gpus), ("cpu_model", node.cpu_model, cpus)):
            required = node.gpus if column == "model" else came
            if required and came not in models:
                raise InputError(
                    f"{path}: row {row}, column {column} must be a model whose watts are known, got {came!r}.",
                    hint=f"Known are {', '.join(sorted(models))}.",
                )


def arrivals_of(path: Path | None, pods: "Sequence[TracePod]") -> "tuple[TracePod, ...] | None":
    """Pods in the order of a file with a column `pod`; None without a file."""
    from planner.studies.policies.inputs import read_order
    from planner.studies.policies.online.arrivals import arrivals_in_order

    return None if path is None else _naming_file(path, lambda: arrivals_in_order(pods, read_order(path, "pod")))


def tie_order_of(path: Path | None, nodes: "Sequence[TraceNode]") -> tuple[str, ...] | None:
    """Names of all nodes in the order of a file with a column `node`; None without a file."""
    from planner.studies.policies.inputs import read_order

    if path is None:
        return None
    names = read_order(path, "node")
    due, listed = {node.name for node in nodes}, set[str]()
    for row, name in enumerate(names, start=1):
        if name not in due or name in listed:
            rule = "must not come twice" if name in listed else "must be a node of the trace"
            raise InputError(f"{path}: row {row}, column node {rule}, got {name!r}.", hint="List every node once.")
        listed.add(name)
    if len(listed) < len(due):
        missing = next(node.name for node in nodes if node.name not in listed)
        raise InputError(
            f"{path}: must list each of the {len(due)} nodes once; {missing} is missing.",
            hint="Add what is missing.",
        )
    return names


def _naming_file(path: Path, read: Callable[[], Found]) -> Found:
    """What `read` answers; its faults name the file."""
    try:
        return read()
    except InputError as error:
        if error.message.startswith(str(path)):
            raise
        raise InputError(f"{path}: {error.message}", hint=error.hint) from None
