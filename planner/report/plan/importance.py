"""What the layouts tried tell of the search's parameters: how much of the rate each explains by itself.

The trials are put into groups of like values of one parameter; how far the groups' means differ is its importance:

| symbol | meaning                                                                                | unit           |
|--------|----------------------------------------------------------------------------------------|----------------|
| n, k   | trials that serve; groups of them, about equally many, equal values never parted         | –              |
| SSB    | sum over groups: trials × (mean rate of the group - mean rate)²                          | (requests/s)²  |
| SSW    | sum over trials: (rate - mean rate of its group)²                                        | (requests/s)²  |
| ε²     | importance: max(0, (SSB - (k - 1) SSW / (n - k)) / (SSB + SSW))                          | share, 0 to 1  |
| ρ      | rank correlation of value and rate (Spearman): its sign tells which way                  | -1 to 1        |

ε² is the correlation ratio less what chance alone gives (T. L. Kelley, An unbiased correlation ratio measure, 1935).
Limits: a parameter that matters only together with another shows little; a search that settles early looks at few
values of what it settled, so shares of different searches cannot be compared; they do not sum to 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from planner.domain import Plan, Trial

FEWEST_TRIALS = 16
MOST_GROUPS, TRIALS_A_GROUP = 8, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterImportance:
    """`share` (ε²) of the rate's variance that a parameter explains by itself; `rank_correlation` (ρ)."""

    name: str
    share: float
    rank_correlation: float


def trials_told(plan: Plan) -> tuple[Trial, ...]:
    """Trials with parameters that serve something."""
    record = plan.search
    return tuple(trial for trial in record.judged if trial.parameters and record.judged_rps(trial) > 0)


def importance_of(plan: Plan) -> tuple[ParameterImportance, ...]:
    """Each parameter that varied, the most important first; nothing where fewer than FEWEST_TRIALS tell of it, such as
    where the layout was solved for."""
    trials = trials_told(plan)
    if len(trials) < FEWEST_TRIALS:
        return ()
    rates = [plan.search.judged_rps(trial) for trial in trials]
    rows = []
    for name in dict.fromkeys(name for trial in trials for name, _ in trial.parameters):
        pairs = [
            (dict(t.parameters)[name], r) for t, r in zip(trials, rates, strict=True) if name in dict(t.parameters)
        ]
        values = [value for value, _ in pairs]
        if len(pairs) >= FEWEST_TRIALS and len(set(values)) > 1:
            of_values = [rate for _, rate in pairs]
            correlation = rank_correlation(values, of_values)
            row = ParameterImportance(name=name, share=explained(values, of_values), rank_correlation=correlation)
            rows.append(row)
    return tuple(sorted(rows, key=lambda row: (-row.share, row.name)))


def explained(values: Sequence[float], rates: Sequence[float]) -> float:
    """ε² of `rates` (requests/s) by groups of like `values`; 0 where it cannot be told from chance."""
    groups = _groups(values, rates)
    mean, count = fmean(rates), len(rates)
    between = sum(len(group) * (fmean(group) - mean) ** 2 for group in groups)
    inside = sum((rate - fmean(group)) ** 2 for group in groups for rate in group)
    if between + inside <= 0 or count <= len(groups):
        return 0.0
    return max(0.0, (between - (len(groups) - 1) * inside / (count - len(groups))) / (between + inside))


def _groups(values: Sequence[float], rates: Sequence[float]) -> list[list[float]]:
    """Rates by groups of like values, ascending: at most MOST_GROUPS, equal values in one."""
    ordered = sorted(zip(values, rates, strict=True))
    group_count = max(2, min(MOST_GROUPS, len(ordered) // TRIALS_A_GROUP))
    groups: list[list[float]] = [[]]
    last: float | None = None
    for place, (value, rate) in enumerate(ordered):
        if value != last and groups[-1] and place >= len(groups) * len(ordered) / group_count:
            groups.append([])
        groups[-1].append(rate)
        last = value
    return groups if len(groups) > 1 else _by_value(ordered)


def _by_value(ordered: Sequence[tuple[float, float]]) -> list[list[float]]:
    groups: dict[float, list[float]] = {}
    for value, rate in ordered:
        groups.setdefault(value, []).append(rate)
    return list(groups.values())


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's: Pearson's of ranks, equal values at the mean of their ranks; 0 where one of the two is constant."""
    a, b = _ranks(first), _ranks(second)
    mean = (len(a) - 1) / 2
    product = sum((x - mean) * (y - mean) for x, y in zip(a, b, strict=True))
    squares = sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b)
    return float(product / squares**0.5) if squares > 0 else 0.0


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    places: dict[float, list[int]] = {}
    for place, value in enumerate(ordered):
        places.setdefault(value, []).append(place)
    return [fmean(places[value]) for value in values]
