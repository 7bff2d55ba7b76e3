"""A router by layers: at each it chooses one of some endpoints, by what it counts and what it knows of their speed.

Sources: facts on promises and routers; documentation and code of the programs, named where each is described.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated

from planner.domain.keys import Key
from planner.domain.layout import Phase
from planner.domain.serving.routing import LengthMeasure, RouterPolicy


class Endpoints(StrEnum):
    """What a layer chooses among: pools of equal servers, servers (copies of the model), or attention ranks."""

    POOL = "pool"
    SERVER = "server"
    RANK = "rank"


class Rule(StrEnum):
    """How it chooses: the endpoint with the smallest count, the better of two that are drawn, in turn, or at random."""

    LEAST_LOADED = "least"
    BETTER_OF_TWO = "better of two"
    IN_TURN = "in turn"
    RANDOM = "random"


class Counted(StrEnum):
    """What it compares. `work`: prompt tokens that wait there, which the engine alone knows; `requests`, `tokens`,
    `bytes`: what the router itself sent there and takes to be there still; `nothing`: it draws, or takes turns."""

    NOTHING = "nothing"
    WORK = "work"
    REQUESTS = "requests"
    TOKENS = "tokens"
    BYTES = "bytes"


class Freed(StrEnum):
    """Until when what was sent to an endpoint counts: its prompt is taken in, or its answer ends."""

    PREFILLED = "its first token"
    ANSWERED = "its last token"


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterLayer:
    """One choice. `by_speed`: counts are for an endpoint's speed, and draws and turns by its weight, which is the share
    that the plan gives it; else all endpoints are alike to it. `copies` of the program count apart. `age_ms`: how old
    the counts may be that it compares (0: they are its own, or new)."""

    among: Endpoints
    rule: Rule
    counts: Counted = Counted.NOTHING
    freed: Freed = Freed.PREFILLED
    by_speed: bool = True
    copies: int = 1
    age_ms: float = 0.0

    @property
    def counting(self) -> bool:
        """Whether it goes by what it sent before."""
        chooses = self.rule in (Rule.LEAST_LOADED, Rule.BETTER_OF_TWO)
        return chooses and self.counts not in (Counted.NOTHING, Counted.WORK)

    @property
    def weighs(self) -> bool:
        """Whether it divides the counts of servers by weights of their own."""
        return self.counting and self.by_speed and self.among is not Endpoints.POOL

    @property
    def words(self) -> str:
        """The layer in a few words."""
        counted = "" if self.counts is Counted.NOTHING else f" {self.counts.value}"
        weighed = "" if self.among is Endpoints.RANK and self.counts is Counted.WORK else self._weighed
        return f"{self.among.value}: {self.rule.value}{counted}{weighed}"

    @property
    def _weighed(self) -> str:
        if not self.by_speed:
            return "" if self.among is Endpoints.RANK else ", blind to speed"
        return " by weight" if self.counts is Counted.NOTHING else " for its speed"


Layers = tuple[RouterLayer, ...]
LENGTH_SPREAD = 0.2
"""Of the bytes of prompts for each of their tokens: an assumption, as tokens have 3 to 5 bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterBehaviour:
    """Whom a router chooses: `prefill` servers of split pools, `decode` servers for what they took in, `mixed` servers
    that do both phases; layers in the order of its choices. `name`: its own, or a policy's. `measure`: what it tells
    the bucket by. `prefixes`: the rank with most of a prompt in its cache goes first; `sessions`: that of the
    request's session. `overflows`: to a longer bucket
    where a bucket's own servers are late. `notes`: what it cannot do of what the plan asks, a sentence each."""

    name: str
    prefill: Layers
    decode: Layers
    mixed: Layers
    measure: LengthMeasure = LengthMeasure.TOKENS
    prefixes: bool = False
    sessions: Annotated[bool, Key(sparse=True)] = False
    overflows: bool = False
    notes: tuple[str, ...] = ()

    @property
    def length_spread(self) -> float:
        """Standard deviation of the logarithm of what it takes for a prompt's tokens; 0 where it counts these."""
        layers = (*self.prefill, *self.decode, *self.mixed)
        counts_bytes = any(layer.counts is Counted.BYTES for layer in layers)
        return LENGTH_SPREAD if counts_bytes or self.measure is not LengthMeasure.TOKENS else 0.0

    def layers(self, phase: Phase) -> Layers:
        """Its choices among servers of a phase."""
        return {Phase.PREFILL: self.prefill, Phase.DECODE: self.decode, Phase.MIXED: self.mixed}[phase]

    def words(self, phases: Collection[Phase | None] = ()) -> str:
        """How it chooses who takes a prompt in, in words; of servers of some phases, where both kinds differ."""
        kinds = {"split": self.prefill, "mixed": self.mixed}
        if self.prefill == self.mixed or Phase.MIXED not in phases:
            kinds = {"": self.prefill}
        elif Phase.PREFILL not in phases:
            kinds = {"": self.mixed}
        return "; ".join(
            f"{kind} {', '.join(layer.words for layer in layers)}".strip() for kind, layers in kinds.items()
        )

    def acts_like(self, other: "RouterBehaviour") -> bool:
        """Whether both choose alike inside a bucket, whatever they are called."""
        return replace(self, name="", notes=(), measure=other.measure) == replace(other, name="", notes=())


