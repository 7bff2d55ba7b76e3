"""Checks on the arguments of the public cost functions; each names the argument, the rule and what came."""

import numpy as np

from planner.cost.arrays import Array, Numbers, as_array
from planner.domain import PHASES, Phase
from planner.errors import InputError


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
