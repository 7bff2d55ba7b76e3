"""How questions about money are answered, each by the programme that solves for fleets.

What is offered must not decide the answer unless it says so. Where a type's count is not limited, as many GPUs of it
are offered as a rent S pays for if all of it goes to this type. A fleet that costs at most S is then among those
offered: an answer of at most S is the cheapest of all fleets, not only of the offer; one that costs more is asked for
again with S raised to its price. A budget is its own S.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from planner import pipeline
from planner.domain import ReportProgress, no_progress
from planner.domain.frontier import GpuOffer, RivalFleet
from planner.errors import InfeasibleError, InputError, PlannerError
from planner.files.disk.names import same_names
from planner.runs.questions.documents import (
    Demand,
    Document,
    MoneyAnswer,
    MoneyQuestion,
    document_of,
    margin_of,
    rented_document,
    scenario_of,
)

SLACK = 2.0
"""Of the rent below which nothing serves: what the first offer is for. Queues and whole servers rarely take as much."""

RAISE, RAISES = 3.0, 4
ROUNDING = 1e-9
MET = 1e-4
SMALL_RPS = 1e-3
TRIES = 8  # budgets tried until whole nodes fit
FLEETS = 3  # of whole nodes, planned for a budget


def cheapest_fleet(demand: Demand, rps: float, offer: GpuOffer, progress: ReportProgress = no_progress) -> MoneyAnswer:
    """The fleet of least rent that promises `rps` requests/s.

    Raises InputError for a demand or an offer that no scenario can be made of; InfeasibleError where the levels cannot
    be held, naming the closest, or the offer is too small, naming the fleet that would do.
    """
    _require_positive("rps", rps, "requests/s")
    offer = rentable(offer)
    answer = _cheapest(demand, rps, offer, progress)
    return _with_odds(_cheapest_of_nodes(answer, demand, offer, progress) if offer.whole_nodes else answer)


def best_fleet_for(
    demand: Demand, usd_per_hour: float, offer: GpuOffer, progress: ReportProgress = no_progress
) -> MoneyAnswer:
    """The fleet that serves most requests/s for at most so much rent.

    Raises as `cheapest_fleet` does; where the budget rents nothing that serves, the error names what the cheapest fleet
    costs.
    """
    _require_positive("usd", usd_per_hour, "USD/hour")
    offer = rentable(offer)
    spent, first = usd_per_hour, None
    for _ in range(TRIES):
        answer = _bought(demand, usd_per_hour, spent, offer, progress)
        first = first or answer
        if not offer.whole_nodes:
            return _with_odds(answer)
        fleets = fleets_of_nodes(answer, offer)
        paid = fleets[0].price_usd_per_hour
        within = [fleet for fleet in fleets if fleet.price_usd_per_hour <= usd_per_hour * (1 + ROUNDING)][:FLEETS]
        if within:
            planned = [_of_nodes(answer, fleet, demand, offer, progress) for fleet in within]
            of_nodes = max(planned, key=lambda fleet: fleet.plan.throughput_rps)
            gap = _gap(of_nodes.plan.throughput_rps, first.bound)
            return _with_odds(replace(of_nodes, rivals=_served(planned, within, of_nodes), bound=first.bound, gap=gap))
        spent = min(spent, answer.rent_usd_per_hour) - (paid - usd_per_hour)
        if spent <= 0:
            break
    raise InfeasibleError(
        f"{usd_per_hour:g} USD/hour rent no fleet of whole nodes that serves the workload: what was found costs "
        f"{paid:.2f} by the node.",
        hint="Raise the budget, or rent parts of nodes (whole_nodes: false in the offer).",
    )


def most_of_fleet(
    demand: Demand, inventory: Mapping[str, int], rent: Mapping[str, float], progress: ReportProgress = no_progress
) -> MoneyAnswer:
    """The most requests/s of GPUs at hand; `rent` (USD per GPU and hour) stands in for list prices. Raises as
    `cheapest_fleet` does."""
    name = "-".join(["max", *(f"{gpu}x{count}" for gpu, count in inventory.items())])[:63]
    prices = {gpu: usd for gpu, usd in rent.items() if same_names(gpu, inventory)}
    document = document_of(demand, name, inventory, prices)
    answer = _answer(MoneyQuestion.MAX, 0.0, {**document, "objective": {"kind": "rate"}}, progress)
    return _with_odds(replace(answer, offered="the GPUs at hand"))


def _with_odds(answer: MoneyAnswer) -> MoneyAnswer:
    """The answer with how sure its promise is; plans on the way need no odds."""
    return replace(answer, plan=pipeline.with_promise_odds(answer.plan))


def _cheapest(demand: Demand, rps: float, offer: GpuOffer, progress: ReportProgress) -> MoneyAnswer:
    """The answer in GPUs rented singly. Nothing is given up for simplicity unless that is asked for: the rent is within
    the search's gap of the least."""
    target = rps / margin_of(demand)
    objective = {"kind": "target", "target_rps": round(target, 6), "demand_rps": rps}
    paid, name = first_rent(demand, target, offer), f"cheapest-{rps:g}rps"
    for last in (False,) * (RAISES - 1) + (True,):
        try:
            document = {"simplicity": 0.0, **rented_document(demand, name, offer, paid), "objective": objective}
            answer = _answer(MoneyQuestion.CHEAPEST, rps, document, progress)
        except InfeasibleError as error:
            if last or not grows(offer, paid):
                raise _too_little(error, demand, rps, offer, progress) from None
            paid *= RAISE
            continue
        if last or answer.rent_usd_per_hour <= paid * (1 + ROUNDING) or not grows(offer, paid):
            break
        paid = answer.rent_usd_per_hour
    return replace(answer, offered=_offered(offer, paid, answer.rent_usd_per_hour))