def one_layer(
    among: Endpoints,
    rule: Rule,
    counts: Counted = Counted.NOTHING,
    *,
    freed: Freed = Freed.PREFILLED,
    by_speed: bool = False,
    copies: int = 1,
    age_ms: float = 0.0,
) -> Layers:
    """A program's choice. Among servers, what it sees of which is one endpoint, engines take their ranks in turn."""
    layer = RouterLayer(
        among=among, rule=rule, counts=counts, freed=freed, by_speed=by_speed, copies=copies, age_ms=age_ms
    )
    return (layer, RANKS_IN_TURN) if among is Endpoints.SERVER else (layer,)


RANKS_IN_TURN = RouterLayer(among=Endpoints.RANK, rule=Rule.IN_TURN, by_speed=False)
_EMPTIEST_RANK = RouterLayer(among=Endpoints.RANK, rule=Rule.LEAST_LOADED, counts=Counted.WORK)
_LEAST_WORK = RouterLayer(among=Endpoints.SERVER, rule=Rule.LEAST_LOADED, counts=Counted.WORK)
LEAST_PLACES: Layers = (_LEAST_WORK,)
"""Of decode servers: the one with the fewest sequences for its places."""


def _policy(name: RouterPolicy, prefill: Layers, decode: Layers = LEAST_PLACES) -> RouterBehaviour:
    return RouterBehaviour(
        name=name.value,
        prefill=prefill,
        decode=decode,
        mixed=prefill,
        prefixes=name is RouterPolicy.PREFIX_AWARE,
        sessions=name is RouterPolicy.SESSION,
        overflows=name is RouterPolicy.OVERFLOW,
    )


_BY_RANK = (_LEAST_WORK, _EMPTIEST_RANK)
POLICIES: Mapping[RouterPolicy, RouterBehaviour] = MappingProxyType(
    {
        RouterPolicy(behaviour.name): behaviour
        for behaviour in (
            _policy(RouterPolicy.LEAST_WORK, _BY_RANK),
            _policy(RouterPolicy.PREFIX_AWARE, _BY_RANK),
            _policy(RouterPolicy.SESSION, _BY_RANK),
            _policy(RouterPolicy.OVERFLOW, _BY_RANK),
            _policy(
                RouterPolicy.ROUND_ROBIN,
                one_layer(Endpoints.SERVER, Rule.IN_TURN, by_speed=True),
                (RouterLayer(among=Endpoints.SERVER, rule=Rule.IN_TURN),),
            ),
            _policy(
                RouterPolicy.RANDOM,
                one_layer(Endpoints.SERVER, Rule.RANDOM, by_speed=True),
                (RouterLayer(among=Endpoints.SERVER, rule=Rule.RANDOM),),
            ),
        )
    }
)
"""Policies as descriptions of routers, by their names."""
LEAST_WORK = POLICIES[RouterPolicy.LEAST_WORK]
"""What a fleet could do: no program knows as much."""


def behaviour_of(policy: RouterPolicy) -> RouterBehaviour:
    """A policy as the description of a router."""
    return POLICIES[policy]
