"""Shallowsim, digit by digit, its defects included; for comparison with the paper, not for planning.

Numbers in square brackets in these files are those of the list of defects in the facts on the cost model. Door: `rates`
(the performance table in the paper's counting) and the single-configuration functions.
"""

from planner.cost.reference.configurations import reference_configurations
from planner.cost.reference.memory import max_batch
from planner.cost.reference.rates import decode_rates, prefill_rates
from planner.cost.reference.steps import decode_step, prefill_step

__all__ = [
    "decode_rates",
    "decode_step",
    "max_batch",
    "prefill_rates",
    "prefill_step",
    "reference_configurations",
]
