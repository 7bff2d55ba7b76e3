"""FlexTopo: a node's hardware as a graph, with who uses what (paper, table 2), and the way there and back.

Two dialects are read. The paper's: `host` (socket to core group), `contain` (core group to core), `localized` (core
group to NUMA node), `nearby` (GPU to NUMA node). The published agent's: `contains` alone, from socket over NUMA node
and core group to core; it has no edge from a GPU, so where its GPUs lie has to come from elsewhere.
"""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TypeAlias

import networkx as nx

from planner.domain import ClusterNode, FlexTopo, NumaNode, Pod, TopologyEdge, Vertex
from planner.domain.node_report import NodeReport, ReportedGpu
from planner.errors import InputError

Graph: TypeAlias = "nx.DiGraph[str]"


class Dialect(StrEnum):
    """How a FlexTopo object is written."""

    PAPER = "paper"
    AGENT = "agent"


_IDS = {
    "Socket": re.compile(r"socket-([0-9]{1,6})"),
    "NUMANode": re.compile(r"numa-([0-9]{1,6})"),
    "CoreGroup": re.compile(r"coregroup-[0-9]{1,6}-([0-9]{1,6})"),
    "CPUCore": re.compile(r"core-([0-9]{1,6})"),
    "GPU": re.compile(r"gpu-([0-9]{1,3})"),
}
_EDGES = {
    "host": {("Socket", "CoreGroup")},
    "contain": {("CoreGroup", "CPUCore")},
    "localized": {("CoreGroup", "NUMANode")},
    "nearby": {("GPU", "NUMANode")},
    "contains": {("Socket", "NUMANode"), ("NUMANode", "CoreGroup"), ("CoreGroup", "CPUCore")},
}
_STATES = {"free": False, "used": True, "allocated": True}
_HINT = "Take the object anew with `kubectl get flextopos -o yaml`."


def to_graph(topo: FlexTopo, origin: str) -> Graph:
    """The object as a graph: vertices with `kind` and `attributes`, edges with `kind`.

    InputError names the vertex or edge and its field: unknown kind, id given twice, dangling or unfitting edge, cycle.
    """
    graph: Graph = nx.DiGraph()
    for vertex in topo.vertices:
        if vertex.kind not in _IDS:
            raise _fault(origin, f"vertex {vertex.id}: type", f"be one of {', '.join(_IDS)}", repr(vertex.kind))
        if not _IDS[vertex.kind].fullmatch(vertex.id):
            raise _fault(
                origin, f"vertex {vertex.id}: id", f"be that of a {vertex.kind}, as {_sample(vertex.kind)}", vertex.id
            )
        if vertex.id in graph:
            raise _fault(origin, f"vertex {vertex.id}: id", "be given once", "it twice")
        graph.add_node(vertex.id, kind=vertex.kind, attributes=dict(vertex.attributes))
    for edge in topo.edges:
        _add_edge(graph, edge, origin)
    _refuse_cycles(graph, origin)
    for source, target, kind in graph.edges(data="kind"):
        ends = (graph.nodes[source]["kind"], graph.nodes[target]["kind"])
        if ends not in _EDGES[kind]:
            fitting = " or ".join(f"{a} to {b}" for a, b in sorted(_EDGES[kind]))
            raise _fault(
                origin, f"edge {source} -> {target}: type", f"lead from {fitting} for {kind}", " to ".join(ends)
            )
    return graph


def _fault(origin: str, subject: str, rule: str, value: str) -> InputError:
    return InputError(f"{origin}: {subject} must {rule}, got {value}.", hint=_HINT)


def _sample(kind: str) -> str:
    return {"CoreGroup": "coregroup-0-0", "NUMANode": "numa-0", "CPUCore": "core-0"}.get(kind, f"{kind.lower()}-0")


