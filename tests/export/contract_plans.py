"""Plans that every target is held to: one that fits single nodes, one whose copies span nodes, a fleet of ten GPU types
in sixty islands, and one that lies on real nodes."""

from dataclasses import replace

from export_plans import DECODE, PREFILL, example_plan, gpu, island, plan_of, route

from planner.domain import (
    PHASES,
    Cluster,
    ClusterNode,
    ClusterState,
    NodeGpu,
    NumaNode,
    ParallelConfig,
    Phase,
    PlacedPart,
    Placement,
    PlacementSettings,
    Plan,
    Taint,
)
from planner.files import load_engine

_NODE = ParallelConfig(tp=8, dp=1)


def single_node_plan() -> Plan:
    """Copies of at most a node: what every target of serving objects can express."""
    islands = (
        island("H200-0", "H200", Phase.PREFILL, ParallelConfig(tp=8, dp=1, replicas=2), batch_size=2),
        island("H20-0", "H20", Phase.DECODE, ParallelConfig(tp=4, dp=2, replicas=3), batch_size=16),
        island("H20-1", "H20", Phase.DECODE, _NODE, batch_size=8),
    )
    return plan_of(islands, name="single-nodes")


def wide_fleet_plan() -> Plan:
    """Ten GPU types, sixty islands of a node: six of each type, three in each phase."""
    types = tuple(gpu(f"G{number}") for number in range(10))
    islands = tuple(
        island(f"{kind.name}-{number}", kind.name, Phase.PREFILL if number % 2 else Phase.DECODE, _NODE, batch_size=8)
        for kind in types
        for number in range(6)
    )
    return plan_of(islands, gpus=types, name="wide-fleet")


def two_range_plan() -> Plan:
    """Twelve islands of a node: four prefill and two decode ones take prompts below 2048 tokens, three and three longer
    ones."""
    islands = tuple(
        island(f"{kind}-{number}", kind, phase, _NODE)
        for kind, phase, count in (("H200", Phase.PREFILL, 7), ("H20", Phase.DECODE, 5))
        for number in range(count)
    )
    serving = {0: (islands[:4], islands[7:9]), 2048: (islands[4:7], islands[9:])}
    rows = tuple(
        route(one.id, phase, start, 1 / len(group))
        for start, groups in serving.items()
        for phase, group in zip(PHASES, groups, strict=True)
        for one in group
    )
    return plan_of(islands, name="two-ranges", routing=rows)


MIXED = island("H20-9", "H20", Phase.MIXED, ParallelConfig(tp=4, dp=2, replicas=2), batch_size=16)
WIDE_MIXED = island("H200-9", "H200", Phase.MIXED, ParallelConfig(tp=8, dp=2), batch_size=32)


def beside_plan() -> Plan:
    """A prefill and a decode island share both ranges with two islands that do both phases, of one pod and of two."""
    first, second = single_node_plan().islands[:2]
    rows = tuple(
        route(one.id, phase, start, share)
        for start in (0, 2048)
        for phase, half in zip(PHASES, (first, second), strict=True)
        for one, share in ((half, 0.5), (MIXED, 0.25), (WIDE_MIXED, 0.25))
    )
    return plan_of((first, second, MIXED, WIDE_MIXED), name="beside", routing=rows)


def aggregated_plan() -> Plan:
    """Two islands, each of which does both phases of its part of one range."""
    islands = (MIXED, replace(MIXED, id="H200-8", gpu="H200"))
    rows = tuple(route(one.id, phase, 0, 0.5) for phase in PHASES for one in islands)
    return plan_of(islands, name="aggregated", routing=rows)


PLANS = {
    "single nodes": single_node_plan,
    "several nodes": example_plan,
    "wide fleet": wide_fleet_plan,
    "beside": beside_plan,
    "aggregated": aggregated_plan,
}


def planned(name: str, engine: str) -> Plan:
    """The plan of that name as the engine runs it."""
    return as_run(PLANS[name](), engine)


def as_run(plan: Plan, engine: str) -> Plan:
    """The plan with attention groups of one GPU each, where the engine has no others."""
    if not load_engine(engine).layers.groups_of_one:
        return plan
    shapes = {i.id: i.parallel for i in plan.islands if i.parallel and i.parallel.dp > 1}
    ones = {name: replace(shape, tp=1, dp=shape.stage_devices) for name, shape in shapes.items()}
    return replace(plan, islands=tuple(replace(i, parallel=ones.get(i.id, i.parallel)) for i in plan.islands))


def _node(name: str, kind: str, asw: str, aggregation: str) -> ClusterNode:
    return ClusterNode(
        name=name,
        gpu=kind,
        gpus=tuple(NodeGpu(index=i, uuid=f"{name}-{i}", numa=0) for i in range(8)),
        numa_nodes=(NumaNode(id=0, socket=0, cores=tuple(range(96))),),
        cpus=96.0,
        memory_gb=1024.0,
        asw=asw,
        aggregation=aggregation,
        labels=(("kubernetes.io/hostname", f"{name}.example"),),
    )


_STATE = ClusterState(gpus=64, allocated=0, idle=64, headroom_gpus=64, watts=0.0, empty_nodes=8, fragments=())


def _part(name: str, replica: int, node: ClusterNode, tp: int) -> PlacedPart:
    return PlacedPart(
        island=name, replica=replica, node=node.name, asw=node.asw, tp=tp, gpu_indices=tuple(range(8)), numa_nodes=(0,)
    )


def placed_plan(*, shared_switch: bool = False) -> Plan:
    """Prefill: two copies of two nodes, each under a switch of its own; decode: four nodes under two switches of one
    aggregation. `shared_switch`: the two prefill copies lie under the same switch."""
    prefill = [_node(f"h{i}", "H200", "p0" if shared_switch else f"p{i // 2}", "left") for i in range(4)]
    decode = [_node(f"d{i}", "H20", f"d{i // 2}", "right") for i in range(4)]
    parts = (
        *(_part(PREFILL.id, i // 2, node, 4) for i, node in enumerate(prefill)),
        *(_part(DECODE.id, 0, node, 1) for node in decode),
    )
    placement = Placement(
        cluster="room",
        parts=parts,
        sites=(),
        shortfalls=(),
        before=_STATE,
        after=_STATE,
        score=0.0,
        terms=(),
    )
    plan = plan_of((PREFILL, DECODE), name="placed")
    scenario = replace(
        plan.scenario,
        cluster=Cluster(name="room", nodes=(*prefill, *decode)),
        placement=PlacementSettings(
            cpus_per_gpu=6, preempt=True, priority=5000, tolerations=(Taint(key="team", value="serving"),)
        ),
    )
    return replace(plan, scenario=scenario, placement=placement)
