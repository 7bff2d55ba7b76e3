"""What `planner simulate` is given: traces, orders, policies and seeds; faults name the file or the option."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from planner.errors import InputError

if TYPE_CHECKING:
    from planner.domain import PowerTable, TraceNode, TracePod

MOST_SEEDS = 1000
LARGEST_SEED = 2**32 - 1
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


class NamedPolicy(Protocol):
    """A policy as commands know it."""

    @property
    def name(self) -> str:
        """What it is called in tables and options."""


Policy = TypeVar("Policy", bound=NamedPolicy)


def policies_of(words: Sequence[str], parse: Callable[[str], Policy]) -> tuple[Policy, ...]:
    """Policies, each once."""
    policies = tuple(parse(word) for word in words)
    names = [policy.name for policy in policies]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"--policy: must name each policy once, got {twice!r} twice.", hint="Drop one of the two.")
    return policies


def baseline_of(
    word: str | None, policies: Sequence[NamedPolicy], parse: Callable[[str], NamedPolicy], usual: str
) -> str:
    """Name of the policy that others are compared with: `word`, else the `usual` one where it runs, else the first."""
    names = [policy.name for policy in policies]
    if word is None:
        return usual if usual in names else names[0]
    name = parse(word).name
    if name not in names:
        raise InputError(
            f"--baseline: must be one of the policies that run ({', '.join(names)}), got {word!r}.",
            hint=f"Add --policy {word}.",
        )
    return name


def seeds_of(text: str) -> tuple[int, ...]:
    """`42`, `42-51`, `1,5,42-44`: whole numbers, in the order given. InputError: other words, downwards, twice."""
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        if not _is_seed(first) or (dash and not _is_seed(last)):
            raise _bad_seeds(text, f"must be whole numbers from 0 to {LARGEST_SEED} and ranges of them")
        low, high = int(first), int(last) if dash else int(first)
        if high < low:
            raise _bad_seeds(text, f"must be ranges upwards, not from {low} to {high}")
        if high - low >= MOST_SEEDS:
            raise _bad_seeds(text, f"must be at most {MOST_SEEDS}")
        seeds.extend(range(low, high + 1))
    if len(set(seeds)) < len(seeds):
        raise _bad_seeds(text, "must name each seed once")
    if len(seeds) > MOST_SEEDS:
        raise _bad_seeds(text, f"must be at most {MOST_SEEDS}")
    return tuple(seeds)


def _is_seed(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len(str(LARGEST_SEED)) and int(text) <= LARGEST_SEED


def _bad_seeds(text: str, rule: str) -> InputError:
    return InputError(f"--seeds: {rule}, got {text!r}.", hint="Write 42, or 42-51, or 1,5,42-44.")
