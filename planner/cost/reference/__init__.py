"""Shallowsim, digit by digit, its defects included; for comparison with the paper, not for planning.

Numbers in square brackets in these files are those of the list of defects in the facts on the cost model. Door:
`reference_rates` (the performance table in the paper's counting) and the single-configuration functions.
"""

from planner.cost.reference.rates import max_batch, reference_configurations, reference_rates
from planner.cost.reference.steps import decode_step, prefill_step

__all__ = [
    "decode_step",
    "max_batch",
    "prefill_step",
    "reference_configurations",
    "reference_rates",
]
