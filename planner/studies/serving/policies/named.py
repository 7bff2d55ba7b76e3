"""Policies by name; a row is all that a new one needs here."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from planner.errors import InputError
from planner.studies.serving.policies.baseline import Baseline
from planner.studies.serving.policies.clockwork import Clockwork
from planner.studies.serving.policies.round_robin import RoundRobin
from planner.studies.serving.policies.seam import Scheduler
from planner.studies.serving.simulation.cluster import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRow:
    """`title` in figures; `by_deadline`: queues are sorted by deadline, not by arrival."""

    name: str
    title: str
    make: Callable[[Cluster], Scheduler]
    by_deadline: bool = False


_ROWS = (
    PolicyRow(name="baseline", title="Baseline", make=Baseline),
    PolicyRow(name="clockwork", title="Clockwork", make=Clockwork),
    PolicyRow(name="rr", title="Round Robin", make=RoundRobin),
    PolicyRow(name="rr-quantum", title="RR, quantum logic", make=partial(RoundRobin, improvements=1)),
    PolicyRow(name="rr-starvation", title="RR, starvation tracking", make=partial(RoundRobin, improvements=2)),
    PolicyRow(name="rr-model-quantum", title="RR, quantum per model", make=partial(RoundRobin, improvements=3)),
    PolicyRow(name="rr-deadline", title="RR, deadlines", make=partial(RoundRobin, improvements=4), by_deadline=True),
)
POLICIES = MappingProxyType({row.name: row for row in _ROWS})


def parse_serving_policy(text: str) -> PolicyRow:
    """The policy of that name. InputError: another name."""
    row = POLICIES.get(text.strip().lower())
    if row is None:
        raise InputError(
            f"policy: must be one of {', '.join(POLICIES)}, got {text!r:.80}.", hint="Choose one of these names."
        )
    return row
