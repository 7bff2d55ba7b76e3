"""What is asked of the machines, and which pods may go for it at all.

Never: pods that are not preemptible or locked, of equal or higher priority, younger than the protection window, of a
disruption budget that is used up, or somebody's victims already (Gödel, pod_scheduler/preemption.go). A set of victims
may take as many pods of one budget as it allows, and no more.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from math import inf

import numpy as np

from planner.domain import Preemptor, Qos, VictimSettings
from planner.errors import InputError
from planner.placement.victims.machines import THOUSAND, Array, HostedPod, Machines
from planner.placement.victims.target_masks import Targets, targets_of


@dataclass(frozen=True, slots=True)
class Case:
    """One node before a preemptor: mask of `free` positions, missing `cpus` and `memory` (at most 0: none), target
    `masks` of which one must come free (None: any `gpus` will do)."""

    free: int
    cpus: int
    memory: int
    gpus: int
    masks: list[int] | None

    def fits(self, going: Iterable[HostedPod]) -> bool:
        """Whether the preemptor fits once these pods are gone."""
        free, cpus, memory = self.free, self.cpus, self.memory
        for pod in going:
            free |= pod.mask
            cpus -= pod.cpus
            memory -= pod.memory
        if cpus > 0 or memory > 0:
            return False
        if self.masks is None:
            return free.bit_count() >= self.gpus
        for mask in self.masks:  # noqa: SIM110 - the innermost loop of every subset; any() takes twice as long
            if mask & free == mask:
                return True
        return False


@dataclass(frozen=True, slots=True)
class Question:
    """A preemptor before some machines: `cpus` in mCPU, `memory` in MB, `shift` of priorities (`Machines.shift`).

    `eligible` (pods + 1,): whether each pod may go; the last entry stands for no pod, and never bars anything.
    """

    machines: Machines
    preemptor: Preemptor
    settings: VictimSettings
    cpus: int
    memory: int
    eligible: Array
    shift: int

    @classmethod
    def of(
        cls, machines: Machines, preemptor: Preemptor, settings: VictimSettings, exclude: Collection[str] = ()
    ) -> "Question":
        """Raises InputError for a preemptor that no node could hold even if it were empty."""
        _require_possible(machines, preemptor)
        return cls(
            machines=machines,
            preemptor=preemptor,
            settings=settings,
            cpus=round(preemptor.cpus * THOUSAND),
            memory=round(preemptor.memory_gb * THOUSAND),
            eligible=_eligible(machines, preemptor, settings.protected_s, exclude),
            shift=machines.shift,
        )

    @property
    def numbers(self) -> Array:
        """Numbers of the nodes of the preemptor's GPU type, ascending."""
        groups = [nodes for _, nodes in self.machines.groups(self.preemptor.gpu)]
        return np.sort(np.concatenate(groups)) if groups else np.empty(0, dtype=np.intp)

    @property
    def nodes(self) -> list[int]:
        """`numbers` as a list."""
        numbers: list[int] = self.numbers.tolist()
        return numbers

    def candidates(self, node: int) -> list[int]:
        """The node's pods that may go, in the order in which they came."""
        return [pod for pod in self.machines.pods_on[node] if self.eligible[pod]]

    def targets(self, node: int) -> Targets:
        """What the preemptor may take of a node of this kind."""
        return targets_of(self.machines.layout_of(node), self.preemptor.gpus, self.preemptor.qos)

    def case(self, node: int) -> "Case":
        """The node as subsets of its pods are tried on it."""
        machines = self.machines
        masks = [mask for mask, _ in self.targets(node).ordered] if self.preemptor.qos.binds else None
        return Case(
            free=machines.free[node],
            # What is not asked for cannot be missing, even on a node that has given away too much.
            cpus=self.cpus - int(machines.free_cpus[node]) if self.cpus else 0,
            memory=self.memory - int(machines.free_memory[node]) if self.memory else 0,
            gpus=self.preemptor.gpus,
            masks=masks,
        )

    def fits(self, node: int, going: Iterable[int]) -> bool:
        """S(P, N∖s): whether the preemptor fits once some pods are gone; with topology where its QoS binds."""
        return self.case(node).fits([self.machines.pod(pod) for pod in going])

    def has_room(self, node: int, going: Iterable[int]) -> bool:
        """Whether GPUs, CPUs and memory suffice once some pods are gone, wherever the GPUs lie."""
        pods = [self.machines.pod(pod) for pod in going]
        gpus = self.machines.free[node].bit_count() + sum(pod.gpus for pod in pods)
        return gpus >= self.preemptor.gpus and self.enough(node, pods)

    def enough(self, node: int, going: Iterable[HostedPod]) -> bool:
        """Whether CPUs and memory suffice once some pods are gone; what is not asked for cannot be short."""
        pods = list(going)
        cpus = self.machines.free_cpus[node] + sum(pod.cpus for pod in pods)
        memory = self.machines.free_memory[node] + sum(pod.memory for pod in pods)
        return bool((not self.cpus or cpus >= self.cpus) and (not self.memory or memory >= self.memory))

    def within_budgets(self, going: Iterable[int]) -> bool:
        """Whether no disruption budget allows fewer."""
        machines = self.machines
        if not len(machines.allowed):
            return True
        counts = Counter(machines.pod(pod).budget for pod in going)
        return all(budget < 0 or count <= machines.allowed[budget] for budget, count in counts.items())


