"""What CPUs and GPUs draw, and the two ways of adding it up over a node."""

from dataclasses import dataclass
from enum import StrEnum


class PowerFormula(StrEnum):
    """How the watts of a node's CPUs follow from its virtual CPUs (two of them a core).

    `paper`: PWR, equation 1: packages at work rounded up, idle ones counted by the free CPUs, rounded down.
    `simulators`: as the public simulator: a node's packages rounded up, those at work rounded up, the rest is idle.
    """

    PAPER = "paper"
    SIMULATORS = "simulators"


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuPower:
    """A CPU package: watts idle and at full load, physical cores."""

    name: str
    idle_w: float
    full_w: float
    cores: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPower:
    """A GPU: watts idle and as soon as a part of it is taken."""

    name: str
    idle_w: float
    full_w: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerTable:
    """CPU packages and GPUs by name. A node whose CPU is not named has `default_cpu`."""

    cpus: tuple[CpuPower, ...]
    gpus: tuple[GpuPower, ...]
    default_cpu: str
