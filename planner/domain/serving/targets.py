"""The targets of `planner export` by name: what routers, and the promise that counts on them, must know of each.

A target's objects are written in `planner.export.targets`; what stands here is all that others may ask of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Reach(StrEnum):
    """How a router comes to a target's servers. A target offers some, a router needs one; neither names the other."""

    PROGRAMS = "programs that it starts beside the servers"
    NAMES = "servers whose names are known beforehand"
    LABELS = "objects of single islands, whose pods a router's labels are put on"
    SIDECARS = "decode pods with the sidecar that fetches from the prefill pod that a picker names"
    GRAPH = "Dynamo's frontends"
    SERVE = "the ingress of Ray Serve, which is in the application"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRow:
    """A target to routers. `router`: its own; `offers`: how routers come to its servers.

    `prefill_ports`, `decode_ports`: its objects may name a port for each attention rank of a pod that takes prompts in,
    and of one that decodes. `named`: servers have names; else programs find pods by label, at one port each. `picks`:
    each of its objects brings a picker. `joins`: its objects join prefill with decode, so that none does both.
    `starts_ranks`: of servers of several hosts, by MPI, where the engine does not.
    """

    router: str = "haproxy"
    offers: frozenset[Reach] = frozenset()
    prefill_ports: bool = True
    decode_ports: bool = True
    named: bool = True
    picks: bool = False
    joins: bool = False
    starts_ranks: bool = False


_PROGRAMS, _NAMES, _LABELS = Reach.PROGRAMS, Reach.NAMES, Reach.LABELS
TARGET_ROWS: Mapping[str, TargetRow] = MappingProxyType(
    {
        "lws": TargetRow(offers=frozenset({_PROGRAMS, _NAMES, _LABELS})),
        "kubernetes": TargetRow(offers=frozenset({_PROGRAMS, _LABELS}), named=False),
        "disaggregatedset": TargetRow(offers=frozenset({_PROGRAMS}), named=False, joins=True),
        # The chart's sidecar before decode pods listens at one port.
        "llm-d": TargetRow(router="llm-d", offers=frozenset({Reach.SIDECARS}), decode_ports=False),
        "kserve": TargetRow(
            router="llm-d", offers=frozenset({Reach.SIDECARS}), prefill_ports=False, decode_ports=False, picks=True
        ),
        "kueue": TargetRow(),
        "script": TargetRow(offers=frozenset({_PROGRAMS, _NAMES})),
        "slurm": TargetRow(offers=frozenset({_PROGRAMS})),
        "ray": TargetRow(router="ray", offers=frozenset({Reach.SERVE})),
        "dynamo": TargetRow(router="dynamo", offers=frozenset({Reach.GRAPH}), starts_ranks=True),
    }
)
_UNKNOWN = TargetRow()


def target_row(name: str) -> TargetRow:
    """The target's; a plain one of a name that no target has, which an export refuses."""
    return TARGET_ROWS.get(name, _UNKNOWN)
