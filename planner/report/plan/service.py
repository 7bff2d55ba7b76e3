"""Service levels and exactness of a plan, in words."""

from planner.domain import PHASES, Plan, RangeService
from planner.domain.serving.levels import TIMES
from planner.report.kit.bands import banded_rate
from planner.report.kit.quantities import percent, rate, whole
from planner.report.kit.tables import Column, table_of


def service_text(plan: Plan) -> list[str]:
    """The section on service levels; nothing where the scenario sets none."""
    service = plan.service
    if service is None:
        return []
    which = "the mean" if service.percentile is None else f"P{service.percentile:g}"
    banded = banded_rate(plan)
    goodput = f"about {banded}" if banded else rate(service.goodput_rps)
    lead = f"Goodput {goodput} requests/s: bounds hold for {which} in every range."
    if service.factor < 1 and service.binding is not None:
        lead += (
            f" The queue of {service.binding_phase} islands of {service.binding.size} {service.binding.gpu} allows "
            f"{percent(service.factor)} of what they could take in."
        )
    worst = [max(rows, key=_share) for phase in PHASES if (rows := [r for r in service.ranges if r.phase is phase])]
    note = (
        "TTFT = queueing (M/G/c) + prefill + KV transfer + first decode step; TPOT at the batch that the island runs. "
        "Arrivals are taken as Poisson."
    )
    return [f"## Service levels\n\n{lead}\n\n{table_of(_WORST, worst).markdown()}\n\n{note}"]


def _share(row: RangeService) -> float:
    """How much of its bound a range takes up; without a bound, its time."""
    value = row.percentile_ms if row.percentile_ms is not None else row.mean_ms
    if value is None:
        return 0.0
    return value / row.bound_ms if row.bound_ms else value * 1e-9


def _ms(value: float | None) -> str:
    if value is None:
        return "-"
    return whole(value) if value >= 100 else f"{value:.1f}"


_WORST: tuple[Column[RangeService], ...] = (
    Column("", lambda row: TIMES[row.phase]),
    Column("Bound (ms)", lambda row: _ms(row.bound_ms), str),
    Column("Worst mean (ms)", lambda row: _ms(row.mean_ms), str),
    Column("Worst percentile (ms)", lambda row: _ms(row.percentile_ms), str),
    Column("In range", lambda row: f"{row.start}-{row.end - 1}", str),
)


def exactness_note(plan: Plan) -> list[str]:
    """How the ranges' rates compare with every exact length."""
    if plan.exact_rps is None or plan.throughput_rps <= 0:
        return []
    difference = plan.exact_rps / plan.throughput_rps - 1
    return [
        f"Recomputed at every exact prompt length with the same routing: {rate(plan.exact_rps)} requests/s "
        f"({100 * difference:+.1f} %)."
    ]
