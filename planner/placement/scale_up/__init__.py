"""The scale-up study: pods of services ask a full cluster for GPUs.

Doors: `run_cycle` (who finds room, by which method) and `sourcing_latencies` (how long the search for victims takes).
"""

from planner.placement.scale_up.cycles import CycleKey, run_cycle
from planner.placement.scale_up.latency import sourcing_latencies

__all__ = ["CycleKey", "run_cycle", "sourcing_latencies"]
