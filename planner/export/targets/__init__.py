"""The targets by name. A new one is a module of this package, and a row here."""

from collections.abc import Mapping
from types import MappingProxyType

from planner.errors import ExportError, InputError
from planner.export.seams import Target
from planner.export.targets.disaggregatedset import DISAGGREGATED_SET
from planner.export.targets.dynamo.target import DYNAMO
from planner.export.targets.kserve import KSERVE
from planner.export.targets.kubernetes import KUBERNETES
from planner.export.targets.kueue import KUEUE
from planner.export.targets.llm_d import LLM_D
from planner.export.targets.lws import LWS
from planner.export.targets.ray import RAY
from planner.export.targets.script import SCRIPT
from planner.export.targets.slurm.target import SLURM

TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        target.name: target
        for target in (
            LWS,
            KUBERNETES,
            DISAGGREGATED_SET,
            LLM_D,
            KSERVE,
            KUEUE,
            SCRIPT,
            SLURM,
            RAY,
            DYNAMO,
        )
    }
)


def unheeded_by(target: Target) -> tuple[str, ...]:
    """Names of options that nothing in the target's files can carry: its `unheeded`, and what others have for
    themselves."""
    theirs = (name for other in TARGETS.values() if other is not target for name in other.options)
    return (*target.unheeded, *theirs)


def target_named(name: str, engine: str) -> Target:
    """The target called `name`, which has to run `engine`.

    Raises:
        InputError: there is none of that name.
        ExportError: the target cannot start the engine.
    """
    if name not in TARGETS:
        raise InputError(f"Target {name!r}: must be one of {', '.join(TARGETS)}.", hint="Choose one of them.")
    target = TARGETS[name]
    if engine not in target.engines:
        raise ExportError(
            f"Target {name}, engine: must be {' or '.join(target.engines)}, which it can start, got {engine!r}.",
            hint="Choose another target or engine; nothing was written.",
        )
    return target
