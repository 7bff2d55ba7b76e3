"""What replays said of a plan that was chosen by them, in a paragraph."""

from planner.domain import Plan
from planner.domain.serving.replayed import ReplayedChoice, ReplayedRates
from planner.report.buckets.view import bucket_plan
from planner.report.kit.markdown import escaped
from planner.report.kit.quantities import counted, significant, whole


def replayed_text(plan: Plan) -> str:
    """The replayed rate, on what it was found and tested, and what it is better than; empty without replays."""
    replayed = bucket_plan(plan).replayed
    if replayed is None:
        return ""
    mine = replayed.plan
    return (
        f"**Replayed, the plan holds the levels up to {_rate_words(mine)}**, with the router `{mine.policy}` "
        f"({escaped(replayed.arrivals)}; {_streams(replayed)}). {_rivals(plan, replayed)} Promise, capacity and bounds "
        "are of the model of queues, which knows of no router."
    )


def _rate_words(rates: ReplayedRates) -> str:
    if rates.fresh_rps is None:
        return f"{significant(rates.search_rps)} requests/s on the search's seeds, and was not held against fresh ones"
    return f"{significant(rates.fresh_rps)} requests/s on fresh seeds, {significant(rates.search_rps)} on the search's"


def _streams(replayed: ReplayedChoice) -> str:
    return (
        f"{len(replayed.search_seeds)} seeds of {whole(replayed.requests)} requests in the search, "
        f"{len(replayed.fresh_seeds)} fresh ones of {whole(replayed.fresh_requests)}"
    )


def _rivals(plan: Plan, replayed: ReplayedChoice) -> str:
    """The pools that were solved for, and the best of the others."""
    share = f"{100 * plan.scenario.simplicity:g} %"
    tried = f"of {counted(replayed.replayed, 'candidate')} that were replayed"
    if replayed.candidate is None:
        return f"It is the pools that were solved for: none {tried} was better by more than {share}."
    if replayed.chosen:
        return f"The pools that were solved for, with `{replayed.solved.policy}`: {_rate_words(replayed.solved)}."
    return (
        f"It is the pools that were solved for: the best {tried}, with `{replayed.candidate.policy}`, is not better by "
        f"more than {share}: {_rate_words(replayed.candidate)}."
    )
