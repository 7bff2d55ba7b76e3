"""A node is lost: who lends one, and what every service is still promised.

Nodes that nobody has come first, then those of work that waits, the last batch first. A server that lay on the lost
node loads on the other one; until then, and where nobody lends, a deployment promises what the worst loss of one node
of that type leaves, behind the same buckets.
"""

from collections.abc import Iterator, Mapping, Sequence

from planner.domain.fleets import FleetPlan
from planner.domain.serving.fleets.lending import IDLE, FleetNodeLoss, FleetSchedule
from planner.replanning.fleets.lending import book_of


def node_losses(plan: FleetPlan, schedule: FleetSchedule | None = None, number: int = 0) -> tuple[FleetNodeLoss, ...]:
    """Of every deployment and type of its nodes; `schedule`, `number`: in that window, else as the plan stands."""
    books = {part.name: book_of(plan, part) for part in plan.parts}
    counts = {name: book.counts for name, book in books.items()}
    holders: Mapping[str, Mapping[str, int]] = {"": dict(plan.idle), **_standing(plan)}
    if schedule is not None:
        levels = zip(schedule.ladders, schedule.windows[number].levels, strict=True)
        counts = {ladder.deployment: ladder.levels[k].counts for ladder, k in levels}
        holders = schedule.gpus(number)
    promises = {name: book.promise_rps(counts[name]) for name, book in books.items()}
    losses = []
    for name, book in books.items():
        for gpu, gpus in book.gpus(counts[name]).items():
            if not gpus:
                continue
            reduced = {**promises, name: min(promises[name], book.after_loss_rps(counts[name], gpu))}
            lender = _lender(plan, holders, gpu)
            loss = FleetNodeLoss(
                deployment=name,
                gpu=gpu,
                lender=lender,
                load_s=book.load_s() if lender else 0.0,
                meanwhile=tuple(_by_service(plan, reduced)),
                after=tuple(_by_service(plan, promises if lender else reduced)),
            )
            losses.append(loss)
    return tuple(losses)


def _standing(plan: FleetPlan) -> dict[str, dict[str, int]]:
    return {fill.service: {} if fill.part is None else dict(fill.part.gpus) for fill in plan.batches}


def _lender(plan: FleetPlan, holders: Mapping[str, Mapping[str, int]], gpu: str) -> str:
    """Who gives a node of a type; empty where nobody has one to give."""
    batches: Sequence[str] = [fill.service for fill in reversed(plan.batches)]
    for name in ("", *batches):
        if holders.get(name, {}).get(gpu, 0) >= plan.fleet.host(gpu):
            return name or IDLE
    return ""


def _by_service(plan: FleetPlan, promises: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    for service in plan.fleet.interactive:
        parts = (promises[part.name] * dict(part.deployment.parts).get(service.name, 0.0) for part in plan.parts)
        yield service.name, sum(parts)
