"""What an export was made with, so that it can be written again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from planner.domain.keys import INTERNAL, Bounds, Key
from planner.domain.serving.deploy import DeploySettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRecord:
    """All that decided what manifests say, beside the plan itself.

    `target`, `engine`, `router`: as they came out; `options` as they were asked for. `carried`: file -> objects as they
    were started under an earlier plan and run on, to the letter; where `step` is set these are all that the folder
    holds, as a step of a roll-out stands between two plans.
    """

    planner: Annotated[str, Key("version that wrote it")]
    plan_digest: Annotated[str, Key("of plan.json")]
    target: Annotated[str, Key("kind of manifests")]
    engine: Annotated[str, Key("that they start")]
    router: Annotated[str, Key("who executes the routing, or none")]
    cells: Annotated[int, Bounds(low=1, high=4096), Key("of a grid router")]
    topology_objects: Annotated[bool, Key("with those of the placement's nodes")] = False
    step: Annotated[bool, Key("of a roll-out")] = False
    options: Annotated[DeploySettings, INTERNAL] = field(default_factory=DeploySettings)
    carried: Annotated[Mapping[str, tuple[Mapping[str, Any], ...]], INTERNAL] = field(default_factory=dict)
