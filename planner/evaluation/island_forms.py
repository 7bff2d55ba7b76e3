"""Other configurations for islands that found no room on a cluster, with what they would serve."""

from collections.abc import Iterator, Mapping, Sequence

from planner.cost import CostContext, configurations, tabulate_placed
from planner.domain import Duty, IslandForm, ParallelConfig, Question

MOST_FORMS = 6
"""Forms of an island that placement tries, those that serve most first."""


def forms_of(
    duties: Mapping[str, tuple[Duty, ParallelConfig]], question: Question
) -> dict[str, tuple[IslandForm, ...]]:
    """Forms of each island by name, those that serve most first; alike islands are priced once.

    `duties`: what each island does, and at which degrees.
    """
    priced: dict[tuple[Duty, ParallelConfig], tuple[IslandForm, ...]] = {}
    for duty, parallel in duties.values():
        if (duty, parallel) not in priced:
            forms = sorted(_forms(duty, parallel, question), key=lambda form: (-form.rate_rps, form.replicas, -form.tp))
            priced[duty, parallel] = tuple(forms[:MOST_FORMS])
    return {island: priced[key] for island, key in duties.items()}


def _forms(duty: Duty, parallel: ParallelConfig, question: Question) -> Iterator[IslandForm]:
    """Configurations of as many GPUs in smaller attention groups that serve every range it has time for."""
    scenario = question.scenario
    gpu = scenario.inventory.item(duty.island.gpu).gpu
    context = CostContext(gpu=gpu, model=scenario.model, settings=scenario.cost)
    for other in configurations(context, parallel.size):
        if other.tp < parallel.tp:
            performance = tabulate_placed(
                gpu,
                duty.phase,
                other,
                model=scenario.model,
                workload=question.workload,
                settings=scenario.cost,
                slo=scenario.slo,
            )
            rates = _served(duty.time_shares, performance.rates_rps)
            if rates:
                yield IslandForm(replicas=other.replicas, groups=other.dp * other.pp, tp=other.tp, rate_rps=rates)


def _served(time_shares: Sequence[float], rates_rps: Sequence[float]) -> float:
    """Requests/s in the same time; 0 where a range that there is time for is not served."""
    pairs = [(share, rate) for share, rate in zip(time_shares, rates_rps, strict=True) if share > 0]
    return sum(share * rate for share, rate in pairs) if all(rate > 0 for _, rate in pairs) else 0.0
