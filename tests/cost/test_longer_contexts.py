"""Of every published model a longer context is never cheaper; of layers with a state or a window it costs the same."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from published import PUBLISHED, model_of

from planner.cost import CostContext, attention
from planner.cost.step import Steps, step_ms
from planner.domain import Attention, CostSettings, GroupedAttention, ModelSpec, Phase, kv_gb
from planner.domain.model import LinearAttention, Mamba2
from planner.files import load_gpu_spec

EDGES = [edge + step for edge in (128, 512, 1024, 2048, 8192) for step in (-1, 0, 1)]  # windows, chosen tokens, chunks
LENGTHS = np.unique(np.concatenate([np.geomspace(1, 1_000_000, 60).round(), EDGES]))
CHUNK = 1024
GPUS = tuple(load_gpu_spec(name) for name in ("H200", "L40S"))


@cache
def distinct() -> dict[str, ModelSpec]:
    """One of all models with the same layers: which precision they have does not matter here."""
    return {str(model.groups): model for model in map(model_of, PUBLISHED)}


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


def test_longer_contexts_are_never_cheaper() -> None:
    assert len(distinct()) > 40
    for model in distinct().values():
        for kv_bytes, tp in ((1, 8.0), (2, 1.0)):
            of = replace(model, kv_bytes=kv_bytes)
            reserved = attention.reserved_bytes(of, LENGTHS, np.array(tp))
            cached = attention.cache_bytes_per_sequence(of, LENGTHS, np.array(tp))
            assert (cached <= reserved * (1 + 1e-12)).all()
            handed = np.array([kv_gb(of, length) for length in LENGTHS])
            grown = {"reserved": reserved, "cached": cached, "handed over": handed}
            for what, values in (times(of, tp) | grown).items():
                assert (np.diff(values) >= -1e-9 * values[1:]).all(), (of.source, model.groups, what)


def test_what_a_gpu_caches_is_what_the_model_does() -> None:
    for model in distinct().values():
        cached = attention.cache_bytes_per_sequence(model, LENGTHS, np.array(1.0))
        assert cached == pytest.approx([model.cached_bytes(length) for length in LENGTHS])


def with_layers(model: ModelSpec, wanted: Callable[[Attention], bool]) -> ModelSpec | None:
    groups = [group for group in model.groups if group.attention is not None and wanted(group.attention)]
    return replace(model, groups=tuple(groups)) if groups else None


def test_only_layers_that_see_all_tokens_feel_them() -> None:
    """A pass of layers with a state takes the same at any context, of layers with a window at any beyond it."""
    with_states = 0
    for model in distinct().values():
        states = with_layers(model, lambda kind: isinstance(kind, LinearAttention | Mamba2))
        windows = with_layers(model, lambda kind: isinstance(kind, GroupedAttention) and 0 < kind.window <= 8192)
        with_states += states is not None
        for layers, least in ((states, 0), (windows, 8192)):
            if layers is not None:
                of_pass = [ms[least <= LENGTHS] for what, ms in times(layers, 1.0).items() if "pass" in what]
                assert all((ms == ms[0]).all() for ms in of_pass)
    assert with_states > 5
