"""How far a plan's rate may be off, and how likely one plan serves more than another.

| symbol | meaning                                                                       | unit            |
|--------|-------------------------------------------------------------------------------|-----------------|
| w[g,p] | work of phase p on GPU type g: prompt tokens (prefill) or requests (decode:   | of the phase's  |
|        | the output is the same for all) that its islands serve, over those of all     |                 |
| U[p]   | throughput over the rate at which phase p alone could serve the mix           | 1               |

Draws, correlations and the rate of a draw: `planner.cost.residuals.band_draws`.
"""

from collections import defaultdict

from planner.cost import UncertainRate, WorkShare
from planner.cost import probability_better as probability_faster
from planner.cost import rate_band as band_of_rate
from planner.domain import PHASES, Phase, Plan, RateBand, RateComparison, Route

_AT_MOST_PREDICTED = 1.0


def rate_band(plan: Plan) -> RateBand | None:
    """P10 and P90 of the plan's rate; None where its estimates have no band (reference mode, profiles, older plans)."""
    return band_of_rate(uncertain_rate(plan)) if plan.throughput_rps > 0 else None


def probability_better(plan: Plan, other: Plan) -> float | None:
    """How likely `plan` serves more requests/s than `other`, in [0, 1]; equal plans: 0.5; None where one has no band.

    What both rest on errs alike in both, so two plans on the same inventory differ hardly by errors of the model.
    """
    if plan.rate_band is None or other.rate_band is None:
        return None
    return probability_faster(uncertain_rate(plan), uncertain_rate(other))


def compare_rates(old: Plan, new: Plan) -> RateComparison | None:
    """Rates of two plans beside each other; None where they do not serve the same mix with the same model, or one
    serves nothing."""
    same_question = (old.scenario.model, old.scenario.workload) == (new.scenario.model, new.scenario.workload)
    if not same_question or min(old.throughput_rps, new.throughput_rps) <= 0:
        return None
    return RateComparison(
        old_rps=old.throughput_rps,
        new_rps=new.throughput_rps,
        old_band=old.rate_band,
        new_band=new.rate_band,
        probability_faster=probability_better(new, old),
    )


def uncertain_rate(plan: Plan) -> UncertainRate:
    """What the plan's rate rests on. A rate that the network holds back rises above it for no faster GPU."""
    return UncertainRate(
        rate_rps=plan.throughput_rps,
        shares=tuple(share for phase in PHASES for share in _shares(plan, phase)),
        utilisations=tuple(
            (phase, plan.throughput_rps / phase_rps)
            for phase, phase_rps in ((Phase.PREFILL, plan.prefill_rps), (Phase.DECODE, plan.decode_rps))
        ),
        **({"ceiling": _AT_MOST_PREDICTED} if plan.network_bottleneck else {}),
    )


def _shares(plan: Plan, phase: Phase) -> list[WorkShare]:
    bands = {(estimate.gpu, estimate.phase): estimate.band for estimate in plan.provenance.estimates}
    islands = {island.id: island for island in plan.islands}
    work: dict[tuple[str, Phase], float] = defaultdict(float)
    for route in plan.routing:
        if route.phase is phase:
            island = islands[route.island]
            # Plans of before have bands of the halves alone.
            whose = Phase.MIXED if island.phase is Phase.MIXED and (island.gpu, Phase.MIXED) in bands else phase
            work[island.gpu, whose] += _work(route)
    total = sum(work.values())
    return [
        WorkShare(gpu=gpu, phase=phase, share=amount / total, band=bands.get((gpu, whose)), whose=whose)
        for (gpu, whose), amount in work.items()
    ]


def _work(route: Route) -> float:
    tokens = (route.range_start + route.range_end) / 2 if route.phase is Phase.PREFILL else 1.0
    return route.rate_rps * tokens
