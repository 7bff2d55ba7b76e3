"""The paper's formulation: throughput of both phases, less weighted deviation from the mix.

| symbol | meaning | unit |
|---|---|---|
| R[phase, j], R[phase] | rate of a range, of a phase | requests/s |
| delta[k, j] | slack over abs(R[k, j] - p[j] R[k]), k = prefill, decode | requests/s |
| delta[match, j] | slack over abs(R[decode, j] - R[prefill, j]) | requests/s |
| tau | largest relative deviation of a range | 1 |
| weight[j] | M / (1 + p[j]) | 1 |
| eps | least throughput of a phase: 0.01 | requests/s |

Source: Rignall 2025, section 4.8.1, constraints 1-7; constraints 1 and 2 aggregated over equal islands.
"""

import pulp

from planner.assignment.variables import Problem
from planner.domain import PHASES, AssignmentSettings, Phase

Slack = dict[tuple[str, int], pulp.LpVariable]
MATCH = "match"

LEAST_RPS = 0.01


def maximise_throughput_less_deviation(problem: Problem, settings: AssignmentSettings) -> None:
    """Add objective and all constraint families."""
    ranges = range(len(problem.probabilities))
    slack = {
        (kind, j): pulp.LpVariable(f"deviation_{kind}_{j}", lowBound=0)
        for kind in (*map(str, PHASES), MATCH)
        for j in ranges
    }
    total = {phase: pulp.lpSum(problem.rate(phase, j) for j in ranges) for phase in PHASES}
    weight = [settings.deviation_weight / (1 + p) for p in problem.probabilities]
    penalty = pulp.LpAffineExpression([(variable, weight[j]) for (_, j), variable in slack.items()])
    problem.model.setObjective(total[Phase.DECODE] + total[Phase.PREFILL] - penalty)
    use_all_capacity(problem, idle=settings.idle)
    keep_least_throughput(problem, total)
    bound_deviation(problem, settings, slack, total)
    match_phases(problem, slack)


def use_all_capacity(problem: Problem, *, idle: bool) -> None:
    """1, 2: every island spends its whole time in its one phase.

    The paper lets it spend time on a range that it serves at rate 0; here that time is `idle`, or, as in the paper's
    own code, forbidden.
    """
    for index, row in enumerate(problem.rows):
        problem.prefill_islands[index].bounds(0, problem.counts[index])  # idle in a phase that it cannot serve
        for phase in PHASES:
            spent = problem.busy(index, phase) - problem.islands(index, phase)
            never_idle = not idle or min(row.phase(phase).rates_rps) > 0
            problem.require(spent == 0 if never_idle else spent <= 0, f"capacity_{phase}_{index}")


def keep_least_throughput(problem: Problem, total: dict[Phase, pulp.LpAffineExpression]) -> None:
    """3: neither phase stands still."""
    for phase in PHASES:
        problem.require(total[phase] >= LEAST_RPS, f"least_{phase}")


def bound_deviation(
    problem: Problem,
    settings: AssignmentSettings,
    slack: Slack,
    total: dict[Phase, pulp.LpAffineExpression],
) -> None:
    """4, 5: slack covers the deviation of each range, and stays below tau of the range's target."""
    for phase in PHASES:
        for j, p in enumerate(problem.probabilities):
            gap = problem.rate(phase, j) - p * total[phase]
            problem.require(gap - slack[str(phase), j] <= 0, f"above_{phase}_{j}")
            problem.require(-1 * gap - slack[str(phase), j] <= 0, f"below_{phase}_{j}")
            problem.require(slack[str(phase), j] - settings.tau * p * total[phase] <= 0, f"tau_{phase}_{j}")


def match_phases(problem: Problem, slack: Slack) -> None:
    """6: slack covers the difference between the phases; 7 (the sum of all slack) is read off the solution."""
    for j in range(len(problem.probabilities)):
        gap = problem.rate(Phase.DECODE, j) - problem.rate(Phase.PREFILL, j)
        problem.require(gap - slack[MATCH, j] <= 0, f"match_above_{j}")
        problem.require(-1 * gap - slack[MATCH, j] <= 0, f"match_below_{j}")
