"""Two servers of a placement exchange what they have of two nodes: named, found by name, and done.

An exchange is written `ISLAND/COPY@NODE=ISLAND/COPY@NODE`, as the key `placement.exchange` has it.
"""

from collections.abc import Sequence
from dataclasses import replace

from planner.domain import PlacedPart
from planner.errors import InputError
from planner.placement import Fleet

_LIES = ("node", "gpu_indices", "numa_nodes", "asw", "cores", "nics", "gpus_assumed")
"""What of a part belongs to its place."""


def exchange_of(first: PlacedPart, second: PlacedPart, fleet: Fleet) -> str:
    """The exchange of two parts in words of the key; empty where they are not alike, or it changes nothing."""
    types = [fleet.nodes[fleet.number[part.node]].gpu for part in (first, second)]
    alike = (
        first.tp == second.tp
        and len(first.gpu_indices) == len(second.gpu_indices)
        and len(first.cores) == len(second.cores)
        and types[0] == types[1]
        and first.gpus_assumed == second.gpus_assumed
    )
    copies = (first.island, first.replica) != (second.island, second.replica)
    return f"{_name(first)}={_name(second)}" if alike and copies and first.asw != second.asw else ""


def _name(part: PlacedPart) -> str:
    return f"{part.island}/{part.replica}@{part.node}"


def swapped(parts: Sequence[PlacedPart], first: PlacedPart, second: PlacedPart) -> tuple[PlacedPart, ...]:
    """All parts, with two of them in each other's place."""

    def at_place(part: PlacedPart, place: PlacedPart) -> PlacedPart:
        return replace(part, **{name: getattr(place, name) for name in _LIES})

    places = {id(first): second, id(second): first}
    return tuple(at_place(part, places[id(part)]) if id(part) in places else part for part in parts)


def exchanged(parts: Sequence[PlacedPart], words: str, fleet: Fleet) -> tuple[PlacedPart, ...]:
    """The parts after an exchange. Raises InputError where no two alike parts have these names."""
    by_name = {_name(part): part for part in parts}
    pair = [by_name.get(name) for name in words.partition("=")[::2]]
    if pair[0] is None or pair[1] is None or not exchange_of(pair[0], pair[1], fleet):
        raise InputError(
            f"placement.exchange: must name alike parts of two servers under different switches, got {words!r}.",
            hint="Give it as `planner place --repairs` prints it, for the same plan and cluster.",
        )
    return swapped(parts, pair[0], pair[1])
