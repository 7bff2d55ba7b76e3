"""What a router in front of the islands goes by: how it measures a prompt, and whom it chooses."""

from dataclasses import dataclass
from enum import StrEnum

from planner.domain.serving.routing import RouterPolicy


class LengthMeasure(StrEnum):
    """What a router counts a prompt in. `tokens`: as the plan does. `bytes`: of the request's body. `characters`: of
    its text. In the others a plan's cut points fall at another number of tokens for every prompt."""

    TOKENS = "tokens"
    BYTES = "bytes"
    CHARACTERS = "characters"


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterBehaviour:
    """`policy`: whom it chooses among the servers of a bucket. `measure`: what it tells the bucket by.
    `blind_to_speed`: to it servers of a bucket are alike, however fast each is. `notes`: what it cannot do of what the
    plan asks, a sentence each."""

    policy: RouterPolicy
    measure: LengthMeasure = LengthMeasure.TOKENS
    blind_to_speed: bool = False
    notes: tuple[str, ...] = ()