def first_rent(demand: Demand, target_rps: float, offer: GpuOffer) -> float:
    """What the first offer is for (USD/hour): above what servers that can be divided cost without queues, by `SLACK`
    and two nodes of the dearer half of the types."""
    nodes = sorted(row.usd_per_hour * row.gpus_per_node for row in offer.gpus)
    scenario = scenario_of(rented_document(demand, "cheapest", offer, nodes[-1]))
    floor_usd = pipeline.least_rent(scenario, target_rps) if scenario.bucketed else None
    return SLACK * (floor_usd or 0.0) + 2 * nodes[len(nodes) // 2]


def grows(offer: GpuOffer, paid: float) -> bool:
    """Whether a higher rent would offer more of some type."""
    return any(row.count is None or row.count_for(paid) < row.count for row in offer.gpus)


def _too_little(
    error: InfeasibleError, demand: Demand, rps: float, offer: GpuOffer, progress: ReportProgress
) -> InfeasibleError:
    """The error with the fleet that would do, where the offer's counts are what is too little."""
    if all(row.count is None for row in offer.gpus):
        return error
    unlimited = replace(offer, gpus=tuple(replace(row, count=None) for row in offer.gpus))
    try:
        answer = _cheapest(demand, rps, unlimited, progress)
    except PlannerError:
        return error
    fleet = ", ".join(f"{count} {gpu}" for gpu, count in answer.gpus)
    return InfeasibleError(
        f"the offer ({_counts(offer)}) promises no {rps:g} requests/s: {error.message}",
        hint=f"What would do at these prices: {fleet}, {answer.rent_usd_per_hour:.2f} USD/hour.",
    )


def _bought(
    demand: Demand, usd_per_hour: float, spent: float, offer: GpuOffer, progress: ReportProgress
) -> MoneyAnswer:
    objective = {"kind": "budget", "budget_usd_per_hour": round(spent, 6)}
    document = {**rented_document(demand, f"buy-{usd_per_hour:g}usd", offer, spent), "objective": objective}
    try:
        answer = _answer(MoneyQuestion.BUY, usd_per_hour, document, progress)
    except InfeasibleError as error:
        raise _too_poor(error, demand, usd_per_hour, offer, progress) from None
    return replace(answer, offered=_offered(offer, spent, spent))


def _too_poor(
    error: InfeasibleError, demand: Demand, usd_per_hour: float, offer: GpuOffer, progress: ReportProgress
) -> InfeasibleError:
    """The error with the price of the cheapest fleet that serves at all."""
    try:
        answer = _cheapest(demand, SMALL_RPS, offer, progress)
    except PlannerError:
        return error
    fleet = ", ".join(f"{count} {gpu}" for gpu, count in answer.gpus)
    return InfeasibleError(
        f"{usd_per_hour:g} USD/hour rent no fleet that serves the workload within the levels: the cheapest, {fleet}, "
        f"costs {answer.rent_usd_per_hour:.2f} USD/hour.",
        hint=f"Raise the budget to {answer.rent_usd_per_hour:.2f}, offer cheaper GPUs, or loosen the levels.",
    )


def _cheapest_of_nodes(answer: MoneyAnswer, demand: Demand, offer: GpuOffer, progress: ReportProgress) -> MoneyAnswer:
    """The cheapest by the node of the answer's fleet and its rivals': parts of nodes of two types, each rounded up, may
    cost more than nodes of one."""
    fleets = sorted(fleets_of_nodes(answer, offer), key=lambda fleet: fleet.price_usd_per_hour)
    for fleet in fleets:
        of_nodes = _of_nodes(answer, fleet, demand, offer, progress)
        if of_nodes.promise_rps >= answer.amount * (1 - MET):
            break
    dearer = [rival for rival in fleets if rival.price_usd_per_hour >= of_nodes.rent_usd_per_hour and rival.what]
    return replace(of_nodes, rivals=tuple(dearer))


def _of_nodes(
    answer: MoneyAnswer, fleet: RivalFleet, demand: Demand, offer: GpuOffer, progress: ReportProgress
) -> MoneyAnswer:
    """The most that a fleet of whole nodes serves; the bound stays that of GPUs rented singly."""
    counts = dict(fleet.gpus)
    if counts == dict(answer.gpus):
        return replace(answer, whole_nodes=True)
    rent = {row.gpu: row.usd_per_hour for row in offer.gpus}
    objective = {"kind": "rate", **({"demand_rps": answer.amount} if answer.question is MoneyQuestion.CHEAPEST else {})}
    document = document_of(demand, str(answer.document["name"]), counts, {gpu: rent[gpu] for gpu in counts})
    document = {**document, "objective": objective, "simplicity": 0.0}
    of_nodes = _answer(answer.question, answer.amount, document, progress)
    value = of_nodes.rent_usd_per_hour if answer.question is MoneyQuestion.CHEAPEST else of_nodes.plan.throughput_rps
    gap = _gap(value, answer.bound)
    return replace(of_nodes, rivals=(), offered=answer.offered, bound=answer.bound, gap=gap, whole_nodes=True)


def _served(planned: list[MoneyAnswer], fleets: list[RivalFleet], best: MoneyAnswer) -> tuple[RivalFleet, ...]:
    """The fleets that were planned beside the best of them, at what they serve."""
    rows = [
        replace(fleet, rate_rps=answer.plan.throughput_rps)
        for answer, fleet in zip(planned, fleets, strict=True)
        if fleet.what and answer is not best
    ]
    return tuple(sorted(rows, key=lambda row: -row.rate_rps))


def _answer(question: MoneyQuestion, amount: float, document: Document, progress: ReportProgress) -> MoneyAnswer:
    """The plan of a scenario as the answer; what was offered is for the caller to say."""
    scenario = scenario_of(document)
    plan, rivals = pipeline.plan_with_rivals(scenario, progress)
    certificate = plan.certificate
    return MoneyAnswer(
        question=question,
        amount=amount,
        document=document,
        scenario=scenario,
        plan=plan,
        rivals=rivals,
        gpus=tuple((gpu, count) for gpu, count in plan.fleet.items() if count),
        rent_usd_per_hour=plan.price_usd_per_hour,
        bound=None if certificate is None else certificate.objective_bound,
        gap=None if certificate is None else certificate.objective_gap,
    )


def _gap(value: float, bound: float | None) -> float | None:
    return None if bound is None else abs(value - bound) / max(abs(bound), 1e-12)


def _offered(offer: GpuOffer, paid: float, price: float) -> str:
    """What could be rented, in words, and whether a fleet of this price may have been short of it."""
    limited = [row for row in offer.gpus if row.count is not None and row.count <= row.count_for(paid)]
    free = len(offer.gpus) - len(limited)
    types = "1 GPU type" if len(offer.gpus) == 1 else f"{len(offer.gpus)} GPU types"
    counts = ", ".join(f"{row.count} {row.gpu}" for row in limited)
    none_short = ", so none is short" if price <= paid * (1 + ROUNDING) else ""
    enough = f"of {'each' if not limited else f'{free}'} as many as {paid:.2f} USD/hour rents{none_short}"
    rows = [enough if free else "", f"at most {counts}" if limited else ""]
    return f"{types} ({offer.source}): {'; '.join(filter(None, rows))}"


def _counts(offer: GpuOffer) -> str:
    return ", ".join(f"{row.count or 'any number of'} {row.gpu}" for row in offer.gpus)


def _require_positive(name: str, value: float, unit: str) -> None:
    if not 0 < value < 1e9:
        raise InputError(
            f"{name}: must be above 0 and below 1e9 {unit}, got {value:g}.", hint="Give a positive number."
        )


def rentable(offer: GpuOffer) -> GpuOffer:
    """The offer, counts of its types down to whole nodes where it is by the node. InputError where none is left."""
    if not offer.whole_nodes:
        return offer
    rows = [
        row if row.count is None else replace(row, count=row.count // row.gpus_per_node * row.gpus_per_node)
        for row in offer.gpus
    ]
    remaining = tuple(row for row in rows if row.count is None or row.count > 0)
    if not remaining:
        node_sizes = ", ".join(f"{row.gpus_per_node} {row.gpu}" for row in offer.gpus)
        raise InputError(
            f"{offer.source or 'offer'}: whole_nodes: must offer a node of some type ({node_sizes}), offers fewer "
            "GPUs.",
            hint="Raise a count, or rent parts of nodes (whole_nodes: false).",
        )
    return replace(offer, gpus=remaining)


def fleets_of_nodes(answer: MoneyAnswer, offer: GpuOffer) -> list[RivalFleet]:
    """The answer's fleet (`what` empty), then its rivals', each rounded up to nodes and once; their rates are those of
    the GPUs that were rented singly, which they serve at least."""
    singly = RivalFleet(
        what="",
        gpus=answer.gpus,
        price_usd_per_hour=answer.rent_usd_per_hour,
        rate_rps=answer.plan.throughput_rps,
    )
    fleets: dict[tuple[tuple[str, int], ...], RivalFleet] = {}
    for fleet in (singly, *answer.rivals):
        gpus = _rounded(fleet.gpus, offer)
        fleets.setdefault(gpus, replace(fleet, gpus=gpus, price_usd_per_hour=_rent(gpus, offer)))
    return list(fleets.values())


def _rounded(gpus: Sequence[tuple[str, int]], offer: GpuOffer) -> tuple[tuple[str, int], ...]:
    sizes = {row.gpu: row.gpus_per_node for row in offer.gpus}
    return tuple((gpu, -(-count // sizes[gpu]) * sizes[gpu]) for gpu, count in gpus if count)


def _rent(gpus: Sequence[tuple[str, int]], offer: GpuOffer) -> float:
    usd = {row.gpu: row.usd_per_hour for row in offer.gpus}
    return sum(usd[gpu] * count for gpu, count in gpus)
