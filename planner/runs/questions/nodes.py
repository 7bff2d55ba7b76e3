"""Fleets of whole nodes, made of those that are found where GPUs are rented singly."""

from collections.abc import Sequence
from dataclasses import replace

from planner.domain.frontier import GpuOffer, RivalFleet
from planner.errors import InputError
from planner.runs.questions.records import MoneyAnswer


def rentable(offer: GpuOffer) -> GpuOffer:
    """The offer, counts of its types down to whole nodes where it is by the node. InputError where none is left."""
    if not offer.whole_nodes:
        return offer
    rows = [
        row if row.count is None else replace(row, count=row.count // row.gpus_per_node * row.gpus_per_node)
        for row in offer.gpus
    ]
    left = tuple(row for row in rows if row.count is None or row.count > 0)
    if not left:
        least = ", ".join(f"{row.gpus_per_node} {row.gpu}" for row in offer.gpus)
        raise InputError(
            f"{offer.source or 'offer'}: whole_nodes: must offer a node of some type ({least}), offers fewer GPUs.",
            hint="Raise a count, or rent parts of nodes (whole_nodes: false).",
        )
    return replace(offer, gpus=left)


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
