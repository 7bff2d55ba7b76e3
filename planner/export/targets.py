"""The targets by name. A new one is a module beside `lws`, and a row here."""

from collections.abc import Mapping
from types import MappingProxyType

from planner.errors import InputError
from planner.export.lws import LeaderWorkerSets
from planner.export.seams import Target

TARGETS: Mapping[str, Target] = MappingProxyType({"lws": LeaderWorkerSets()})


def target_named(name: str) -> Target:
    """The target called `name`.

    Raises:
        InputError: there is none.
    """
    if name not in TARGETS:
        raise InputError(f"Target {name!r}: must be one of {', '.join(TARGETS)}.")
    return TARGETS[name]
