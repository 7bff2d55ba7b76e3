"""The command lines of one copy of a model as they are found, and what every engine asks of them: the program that they
start, and the flags by which the pods of a copy find each other."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from planner.export.objects.documents import whole_number

_PYTHON = re.compile(r"python[0-9.]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_HIGHEST_PORT = 65535
_PAIR = 2
_OWN_ADDRESSES = frozenset({"127.0.0.1", "localhost", "0.0.0.0", "::1"})  # noqa: S104  # read, not listened on


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundGroup:
    """All words that the leader and the workers of one copy start with; `worker` None: a copy of one pod.

    `leader_address` and `pod_index`: the words that the target puts the leader's address and the pod's number for.
    """

    leader: tuple[str, ...]
    worker: tuple[str, ...] | None
    pods: int
    leader_address: str
    pod_index: str

    def numbers(self, *, leads: bool) -> tuple[str, ...]:
        """The words that may stand for the pod's number: the leader, and the worker of a pair, are told by a figure,
        too."""
        figures = ("0",) if leads else ("1",) if self.pods == _PAIR else ()
        return (self.pod_index, *figures)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFault:
    """What is wrong with the leader's line (`leads`) or the workers'."""

    leads: bool
    expected: str
    got: str


def program_arguments(words: Sequence[str], programs: Sequence[Sequence[str]]) -> tuple[str, ...] | None:
    """The words behind the program, if it is one of `programs`; a path and variables set by `env` may stand before it.
    None where the words start something else."""
    line = without_environment(words)
    for program in programs:
        head = line[: len(program)]
        if head and (_program_name(head[0]), *head[1:]) == tuple(program):
            return line[len(program) :]
    return None


def without_environment(words: Sequence[str]) -> tuple[str, ...]:
    """`words` without a leading `env NAME=VALUE ...`."""
    if not words or PurePosixPath(words[0]).name != "env":
        return tuple(words)
    first = next((at for at, word in enumerate(words) if at and not _VARIABLE.fullmatch(word)), len(words))
    return tuple(words[first:])


def _program_name(word: str) -> str:
    name = PurePosixPath(word).name
    return "python3" if _PYTHON.fullmatch(name) else name


def is_port(text: str) -> bool:
    """Whether `text` is the number of a port."""
    return 1 <= whole_number(text) <= _HIGHEST_PORT


def left_out(values: Mapping[str, str], names: Collection[str], why: str, *, leads: bool) -> Iterator[LineFault]:
    """Flags of `names` that are there."""
    for name in values:
        if name in names:
            yield LineFault(leads=leads, expected=f"--{name} must be left out{why}", got=values[name] or f"--{name}")


def own_address_faults(values: Mapping[str, str], names: Collection[str]) -> Iterator[LineFault]:
    """Addresses of others in the line of a pod that is alone."""
    for name in names:
        host = values.get(name, "localhost").rpartition(":")[0] or values.get(name, "localhost")
        if host not in _OWN_ADDRESSES:
            rule = f"--{name} must be left out of a copy of one pod, which meets nobody"
            yield LineFault(leads=True, expected=rule, got=values[name] or "none")


def address_faults(
    name: str, leader: Mapping[str, str], worker: Mapping[str, str], group: FoundGroup
) -> Iterator[LineFault]:
    """The flag `name` is the leader's address in both lines."""
    for values, leads in ((leader, True), (worker, False)):
        if values.get(name) != group.leader_address:
            rule = f"--{name} of the {_role(leads)} must be the leader's address, {group.leader_address}"
            yield LineFault(leads=leads, expected=rule, got=values.get(name, "none"))


def port_faults(name: str, leader: Mapping[str, str], worker: Mapping[str, str], default: int) -> Iterator[LineFault]:
    """The flag `name` is one port in both lines; where it is missing it is `default`."""
    ours, theirs = leader.get(name, str(default)), worker.get(name, str(default))
    if not is_port(ours):
        yield LineFault(leads=True, expected=f"--{name} must be a port", got=ours or "none")
    if theirs != ours:
        yield LineFault(leads=False, expected=f"--{name} of the workers must be the leader's, {ours}", got=theirs)


def number_faults(
    name: str, leader: Mapping[str, str], worker: Mapping[str, str], group: FoundGroup
) -> Iterator[LineFault]:
    """The flag `name` is the pod's number in both lines."""
    for values, leads in ((leader, True), (worker, False)):
        if values.get(name, "") not in group.numbers(leads=leads):
            rule = f"--{name} of the {_role(leads)} must be the pod's number, {group.pod_index}"
            yield LineFault(leads=leads, expected=rule, got=values.get(name, "none"))


def alike_faults(names: Collection[str], leader: Mapping[str, str], worker: Mapping[str, str]) -> Iterator[LineFault]:
    """Flags of one engine, whose parts the pods are, that leader and workers give differently."""
    for name in sorted(names):
        ours, theirs = leader.get(name), worker.get(name)
        if ours != theirs:
            yield LineFault(
                leads=False,
                expected=f"--{name} of the workers must be the leader's, {_flag_text(ours)}",
                got=_flag_text(theirs),
            )


def _role(leads: bool) -> str:
    return "leader" if leads else "workers"


def _flag_text(value: str | None) -> str:
    return "none" if value is None else value or "without a value"
