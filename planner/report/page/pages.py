"""The report as files: names and bytes, to be written elsewhere."""

from planner.domain import Plan
from planner.report.plan.figures import figure, figures_of
from planner.report.plan.summary import summary


def render(plan: Plan) -> dict[str, bytes]:
    """`summary.md` and `figures/<name>.png` for every figure that the plan has. Equal plans give equal bytes."""
    from planner.report.kit.style import encoded  # noqa: PLC0415  # matplotlib takes a second to load

    pages = {"summary.md": summary(plan).encode()}
    return pages | {f"figures/{name}.png": encoded(figure(plan, name)) for name in figures_of(plan)}
