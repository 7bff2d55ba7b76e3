"""Islands on real nodes, and pods on them one by one.

Doors: `place` (a plan's islands; `Fleet` prepares a cluster that is placed on many times), `place_around` (with copies
that stay where they lie; `with_islands` has a cluster with islands on it), `simulate` (a trace of pods
under an online policy) and `simulate_departures` (with pods that leave, and a queue). `violations` looks at a placement
from outside; `synthesize` makes clusters up; `Allowance` and `prices_of` say which pods may be evicted, and who first.
"""

from typing import TYPE_CHECKING

from planner.doors import door

if TYPE_CHECKING:
    from planner.placement.clusters import DEFAULT_TYPES, Fit, NodeType, TaskMix, synthesize
    from planner.placement.fragmentation import target_workload
    from planner.placement.islands import Fleet, place, violations
    from planner.placement.islands.evictions.eviction_limits import Allowance
    from planner.placement.power_model import OPENB_POWER, with_gpu_specs
    from planner.placement.staying import place_around, with_islands
    from planner.placement.victims.cheapest_sets import prices_of

__all__ = [
    "DEFAULT_TYPES",
    "OPENB_POWER",
    "Allowance",
    "Fit",
    "Fleet",
    "NodeType",
    "TaskMix",
    "place",
    "place_around",
    "prices_of",
    "synthesize",
    "target_workload",
    "violations",
    "with_gpu_specs",
    "with_islands",
]

_HOMES = {
    "planner.placement.clusters": "DEFAULT_TYPES Fit NodeType TaskMix synthesize",
    "planner.placement.islands": "Fleet place violations",
    "planner.placement.islands.evictions.eviction_limits": "Allowance",
    "planner.placement.power_model": "OPENB_POWER with_gpu_specs",
    "planner.placement.staying": "place_around with_islands",
    "planner.placement.fragmentation": "target_workload",
    "planner.placement.victims.cheapest_sets": "prices_of",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__, _HOMES)
