"""Why islands found no room: which resource is short, on which nodes, and what would help.

What nodes can take is counted once for all islands that ask alike. What an eviction or a migration would gain is looked
for on so many nodes at most; the reason looks at all of them.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from planner.domain import PlacementDemand, PlacementSettings, Pod, Qos, Shortfall, Taint
from planner.domain.node_room import Ask
from planner.domain.shapes import GroupKind, capacity, offered
from planner.domain.usable import fault_of, toleration, untolerated
from planner.placement.islands.evictions.eviction_limits import Allowance, Excess
from planner.placement.islands.fleet import Fleet, Occupancy, Site, ask_of

LISTED = 3
"""Nodes and pods that a reason lists by name."""

LOOKED_AT = 2_000
"""Nodes on which evictions and migrations are tried."""


def shortfalls_of(
    demands: Iterable[PlacementDemand],
    occupancy: Occupancy,
    settings: PlacementSettings,
    kept_out: Mapping[str, Sequence[Excess]] | None = None,
    rivals: Mapping[str, Site | None] | None = None,
    alternatives: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Shortfall, ...]:
    """The shortfall of every island that has no room in `occupancy`; `kept_out`: limits that its evictions break;
    `rivals`: of islands that others keep out, the one whose place would be enough (None: it takes several);
    `alternatives`: other forms that fit, in words.
    """
    diagnosis = _Diagnosis(occupancy, settings)
    broken, contested, forms = kept_out or {}, rivals or {}, alternatives or {}
    return tuple(
        _with_remedy(
            diagnosis.shortfall(demand, broken.get(demand.island, ())),
            *forms.get(demand.island, ()),
            *((_rivalry(contested[demand.island]),) if demand.island in contested else ()),
        )
        for demand in demands
    )


def _with_remedy(shortfall: Shortfall, *remedies: str) -> Shortfall:
    return replace(shortfall, remedies=(*shortfall.remedies, *remedies))


def _rivalry(rival: Site | None) -> str:
    """Islands stand where no less is served with them: whoever prefers another one takes it out of the plan."""
    if rival is None:
        return "a choice between islands: it would fit if others of the plan, with which no less is served, stood back"
    place = f"{rival.demand.island} ({counted(rival.demand.size, 'GPU')})"
    return f"a choice between islands: it would fit in place of {place}, with which no less is served"


@dataclass(frozen=True, slots=True)
class _Gain:
    """What taking some pods off a node gains: groups of an ask."""

    node: int
    groups: int
    pods: tuple[Pod, ...]

    @property
    def gpus(self) -> int:
        return sum(pod.gpu_count for pod in self.pods)


@dataclass(slots=True)
class _Diagnosis:
    """An occupancy looked at by ask, each once."""

    occupancy: Occupancy
    settings: PlacementSettings
    suited: dict[Ask, list[int]] = field(default_factory=dict)
    rooms: dict[Ask, dict[int, int]] = field(default_factory=dict)
    evictions: dict[Ask, list[_Gain]] = field(default_factory=dict)
    migrations: dict[Ask, _Gain | None] = field(default_factory=dict)
    taints: dict[str, str] = field(default_factory=dict)

    @property
    def fleet(self) -> Fleet:
        """The nodes."""
        return self.occupancy.fleet

    def shortfall(self, demand: PlacementDemand, broken: Sequence[Excess] = ()) -> Shortfall:
        """Why one island found no room."""
        ask = ask_of(demand)
        of_type = self.fleet.of_type([demand.gpu])
        if ask not in self.suited:
            self.suited[ask] = [node for node in of_type if self.occupancy.suits(node, ask)]
        resource, reason = self._reason(demand, ask, of_type)
        if broken:
            short = "; ".join(
                f"it takes {excess.needed}, {excess.limit} has {excess.remaining} left" for excess in broken
            )
            resource, reason = "evictions", f"{reason}; short of evictions: {short}"
        lifted = " and ".join(excess.remedy for excess in broken)
        return Shortfall(
            island=demand.island,
            gpu=demand.gpu,
            gpus=demand.size,
            resource=resource,
            reason=reason,
            remedies=(*((f"{lifted}: it would fit",) if broken else ()), *self._remedies(demand, ask)),
        )

    def room(self, ask: Ask, like: Ask) -> dict[int, int]:
        """Groups of an ask on each node that suits `like`."""
        if ask not in self.rooms:
            self.rooms[ask] = {node: self.occupancy.room(node, ask) for node in self.suited[like]}
        return self.rooms[ask]

    def _reason(self, demand: PlacementDemand, ask: Ask, of_type: list[int]) -> tuple[str, str]:
        """The first of the limits, from the coarsest on, that leaves too little for the island."""
        suited = self.suited[ask]
        if not of_type:
            return "nodes", f"no node has {demand.gpu} GPUs"
        if not suited:
            why = _barred(self.fleet, of_type, ask)
            return "nodes", f"none of the {counted(len(of_type), f'{demand.gpu} node')} may be used: {why}"
        idle = sum(self.occupancy.free[node].idle for node in suited)
        barred = sorted(set(of_type) - set(suited))
        among = counted(len(suited), f"{demand.gpu} node")
        if barred:
            among += f" ({len(barred):,} more may not be used: {_barred(self.fleet, barred, ask)})"
        if idle < demand.size:
            lack = f"{idle:,} {'is' if idle == 1 else 'are'} idle on {among} once the others are placed"
            return "GPUs", f"{counted(demand.size, 'GPU')} are asked for, {lack}"
        return self._limit(demand, ask, f"{counted(idle, 'idle GPU')} on {among}")

    def _limit(self, demand: PlacementDemand, ask: Ask, idle: str) -> tuple[str, str]:
        """GPUs are idle in number: what keeps groups from forming, each ask stricter than the one before."""
        groups_needed, anyhow = demand.replicas * demand.groups, replace(ask, spread=None)
        asks = (
            ("GPUs on one node", _loosened(anyhow, Qos.NONE, cores=False, memory=False)),
            ("CPUs", _loosened(anyhow, Qos.NONE, memory=False)),
            ("memory", _loosened(anyhow, Qos.NONE)),
            ("aligned GPUs", anyhow),
        )
        before = None
        for resource, stricter in asks:
            groups = sum(self.room(stricter, ask).values())
            # The first ask that is short names the resource; the last has to, as there was no room.
            if groups < groups_needed or resource == asks[-1][0]:
                break
            before = stricter
        if groups >= groups_needed and ask.spread:
            servers = f"{sum(self.room(ask, ask).values()) // demand.groups:,} of {counted(demand.replicas, 'server')}"
            spread = f"each inside a node and none with more than {demand.per_node} of them"
            return "spread", f"{servers} fit on {idle}, {spread}, which losses of nodes count on"
        summary = f"{groups:,} of {counted(groups_needed, 'group')} of {counted(demand.tp, 'GPU')} fit on {idle}"
        if before is None:
            return resource, f"{summary}: the emptiest node is {self._emptiest(ask)}"
        short = self._short(ask, stricter, before)
        if resource == "CPUs":
            return resource, f"{summary}, as each asks for {counted(ask.cores, 'CPU')}; short on {short}"
        if resource == "memory":
            return resource, f"{summary}, as each asks for {ask.memory_gb:g} GB of memory; short on {short}"
        cores = counted(ask.kind.cores_per_gpu, "core")
        firm = f"QoS {demand.qos.value} (kubelet {demand.qos.kubelet_policy}), {cores} near each GPU"
        return resource, f"{summary} under {firm}; {self._width(ask)}short on {short}"

    def _emptiest(self, ask: Ask) -> str:
        node = max(self.suited[ask], key=lambda n: (self.occupancy.free[n].idle, -n))
        return f"{self.fleet.nodes[node].name} with {counted(self.occupancy.free[node].idle, 'idle GPU')}"

    def _short(self, ask: Ask, stricter: Ask, looser: Ask) -> str:
        """Nodes that a looser ask would get more from, those that lose most first."""
        more, less = self.room(looser, ask), self.room(stricter, ask)
        worst = sorted((n for n in more if more[n] > less[n]), key=lambda n: (less[n] - more[n], n))
        names = ", ".join(self.fleet.nodes[n].name for n in worst[:LISTED])
        return f"{counted(len(worst), 'node')} ({names}{', ...' if len(worst) > LISTED else ''})"

    def _width(self, ask: Ask) -> str:
        """Said where not even an empty node could host a group."""
        shapes = {self.fleet.shapes[node] for node in self.suited[ask]}
        if any(capacity(shape, offered(shape, shape.gpus, shape.cores, ask.kind), ask.kind) for shape in shapes):
            return ""
        return "not even an empty node could host one; "

    def _remedies(self, demand: PlacementDemand, ask: Ask) -> Iterator[str]:
        groups_needed = demand.replicas * demand.groups
        groups = sum(self.room(ask, ask).values())
        if replicas := min(groups // demand.groups, demand.replicas - 1):
            gpus = counted(replicas * demand.groups * demand.tp, "GPU")
            yield f"fewer GPUs: {replicas:,} of {counted(demand.replicas, 'replica')} would fit ({gpus})"
        elif groups:
            fit = counted(min(groups, groups_needed), "group")
            yield f"fewer GPUs: a replica of {fit} would fit ({counted(min(groups, groups_needed) * demand.tp, 'GPU')})"
        if ask.spread and sum(self.room(replace(ask, spread=None), ask).values()) >= groups_needed:
            nodes = -(-(groups_needed - groups) // (demand.groups * demand.per_node))
            yield f"{counted(nodes, 'more node')} with room for {counted(demand.per_node, 'server')}: it would fit"
        if demand.qos.binds and sum(self.room(_loosened(ask, Qos.BEST_EFFORT), ask).values()) >= groups_needed:
            yield "placement.qos best_effort: it would fit, not aligned everywhere"
        if not self.settings.preempt:
            yield from self._preemption(ask, groups_needed - groups)
            yield from self._migration(demand, ask)
        if demand.gpu not in self.taints:
            self.taints[demand.gpu] = self._toleration(demand.gpu)
        yield from filter(None, [self.taints[demand.gpu]])
        yield from self._mending(demand)
        yield from self._unlocated(demand, ask)

    def _toleration(self, gpu: str) -> str:
        """The taint that alone keeps islands off most idle GPUs of a type, and is no fault; "" where none does."""
        counts: Counter[Taint] = Counter()
        for node in self.fleet.of_type([gpu]):
            taints = untolerated(self.fleet.nodes[node], self.occupancy.tolerations)
            # With two taints tolerating one of them opens nothing.
            if len(taints) == 1 and not fault_of(self.fleet.nodes[node]):
                counts[taints[0]] += self.occupancy.free[node].idle
        taint, idle = max(counts.items(), key=lambda item: item[1], default=(Taint(key=""), 0))
        on_nodes = f"{counted(idle, f'idle {gpu} GPU')} on nodes with that taint"
        return f"placement.tolerations: [{toleration(taint)}] in the scenario: {on_nodes}" if idle else ""

    def _mending(self, demand: PlacementDemand) -> Iterator[str]:
        """Idle GPUs on nodes with a fault, by what would bring them back."""
        idle: dict[tuple[str, str], list[int]] = defaultdict(list)
        for node in self.fleet.of_type([demand.gpu]):
            if fault := fault_of(self.fleet.nodes[node]):
                idle[fault].append(self.occupancy.free[node].idle)
        for (why, remedy), gpus in idle.items():
            yield f"{remedy}: {counted(sum(gpus), f'idle {demand.gpu} GPU')} on {counted(len(gpus), 'node')} that {why}"

    def _unlocated(self, demand: PlacementDemand, ask: Ask) -> Iterator[str]:
        """Pods that stay although they might be evicted, as nobody says which GPUs they hold."""
        loosened = _loosened(ask, Qos.NONE)
        closed = (
            node
            for node in self.fleet.of_type([demand.gpu])
            if not self.fleet.open[node] and self.occupancy.suits(node, loosened)
        )
        pods = [
            pod
            for node in closed
            for pod in self.fleet.pods_of.get(node, ())
            if pod.gpu_count and pod.preemptible and not pod.locked and pod.priority < self.settings.priority
        ]
        if pods:
            yield (
                f"an import with --devices: {counted(len(pods), 'pod')} below priority {self.settings.priority} that "
                f"may be evicted ({_names_of(pods)}) stay, as nobody says which GPUs of their nodes are held by whom"
            )

    def _preemption(self, ask: Ask, missing: int) -> Iterator[str]:
        """The pods of the fewest GPUs a group gained, until the island fits."""
        if ask not in self.evictions:
            gains = self._gains(ask, Allowance.of(self.fleet.cluster, self.settings).may_go)
            self.evictions[ask] = sorted(gains, key=lambda gain: (gain.gpus / gain.groups, gain.node))
        chosen, gained = [], 0
        for gain in self.evictions[ask]:
            if gained >= missing:  # later ones cost more for less
                break
            chosen.append(gain)
            gained += gain.groups
        if chosen and gained >= missing:
            pods = [pod for gain in chosen for pod in gain.pods]
            yield (
                f"a preemption: evicting up to {counted(len(pods), 'pod')} below priority {self.settings.priority} "
                f"({_names_of(pods)}) from {counted(len(chosen), 'node')} makes room (placement.preempt: true)"
            )

    def _migration(self, demand: PlacementDemand, ask: Ask) -> Iterator[str]:
        """A node that could host a group if its pods moved to idle GPUs elsewhere."""
        idle = sum(self.occupancy.free[node].idle for node in self.suited[ask])
        if idle < demand.size:
            return  # nowhere to move to
        if ask not in self.migrations:
            gains = self._gains(ask, lambda pod: not pod.locked and bool(pod.gpus))
            # The pods must find room beside the node that they leave.
            fitting = [gain for gain in gains if gain.gpus <= idle - self.occupancy.free[gain.node].idle]
            self.migrations[ask] = min(fitting, key=lambda gain: (gain.gpus / gain.groups, gain.node), default=None)
        best = self.migrations[ask]
        if best is not None:
            yield (
                f"a migration: moving {counted(len(best.pods), 'pod')} ({_names_of(best.pods)}) off "
                f"{self.fleet.nodes[best.node].name} to idle GPUs elsewhere makes room for "
                f"{counted(best.groups, 'more group')} of {counted(demand.tp, 'GPU')}"
            )

    def _gains(self, ask: Ask, goes: Callable[[Pod], bool]) -> Iterator[_Gain]:
        located = [node for node in self.suited[ask] if self.fleet.open[node]]
        for node in located[:LOOKED_AT]:
            pods = tuple(pod for pod in self.fleet.pods_of.get(node, ()) if goes(pod))
            if pods:
                trial = self.occupancy.alone(node)
                trial.evict(node, pods)
                # Counted anew without the pods: GPUs that come free need not form a group.
                more = trial.room(node, ask) - self.room(ask, ask)[node]
                if more > 0:
                    yield _Gain(node, more, pods)


def counted(count: int, noun: str) -> str:
    """`1 GPU`, `2,000 GPUs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _names_of(pods: Sequence[Pod]) -> str:
    return ", ".join(pod.key for pod in pods[:LISTED]) + (", ..." if len(pods) > LISTED else "")


def _loosened(ask: Ask, qos: Qos, *, cores: bool = True, memory: bool = True) -> Ask:
    kind = GroupKind(ask.kind.tp, ask.kind.cores_per_gpu if cores else 0, qos)
    return replace(ask, kind=kind, memory_gb_per_gpu=ask.memory_gb_per_gpu if memory else 0.0)


def _barred(fleet: Fleet, nodes: Iterable[int], ask: Ask) -> str:
    """Why nodes may not be used, by the number of them."""
    reasons: Counter[str] = Counter()
    for number in nodes:
        node = fleet.nodes[number]
        # The first reason alone, so that counts add up to all these nodes.
        if fault := fault_of(node):
            reasons["{} ({})".format(*fault)] += 1
        elif ask.kind.aligns and not fleet.open[number]:
            reasons["hold pods whose GPUs are not known (qos best_effort may use them, or import with --devices)"] += 1
        elif not set(ask.selector) <= set(node.labels):
            reasons[f"lack the labels {', '.join(f'{key}={value}' for key, value in ask.selector)}"] += 1
        else:
            reasons["have taints that are not tolerated"] += 1
    return ", ".join(f"{count} {why}" for why, count in reasons.items())
