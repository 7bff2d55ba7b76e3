"""The sections of a summary that a plan of buckets has in place of islands and routing tables."""

from planner.domain import Plan
from planner.report.buckets.tables import latency_text, losses_table, pools_table, simplicity_text
from planner.report.buckets.view import bucket_plan
from planner.report.buckets.whiteboard import whiteboard
from planner.report.kit.quantities import counted
from planner.report.plan.sections import fleet_table


def bucket_sections(plan: Plan) -> list[str]:
    """Whiteboard, fleet, pools, latency, losses, simplicity."""
    simplicity, losses = simplicity_text(plan), bucket_plan(plan).losses
    return [
        f"## Whiteboard\n\n{whiteboard(plan)}",
        f"## Fleet\n\n{fleet_table(plan)}",
        f"## Pools\n\n{_POOLS}\n\n{pools_table(plan)}",
        f"## Latency\n\n{latency_text(plan)}",
        *([f"## {_lost(plan)}\n\n{losses_table(plan)}"] if losses else []),
        *([f"## Simplicity\n\n{simplicity}"] if simplicity else []),
    ]


_POOLS = (
    "A pool is so many equal servers, each one copy of the model, behind one bucket of prompt lengths; the router "
    "gives a request to the pool's server with the least work. `Takes`: share of its bucket's requests."
)


def _lost(plan: Plan) -> str:
    nodes = bucket_plan(plan).worst_loss.nodes
    return "After losing any one node" if nodes == 1 else f"After losing any {counted(nodes, 'node')}"