def _add_edge(graph: Graph, edge: TopologyEdge, origin: str) -> None:
    where = f"edge {edge.source} -> {edge.target}"
    if edge.kind not in _EDGES:
        raise _fault(origin, f"{where}: type", f"be one of {', '.join(_EDGES)}", repr(edge.kind))
    for end, vertex in (("source", edge.source), ("target", edge.target)):
        if vertex not in graph:
            raise _fault(origin, f"{where}: {end}", "be the id of a vertex", f"{vertex!r}, which is dangling")
    if graph.has_edge(edge.source, edge.target):
        raise _fault(origin, where, "be given once", "it twice")
    graph.add_edge(edge.source, edge.target, kind=edge.kind)


def _refuse_cycles(graph: Graph, origin: str) -> None:
    if nx.is_directed_acyclic_graph(graph):
        return
    cycle = [str(edge[0]) for edge in nx.find_cycle(graph)]
    raise _fault(origin, f"edges {' -> '.join([*cycle, cycle[0]])}", "form no cycle", "one")


def report(topo: FlexTopo, origin: str) -> NodeReport:
    """What the object says about its node, in records; a GPU without a `nearby` edge has no NUMA node yet."""
    graph = to_graph(topo, origin)
    gpus = tuple(_gpu(graph, name, origin) for name in _of_kind(graph, "GPU"))
    numa_nodes = tuple(_numa_node(graph, name, origin) for name in _of_kind(graph, "NUMANode"))
    return NodeReport(
        node=topo.node,
        origin=origin,
        gpu_count=len(gpus),
        gpus=gpus,
        numa_nodes=numa_nodes,
        cpus=float(sum(len(numa.cores) for numa in numa_nodes)),
        core_users=tuple(_core_users(graph, origin)),
        last_user_only=any(edge.kind == "contains" for edge in topo.edges),  # the agent's dialect
    )


def _of_kind(graph: Graph, kind: str) -> list[str]:
    """Ids of the vertices of a kind, by number."""
    names = [name for name, its in graph.nodes(data="kind") if its == kind]
    # By number, as core-10 would come before core-2 by name.
    return sorted(names, key=lambda name: (_number(name), name))


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])


def _neighbours(graph: Graph, name: str, kind: str) -> list[str]:
    """Vertices of a kind that an edge joins with this one, in either direction."""
    around = [*graph.predecessors(name), *graph.successors(name)]
    return [other for other in around if graph.nodes[other]["kind"] == kind]


def _only_neighbour(graph: Graph, name: str, kind: str, origin: str) -> str:
    neighbours = _neighbours(graph, name, kind)
    if len(neighbours) != 1:
        raise _fault(origin, f"vertex {name}", f"be joined with exactly one {kind}", ", ".join(neighbours) or "none")
    return neighbours[0]


def _numa_node(graph: Graph, name: str, origin: str) -> NumaNode:
    groups = _neighbours(graph, name, "CoreGroup")
    cores = [core for group in groups for core in _neighbours(graph, group, "CPUCore")]
    sockets = {_number(_socket(graph, group, name, origin)) for group in groups}
    sockets |= {_number(socket) for socket in _neighbours(graph, name, "Socket")}
    # Without cores no edge leads to a socket; the attribute tells it then.
    if not sockets:
        socket_id = _attribute(graph, name, "socketid")
        sockets = {socket_id} if isinstance(socket_id, int) else set()
    if len(sockets) != 1:
        listed = ", ".join(f"socket-{socket}" for socket in sorted(sockets)) or "none"
        raise _fault(origin, f"vertex {name}", "lie in exactly one Socket", listed)
    return NumaNode(id=_number(name), socket=sockets.pop(), cores=tuple(sorted(map(_number, cores))))


def _socket(graph: Graph, group: str, numa: str, origin: str) -> str:
    """The socket of a core group: its own in the paper's dialect, its NUMA node's in the agent's."""
    if _neighbours(graph, group, "Socket"):
        return _only_neighbour(graph, group, "Socket", origin)
    return _only_neighbour(graph, numa, "Socket", origin)