def _eligible(machines: Machines, preemptor: Preemptor, protected_s: float, exclude: Collection[str]) -> Array:
    eligible = np.empty(len(machines.pods) + 1, dtype=bool)
    eligible[-1] = True
    may = eligible[:-1]
    np.less(machines.priority, preemptor.priority, out=may)
    may &= machines.may_go
    if protected_s > 0:
        may &= machines.age_s >= protected_s
    # One at least must be allowed; how many of a set, `within_budgets` counts.
    if len(machines.allowed):
        may &= np.append(machines.allowed > 0, True)[machines.budget]  # no budget is number -1, the last
    for key in exclude:
        if key in machines.number:
            may[machines.number[key]] = False
    return eligible


def _require_possible(machines: Machines, preemptor: Preemptor) -> None:
    where, gpus = f"preemptor {preemptor.name}", preemptor.gpus
    if gpus <= 0:
        raise InputError(
            f"{where}: gpus: must be at least 1, got {gpus}.",
            hint="Pods without GPUs need no GPU preemption; ask for whole GPUs.",
        )
    if preemptor.gpu and preemptor.gpu not in machines.gpu_types:
        types = ", ".join(sorted(set(machines.gpu_types) - {""})) or "none"
        raise InputError(
            f"{where}: gpu: must be a GPU type of the cluster, got {preemptor.gpu!r}; there are: {types}.",
            hint="Leave it empty for GPUs of any type.",
        )
    layouts = [layout for layout, _ in machines.groups(preemptor.gpu)]
    largest = max((len(layout.indices) for layout in layouts), default=0)
    if layouts and gpus > largest:
        raise InputError(
            f"{where}: gpus: must be at most {largest}, what the largest node of its type has, got {gpus}.",
            hint="A pod lies inside one node; split the work into several pods.",
        )
    _require_resources(machines, preemptor)
    if preemptor.qos is Qos.SINGLE_NUMA and layouts and not any(targets_of(x, gpus, preemptor.qos) for x in layouts):
        raise InputError(
            f"{where}: qos: single_numa must find {gpus} GPUs in one NUMA node, and no node of its type has so many.",
            hint="Ask for fewer GPUs, or for guaranteed alignment.",
        )


def _require_resources(machines: Machines, preemptor: Preemptor) -> None:
    groups = machines.groups(preemptor.gpu)
    for key, needed, had in (
        ("cpus", preemptor.cpus, machines.all_cpus),
        ("memory_gb", preemptor.memory_gb, machines.all_memory),
    ):
        largest = max((int(had[nodes].max()) for _, nodes in groups), default=0) / THOUSAND if needed else 0.0
        if not 0 <= needed < inf or (groups and needed > largest):
            raise InputError(
                f"preemptor {preemptor.name}: {key}: must be at least 0 and at most {largest:g}, what the largest node "
                f"of its type has, got {needed:g}.",
                hint="A pod lies inside one node; ask for less.",
            )
