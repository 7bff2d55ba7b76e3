"""Islands on real nodes. Door: `place`; `Fleet` prepares a cluster that is placed on many times.

`violations` looks at a placement from outside; `synthesize` makes clusters up.
"""

from planner.placement.fleet import Fleet
from planner.placement.placer import place
from planner.placement.synthetic import DEFAULT_TYPES, Fit, NodeType, synthesize
from planner.placement.synthetic_pods import TaskMix
from planner.placement.validation import violations

__all__ = ["DEFAULT_TYPES", "Fit", "Fleet", "NodeType", "TaskMix", "place", "synthesize", "violations"]
