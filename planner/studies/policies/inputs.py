"""Nodes, pods and orders of Alibaba's openb traces from CSV, read strictly: errors name file, row and column."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from planner.domain import MOST_GPUS_OF_A_NODE, WHOLE_GPU, TraceNode, TracePod
from planner.errors import InputError
from planner.files.disk.csv_rows import CsvRow, csv_rows, require_once

if TYPE_CHECKING:
    from planner.domain import PowerTable, TraceNode, TracePod

_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")


LONGEST_S = 1e12
"""Thirty thousand years: beyond, sums over time lose their meaning."""


def read_trace_nodes(path: Path) -> tuple[TraceNode, ...]:
    """Nodes, in the file's order: columns sn, cpu_milli, memory_mib, gpu, model, and perhaps cpu_model.

    A `model` is needed where there are GPUs.
    """
    nodes: list[TraceNode] = []
    for row in csv_rows(path, _NODE_COLUMNS):
        gpus = row.whole("gpu", high=MOST_GPUS_OF_A_NODE)
        if gpus and not row.text("model"):
            raise row.fault("model", "must name the type of its GPUs", "Add the model.")
        nodes.append(
            TraceNode(
                name=row.name("sn"),
                cpu_milli=row.whole("cpu_milli", low=1),
                memory_mib=row.whole("memory_mib", low=1),
                gpus=gpus,
                gpu_model=row.text("model"),
                cpu_model=row.text("cpu_model"),
            )
        )
    require_once(path, "sn", [node.name for node in nodes])
    return tuple(nodes)


def read_trace_pods(path: Path, models: Sequence[str] | None = None) -> tuple[TracePod, ...]:
    """Pods, in the file's order: columns name, cpu_milli, memory_mib, num_gpu, gpu_milli, and perhaps gpu_spec,
    creation_time and deletion_time.

    `gpu_milli` above 1000 counts as 1000, and without GPUs it does not count. Several GPUs must be whole ones.
    `models`: types of GPU that `gpu_spec` may name (None: any).
    """
    pods = [_pod(row, models) for row in csv_rows(path, _POD_COLUMNS)]
    require_once(path, "name", [pod.name for pod in pods])
    return tuple(pods)


def _pod(row: CsvRow, models: Sequence[str] | None) -> TracePod:
    gpus = row.whole("num_gpu", high=MOST_GPUS_OF_A_NODE)
    milli = min(row.whole("gpu_milli", default=0), WHOLE_GPU) if gpus else 0
    if gpus and not milli:
        raise row.fault("gpu_milli", "must be above 0 where num_gpu is", "Give 1000 for whole GPUs.")
    if gpus > 1 and milli != WHOLE_GPU:
        raise row.fault("gpu_milli", "must be 1000 where several GPUs are asked for", "Ask for whole GPUs, or for one.")
    created, deleted = _seconds(row, "creation_time"), _seconds(row, "deletion_time")
    if created is not None and deleted is not None and deleted < created:
        raise row.fault("deletion_time", f"must not be before creation_time ({created:g})", "Mend or drop the row.")
    return TracePod(
        name=row.name("name"),
        cpu_milli=row.whole("cpu_milli"),
        memory_mib=row.whole("memory_mib"),
        gpus=gpus,
        gpu_milli=milli,
        gpu_spec=_spec(row, models),
        creation_s=created,
        deletion_s=deleted,
    )


def _seconds(row: CsvRow, column: str) -> float | None:
    """None for an empty cell."""
    if not row.text(column):
        return None
    number = row.number(column)
    if not abs(number) <= LONGEST_S:
        raise row.fault(column, f"must be seconds, at most {LONGEST_S:g} either way")
    return number


def _spec(row: CsvRow, models: Sequence[str] | None) -> str:
    spec = row.text("gpu_spec")
    for model in spec.split("|") if spec else ():
        if not model or (models is not None and model not in models):
            rule = f"must name GPU models of the nodes ({', '.join(sorted(set(models or ())))}), joined by |"
            raise row.fault("gpu_spec", rule if models is not None else "must be models joined by |", "Mend the row.")
    return spec


def read_order(path: Path, column: str) -> tuple[str, ...]:
    """Names in the file's order, from its column `pod` (arrivals) or `node` (tie order)."""
    return tuple(row.name(column) for row in csv_rows(path, (column,)))


Rows = TypeVar("Rows")


def power_table() -> "PowerTable":
    """The table of the studies, and the GPU types that the planner knows."""
    from planner import files
    from planner.placement.power_model import OPENB_POWER, with_gpu_specs

    return with_gpu_specs(OPENB_POWER, files.load_gpu_specs().values())


def read_traces(nodes: Path, pods: Path, power: "PowerTable") -> "tuple[tuple[TraceNode, ...], tuple[TracePod, ...]]":
    """Nodes and pods; InputError as `files` tells it, or models without watts, or no GPUs in either."""

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
        for column, model, models in (("model", node.gpu_model, gpus), ("cpu_model", node.cpu_model, cpus)):
            required = node.gpus if column == "model" else model
            if required and model not in models:
                raise InputError(
                    f"{path}: row {row}, column {column} must be a model whose watts are known, got {model!r}.",
                    hint=f"Known are {', '.join(sorted(models))}.",
                )


def arrivals_of(path: Path | None, pods: "Sequence[TracePod]") -> "tuple[TracePod, ...] | None":
    """Pods in the order of a file with a column `pod`; None without a file."""
    from planner.studies.policies.online.arrivals import arrivals_in_order

    return None if path is None else _naming_file(path, lambda: arrivals_in_order(pods, read_order(path, "pod")))


def tie_order_of(path: Path | None, nodes: "Sequence[TraceNode]") -> tuple[str, ...] | None:
    """Names of all nodes in the order of a file with a column `node`; None without a file."""

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


def _naming_file(path: Path, read: Callable[[], Rows]) -> Rows:
    """What `read` answers; its faults name the file."""
    try:
        return read()
    except InputError as error:
        if error.message.startswith(str(path)):
            raise
        raise InputError(f"{path}: {error.message}", hint=error.hint) from None
