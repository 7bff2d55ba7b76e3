"""Islands in pairs, for targets whose object holds one prefill and one decode island at most.

The n-th prefill island goes with the n-th decode island, in the plan's order, of those that a target can join; the
rest stand alone, and so do islands that do both phases. So each island is in exactly one pair and the GPUs sum to the
plan's. A pair is a matter of packaging: who serves a request is for the routing table to say, and a prefill of one pair
hands over to a decode of any.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from planner.domain import PHASES
from planner.errors import InputError
from planner.export.islands import ServingIsland
from planner.export.objects.names import plan_slug
from planner.export.seams import Deployment

TEMPLATE_MARK = "{{"


@dataclass(frozen=True, slots=True, kw_only=True)
class IslandPair:
    """`digits`: its number as files are named by; `name`: a DNS label. One of the islands may be missing, both where
    there is a `mixed` one instead."""

    number: int
    digits: str
    name: str
    prefill: ServingIsland | None
    decode: ServingIsland | None
    mixed: ServingIsland | None = None

    @property
    def islands(self) -> tuple[ServingIsland, ...]:
        """Those that there are, prefill first."""
        return tuple(island for island in (self.prefill, self.decode, self.mixed) if island)

    @property
    def note(self) -> str:
        """The pair in words."""
        if self.mixed:
            return f"Pair {self.number}: {self.mixed.id} alone, which does both phases."
        names = " and ".join(f"{island.phase} {island.id}" for island in self.islands)
        alone = "" if len(self.islands) > 1 else ", alone: the other phase has no more to join it with"
        return f"Pair {self.number}: {names}{alone}."


def island_pairs(
    deployment: Deployment, suffix: str, alike: Callable[[ServingIsland], object] = lambda _: None
) -> tuple[IslandPair, ...]:
    """All islands, paired. `suffix`: the longest that a controller puts behind the name of a pair that has workers.
    `alike`: what the islands of a pair must have in common."""
    prefills, decodes = ([island for island in deployment.islands if island.phase is phase] for phase in PHASES)
    alone = [(None, None, island) for island in deployment.islands if island.mixed]
    both = [*((prefill, decode, None) for prefill, decode in _matched(prefills, decodes, alike)), *alone]
    digits = max(2, len(str(len(both))))
    base = plan_slug(deployment.options.name or deployment.plan.scenario.name, (f"{'0' * digits}{suffix}",))
    return tuple(
        IslandPair(
            number=number,
            digits=f"{number:0{digits}}",
            name=f"{base}-{number:0{digits}}",
            prefill=prefill,
            decode=decode,
            mixed=mixed,
        )
        for number, (prefill, decode, mixed) in enumerate(both, start=1)
    )


def _matched(
    prefills: Sequence[ServingIsland], decodes: Sequence[ServingIsland], alike: Callable[[ServingIsland], object]
) -> Iterator[tuple[ServingIsland | None, ServingIsland | None]]:
    """Each prefill island with the first decode island left that is like it; then the decode islands left over."""
    unmatched = [(alike(decode), decode) for decode in decodes]
    for prefill in prefills:
        kind = alike(prefill)
        at = next((at for at, (other, _) in enumerate(unmatched) if other == kind), None)
        yield prefill, None if at is None else unmatched.pop(at)[1]
    yield from ((None, decode) for _, decode in unmatched)


def refuse_templates(deployment: Deployment) -> None:
    """Refuse names that a template engine would expand: the tools behind these targets run one over their input.

    Raises:
        InputError: a name holds `{{`.
    """
    scenario = deployment.plan.scenario
    names = {"Scenario, name": scenario.name, "Model, name": scenario.model.name}
    names |= {f"Island {island.id}, id": island.id for island in deployment.islands}
    names |= {f"GPU {island.gpu.name}, name": island.gpu.name for island in deployment.islands}
    for where, name in names.items():
        if TEMPLATE_MARK in name:
            raise InputError(
                f"{where}: must not hold {TEMPLATE_MARK}, which target {deployment.target.name} expands, got {name!r}.",
                hint="Rename it, or choose another target.",
            )
