"""The routers of `planner export` by name, described by layers as their programs choose.

An endpoint is an attention rank where engine, target and router can, else a server, whose engine chooses the rank.
Sources: facts on promises and routers; help and code of HAProxy 2.6, vllm-router 0.1.17, sglang-router 0.3.2;
llm-d/llm-d-router v0.10 (token-load-scorer: tokens until the first chunk of a stream); Dynamo's KV router; Ray 2.60.0,
serve/_private/request_router/pow_2_router.py.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from planner.domain.engine.profile import EngineProfile
from planner.domain.serving.deploy import BY_SERVER, COUNTS_BYTES, DeploySettings
from planner.domain.serving.routers import (
    RANKS_IN_TURN,
    Counted,
    Endpoints,
    Freed,
    Layers,
    RouterBehaviour,
    RouterLayer,
    Rule,
)
from planner.domain.serving.routing import LengthMeasure
from planner.domain.serving.targets import target_row

_COPIES = 2  # of a program, for one may be lost
_FEWEST_REQUESTS = RouterLayer(
    among=Endpoints.RANK, rule=Rule.LEAST_LOADED, counts=Counted.REQUESTS, freed=Freed.ANSWERED, by_speed=False
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRow:
    """What an engine is to routers. `ranks`: how it spreads requests over its attention ranks by itself; `ranks_since`:
    the version from which on each rank of a pod has a port of its own (None: none has); `gateway`: the router that
    makes pairs of its servers; `paired_by_address`: pairs name addresses, so that nothing may choose behind it."""

    ranks: RouterLayer
    ranks_since: tuple[int, ...] | None
    gateway: str
    paired_by_address: bool


ENGINE_ROWS: Mapping[str, EngineRow] = MappingProxyType(
    {
        # Ports: its supervisor of ranks, entrypoints/launchers/dp_supervisor.py, is in 0.23.0. Its own balancer goes by
        # the requests of ranks, v1/engine/core_client.py.
        "vllm": EngineRow(ranks=_FEWEST_REQUESTS, ranks_since=(0, 23), gateway="vllm", paired_by_address=False),
        # Ports by rank are experimental, and off.
        "sglang": EngineRow(ranks=RANKS_IN_TURN, ranks_since=None, gateway="model-gateway", paired_by_address=True),
        # pyexecutor/py_executor.py gives each attention rank as many requests; ranks have no ports.
        "trtllm": EngineRow(ranks=_FEWEST_REQUESTS, ranks_since=None, gateway="haproxy", paired_by_address=False),
    }
)
_STANDARD = "vllm"
"""Of a scenario that names no engine."""


def router_of(deploy: DeploySettings) -> str:
    """The router that is named, else the target's own."""
    return deploy.router or target_row(deploy.target).router


def version_numbers(version: str) -> tuple[int, ...]:
    """A version's numbers, for comparison."""
    return tuple(int(part) for part in version.split(".") if part.isdecimal())


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a program's choice depends on. `ranks`, `decode_ranks`: attention ranks are its endpoints among servers that
    take prompts in, and that decode; else servers, whose `engine` spreads requests over their ranks. `counts_bytes`:
    HAProxy counts the bytes of prompts, not requests."""

    engine: str = _STANDARD
    ranks: bool = False
    decode_ranks: bool = False
    counts_bytes: bool = False

    @classmethod
    def of(cls, engine: EngineProfile, deploy: DeploySettings) -> "Surroundings":
        """As they will be where nothing of the plan's own servers stands against ranks as endpoints."""
        row, target = cls(engine=engine.name or _STANDARD).row, target_row(deploy.target)
        since = row.ranks_since
        able = since is not None and version_numbers(engine.version) >= since and deploy.ranks != BY_SERVER
        able = able and (target.named or router_of(deploy) != row.gateway)
        return cls(
            engine=engine.name or _STANDARD,
            ranks=able and target.prefill_ports,
            decode_ranks=able and target.decode_ports,
            counts_bytes=deploy.router_counts == COUNTS_BYTES,
        )

    @property
    def by_server(self) -> "Surroundings":
        """The same to a router that knows one port of a server, or of a pod."""
        return replace(self, ranks=False, decode_ranks=False)

    @property
    def row(self) -> EngineRow:
        """The engine's."""
        return ENGINE_ROWS.get(self.engine, ENGINE_ROWS[_STANDARD])

    def takers(
        self,
        rule: Rule,
        counts: Counted = Counted.NOTHING,
        *,
        freed: Freed = Freed.PREFILLED,
        by_speed: bool = False,
        copies: int = 1,
    ) -> Layers:
        """A program's only choice among those who take prompts in, with the engine's own behind it."""
        among = Endpoints.RANK if self.ranks else Endpoints.SERVER
        layer = RouterLayer(among=among, rule=rule, counts=counts, freed=freed, by_speed=by_speed, copies=copies)
        return (layer,) if self.ranks else (layer, self.row.ranks)

    def answerers(self, rule: Rule, counts: Counted = Counted.REQUESTS, *, by_speed: bool, copies: int = 1) -> Layers:
        """The same among those who decode, whose requests count to their end."""
        taking = replace(self, ranks=self.decode_ranks)
        return taking.takers(rule, counts, freed=Freed.ANSWERED, by_speed=by_speed, copies=copies)


