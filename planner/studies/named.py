"""Studies by name."""

from collections.abc import Callable
from typing import Any

from planner.errors import InputError
from planner.studies.at_hand import StudyAtHand

NAMES = ("chapter5", "defragmentation", "policies", "preemption", "serving", "spot")


def study(name: str, **settings: Any) -> StudyAtHand:
    """A published study, run anew on this machine, in a size that takes seconds.

    >>> planner.study("spot", nodes=60, loads=(0.1, 0.2), days=4)

    | name            | what it asks                                                              | settings          |
    |-----------------|---------------------------------------------------------------------------|-------------------|
    | chapter5        | how searches for layouts compare (Rignall 2025, chapter 5)                | figures, trials, iterations, batch_size, seed, physical |
    | defragmentation | what moving pods frees on a cluster where tasks come and go               | nodes, days, load, every_hours, seeds, exact |
    | policies        | which online policy holds most GPUs, saves most power (FGD, PWR)          | nodes, pods, policies, seeds, exact |
    | preemption      | whether newcomers' GPUs share a socket (FlexTopo)                         | cycles, seeds, initials, methods, sequential, alpha, aligned, nodes, repetitions |
    | serving         | who loads which model when (Warsaw 2024)                                  | machines, policies, seeds, minutes, scale, constants |
    | spot            | how much spot load a cluster carries (SpotGPU)                            | nodes, gpus_per_node, loads, policies, seeds, days, most_evictions_per_job |

    The whole of each, with its files, is a command: `planner study chapter5`, `planner simulate spot`. Raises
    InputError for a study, a setting or a value that there is not.
    """  # noqa: E501
    if name not in NAMES:
        raise InputError(f"study: must be one of {', '.join(NAMES)}, got {name!r}.", hint="Choose one of these names.")
    try:
        return _run_of(name)(**settings)
    except TypeError as error:  # a setting that there is not
        if "unexpected keyword" not in str(error) or not settings:
            raise
        raise InputError(
            f"study {name}: must have settings that it takes, got {', '.join(settings)}.",
            hint="help(planner.study) lists them.",
        ) from None


def _run_of(name: str) -> Callable[..., StudyAtHand]:
    from planner.studies.chapter5.api import chapter5_study
    from planner.studies.defragmentation.api import defragmentation_study
    from planner.studies.policies.api import policy_study
    from planner.studies.preemption.api import preemption_study
    from planner.studies.serving.api import serving_study
    from planner.studies.spot.api import spot_study

    studies: dict[str, Callable[..., StudyAtHand]] = {
        "chapter5": chapter5_study,
        "defragmentation": defragmentation_study,
        "policies": policy_study,
        "preemption": preemption_study,
        "serving": serving_study,
        "spot": spot_study,
    }
    return studies[name]
