"""Rules of routers in the field as layers, and the fleets that they are tried on."""

import csv
from collections.abc import Mapping
from pathlib import Path

from planner.domain import (
    BucketPool,
    Counted,
    Endpoints,
    ParallelConfig,
    Phase,
    RouterBehaviour,
    RouterLayer,
    Rule,
    ServerConfig,
    one_layer,
)
from planner.domain.serving.programs import PROGRAMS, Surroundings
from planner.domain.serving.routers import LEAST_PLACES, LEAST_WORK, RANKS_IN_TURN, Layers


def _rule(name: str, layers: Layers) -> RouterBehaviour:
    return RouterBehaviour(name=name, prefill=layers, decode=LEAST_PLACES, mixed=layers)


def _program(name: str, around: Surroundings) -> RouterBehaviour:
    described = PROGRAMS[name](around)
    return _rule(name, described.prefill)


_RANKS, _VLLM = Surroundings(ranks=True), Surroundings()
_BY_POOL = RouterLayer(among=Endpoints.POOL, rule=Rule.RANDOM)
RULES: Mapping[str, RouterBehaviour] = {
    "least work": LEAST_WORK,
    "llm-d over ranks": _program("llm-d", _RANKS),
    "HAProxy over ranks": _program("haproxy", _RANKS),
    "HAProxy over ranks by bytes": _program("haproxy", Surroundings(ranks=True, counts_bytes=True)),
    "HAProxy over servers, ranks in turn": _rule(
        "servers",
        one_layer(Endpoints.SERVER, Rule.LEAST_LOADED, Counted.REQUESTS, by_speed=True, copies=2),
    ),
    "HAProxy over servers of vLLM": _program("haproxy", _VLLM),
    "HAProxy over pools, two of a pool's servers": _rule(
        "two of a pool",
        (
            RouterLayer(among=Endpoints.POOL, rule=Rule.LEAST_LOADED, counts=Counted.REQUESTS, copies=2),
            *one_layer(Endpoints.SERVER, Rule.BETTER_OF_TWO, Counted.REQUESTS, copies=2),
        ),
    ),
    "pools by weight, then tokens of ranks": _rule(
        "pools", (_BY_POOL, *one_layer(Endpoints.RANK, Rule.LEAST_LOADED, Counted.TOKENS))
    ),
    "llm-d over servers": _rule("tokens", one_layer(Endpoints.SERVER, Rule.LEAST_LOADED, Counted.TOKENS)),
    "fewest requests of servers, blind": _rule(
        "requests", one_layer(Endpoints.SERVER, Rule.LEAST_LOADED, Counted.REQUESTS)
    ),
    "two of all servers, blind": _rule(
        "two", one_layer(Endpoints.SERVER, Rule.BETTER_OF_TWO, Counted.REQUESTS, copies=2)
    ),
    "two of all ranks, blind": _rule("two of ranks", one_layer(Endpoints.RANK, Rule.BETTER_OF_TWO, Counted.REQUESTS)),
    "drawn by weight": _rule("drawn", (RouterLayer(among=Endpoints.SERVER, rule=Rule.RANDOM), RANKS_IN_TURN)),
}


def _pool(gpu: str, phase: Phase, shape: tuple[int, int], count: int, end: int, batch: int = 0) -> BucketPool:
    prefill = phase is Phase.PREFILL
    return BucketPool(
        island=f"{gpu.lower()}-{phase.value}",
        gpu=gpu,
        phase=phase,
        server=ServerConfig(
            parallel=ParallelConfig(tp=shape[0], dp=shape[1]),
            tokens_per_step=8192 if prefill else 0,
            batch_size=batch,
            overlapped=prefill and shape in ((1, 16), (2, 4)),
        ),
        count=count,
        start=0,
        end=end,
        capacity_rps=0.0,
        full_rps=0.0,
        late_share=0.01,
    )


LARGE = (
    {
        "name": "large",
        "model": "deepseek-v3",
        "workload": "azure-code-2023",
        "inventory": {"H200": 64, "H800": 64, "H20": 128},
        "engine": {"name": "vllm", "version": "0.33.0"},
        "slo": {"ttft_ms": 4000, "tpot_ms": 60, "percentile": 99},
    },
    (
        _pool("H20", Phase.PREFILL, (4, 4), 6, 7680),
        _pool("H200", Phase.PREFILL, (1, 16), 4, 7680),
        _pool("H800", Phase.PREFILL, (1, 16), 4, 7680),
        _pool("H20", Phase.DECODE, (2, 8), 2, 7680, batch=56),
    ),
)
SMALL = (
    {
        "name": "small",
        "model": "qwen3-235b-a22b",
        "workload": "azure-code-2023",
        "inventory": {"H200": 16, "H800": 32, "H20": 32},
        "engine": {"name": "vllm", "version": "0.33.0"},
        "slo": {"ttft_ms": 3000, "tpot_ms": 50, "percentile": 99},
    },
    (
        _pool("H20", Phase.PREFILL, (4, 2), 2, 7680),
        _pool("H200", Phase.PREFILL, (2, 2), 4, 7680),
        _pool("H800", Phase.PREFILL, (2, 4), 4, 7680),
        _pool("H20", Phase.DECODE, (8, 1), 2, 7680, batch=128),
    ),
)


def measured() -> dict[tuple[str, str], float]:
    """(fleet, rule) -> the highest rate that held in replays of 12 000 requests with two seeds (requests/s).

    `test_router_promises` makes those of two fleets again, as a study; of `equal` (15 servers of 8 H200) and
    `conversation` (servers of 8 and 16 H200 and 16 H800 on Azure's conversations) there are these figures alone."""
    with (Path(__file__).parent / "router_rates.csv").open(encoding="utf-8") as stream:
        return {(row["fleet"], row["rule"]): float(row["held_rps"]) for row in csv.DictReader(stream)}
