"""A fleet in sentences: what it promises, how far that is from the best, what is left."""

from collections.abc import Iterator

from planner.domain.fleets import FleetAim, FleetJudge, FleetPlan
from planner.report.fleets.tables import gpu_words, times
from planner.report.kit.markdown import escaped
from planner.report.kit.quantities import counted, money, percent, significant, whole

_CLOSE = 5e-4


def verdict(plan: FleetPlan) -> str:
    """The answer, then how good it is at most: a line of Markdown."""
    sentences = (f"**{_answer(plan)}**{_price(plan)}", _proof(plan), _search_words(plan))
    return " ".join(filter(None, sentences))


def _search_words(plan: FleetPlan) -> str:
    """What was searched for, and what that gained."""
    searched = plan.searched
    if searched is None:
        return ""
    by = "on the cluster's nodes" if searched.judged is FleetJudge.PLACED else "by replays"
    tried = f"{counted(searched.divisions, 'division')} judged {by}"
    exact = f"what the programme divides for by formulas, worth {significant(searched.exact, 4)} there"
    if searched.gain <= 0:
        return f"Of {tried} none is better than {exact}."
    return f"It is the best of {tried}, {_percent(searched.gain)} better than {exact}."


def _answer(plan: FleetPlan) -> str:
    names = counted(len(plan.shares), "service")
    if plan.searched is not None and plan.searched.judged is FleetJudge.REPLAYED:
        return f"Replays hold the levels of {names} at {significant(plan.value)} {plan.aim.row.unit}, all at once."
    match plan.aim:
        case FleetAim.MULTIPLE if plan.value >= 1:
            return f"Each of {names} is promised {times(plan.value)} its demand, all at once."
        case FleetAim.MULTIPLE:
            return f"Each of {names} is promised {_percent(plan.value)} of its demand: the GPUs are too few for all."
        case FleetAim.TARGET:
            return f"{money(plan.value)} USD/hour rent what promises the demands of {names}."
        case FleetAim.WEIGHTED:
            met = sum(row.share >= 1 - _CLOSE for row in plan.shares)
            return f"{significant(plan.value)} requests/s are promised, by weight; {met} of {names} in full."
        case FleetAim.PRIORITY:
            met = sum(row.share >= 1 - _CLOSE for row in plan.shares)
            return f"{met} of {names} are promised in full, first those that go first."


def _price(plan: FleetPlan) -> str:
    if plan.aim is FleetAim.TARGET or plan.rent_usd_per_hour <= 0:
        return ""
    return f" The GPUs cost {money(plan.rent_usd_per_hour)} USD/hour."


def _proof(plan: FleetPlan) -> str:
    if plan.bound is None or plan.gap is None:
        return "Nothing proves how far that is from the best."
    better = "costs less than" if plan.aim.row.minimises else "reaches more than"
    unit = plan.aim.row.unit
    bound = f"{money(plan.bound)} USD/hour" if plan.aim is FleetAim.TARGET else f"{significant(plan.bound, 4)} {unit}"
    if plan.gap < _CLOSE:
        return f"No other division of the GPUs {better} {bound}: this one is as good as the best."
    return f"No division of the GPUs {better} {bound}: this one is within {_percent(plan.gap)} of the best."


def _percent(share: float) -> str:
    return f"{significant(100 * share)} %"


def short_services(plan: FleetPlan) -> Iterator[str]:
    """A sentence a service that is promised less than it asks for."""
    for row in plan.shares:
        if row.share < 1 - _CLOSE:
            yield (
                f"{escaped(row.service)} gets {percent(row.share)} of its demand: {significant(row.promised_rps)} of "
                f"{significant(row.demand_rps)} requests/s."
            )


def idle_words(plan: FleetPlan) -> str:
    """What nobody has."""
    if not plan.idle:
        return "Every GPU has work."
    gpus = escaped(gpu_words(plan.idle))
    return f"Not rented: {gpus}." if plan.aim is FleetAim.TARGET else f"Nobody has {gpus}."


def batch_words(plan: FleetPlan) -> Iterator[str]:
    """A sentence a service that takes what others leave."""
    for fill in plan.batches:
        name = escaped(fill.service)
        if fill.part is None:
            reason = "no server of its fits on what others leave" if plan.idle else "others leave no GPU"
            yield f"{name} does nothing: {reason}."
            continue
        words = f"{name} does {whole(fill.tokens_a_day)} tokens a day on what others leave"
        if fill.asked_tokens_a_day:
            words += f", {percent(min(1.0, fill.tokens_a_day / fill.asked_tokens_a_day))} of what is asked for"
        yield f"{words}."


RENTS = (
    "A service's part of the rent is what it adds to the least rent, on average over every order in which the services "
    "may come (Shapley); the parts sum to the rent. Without the service the rent would be lower by the last column."
)
NODES = (
    "One more node of a type is worth this much to all services together, or to one of them alone. These are prices of "
    "servers that can be divided: a whole node may give a little less."
)
NODES_OF_TARGET = (
    "One more node of a type would lower the rent this much, or let one service alone be promised so many more "
    "requests at the same rent. These are prices of servers that can be divided."
)


PLENTY = "One more node of any type is worth nothing: there are more GPUs than the demands need."


def worth_words(plan: FleetPlan) -> str:
    """What the table of nodes says, or why there is none."""
    if not any(worth.change for worth in plan.worths):
        return PLENTY
    return NODES_OF_TARGET if plan.aim is FleetAim.TARGET else NODES


def note_words(plan: FleetPlan) -> str:
    """What the bound rests on."""
    sentences = [f"{escaped(note[0].upper() + note[1:])}." for note in plan.note.split("; ") if note]
    return " ".join(sentences)
