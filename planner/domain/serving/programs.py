"""The routers of `planner export` by name, described by layers as their programs choose.

An endpoint is an attention rank where engine, target and router can, else a server, whose engine chooses the rank.
Sources: facts on promises and routers; help and code of HAProxy 2.6, vllm-router 0.1.17, sglang-router 0.3.2;
llm-d/llm-d-router v0.10 (token-load-scorer: tokens until the first chunk of a stream); Dynamo's KV router.
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

_COPIES = 2  # of a program, for one may be lost
RANKS_SINCE: Mapping[str, tuple[int, ...]] = MappingProxyType({"vllm": (0, 23)})
"""Engine -> the version from which on each attention rank of a pod has a port of its own. vLLM: its supervisor of ranks
(entrypoints/launchers/dp_supervisor.py) is in 0.23.0. SGLang's ports by rank are experimental, and off."""
_BY_SERVER = ("kserve",)  # whose objects have one port a pod


def version_numbers(version: str) -> tuple[int, ...]:
    """A version's numbers, for comparison."""
    return tuple(int(part) for part in version.split(".") if part.isdecimal())


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a program's choice depends on. `ranks`: attention ranks are its endpoints, else servers, whose `engine`
    spreads requests over their ranks; `counts_bytes`: HAProxy counts the bytes of prompts, not requests."""

    engine: str = "vllm"
    ranks: bool = False
    counts_bytes: bool = False

    @classmethod
    def of(cls, engine: EngineProfile, deploy: DeploySettings) -> "Surroundings":
        """As they will be where nothing of the plan's own servers stands against ranks as endpoints."""
        since = RANKS_SINCE.get(engine.name)
        able = since is not None and version_numbers(engine.version) >= since and deploy.target not in _BY_SERVER
        return cls(
            engine=engine.name or "vllm",
            ranks=able and deploy.ranks != BY_SERVER,
            counts_bytes=deploy.router_counts == COUNTS_BYTES,
        )

    def layer(
        self,
        rule: Rule,
        counts: Counted = Counted.NOTHING,
        *,
        freed: Freed = Freed.PREFILLED,
        by_speed: bool = False,
        copies: int = 1,
    ) -> Layers:
        """A program's only choice, with the engine's own behind it."""
        among = Endpoints.RANK if self.ranks else Endpoints.SERVER
        layer = RouterLayer(among=among, rule=rule, counts=counts, freed=freed, by_speed=by_speed, copies=copies)
        if self.ranks:
            return (layer,)
        # vLLM's own balancer goes by the requests of its ranks (v1/engine/core_client.py), SGLang's in turn.
        return (layer, _FEWEST_REQUESTS if self.engine == "vllm" else RANKS_IN_TURN)


_FEWEST_REQUESTS = RouterLayer(
    among=Endpoints.RANK, rule=Rule.LEAST, counts=Counted.REQUESTS, freed=Freed.ANSWERED, by_speed=False
)
_BY_POOL = RouterLayer(
    among=Endpoints.POOL, rule=Rule.LEAST, counts=Counted.REQUESTS, freed=Freed.ANSWERED, copies=_COPIES
)


def _haproxy(around: Surroundings) -> RouterBehaviour:
    """Connections for a server's weight, or bytes of prompts; pairs of SGLang are made by a gateway a pool."""
    counts = Counted.BYTES if around.counts_bytes else Counted.REQUESTS
    servers = around.layer(Rule.LEAST, counts, by_speed=True, copies=_COPIES)
    answers = around.layer(Rule.LEAST, Counted.REQUESTS, freed=Freed.ANSWERED, by_speed=True, copies=_COPIES)
    gateway = _gateway(around)
    behind = around.engine == "sglang"
    return RouterBehaviour(
        name="haproxy",
        prefill=gateway.prefill if behind else servers,
        decode=gateway.decode if behind else answers,
        mixed=answers,
        measure=LengthMeasure.BYTES,
    )


def _gateway(around: Surroundings) -> RouterBehaviour:
    """The better of two workers by their requests; HAProxy weighs pools of unequal speed before it."""
    two = around.layer(Rule.BETTER_OF_TWO, Counted.REQUESTS, freed=Freed.ANSWERED, copies=_COPIES)
    name = "model-gateway" if around.engine == "sglang" else "vllm"
    pooled = (_BY_POOL, *two)
    return RouterBehaviour(name=name, prefill=pooled, decode=two, mixed=pooled, measure=LengthMeasure.BYTES)


def _tokens_in_flight(around: Surroundings, name: str) -> RouterBehaviour:
    tokens = around.layer(Rule.LEAST, Counted.TOKENS)
    requests = around.layer(Rule.LEAST, Counted.REQUESTS, freed=Freed.ANSWERED)
    return RouterBehaviour(name=name, prefill=tokens, decode=requests, mixed=tokens)


def _sglang(around: Surroundings) -> RouterBehaviour:
    two = around.layer(Rule.BETTER_OF_TWO, Counted.REQUESTS, freed=Freed.ANSWERED)
    return RouterBehaviour(name="sglang", prefill=two, decode=two, mixed=two)


def _aibrix(around: Surroundings) -> RouterBehaviour:
    requests = around.layer(Rule.LEAST, Counted.REQUESTS)
    answers = around.layer(Rule.LEAST, Counted.REQUESTS, freed=Freed.ANSWERED)
    return RouterBehaviour(name="aibrix", prefill=requests, decode=answers, mixed=around.layer(Rule.RANDOM))


PROGRAMS: Mapping[str, Callable[[Surroundings], RouterBehaviour]] = MappingProxyType(
    {
        "haproxy": _haproxy,
        "vllm": _gateway,
        "model-gateway": _gateway,
        "llm-d": lambda around: _tokens_in_flight(around, "llm-d"),
        # Dynamo's router knows the ranks of its workers itself, whatever their ports.
        "dynamo": lambda around: _tokens_in_flight(replace(around, ranks=True), "dynamo"),
        "sglang": _sglang,
        "aibrix": _aibrix,
    }
)
"""The routers of `planner export` by name, as their programs choose."""
