"""How long a request may take, and how many a server may hold: what proxies have to be told, from the plan.

symbol    meaning                                                             unit
answer    longest answer of the workload                                      tokens
TPOT      slowest step that the plan's decode routes count on                 s
timeout   2 answer x TPOT + TTFT bound, or 60 s where there is none;          s
          at least 300 s: what is slower than twice the plan is stuck
hold      requests that a server may have at a time: twice the sequences      requests
          that it runs, so that as many may wait in it
"""

import math

from planner.domain import Phase, Plan
from planner.export.islands import ServingIsland

_LEAST_S, _TTFT_S = 300, 60.0
_MS = 1000.0


def answer_timeout_s(plan: Plan) -> int:
    """Seconds from a request to the end of its answer that nothing sound takes."""
    steps = [route.step_ms for route in plan.routing if route.phase is Phase.DECODE and math.isfinite(route.step_ms)]
    bound = plan.scenario.slo.ttft_ms
    first = _TTFT_S if bound is None else bound / _MS
    longest = 2 * plan.scenario.workload.max_output_tokens * max(steps, default=0.0) / _MS + first
    return max(_LEAST_S, math.ceil(longest))


def held_requests(island: ServingIsland) -> int:
    """Requests that one copy may have at a time, running and waiting."""
    return max(2, 2 * island.batch_size * island.parallel.dp)
