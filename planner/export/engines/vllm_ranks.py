"""vLLM's attention ranks as endpoints: an HTTP server and a port for each data-parallel rank, so that a router outside
chooses the rank (external balancing). A pod of several ranks is one command, whose supervisor starts a server a rank at
ports next to each other and answers for all of them at a port of its own; a pod of one rank is told its number.

symbol     meaning                                                          source
port k     = http + k, of the k-th rank of a pod, counted from 0 there      entrypoints/launchers/dp_supervisor.py
health     200 while all ranks of the pod are; nobody answers before that   same file
side       where rank r of the copy hands out caches: 5600 + r, by itself   nixl/base_scheduler.py (data_parallel_index)
rpc        where the ranks of a copy meet: one number for all of them       config/parallel.py
32         ranks of a pod at most: between the bases of the ports of a      8000, 5600 and the stride of launch scripts
           copy there is room for so many, where copies share a host

The supervisor is in vLLM 0.23.0 and in 0.33.0, and not in 0.18.0; a rank's own number is an option of all of them.
Sources: those files in the wheels; docs/serving/data_parallel_deployment.md, external load balancing.
"""

from collections.abc import Sequence

from planner.domain.serving.programs import ENGINE_ROWS, version_numbers
from planner.export.engines.arguments import FlagValue, flags, read_count, read_flags
from planner.export.engines.seam import HEALTH, HTTP, Port, Rendezvous
from planner.export.islands import ServingIsland

HTTP_PORT = 8000
RPC_PORT = 13345
_HEALTH_PORT = 9256
_SEVERAL_SINCE = ENGINE_ROWS["vllm"].ranks_since or ()
_MOST_RANKS = 32
_SEVERAL, _ONE = "data-parallel-multi-port-external-lb", "data-parallel-external-lb"
_LOCAL = "data-parallel-size-local"


def rank_obstacle(island: ServingIsland, version: str) -> str:
    """Why this version cannot give each attention rank of the island a port of its own; empty where it can."""
    if island.grouping.gpus_per_pod % (island.parallel.tp * island.parallel.pp):
        return "a rank spans several pods, and answers in one of them alone"
    local = island.local_ranks
    if local > _MOST_RANKS:
        return f"a pod has {local} ranks, and ports for at most {_MOST_RANKS}"
    if local > 1 and version_numbers(version) < _SEVERAL_SINCE:
        since = ".".join(map(str, _SEVERAL_SINCE))
        return f"vLLM {version} has one port for the {local} ranks of a pod; versions from {since} on have one each"
    return ""


def rank_ports(island: ServingIsland, offset: int) -> tuple[Port, ...]:
    """The ports of a pod: of its ranks, and where it answers for all of them."""
    first = HTTP_PORT + offset
    ports = tuple(
        Port(name=HTTP if rank == 0 else f"{HTTP}-{rank}", number=first + rank) for rank in range(island.local_ranks)
    )
    return ports if len(ports) == 1 else (*ports, Port(name=HEALTH, number=_HEALTH_PORT + offset))


def rank_flags(island: ServingIsland, rendezvous: Rendezvous) -> tuple[str, ...]:
    """What all pods of a copy are started with alike; a later pod of several ranks is told its first one, too."""
    offset, local = rendezvous.port_offset, island.local_ranks
    rows: list[tuple[str, FlagValue]] = [("port", HTTP_PORT + offset)]
    if local > 1:
        rows += [(_SEVERAL, None), (_LOCAL, local), ("data-parallel-supervisor-port", _HEALTH_PORT + offset)]
    else:
        rows += [(_ONE, None), ("data-parallel-rank", rendezvous.pod_index)]
    if island.grouping.pods > 1:
        rows += [("data-parallel-address", rendezvous.leader_address)]
    return flags(*rows, ("data-parallel-rpc-port", RPC_PORT + offset))


def answering_ports(arguments: Sequence[str]) -> tuple[int, ...]:
    """Where the engine of a command line takes requests: a port for each of its ranks, or one, or none."""
    values = read_flags(arguments)
    if "headless" in values:
        return ()
    first = read_count(values, "port", HTTP_PORT)
    return tuple(range(first, first + (read_count(values, _LOCAL, 1) if _SEVERAL in values else 1)))


def by_rank(arguments: Sequence[str]) -> bool:
    """Whether each rank that a command line starts answers at a port of its own."""
    return not {_SEVERAL, _ONE}.isdisjoint(read_flags(arguments))
