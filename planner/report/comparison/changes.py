"""Deployed plans and what changes between two as documents for JSON; the figures of both, old against new."""

from collections.abc import Callable
from typing import Any

from planner.domain import PHASES, DeployedPlan, RateComparison
from planner.domain.comparisons import PlanFigures
from planner.domain.deployed import BucketComparison, IslandChange, PlanDiff
from planner.report.comparison.side_by_side import Cells, figure_cells
from planner.report.kit.quantities import NONE
from planner.report.kit.tables import Column, fields, record, table_of
from planner.report.kit.tree import DataTable

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


def diff_head(figures: tuple[PlanFigures, PlanFigures]) -> DataTable:
    """Each figure old and new, and by how much it changes."""
    columns: tuple[Column[Cells], ...] = (
        Column("", lambda row: row[0]),
        Column("old", lambda row: row[1][0], right=True),
        Column("new", lambda row: row[1][1], right=True),
        Column("change", lambda row: _change_words(row[0], figures), right=True),
    )
    return table_of(columns, figure_cells(figures)).block()


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


def deployed_document(plan: DeployedPlan) -> dict[str, Any]:
    """A deployed plan as plain data."""
    return {
        "name": plan.name,
        "model": plan.model,
        "engine": plan.engine,
        "target": plan.target,
        "gpus": plan.gpus,
        "inventory": dict(plan.inventory),
        "islands": table_of(_ISLAND, plan.islands).records(),
        "routes": table_of(_ROUTE, plan.routes).records(),
    }


_ISLAND = fields(
    *("id", "phase", "gpu", "size", "parallel.tp", "parallel.dp", "parallel.pp", "parallel.replicas", "batch_size"),
    *("longest_prompt", "rate_rps", "utilisation", "price_usd_per_hour"),
)


_ROUTE = fields("phase", "range_start", "range_end", "island", "share")


def diff_document(diff: PlanDiff) -> dict[str, Any]:
    """What changes, as plain data."""
    return {
        "old": diff.old,
        "new": diff.new,
        "differs": diff.differs,
        "head": [{"field": c.field, "old": c.old, "new": c.new} for c in diff.head],
        "everything_restarts_for": list(diff.restart_reasons),
        "pods_compared": diff.pods_compared,
        "figures": None if diff.figures is None else diff_head_document(diff.figures),
        "rates": None if diff.rates is None else _rates_document(diff.rates),
        "buckets": None if diff.buckets is None else _buckets_document(diff.buckets),
        "islands": [_change_document(change) for change in diff.islands],
        "gpus": {change.gpu: record(_GPU, change) for change in diff.gpus},
        "routes": [
            record(_RANGE, change) | {"lost": dict(change.lost), "gained": dict(change.gained)}
            for change in diff.routes
        ],
        "moved_share_of_all_requests": {phase.value: diff.moved_of_all(phase) for phase in PHASES},
    }


def _rates_document(rates: RateComparison) -> dict[str, Any]:
    return {
        "old_rps": rates.old_rps,
        "new_rps": rates.new_rps,
        "old_band": None if rates.old_band is None else record(_BAND, rates.old_band),
        "new_band": None if rates.new_band is None else record(_BAND, rates.new_band),
        "probability_new_is_faster": rates.probability_faster,
    }


def _buckets_document(buckets: BucketComparison) -> dict[str, Any]:
    pairs = {"deployed": buckets.deployed, "figures": buckets.figures}
    return {name: [{"field": c.field, "old": c.old, "new": c.new} for c in rows] for name, rows in pairs.items()}


_BAND = fields("low_rps", "high_rps", "basis")


def _change_document(change: IslandChange) -> dict[str, Any]:
    return {
        "fate": change.fate.value,
        "old": record(_ISLAND, change.old) if change.old else None,
        "new": record(_ISLAND, change.new) if change.new else None,
        "changes": {c.field: [c.old, c.new] for c in change.changes},
        "pods": {c.field: [c.old, c.new] for c in change.pods},
    }


_GPU = fields(
    *("old", "new", "started", "stopped", "peak_starting_first=peak_surging", "peak_stopping_first", "inventory"),
    "missing_to_start_first=missing_to_surge",
)


_RANGE = fields(
    *("phase", "range_start", "range_end", "moved_share_of_range=moved", "range_share_of_all_requests=probability"),
)
