"""The report as files: names and bytes, to be written elsewhere."""

from typing import Literal

from planner.domain import Plan
from planner.report.plan.figures import figure, figures_of
from planner.report.plan.summary import summary


def render(
    plan: Plan, kind: Literal["png", "svg"] = "png", style: str | None = None, *, drawn: bool = True
) -> dict[str, bytes]:
    """`summary.md`, and where it is `drawn` `figures/<name>.<kind>` for every figure that the plan has.

    Equal plans give equal bytes, whatever the settings of whoever writes them; `style`: a style of matplotlib's, or a
    style sheet's path, to draw in.

    InputError: no such style.
    """
    pages = {"summary.md": summary(plan).encode()}
    if not drawn:
        return pages
    from planner.report.kit.style import encoded, reproducible  # noqa: PLC0415  # matplotlib takes a second to load

    with reproducible(style):
        return pages | {f"figures/{name}.{kind}": encoded(figure(plan, name), kind) for name in figures_of(plan)}
