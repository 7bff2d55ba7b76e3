"""Watts of a node, from what is left of its CPUs and GPUs.

| symbol | meaning | unit |
|---|---|---|
| V, L | virtual CPUs of the node, and those that are free | 1 |
| m, p0, p1 | cores of a package, its watts idle and at work | 1, W |
| g0, g1 | watts of a GPU idle, and with any part of it taken | W |

simulators: cores = ceil(V/2), busy = cores - floor(L/2), packages = ceil(cores/m), active = ceil(busy/m);
            p1 active + p0 (packages - active)
paper:      p1 ceil((V-L)/(2m)) + p0 floor(L/(2m))
GPUs:       g1 #{any part taken} + g0 #{idle}
Source: the PWR study (facts on fragmentation and power, sections 9 and 11). The two differ where V is no multiple of
2m: 387 nodes of openb have 104 CPUs, 3.25 packages.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.domain import WHOLE_GPU, ChipPower, GpuSpec, PowerFormula, PowerTable, TraceNode
from planner.errors import InputError
from planner.placement.node_states import Integers, Reals

MILLI = 1000
VIRTUAL_PER_CORE = 2

_XEONS = (("E5-2682 v4", 15, 120, 16), ("8269CY", 20, 205, 26), ("8163", 20, 165, 24), ("6326", 20, 185, 16))
_CPUS = (*_XEONS, ("8369B", 20, 270, 32))
_T4, _A10, _P100, _V100, _A100 = (10, 70), (30, 150), (25, 250), (30, 300), (50, 400)
_GPUS = (("T4", _T4), ("A10", _A10), ("G2", _A10), ("P100", _P100), ("V100M16", _V100), ("V100M32", _V100))

OPENB_POWER = PowerTable(
    cpus=tuple(ChipPower(name=name, idle_w=idle, full_w=full, cores=cores) for name, idle, full, cores in _CPUS),
    gpus=tuple(ChipPower(name=name, idle_w=w[0], full_w=w[1]) for name, w in (*_GPUS, ("A100", _A100), ("G3", _A100))),
    default_cpu="E5-2682 v4",
)
"""Table of the PWR simulator; the openb trace names no CPUs, so that all of them are the default."""


DEFAULT_CPU = next(cpu for cpu in OPENB_POWER.cpus if cpu.name == OPENB_POWER.default_cpu)


def cpu_watts(cpus: float, free: float, cpu: ChipPower = DEFAULT_CPU) -> float:
    """W of a node with so many virtual CPUs, of which some are free: packages and those at work both rounded up."""
    package = VIRTUAL_PER_CORE * cpu.cores
    # A package that is exactly full must not be rounded up to two.
    packages, at_work = math.ceil(cpus / package - 1e-9), math.ceil((cpus - free) / package - 1e-9)
    return cpu.full_w * at_work + cpu.idle_w * (packages - at_work)


def with_gpu_specs(table: PowerTable, specs: Iterable[GpuSpec]) -> PowerTable:
    """The table with further GPU types; a type that it lists already keeps its figures."""
    names = {gpu.name for gpu in table.gpus}
    more = [ChipPower(name=s.name, idle_w=s.idle_w, full_w=s.max_w) for s in specs if s.name not in names]
    return replace(table, gpus=(*table.gpus, *more))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePower:
    """Watts of one kind of node."""

    formula: PowerFormula
    cpu: ChipPower
    gpu: ChipPower
    cpu_milli: int

    @classmethod
    def of(cls, node: TraceNode, table: PowerTable, formula: PowerFormula) -> "NodePower":
        """InputError where the table does not list the node's CPU or GPU model."""
        name = node.cpu_model or table.default_cpu
        cpu = next((cpu for cpu in table.cpus if cpu.name == name), None)
        if cpu is None:
            raise _unknown(node, "cpu model", name, [cpu.name for cpu in table.cpus])
        gpu = next((gpu for gpu in table.gpus if gpu.name == node.gpu_model), None)
        if gpu is None and node.gpus:
            raise _unknown(node, "gpu model", node.gpu_model, [gpu.name for gpu in table.gpus])
        return cls(
            formula=formula, cpu=cpu, gpu=gpu or ChipPower(name="", idle_w=0, full_w=0), cpu_milli=node.cpu_milli
        )

    def cpu_watts(self, left_milli: Integers) -> Reals:
        """Watts of the CPUs for each of these amounts of free milli-CPU."""
        package = VIRTUAL_PER_CORE * self.cpu.cores * MILLI
        if self.formula is PowerFormula.PAPER:
            active = -((left_milli - self.cpu_milli) // package)
            package_w = self.cpu.full_w * active + self.cpu.idle_w * (left_milli // package)
            return np.asarray(package_w, dtype=np.float64)
        # Whole numbers throughout: rounding up is the floor of the negative.
        cores = -(-self.cpu_milli // (VIRTUAL_PER_CORE * MILLI))
        packages = -(-cores // self.cpu.cores)
        active = -((left_milli // (VIRTUAL_PER_CORE * MILLI) - cores) // self.cpu.cores)
        watts = (self.cpu.full_w - self.cpu.idle_w) * active + self.cpu.idle_w * packages
        return np.asarray(watts, dtype=np.float64)

    def gpu_watts(self, left_milli: Sequence[int]) -> float:
        """Watts of the GPUs with these amounts of milli-GPU left."""
        idle = sum(milli == WHOLE_GPU for milli in left_milli)
        return self.gpu.full_w * (len(left_milli) - idle) + self.gpu.idle_w * idle


def _unknown(node: TraceNode, subject: str, name: str, names: list[str]) -> InputError:
    return InputError(
        f"node {node.name}: {subject} must be one whose watts are known, got {name!r}.",
        hint=f"Known are {', '.join(names)}; correct the name, or add its watts.",
    )
