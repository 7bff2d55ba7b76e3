"""A step as the sum of its parts.

| symbol | meaning | unit |
|---|---|---|
| K, F | the step by measured kernels (formulas where there are none), by formulas alone | ms |
| w | `FORMULAS_SHARE` | 1 |

step = K^(1-w) F^w / pace: kernels and formulas err apart from each other, so that the mean of both is nearer than
either. Where no kernel was measured it is F. A GPU type without tables takes its relative's, part by part, times what
the formulas say of both.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from planner.cost.arrays import Array, as_array, ceil_divide
from planner.cost.device import Device
from planner.cost.kernels import Basis
from planner.cost.measured import beyond
from planner.cost.parts import Part, StepCost
from planner.cost.walk import Steps
from planner.domain import ModelSpec

FORMULAS_SHARE = 0.3
"""Of the mean of logarithms of what kernels and what formulas say of a step; made by left-out errors of given runs."""

_OF_ALL_LAYERS = ("projections", "attention", "all-reduce", "small kernels")
_NODE = 8  # GPUs among which kernels of expert parallelism were measured


def summed(
    dev: Device,
    model: ModelSpec,
    steps: Steps,
    parts: tuple[Part, ...],
    micro: Array,
    *,
    relatives: tuple[Part, ...],
    gained: float,
    waiting: Array,
    pace: Array,
) -> StepCost:
    """The step of these parts: communication hidden where micro-batches overlap; stages, drafts and waiting counted.

    `relatives`: the parts on a relative whose kernels were measured, where the GPU's own were not; else none."""
    formulas = [part.formula_ms for part in parts]
    if relatives:
        parts = tuple(map(_carried, parts, relatives, formulas))
    parts = _narrow(parts, steps)
    of_parts = {part.name: part.measured_or(ms) for part, ms in zip(parts, formulas, strict=True)}
    unscaled_ms, hidden = _in_all(dev, model, of_parts, micro)
    if any(part.kernel is not None for part in parts):
        by_formulas = {part.name: ms for part, ms in zip(parts, formulas, strict=True)}
        pace = pace * np.power(unscaled_ms / _in_all(dev, model, by_formulas, micro)[0], FORMULAS_SHARE)
    scale = as_array(ceil_divide(model.layers, steps.pp) * steps.pp / model.layers / gained)
    return StepCost(
        parts=parts,
        hidden_ms=hidden,
        scale=scale,
        waiting=waiting,
        pace=as_array(pace),
        total_ms=as_array(unscaled_ms * scale * waiting / pace),
        overlapped=micro > 1,
    )


def _carried(part: Part, relative: Part, formula_ms: Array) -> Part:
    """The part with its relative's kernel: measured there, by what formulas say of both."""
    if relative.kernel is None:
        return part
    of_relative = relative.formula_ms
    ratio = np.where(of_relative > 0, formula_ms / np.where(of_relative > 0, of_relative, 1.0), 1.0)
    return replace(part, kernel=relative.kernel.becoming(relative.kernel.ms * ratio, at_best=Basis.SCALED))


def _narrow(parts: tuple[Part, ...], steps: Steps) -> tuple[Part, ...]:
    """The parts without measured kernels where experts are spread over more than a node: engines run other kernels
    there than those that were measured, and the formulas are nearer."""
    wide = (steps.dp > 1) & (steps.devices > _NODE)
    if not np.any(wide) or all(part.kernel is None for part in parts):
        return parts
    return tuple(part if part.kernel is None else replace(part, kernel=beyond(part.kernel, wide)) for part in parts)


def _in_all(dev: Device, model: ModelSpec, ms: Mapping[str, Array], micro: Array) -> tuple[Array, Array]:
    """(all parts together without what is hidden, what is hidden): communication that computation hides."""
    total = sum(ms.values())
    if not (micro > 1).any():
        return as_array(total), as_array(0.0)
    communication = ms.get("dispatch", as_array(0.0)) + ms.get("combine", as_array(0.0))
    computing = model.moe_layers / model.layers * sum(ms[name] for name in _OF_ALL_LAYERS)
    for name in ("shared experts", "routed experts"):
        computing = computing + ms.get(name, as_array(0.0))
    hidden = np.where(micro > 1, dev.efficiency.overlap * np.minimum(computing, communication), 0.0)
    return as_array(total - hidden), hidden