def _attribute(graph: Graph, name: str, *keys: str) -> object:
    """The first of some attributes (small letters) that is there, however it is capitalised."""
    attributes = {key.lower(): value for key, value in graph.nodes[name]["attributes"].items()}
    return next((attributes[key] for key in keys if attributes.get(key) is not None), None)


def _users(graph: Graph, name: str, origin: str) -> tuple[str, ...] | None:
    """Pods that use a vertex; None where its status says that somebody does, but not who."""
    status, word = _attribute(graph, name, "status"), _attribute(graph, name, "usedby")
    pods = tuple(part.strip() for part in str(word or "").split(",") if part.strip())
    if status is not None and status not in _STATES:
        raise _fault(origin, f"vertex {name}: status", f"be one of {', '.join(_STATES)}", repr(status))
    used = _STATES[str(status)] if status is not None else bool(pods)
    if pods and not used:
        raise _fault(origin, f"vertex {name}: usedBy", "be empty where the status is free", ", ".join(pods))
    return None if used and not pods else pods


def _gpu(graph: Graph, name: str, origin: str) -> ReportedGpu:
    users = _users(graph, name, origin)
    if users is None:
        raise _fault(origin, f"vertex {name}: usedBy", "name the pod where the GPU is not free", "nothing")
    if len(users) > 1:
        raise _fault(origin, f"vertex {name}: usedBy", "name one pod alone", ", ".join(users))
    near = _neighbours(graph, name, "NUMANode")
    if len(near) > 1:
        raise _fault(origin, f"vertex {name}", "be near to at most one NUMANode", ", ".join(near))
    return ReportedGpu(
        index=_number(name),
        uuid=str(_attribute(graph, name, "uuid") or ""),
        product=str(_attribute(graph, name, "name", "model") or ""),
        numa=_number(near[0]) if near else None,
        used_by=users[0] if users else "",
    )


def _core_users(graph: Graph, origin: str) -> Iterable[tuple[int, tuple[str, ...]]]:
    """Cores that somebody claims; a core that does not say who is its group's."""
    for core in _of_kind(graph, "CPUCore"):
        group = _only_neighbour(graph, core, "CoreGroup", origin)
        # Only looked at: a core whose group lies nowhere makes the object unusable.
        _only_neighbour(graph, group, "NUMANode", origin)
        users = _users(graph, core, origin)
        if users is None:
            users = _users(graph, group, origin)
        if users is None:
            raise _fault(origin, f"vertex {core}: usedBy", "name the pod, here or on its CoreGroup", "nothing")
        if users:
            yield _number(core), users


def flextopo(
    node: ClusterNode, pods: Sequence[Pod], core_group_size: int, dialect: Dialect = Dialect.PAPER
) -> FlexTopo:
    """The object of a node and the pods on it; `report` reads it back.

    The agent's dialect has no place for the NUMA nodes of GPUs and for namespaces: they are lost. InputError where it
    is not known which GPUs a pod holds.
    """
    # To write an unknown GPU as free would offer what a pod holds.
    for pod in pods:
        if not pod.gpus_known:
            raise InputError(
                f"pod {pod.key}: gpus must be known to write node {node.name} as a FlexTopo object; "
                f"{pod.gpu_count - len(pod.gpus)} of {pod.gpu_count} are not.",
                hint="Import the cluster with --devices.",
            )
    names = [pod.key if dialect is Dialect.PAPER else pod.name for pod in pods]
    core_users = {core: name for name, pod in zip(names, pods, strict=True) for core in pod.cores}
    gpu_users = {gpu: name for name, pod in zip(names, pods, strict=True) for gpu in pod.gpus}
    vertices, edges = _processors(node, core_users, core_group_size, dialect)
    gpu_vertices, gpu_edges = _gpus(node, gpu_users, dialect)
    return FlexTopo(node=node.name, vertices=(*vertices, *gpu_vertices), edges=(*edges, *gpu_edges))


