"""Checks on what is asked of the public cost functions: their arguments, and whether the step fits into memory.

Each names the argument, the rule and what came, or what the step needs and what there is.
"""

import numpy as np

from planner.cost import memory
from planner.cost.arrays import Array, Numbers, as_array
from planner.cost.device import CostContext
from planner.cost.drafts import draft_of
from planner.cost.step import Steps
from planner.domain import PHASES, CostSettings, ModelSpec, Phase
from planner.errors import InfeasibleError, InputError


def one_half(phase: Phase | str) -> Phase:
    """Prefill or decode."""
    if phase not in PHASES:
        raise InputError(f"phase: must be prefill or decode, got {phase}.", hint="Name one of both.")
    return Phase(phase)


def require_at_least(numbers: Numbers, minimum: float, name: str) -> None:
    """Finite numbers of at least `minimum`."""
    values = _numeric(numbers, name)
    if values.size == 0 or not np.all(np.isfinite(values) & (values >= minimum)):
        raise InputError(f"{name}: must be finite and at least {minimum:g}, got {numbers!r}.", hint="Mend the call.")


def require_whole(numbers: Numbers, name: str) -> None:
    """At least 1, and no fraction of a GPU."""
    require_at_least(numbers, 1, name)
    if not np.all(as_array(numbers) % 1 == 0):
        raise InputError(f"{name}: must be a whole number, got {numbers!r}.", hint="Mend the call.")


def require_share(numbers: Numbers, name: str) -> None:
    """Within [0, 1)."""
    values = _numeric(numbers, name)
    if not np.all(np.isfinite(values) & (values >= 0) & (values < 1)):
        raise InputError(f"{name}: must lie in [0, 1), got {numbers!r}.", hint="Give the share of cached tokens.")


def require_one_shape(*arguments: Numbers) -> None:
    """Arrays that broadcast."""
    shapes = [as_array(argument).shape for argument in arguments]
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        raise InputError(f"arguments: arrays must broadcast, got shapes {shapes}.", hint="Mend the call.") from None


def _numeric(numbers: Numbers, name: str) -> Array:
    try:
        if isinstance(numbers, str | bytes | bool):
            raise TypeError  # numpy would read them as numbers
        return as_array(numbers)
    except (TypeError, ValueError):
        raise InputError(
            f"{name}: must be a number or an array of numbers, got {numbers!r}.", hint="Mend the call."
        ) from None


ROUNDING = 1e-9


def require_fit(context: CostContext, steps: Steps) -> None:
    """Raises InfeasibleError naming the step that exceeds the memory of one GPU by most; columns may be arrays."""
    gpu, model, settings = context.gpu, context.model, context.settings
    devices = steps.tp * steps.dp
    experts, draft = memory.experts_on_device(model, settings, devices), draft_of(model, settings)
    weights = memory.weights_gb(model, tp=steps.tp, experts_on_device=experts, pp=steps.pp, draft=draft)
    free = memory.free_gb(gpu, model, tp=steps.tp, experts_on_device=experts, pp=steps.pp, draft=draft)
    beside = _beside_weights_gb(model, settings, steps)
    columns = np.broadcast_arrays(steps.tp, devices, steps.pp, steps.length, steps.batch, weights, beside, free)
    tp, devices, pp, length, batch, weights, beside, free = (np.ravel(column) for column in columns)
    excess = beside - free
    worst = int(np.argmax(excess))
    if not excess[worst] > ROUNDING:
        return
    stages = f" in each of {pp[worst]:g} stages" if pp[worst] > 1 else ""
    raise InfeasibleError(
        f"{model.name}: {steps.phase} of {batch[worst]:g} x {length[worst]:g} tokens must fit on {devices[worst]:g} "
        f"{gpu.name}{stages} (tp {tp[worst]:g}): a GPU needs {weights[worst] + beside[worst]:.1f} GB, "
        f"{weights[worst]:.1f} of them weights, and offers {weights[worst] + free[worst]:.1f} GB.",
        hint="Use more GPUs, fewer or shorter sequences, a smaller model, or a GPU with more memory.",
    )


def _beside_weights_gb(model: ModelSpec, settings: CostSettings, steps: Steps) -> Array:
    """Cache and activations of the fullest GPU, as in `memory.max_batch` and `max_prompts` (prompts go in chunks)."""
    draft = draft_of(model, settings)
    cache = memory.cache_gb(model, length=steps.length, batch=steps.batch, tp=steps.tp, pp=steps.pp, draft=draft)
    if steps.phase is Phase.DECODE:
        return cache + steps.batch * memory.activation_gb(model, 1 + settings.drafting.drafted, steps.tp)
    tokens = np.minimum(steps.batch * steps.length * (1 - as_array(steps.cached)), settings.max_tokens_per_step)
    # Every stage has prompts under way, and holds their caches.
    return cache * steps.pp + memory.activation_gb(model, tokens, steps.tp)
