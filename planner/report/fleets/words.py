"""A fleet in sentences: what it promises, how far that is from the best, what is left."""

from collections.abc import Iterator

from planner.domain.fleets import FleetAim, FleetJudge, StoredFleet
from planner.report.fleets.tables import gpu_words, times
from planner.report.kit.markdown import escaped
from planner.report.kit.quantities import counted, money, percent, significant, whole

_CLOSE = 5e-4


def verdict(fleet: StoredFleet) -> str:
    """The answer, then how good it is at most: a line of Markdown."""
    sentences = (f"**{_answer(fleet)}**{_price(fleet)}", _proof(fleet), _search_words(fleet))
    return " ".join(filter(None, sentences))


def _search_words(fleet: StoredFleet) -> str:
    """What was searched for, and what that gained."""
    searched = fleet.searched
    if searched is None:
        return ""
    by = "on the cluster's nodes" if searched.judged is FleetJudge.PLACED else "by replays"
    tried = f"{counted(searched.divisions, 'division')} judged {by}"
    exact = f"what the programme divides for by formulas, worth {significant(searched.exact, 4)} there"
    if searched.gain <= 0:
        return f"Of {tried} none is better than {exact}."
    return f"It is the best of {tried}, {_percent(searched.gain)} better than {exact}."


def _answer(fleet: StoredFleet) -> str:
    names = counted(len(fleet.services), "service")
    if fleet.searched is not None and fleet.searched.judged is FleetJudge.REPLAYED:
        return f"Replays hold the levels of {names} at {significant(fleet.value)} {fleet.aim.row.unit}, all at once."
    match fleet.aim:
        case FleetAim.MULTIPLE if fleet.value >= 1:
            return f"Each of {names} is promised {times(fleet.value)} its demand, all at once."
        case FleetAim.MULTIPLE:
            return f"Each of {names} is promised {_percent(fleet.value)} of its demand: the GPUs are too few for all."
        case FleetAim.TARGET:
            return f"{money(fleet.value)} USD/hour rent what promises the demands of {names}."
        case FleetAim.WEIGHTED:
            met = sum(row.share >= 1 - _CLOSE for row in fleet.services)
            return f"{significant(fleet.value)} requests/s are promised, by weight; {met} of {names} in full."
        case FleetAim.PRIORITY:
            met = sum(row.share >= 1 - _CLOSE for row in fleet.services)
            return f"{met} of {names} are promised in full, first those that go first."


def _price(fleet: StoredFleet) -> str:
    if fleet.aim is FleetAim.TARGET or fleet.rent_usd_per_hour <= 0:
        return ""
    return f" The GPUs cost {money(fleet.rent_usd_per_hour)} USD/hour."


def _proof(fleet: StoredFleet) -> str:
    if fleet.bound is None or fleet.gap is None:
        return "Nothing proves how far that is from the best."
    better = "costs less than" if fleet.aim.row.minimises else "reaches more than"
    unit = fleet.aim.row.unit
    bound = (
        f"{money(fleet.bound)} USD/hour" if fleet.aim is FleetAim.TARGET else f"{significant(fleet.bound, 4)} {unit}"
    )
    if fleet.gap < _CLOSE:
        return f"No other division of the GPUs {better} {bound}: this one is as good as the best."
    return f"No division of the GPUs {better} {bound}: this one is within {_percent(fleet.gap)} of the best."


def _percent(share: float) -> str:
    return f"{significant(100 * share)} %"


def short_services(fleet: StoredFleet) -> Iterator[str]:
    """A sentence a service that is promised less than it asks for."""
    for row in fleet.services:
        if row.share < 1 - _CLOSE:
            yield (
                f"{escaped(row.service)} gets {percent(row.share)} of its demand: {significant(row.promised_rps)} of "
                f"{significant(row.demand_rps)} requests/s."
            )


def idle_words(fleet: StoredFleet) -> str:
    """What nobody has."""
    if not fleet.idle:
        return "Every GPU has work."
    gpus = escaped(gpu_words(fleet.idle))
    return f"Not rented: {gpus}." if fleet.aim is FleetAim.TARGET else f"Nobody has {gpus}."


def batch_words(fleet: StoredFleet) -> Iterator[str]:
    """A sentence a service that takes what others leave."""
    for fill in fleet.batches:
        name = escaped(fill.service)
        if not fill.deployment:
            reason = "no server of its fits on what others leave" if fleet.idle else "others leave no GPU"
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


def worth_words(fleet: StoredFleet) -> str:
    """What the table of nodes says, or why there is none."""
    if not any(worth.change for worth in fleet.nodes):
        return PLENTY
    return NODES_OF_TARGET if fleet.aim is FleetAim.TARGET else NODES


def note_words(fleet: StoredFleet) -> str:
    """What the bound rests on."""
    sentences = [f"{escaped(note[0].upper() + note[1:])}." for note in fleet.note.split("; ") if note]
    return " ".join(sentences)
