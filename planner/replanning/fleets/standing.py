"""Who still has which nodes of a fleet: less what is lost, and what the new inventory has no more."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from planner.domain.changes import LostServers
from planner.domain.fleets import FleetPart, FleetPlan, FleetScenario
from planner.domain.serving.fleets.changes import FleetTerms
from planner.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingNodes:
    """GPUs of nodes by deployment and type: those that are still there, and those that are lost. `guessed`: whose nodes
    were lost was not said. `short`: types of which the inventory has fewer than ran. `together`: GPUs that there are
    until the change is done."""

    gpus: Mapping[str, Mapping[str, int]]
    gone: Mapping[str, Mapping[str, int]]
    together: Mapping[str, int]
    guessed: bool = False
    short: tuple[str, ...] = ()

    def lost_by(self, part: FleetPart) -> LostServers:
        """What a deployment has lost: its nodes that did nothing count first."""
        return LostServers(gpus=tuple((gpu, n) for gpu, n in self.gone.get(part.name, {}).items() if n))


def after_losses(fleet: FleetScenario, terms: FleetTerms) -> FleetScenario:
    """The fleet on what is left of its inventory; types of which nothing is left are gone. Raises InputError where more
    is lost than there is, parts of nodes are, or nothing is left."""
    lost = dict(terms.lost)
    for counts in terms.lost_of.values():
        for gpu, count in counts.items():
            lost[gpu] = lost.get(gpu, 0) + count
    counts = dict(fleet.inventory.counts)
    for gpu, count in lost.items():
        if gpu not in counts or not 0 <= count <= counts[gpu]:
            raise InputError(
                f"lost: {gpu}: must be at most the inventory's {counts.get(gpu, 0)} GPUs, got {count}.",
                hint="The inventory is that of before the loss. Name a type that the fleet has.",
            )
        if count % fleet.host(gpu):
            raise InputError(
                f"lost: {gpu}: must be whole nodes of {fleet.host(gpu)} GPUs, as nodes go to one deployment each, got "
                f"{count}.",
                hint=f"Write {gpu}={-(-count // fleet.host(gpu)) * fleet.host(gpu)}.",
            )
        counts[gpu] -= count
    return on_inventory(fleet, counts)


def on_inventory(fleet: FleetScenario, counts: Mapping[str, int]) -> FleetScenario:
    """The fleet with so many GPUs of each of its types, all of its services on them. InputError where none are left."""
    items = tuple(replace(i, count=counts[i.gpu.name]) for i in fleet.inventory.items if counts[i.gpu.name])
    if not items:
        raise InputError(f"fleet {fleet.name}: inventory: must leave a GPU, got none.", hint="Lose fewer of them.")
    inventory = replace(fleet.inventory, items=items)
    services = tuple(
        replace(service, scenarios=tuple(replace(scenario, inventory=inventory) for scenario in service.scenarios))
        for service in fleet.services
    )
    return replace(fleet, inventory=inventory, services=services)


def standing_nodes(saved: FleetPlan, fleet: FleetScenario, terms: FleetTerms) -> StandingNodes:
    """What deployments that run still have, where `fleet` is what there is now. Raises InputError where
    a deployment has not what it is said to have lost."""
    held = {part.name: dict(part.gpus) for part in saved.plans}
    standing = {name: dict(gpus) for name, gpus in held.items()}
    for name, lost in terms.lost_of.items():
        for gpu, count in lost.items():
            has = standing.get(name, {}).get(gpu, 0)
            if count > has:
                raise InputError(
                    f"lost: {name}/{gpu}: must be at most the {has} GPUs that the deployment has, got {count}.",
                    hint=f"Deployments are {', '.join(standing)}; leave the name out where it was others' nodes.",
                )
            standing[name][gpu] -= count
    present = dict(fleet.inventory.counts)
    _require_room(present, terms.meanwhile)
    together, short, guessed = present | dict(terms.meanwhile), list[str](), False
    for gpu, before in saved.fleet.inventory.counts:
        idle = before - sum(gpus.get(gpu, 0) for gpus in held.values())
        unnamed = max(0, terms.lost.get(gpu, 0) - idle)  # nodes that nobody had go first
        _take(saved, standing, gpu, unnamed)
        guessed = guessed or unnamed > 0
        beyond = sum(gpus.get(gpu, 0) for gpus in standing.values()) - together.get(gpu, 0)
        if beyond > 0:
            short.append(gpu)
            _take(saved, standing, gpu, beyond)
    gone = {
        name: {gpu: count - standing[name][gpu] for gpu, count in gpus.items() if count > standing[name][gpu]}
        for name, gpus in held.items()
    }
    return StandingNodes(gpus=standing, gone=gone, together=together, guessed=guessed, short=tuple(short))


def _take(saved: FleetPlan, standing: Mapping[str, dict[str, int]], gpu: str, count: int) -> None:
    """So many GPUs of a type are gone: first those of batches, then node by node of whoever has most."""
    host, waiting = saved.fleet.host(gpu), {part.name for part in saved.plans if saved.waits(part)}
    while count > 0:
        holders = [name for name, gpus in standing.items() if gpus.get(gpu, 0)]
        name = max(holders, key=lambda holder: (holder in waiting, standing[holder][gpu], holder))
        standing[name][gpu] -= min(host, standing[name][gpu])
        count -= host


def _require_room(present: Mapping[str, int], meanwhile: Mapping[str, int]) -> None:
    """Raises InputError where fewer GPUs are there meanwhile than the new plans may use."""
    for gpu, count in meanwhile.items():
        if count < present.get(gpu, 0):
            raise InputError(
                f"meanwhile: {gpu}: must be at least the inventory's {present[gpu]}, as new servers start on them, got "
                f"{count}.",
                hint=f"Leave {gpu} out of it, or lower the inventory (--inventory).",
            )
