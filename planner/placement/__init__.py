"""Islands on real nodes, and pods on them one by one.

Doors: `place` (a plan's islands; `Fleet` prepares a cluster that is placed on many times), `simulate` (a trace of pods
under an online policy) and `simulate_departures` (with pods that leave, and a queue). `violations` looks at a placement
from outside; `synthesize` makes clusters up.
"""

from planner.placement.arrivals import arrivals_in_order, draw_arrivals, draw_tie_order
from planner.placement.departures import lengthened, simulate_departures
from planner.placement.fleet import Fleet
from planner.placement.online import simulate
from planner.placement.placer import place
from planner.placement.policies import parse_policy
from planner.placement.power_model import OPENB_POWER, with_gpu_specs
from planner.placement.synthetic import DEFAULT_TYPES, Fit, NodeType, synthesize
from planner.placement.synthetic_pods import TaskMix
from planner.placement.typical_pods import target_workload
from planner.placement.validation import violations
from planner.placement.victim_validation import EvictionTerms

__all__ = [
    "DEFAULT_TYPES",
    "OPENB_POWER",
    "EvictionTerms",
    "Fit",
    "Fleet",
    "NodeType",
    "TaskMix",
    "arrivals_in_order",
    "draw_arrivals",
    "draw_tie_order",
    "lengthened",
    "parse_policy",
    "place",
    "simulate",
    "simulate_departures",
    "synthesize",
    "target_workload",
    "violations",
    "with_gpu_specs",
]
