"""Of every published model a longer context is never cheaper; of layers with a state or a window it costs the same."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from test_engine_caches import NAMES, published

from planner.cost import CostContext, attention
from planner.cost.step import Steps, step_ms
from planner.domain import Attention, CostSettings, GroupedAttention, ModelSpec, Phase, kv_gb
from planner.domain.model import LinearAttention, Mamba2
from planner.files import load_gpu_spec

EDGES = [edge + step for edge in (128, 512, 1024, 2048, 8192) for step in (-1, 0, 1)]  # windows, chosen tokens, chunks
LENGTHS = np.unique(np.concatenate([np.geomspace(1, 1_000_000, 60).round(), EDGES]))
CHUNK = 1024
GPUS = tuple(load_gpu_spec(name) for name in ("H200", "L40S"))


def times(model: ModelSpec, tp: float) -> dict[str, np.ndarray]:
    """Steps at contexts of these lengths (ms), on each GPU: a pass, a prompt, a chunk behind so many tokens."""
    found: dict[str, np.ndarray] = {}
    behind = LENGTHS + CHUNK
    for gpu in GPUS:
        context = CostContext(gpu=gpu, model=model, settings=CostSettings(max_tokens_per_step=8192))
        steps = {
            "a pass": Steps.at(Phase.DECODE, tp, 1, 1, length=LENGTHS, batch=16),
            "a prompt": Steps.at(Phase.PREFILL, tp, 1, 1, length=LENGTHS, batch=1),
            "a chunk": Steps.at(Phase.PREFILL, tp, 1, 1, length=behind, batch=1, cached=LENGTHS / behind),
        }
        for what, asked in steps.items():
            found[f"{gpu.name}, {what}"] = np.broadcast_to(step_ms(context, asked), LENGTHS.shape)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_longer_contexts_are_never_cheaper(name: str) -> None:
    for kv_bytes in (1, 2):
        model = published(name, kv_bytes)
        for tp in (1.0, 8.0):
            reserved = attention.reserved_bytes(model, LENGTHS, np.array(tp))
            cached = attention.cache_bytes_per_sequence(model, LENGTHS, np.array(tp))
            assert (cached <= reserved * (1 + 1e-12)).all()
            handed = np.array([kv_gb(model, length) for length in LENGTHS])
            grown = {"reserved": reserved, "cached": cached, "handed over": handed}
            for what, values in (times(model, tp) | grown).items():
                assert (np.diff(values) >= -1e-9 * values[1:]).all(), what


@pytest.mark.parametrize("name", NAMES)
def test_what_a_gpu_caches_is_what_the_model_does(name: str) -> None:
    model = published(name, 2)
    cached = attention.cache_bytes_per_sequence(model, LENGTHS, np.array(1.0))
    assert cached == pytest.approx([model.cached_bytes(length) for length in LENGTHS])


def with_layers(name: str, wanted: Callable[[Attention], bool]) -> ModelSpec | None:
    model = published(name, 2)
    groups = [group for group in model.groups if group.attention is not None and wanted(group.attention)]
    return replace(model, groups=tuple(groups)) if groups else None


@pytest.mark.parametrize("name", NAMES)
def test_only_layers_that_see_all_tokens_feel_them(name: str) -> None:
    """A pass of layers with a state takes the same at any context, of layers with a window at any beyond it."""
    states = with_layers(name, lambda kind: isinstance(kind, LinearAttention | Mamba2))
    windows = with_layers(name, lambda kind: isinstance(kind, GroupedAttention) and 0 < kind.window <= 8192)
    for model, least in ((states, 0), (windows, 8192)):
        if model is None:
            continue
        of_pass = [ms[least <= LENGTHS] for what, ms in times(model, 1.0).items() if "pass" in what]
        assert all((ms == ms[0]).all() for ms in of_pass)
    assert (states is not None) == ("qwen3.5" in name or "nemotron-3-" in name or "nemotron-h" in name)
