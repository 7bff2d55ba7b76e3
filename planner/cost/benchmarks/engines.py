"""What engines add to the machine's figures: factors of an engine, resolved by its name.

| name | meaning | unit |
|---|---|---|
| engine_prefill, engine_decode | arithmetic rate over that of SGLang and vLLM | 1 |
| mtp_gain | tokens that a pass yields with three drafted ones | tokens |
| prefill_pool | rate of a prefill pool behind a router over that of its steps | 1 |
| ttft_fixed_ms, ttft_steps, ttft_answers | TTFT = fixed + steps x prefill passes + answers x TPOT | ms, 1, 1 |
| ttft_waves | share of the time to take all prompts in flight in: a closed loop's equal answers end in waves | 1 |
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from types import MappingProxyType

from planner.cost.efficiency import merged
from planner.domain import Calibration
from planner.domain.efficiency import ANY_FAMILY


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineShares:
    """The factors of one engine, by the names of the table above."""

    engine_prefill: float
    engine_decode: float
    mtp_gain: float
    prefill_pool: float
    ttft_fixed_ms: float
    ttft_steps: float
    ttft_answers: float
    ttft_waves: float


ENGINE_FACTORS = tuple(field.name for field in fields(EngineShares))


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineHabits:
    """What an engine does by default, as its benchmarks are run.

    `name` is whose factors and kernels it has. `tokens_per_step`: prompt tokens that a rank takes into a step.
    `reserved`: share of an answer whose cache is kept free before its request begins (1: none is ever evicted).
    """

    name: str
    tokens_per_step: int
    reserved: float


_TRT = EngineHabits(name="trt", tokens_per_step=8192, reserved=1.0)
_ATOM = EngineHabits(name="atom", tokens_per_step=16384, reserved=0.5)
_VLLM = EngineHabits(name="vllm", tokens_per_step=8192, reserved=0.5)
_SGLANG = EngineHabits(name="sglang", tokens_per_step=16384, reserved=0.5)
HABITS: Mapping[str, EngineHabits] = MappingProxyType(
    {
        "trt": _TRT,
        "trtllm": _TRT,
        "tensorrt-llm": _TRT,
        "dynamo-trt": _TRT,
        "atom": _ATOM,
        "vllm": _VLLM,
        "sglang": _SGLANG,
        "dynamo-sglang": _SGLANG,
        "mori-sglang": _SGLANG,
    }
)


def habits(engine: str) -> EngineHabits:
    """An engine's habits; those of SGLang for one that is not known."""
    return HABITS.get(engine.lower(), _SGLANG)


@lru_cache(maxsize=256)
def engine_shares(engine: str, calibration: Calibration | None) -> EngineShares:
    """The factors of the engine that `engine` names; empty: of any."""
    factors, family = merged(calibration), habits(engine).name if engine else ANY_FAMILY
    return EngineShares(**{name: factors.factor(name, family).value for name in ENGINE_FACTORS})
