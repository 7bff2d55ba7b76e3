"""What two plans serve, cost and promise, old against new: the first table of a diff."""

from collections.abc import Callable
from typing import Any

from planner.domain.comparisons import PlanFigures
from planner.report.comparison.plans.side_by_side import figure_cells
from planner.report.kit.markdown import escaped, table
from planner.report.kit.quantities import NONE

_NUMBERS: dict[str, Callable[[PlanFigures], float | None]] = {
    "requests/s": lambda plan: plan.rate_rps,
    "promise, bunched": lambda plan: plan.burst_rps,
    "promise": lambda plan: plan.promise_rps,
    "USD/hour": lambda plan: plan.price_usd_per_hour,
    "USD/M tokens": lambda plan: plan.price_usd_per_million_tokens,
    "kW": lambda plan: plan.watts,
    "idle GPUs": lambda plan: float(plan.idle_gpus),
    "pools": lambda plan: float(plan.pools),
    "after a loss": lambda plan: plan.remaining_rps,
}
_SAME = 5e-4
"""A smaller change is told as none."""


def diff_head(figures: tuple[PlanFigures, PlanFigures]) -> str:
    """The table, as Markdown: each figure old and new, and by how much it changes."""
    rows = [
        (escaped(label), escaped(old), escaped(new), _change_words(label, figures))
        for label, (old, new) in figure_cells(figures)
    ]
    return table(("", "old", "new", "change"), rows, "lrrr")


def figures_change(figures: tuple[PlanFigures, PlanFigures]) -> bool:
    """Whether any row of the table differs."""
    return any(old != new for _, (old, new) in figure_cells(figures))


def change_of(label: str, figures: tuple[PlanFigures, PlanFigures]) -> float | None:
    """By which share of the old figure the new one is higher; None where either is none, or the old one 0."""
    fleets = [dict(plan.fleet) for plan in figures]
    read = _NUMBERS.get(label)
    if read is None and not any(label in fleet for fleet in fleets):
        return None
    old, new = (read(plan) if read else float(fleet.get(label, 0)) for plan, fleet in zip(figures, fleets, strict=True))
    return new / old - 1 if old and new is not None else None


def _change_words(label: str, figures: tuple[PlanFigures, PlanFigures]) -> str:
    change = change_of(label, figures)
    if change is None:
        return NONE
    return "same" if abs(change) < _SAME else f"{100 * change:+.1f} %"


def diff_head_document(figures: tuple[PlanFigures, PlanFigures]) -> dict[str, Any]:
    """The figures of both as plain data, and the change of each as a share."""
    readers = {"rate_rps": "requests/s", "promise_rps": "promise", "price_usd_per_hour": "USD/hour"}
    readers |= {"price_usd_per_million_tokens": "USD/M tokens", "watts": "kW", "remaining_rps": "after a loss"}
    old, new = figures
    rows = {name: {"old": getattr(old, name), "new": getattr(new, name)} for name in readers}
    changed = {name: rows[name] | {"change": change_of(label, figures)} for name, label in readers.items()}
    plain = {name: {"old": getattr(old, name), "new": getattr(new, name)} for name in ("gap", "levels_hold", "gpus")}
    return changed | plain
