"""Service levels and exactness of a plan, in words."""

from planner.domain import Phase, Plan, RangeService, Service
from planner.report.kit.markdown import table
from planner.report.kit.quantities import percent, rate, whole


def service_text(plan: Plan) -> list[str]:
    """The section on service levels; nothing where the scenario sets none."""
    found = plan.service
    if found is None:
        return []
    which = "the mean" if found.percentile is None else f"P{found.percentile:g}"
    lead = f"Goodput {rate(found.goodput_rps)} requests/s: bounds hold for {which} in every range."
    if found.factor < 1 and found.binding is not None:
        lead += (
            f" The queue of {found.binding_phase} islands of {found.binding.size} {found.binding.gpu} allows "
            f"{percent(found.factor)} of what they could take in."
        )
    rows = [_row(found, phase) for phase in Phase]
    header = ["", "Bound (ms)", "Worst mean (ms)", "Worst percentile (ms)", "In range"]
    note = (
        "TTFT = queueing (M/G/c) + prefill + KV transfer + first decode step; TPOT at the batch that the island runs. "
        "Arrivals are taken as Poisson."
    )
    return [f"## Service levels\n\n{lead}\n\n{table(header, [row for row in rows if row], 'lrrrr')}\n\n{note}"]


def _row(found: Service, phase: Phase) -> list[str]:
    mine = [one for one in found.ranges if one.phase is phase]
    if not mine:
        return []
    worst = max(mine, key=_share)
    name = "TTFT" if phase is Phase.PREFILL else "TPOT"
    return [name, _ms(worst.bound_ms), _ms(worst.mean_ms), _ms(worst.percentile_ms), f"{worst.start}-{worst.end - 1}"]


def _share(one: RangeService) -> float:
    """How much of its bound a range takes up; without a bound, its time."""
    value = one.percentile_ms if one.percentile_ms is not None else one.mean_ms
    if value is None:
        return 0.0
    return value / one.bound_ms if one.bound_ms else value * 1e-9


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