def _processors(
    node: ClusterNode, users: dict[int, str], core_group_size: int, dialect: Dialect
) -> tuple[list[Vertex], list[TopologyEdge]]:
    """Sockets, NUMA nodes, core groups and cores."""
    vertices = [_socket_vertex(socket, dialect) for socket in sorted({numa.socket for numa in node.numa_nodes})]
    edges: list[TopologyEdge] = []
    for numa in node.numa_nodes:
        names = (f"socket-{numa.socket}", f"numa-{numa.id}")
        vertices.append(_numa_vertex(numa, dialect))
        if dialect is Dialect.AGENT:
            edges.append(TopologyEdge(source=names[0], target=names[1], kind="contains"))
        groups: dict[int, list[int]] = {}
        for core in numa.cores:
            groups.setdefault(core // core_group_size, []).append(core)
        for index, cores in groups.items():
            group = _group_vertex(numa.id, index, [users[core] for core in cores if core in users], dialect)
            vertices += [group, *(_core_vertex(core, users.get(core, ""), dialect) for core in cores)]
            edges += _group_edges(group.id, names, cores, dialect)
    return vertices, edges


def _socket_vertex(socket: int, dialect: Dialect) -> Vertex:
    attributes = (("socketID", socket),) if dialect is Dialect.PAPER else ()
    return Vertex(id=f"socket-{socket}", kind="Socket", attributes=attributes)


def _numa_vertex(numa: NumaNode, dialect: Dialect) -> Vertex:
    """A NUMA node; its socket is told here, too, as without cores no edge of the paper's dialect would tell it."""
    attributes = (("numaNodeID", numa.id), ("socketID", numa.socket)) if dialect is Dialect.PAPER else ()
    return Vertex(id=f"numa-{numa.id}", kind="NUMANode", attributes=attributes)


def _use(user: str, dialect: Dialect) -> tuple[tuple[str, str], ...]:
    if not user:
        return (("status", "free"),)
    return (("status", "allocated" if dialect is Dialect.PAPER else "used"), ("usedBy", user))


def _group_vertex(numa: int, index: int, users: list[str], dialect: Dialect) -> Vertex:
    name = f"coregroup-{numa}-{index}"
    if dialect is Dialect.AGENT:
        return Vertex(id=name, kind="CoreGroup", attributes=(("groupIndex", index), ("nodeID", numa)))
    use = _use(",".join(sorted(set(users))), dialect)
    return Vertex(id=name, kind="CoreGroup", attributes=(("coreGroupID", index), *use))


def _core_vertex(core: int, user: str, dialect: Dialect) -> Vertex:
    identity = (("coreID", core),) if dialect is Dialect.PAPER else ()
    return Vertex(id=f"core-{core}", kind="CPUCore", attributes=(*identity, *_use(user, dialect)))


def _group_edges(group: str, above: tuple[str, str], cores: list[int], dialect: Dialect) -> list[TopologyEdge]:
    socket, numa = above
    if dialect is Dialect.AGENT:
        chains = [(numa, group, "contains"), *((group, f"core-{core}", "contains") for core in cores)]
    else:
        chains = [(socket, group, "host"), (group, numa, "localized")]
        chains += [(group, f"core-{core}", "contain") for core in cores]
    return [TopologyEdge(source=source, target=target, kind=kind) for source, target, kind in chains]


def _gpus(node: ClusterNode, users: dict[int, str], dialect: Dialect) -> tuple[list[Vertex], list[TopologyEdge]]:
    paper = dialect is Dialect.PAPER
    model = "model" if paper else "name"
    vertices = [
        Vertex(
            id=f"gpu-{gpu.index}",
            kind="GPU",
            attributes=(("uuid", gpu.uuid), (model, node.gpu), *_use(users.get(gpu.index, ""), dialect)),
        )
        for gpu in node.gpus
    ]
    edges = [TopologyEdge(source=f"gpu-{g.index}", target=f"numa-{g.numa}", kind="nearby") for g in node.gpus if paper]
    return vertices, edges
