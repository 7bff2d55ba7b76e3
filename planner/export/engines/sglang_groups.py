"""SGLang's command lines as they are found: the program, and how the pods of a copy find each other.

All pods of a copy start alike but for `--node-rank`, and meet at `--dist-init-addr`, the leader's address and a port.
Sources: as `sglang`; python/sglang/srt/server_args.py for names and aliases.
"""

from collections.abc import Iterator, Mapping, Sequence

from planner.export.engines.arguments import read_flags
from planner.export.engines.groups import (
    FoundGroup,
    LineFault,
    alike_faults,
    is_port,
    number_faults,
    own_address_faults,
    program_arguments,
)

_PROGRAMS = (("python3", "-m", "sglang.launch_server"), ("sglang", "serve"))
_ADDRESS = "dist-init-addr"
GROUP_FLAGS = frozenset({"nnodes", "node-rank", _ADDRESS})
"""Flags by which the pods of a copy find each other."""
# what all ranks of an engine have to agree in, of what the planner writes
_ALIKE = frozenset(
    {"chunked-prefill-size", "deepep-mode", "enable-dp-lm-head", "enable-eplb", "enable-two-batch-overlap"}
    | {"ep-num-redundant-experts", "kv-cache-dtype", "max-prefill-tokens", "moe-a2a-backend", "moe-dense-tp-size"}
    | {"moe-runner-backend", "page-size", "trust-remote-code"}
    | {f"speculative-{name}" for name in ("algorithm", "num-steps", "eagle-topk", "num-draft-tokens")}
)


def read_program(words: Sequence[str], /) -> tuple[str, ...] | None:
    """The words behind SGLang's program; None where the line starts something else."""
    return program_arguments(words, _PROGRAMS)


def check_group(group: FoundGroup, /) -> Iterator[LineFault]:
    """The lines of one copy against each other."""
    leader = read_flags(group.leader)
    model = _model(leader)
    if not model:
        yield LineFault(leads=True, expected="--model-path must name the model to serve", got="none")
    if group.worker is None:
        yield from own_address_faults(leader, (_ADDRESS,))
        if leader.get("node-rank", "0") not in group.numbers(leads=True):
            rule = "--node-rank must be left out of a copy of one pod"
            yield LineFault(leads=True, expected=rule, got=leader["node-rank"])
        return
    worker = read_flags(group.worker)
    if (came := _model(worker)) != model:
        rule = f"--model-path of the workers must be the leader's, {model}"
        yield LineFault(leads=False, expected=rule, got=came or "none")
    yield from number_faults("node-rank", leader, worker, group)
    yield from _address_faults(group, leader, worker)
    yield from alike_faults(_ALIKE, leader, worker)


def _model(values: Mapping[str, str]) -> str:
    return values.get("model-path", values.get("model", ""))


def _address_faults(group: FoundGroup, leader: Mapping[str, str], worker: Mapping[str, str]) -> Iterator[LineFault]:
    """All meet at one port of the leader."""
    ours, theirs = leader.get(_ADDRESS, ""), worker.get(_ADDRESS, "")
    host, _, port = ours.rpartition(":")
    if host != group.leader_address or not is_port(port):
        rule = f"--{_ADDRESS} of the leader must be its own address and a port, {group.leader_address}:PORT"
        yield LineFault(leads=True, expected=rule, got=ours or "none")
    elif theirs != ours:
        rule = f"--{_ADDRESS} of the workers must be the leader's, {ours}"
        yield LineFault(leads=False, expected=rule, got=theirs or "none")
