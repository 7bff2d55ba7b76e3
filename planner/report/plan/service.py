"""Service levels and exactness of a plan, in words."""

from planner.domain import PHASES, Phase, Plan, RangeService, Service
from planner.report.kit.bands import banded_rate
from planner.report.kit.markdown import table
from planner.report.kit.quantities import percent, rate, whole


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
    rows = [_row(service, phase) for phase in PHASES]
    header = ["", "Bound (ms)", "Worst mean (ms)", "Worst percentile (ms)", "In range"]
    note = (
        "TTFT = queueing (M/G/c) + prefill + KV transfer + first decode step; TPOT at the batch that the island runs. "
        "Arrivals are taken as Poisson."
    )
    return [f"## Service levels\n\n{lead}\n\n{table(header, [row for row in rows if row], 'lrrrr')}\n\n{note}"]


def _row(service: Service, phase: Phase) -> list[str]:
    mine = [row for row in service.ranges if row.phase is phase]
    if not mine:
        return []
    worst = max(mine, key=_share)
    name = "TTFT" if phase is Phase.PREFILL else "TPOT"
    return [name, _ms(worst.bound_ms), _ms(worst.mean_ms), _ms(worst.percentile_ms), f"{worst.start}-{worst.end - 1}"]


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


def exactness_note(plan: Plan) -> list[str]:
    """How the ranges' rates compare with every exact length."""
    if plan.exact_rps is None or plan.throughput_rps <= 0:
        return []
    difference = plan.exact_rps / plan.throughput_rps - 1
    return [
        f"Recomputed at every exact prompt length with the same routing: {rate(plan.exact_rps)} requests/s "
        f"({100 * difference:+.1f} %)."
    ]
