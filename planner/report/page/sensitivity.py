"""What would change the plan's rate: more or less of each GPU type, and what limits next."""

from planner.domain import GpuWorth, Plan
from planner.report.kit.html.blocks import Chart, Prose, Section
from planner.report.kit.tables import fields, table_of
from planner.report.plan.sensitivity import sensitivity_lead, sensitivity_words


def sensitivity_section(plan: Plan) -> Section | None:
    """What binds in words, then a node more and a node less by GPU type; None where the plan has no such figures."""
    sensitivity = plan.sensitivity
    if sensitivity is None:
        return None
    return Section(
        name="sensitivity",
        title="What would change it",
        blocks=(Prose(markdown=sensitivity_words(plan)), _chart(plan, sensitivity.gpus)),
    )


def _chart(plan: Plan, worths: tuple[GpuWorth, ...]) -> Chart:
    gpus = [f"{worth.gpu}<br>(node of {worth.gpus_per_node})" for worth in worths]
    return Chart(
        name="one-node-more-or-less",
        title="One node more, one node less",
        says=sensitivity_lead(plan),
        traces=(
            {"type": "bar", "name": "one node more", "x": gpus, "y": [worth.more_node_rps for worth in worths]},
            {"type": "bar", "name": "one node less", "x": gpus, "y": [worth.less_node_rps for worth in worths]},
        ),
        layout={
            "barmode": "group",
            "height": 320,
            "xaxis": {"type": "category"},
            "yaxis": {"title": {"text": "change, requests/s"}},
        },
        table=table_of(_WORTH, worths).html("Changes of the rate, requests/s."),
    )


_WORTH = fields(
    *("GPU type=gpu", "GPUs of a node=gpus_per_node", "One more node=more_node_rps", "At most=more_node_most_rps"),
    *("One node less=less_node_rps", "At best=less_node_most_rps", "GPUs lost=gpus_lost"),
    *("One more node, per USD/hour=rps_per_usd_hour", "Shadow price of a GPU=dual_rps"),
)
