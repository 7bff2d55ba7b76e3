"""Copies of the model close together: which switch level each copy of an island has to stay under.

A plan's placement says under which switches its copies lie; the user says which node label a cluster has for a level
(`deploy.topology`), as no label for racks or switches is standard.
"""

from collections import Counter
from dataclasses import dataclass

from planner.domain import SWITCH_LEVELS, PlacedPart
from planner.export.islands import ServingIsland
from planner.export.seams import Deployment


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """All pods of a copy under one switch of `level`, as the node label `label` names it.

    `required`: the placement has them so; else it is only better that they are. `exclusive`: in the placement no two
    copies lie under the same such switch, so that a rule of one copy a switch (and one switch a copy) can be met.
    """

    level: str
    label: str
    required: bool
    exclusive: bool

    @property
    def note(self) -> str:
        """What is asked for, in words."""
        how = "must lie" if self.required else "should lie"
        return f"All pods of a group {how} under one {self.level} switch (node label {self.label})."


def packing(island: ServingIsland, deployment: Deployment) -> Packing | None:
    """The constraint on the pods of each copy; None where a copy is one pod, or no level has a label."""
    labels = dict(deployment.options.topology_labels)
    levels = [level for level in SWITCH_LEVELS if level in labels]
    if not levels or island.grouping.pods == 1:
        return None
    for level in levels:
        domains = switch_domains(deployment, level)
        mine = [switches for (name, _), switches in domains.items() if name == island.id]
        if mine and all(len(switches) == 1 and "" not in switches for switches in mine):
            users = Counter(domain for switches in domains.values() for domain in switches)
            alone = all(users[domain] == 1 for switches in mine for domain in switches)
            return Packing(level=level, label=labels[level], required=True, exclusive=alone)
    return Packing(level=levels[0], label=labels[levels[0]], required=False, exclusive=False)


def switch_domains(deployment: Deployment, level: str) -> dict[tuple[str, int], set[str]]:
    """(island, copy) -> switches of the level that it lies under."""
    placement, cluster = deployment.plan.placement, deployment.plan.scenario.cluster
    above = {node.name: node.aggregation for node in cluster.nodes} if cluster else {}
    switches: dict[tuple[str, int], set[str]] = {}
    for part in placement.parts if placement else ():
        switches.setdefault((part.island, part.replica), set()).add(_domain(part, level, above))
    return switches


def _domain(part: PlacedPart, level: str, above: dict[str, str]) -> str:
    return part.asw if level == "asw" else above.get(part.node, "")