_BY_POOL = RouterLayer(
    among=Endpoints.POOL, rule=Rule.LEAST_LOADED, counts=Counted.REQUESTS, freed=Freed.ANSWERED, copies=_COPIES
)


def _haproxy(around: Surroundings) -> RouterBehaviour:
    """Connections for a server's weight, or bytes of prompts; pairs of SGLang are made by a gateway a pool."""
    counts = Counted.BYTES if around.counts_bytes else Counted.REQUESTS
    gateway = _gateway(around)
    behaviour = RouterBehaviour(
        name="haproxy",
        prefill=around.takers(Rule.LEAST_LOADED, counts, by_speed=True, copies=_COPIES),
        decode=around.answerers(Rule.LEAST_LOADED, by_speed=True, copies=_COPIES),
        mixed=around.takers(Rule.LEAST_LOADED, Counted.REQUESTS, freed=Freed.ANSWERED, by_speed=True, copies=_COPIES),
        measure=LengthMeasure.BYTES,
    )
    if around.row.paired_by_address:
        return replace(behaviour, prefill=gateway.prefill, decode=gateway.decode)
    return behaviour


def _gateway(around: Surroundings) -> RouterBehaviour:
    """The better of two workers by their requests; HAProxy weighs pools of unequal speed before it."""
    two = around.takers(Rule.BETTER_OF_TWO, Counted.REQUESTS, freed=Freed.ANSWERED, copies=_COPIES)
    answers = around.answerers(Rule.BETTER_OF_TWO, by_speed=False, copies=_COPIES)
    pooled = (_BY_POOL, *two)
    return RouterBehaviour(
        name=around.row.gateway,
        prefill=pooled,
        decode=(_BY_POOL, *answers),
        mixed=pooled,
        measure=LengthMeasure.BYTES,
    )


def _tokens_in_flight(around: Surroundings, name: str) -> RouterBehaviour:
    tokens = around.takers(Rule.LEAST_LOADED, Counted.TOKENS)
    answers = around.answerers(Rule.LEAST_LOADED, by_speed=False)
    return RouterBehaviour(name=name, prefill=tokens, decode=answers, mixed=tokens)


def _sglang(around: Surroundings) -> RouterBehaviour:
    around = around.by_server
    two = around.takers(Rule.BETTER_OF_TWO, Counted.REQUESTS, freed=Freed.ANSWERED)
    answers = around.answerers(Rule.BETTER_OF_TWO, by_speed=False)
    return RouterBehaviour(name="sglang", prefill=two, decode=answers, mixed=two)


def _ray(around: Surroundings) -> RouterBehaviour:
    """Two replicas drawn, the one with fewer requests, as the replicas themselves count them; a rank is a replica."""
    around = replace(around, ranks=True, decode_ranks=True)
    return RouterBehaviour(
        name="ray",
        prefill=around.takers(Rule.BETTER_OF_TWO, Counted.REQUESTS),
        decode=around.answerers(Rule.BETTER_OF_TWO, by_speed=False),
        mixed=around.takers(Rule.BETTER_OF_TWO, Counted.REQUESTS, freed=Freed.ANSWERED),
    )


def _aibrix(around: Surroundings) -> RouterBehaviour:
    around = around.by_server
    return RouterBehaviour(
        name="aibrix",
        prefill=around.takers(Rule.LEAST_LOADED, Counted.REQUESTS),
        decode=around.answerers(Rule.LEAST_LOADED, by_speed=False),
        mixed=around.takers(Rule.RANDOM),
    )


PROGRAMS: Mapping[str, Callable[[Surroundings], RouterBehaviour]] = MappingProxyType(
    {
        "haproxy": _haproxy,
        "vllm": _gateway,
        "model-gateway": _gateway,
        "llm-d": lambda around: _tokens_in_flight(around, "llm-d"),
        # Dynamo's router knows the ranks of its workers itself, whatever their ports.
        "dynamo": lambda around: _tokens_in_flight(replace(around, ranks=True, decode_ranks=True), "dynamo"),
        "sglang": _sglang,
        "aibrix": _aibrix,
        "ray": _ray,
    }
)
"""The routers of `planner export` by name, as their programs choose."""
