"""What the formulas of a kind of attention answer.

| symbol | meaning | unit |
|---|---|---|
| d | hidden size | 1 |
| n | new tokens of the group in this step | tokens |
| w | tokens whose cache is read in prefill; MLA expands keys and values from it | tokens |
| pairs | pairs of query and key that are looked at | 1 |
| s, B | cached tokens of a sequence, sequences of the group | tokens, 1 |

FLOPs = 2 MACs. A prompt of s tokens of which the share h is cached: n = (1 - h) s queries over s keys,
pairs = n (s - (n - 1)/2). Under tensor parallelism heads are split.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.cost.arrays import Array
from planner.cost.kernels import KernelTime
from planner.cost.kernels.grid import no_answer
from planner.cost.measured import Kernels, Products


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """What a step takes in, in tokens: `new` ones of a group, `expanded` of the latent cache, and of `prompts` prompts
    of `prompt` tokens the last `fresh` each (a part of a prompt counts as a part)."""

    new: Array
    expanded: Array
    prompts: Array
    fresh: Array
    prompt: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """`sequences` of a group with `cached` tokens each, `tokens` new ones of each."""

    sequences: Array
    tokens: Array
    cached: Array

    @property
    def new(self) -> Array:
        """Tokens of the step."""
        return np.asarray(self.sequences * self.tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerWork:
    """One layer on one GPU: multiply-adds of projections and scores, and cache that is moved (bytes).

    `expansion_macs` (MLA prefill) are over the expanded tokens, `projection_macs` over the new ones.
    """

    projection_macs: Array
    expansion_macs: Array
    score_macs: Array
    cache_bytes: Array


def _unmeasured(_kind: Any, _kernels: Kernels, work: Intake | Decoded, tp: Array) -> KernelTime:
    return no_answer(work.new, tp)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCost:
    """The formulas of one kind. Each is handed the kind's record, which it alone knows.

    weights: (kind, hidden size, tp) -> weights on one GPU (elements)
    prefill: (kind, hidden size, intake, tp, kv_bytes) -> work of the tokens that a step takes in
    decode: (kind, hidden size, decoded, tp, kv_bytes) -> work of a pass
    cached: (kind, tokens of a sequence, tp, kv_bytes) -> cache of a sequence on one GPU (bytes)
    products: (kind, hidden size, tp) -> (columns, what is summed over) of the projections on one GPU
    context, generation: (kind, kernels, intake or decoded, tp) -> measured time of what is no projection, or, where
        tables have its attention `with_projections`, of all of it; none by default
    alignment: tokens that an engine's blocks are multiples of where they have to be as large as a state
    """

    weights: Callable[[Any, int, Array], Array]
    prefill: Callable[[Any, int, Intake, Array, float], LayerWork]
    decode: Callable[[Any, int, Decoded, Array, float], LayerWork]
    cached: Callable[[Any, Array, Array, float], Array]
    products: Callable[[Any, int, Array], Products]
    context: Callable[[Any, Kernels, Intake, Array], KernelTime] = _unmeasured
    generation: Callable[[Any, Kernels, Decoded, Array], KernelTime] = _unmeasured
    with_projections: Callable[[Any, Kernels], bool] = lambda _, __: False
    alignment: int = 16


def share_of_pairs(intake: Intake) -> Array:
    """Pairs of query and key of a prompt whose beginning is cached, over those of the whole one."""
    return causal_pairs(new=intake.fresh, total=intake.prompt) / causal_pairs(new=intake.prompt, total=intake.prompt)


def causal_pairs(*, new: Array, total: Array, window: int = 0) -> Array:
    """Pairs of query and key of one prompt: its last `new` tokens ask, each sees all up to itself, or the last `window`
    of them (0: all)."""
    if window:
        past = total - new
        growing = np.clip(window - past, 0, new)  # queries whose window is not full yet
        return np.asarray(growing * past + growing * (growing + 1) / 2 + (new - growing) * window)
    return np.asarray(new * (total - (new - 1) / 2))
