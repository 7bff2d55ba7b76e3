"""Policies by name: `spotgpu` and the baseline `random`, with switches added or taken away, as `spotgpu-prune`."""

import re
from dataclasses import replace

from planner.errors import InputError
from planner.studies.spot.records import SpotPolicy

SPOTGPU = SpotPolicy(name="spotgpu")
RANDOM = SpotPolicy(name="random", by_cost=False, colocation=False, history=False, prune=False)
BASES = {policy.name: policy for policy in (SPOTGPU, RANDOM)}
SWITCHES = ("packing", "colocation", "history", "prune")
_SWITCH = re.compile(r"([+-])([a-z]+)")


def parse_spot_policy(text: str) -> SpotPolicy:
    """`spotgpu`, `random`, or one of them with switches: `spotgpu-colocation`, `random+prune`.

    `random` is the published comparison: nodes packed all the same, no co-location, no history, victims at random.
    InputError: another name, another switch, one that changes nothing.
    """
    base = re.match(r"[a-z]*", text)
    policy = BASES.get(base.group() if base else "")
    suffix = text[base.end() :] if base else text
    listed = _SWITCH.findall(suffix)
    if policy is None or "".join(map("".join, listed)) != suffix:
        raise _unknown(text)
    for sign, switch in listed:
        on = sign == "+"
        if switch not in SWITCHES or getattr(policy, switch) is on:
            raise _unknown(text)
        policy = replace(policy, **{switch: on})
    return replace(policy, name=text)


def _unknown(text: str) -> InputError:
    return InputError(
        f"policy: must be {' or '.join(BASES)}, perhaps with switches that change it (+ or - {', '.join(SWITCHES)}), "
        f"got {text!r}.",
        hint="Write spotgpu, random or, say, spotgpu-history.",
    )
