"""The paper's parallel configurations of an island: any divisors."""

from planner.cost.divisors import divisors
from planner.domain import ParallelConfig, Phase


def reference_configurations(phase: Phase, size: int) -> list[ParallelConfig]:
    """One replica in prefill, any number in decode; any degree of tensor parallelism."""
    replicas = [1] if phase is Phase.PREFILL else divisors(size)
    return [ParallelConfig(tp=tp, dp=size // r // tp, replicas=r) for r in replicas for tp in divisors(size // r)]
