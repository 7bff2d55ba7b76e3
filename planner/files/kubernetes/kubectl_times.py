"""When things happened, as Kubernetes writes it, and how long pods have been running.

A list does not say when it was taken. The latest time in it comes next to that: nodes report their state every few
minutes at least. The same list gives the same ages, whenever it is read.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime

from planner.errors import InputError
from planner.files.kubernetes.kubernetes_objects import KubernetesObject, below, items_below
from planner.files.sections import Section

CONDITION_TIMES = ("lastHeartbeatTime", "lastProbeTime", "lastTransitionTime")
RULE = "a time with its zone, such as 2026-05-04T12:30:00Z"


def parse_time(text: str) -> datetime:
    """A time as RFC 3339 has it. ValueError where it is none, or has no zone."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(RULE)
    return moment


def time_of(section: Section, key: str) -> datetime | None:
    """The time under `key`; None where it is missing or null."""
    if section.is_empty(key):
        return None
    try:
        return parse_time(section.text(key))
    except ValueError:
        raise section.fault(key, RULE) from None


def latest_time(objects: Iterable[KubernetesObject]) -> datetime | None:
    """The latest time that any of the objects tells; None where none does. What is no time says nothing."""
    return max((time for item in objects for time in _times(item)), default=None)


def _times(item: KubernetesObject) -> Iterator[datetime]:
    status = below(item.body, "status")
    sections = [(below(item.body, "metadata"), "creationTimestamp"), (status, "startTime")]
    sections += [(condition, key) for condition in items_below(status, "conditions") for key in CONDITION_TIMES]
    for section, key in sections:
        with suppress(InputError):
            time = time_of(section, key)
            if time is not None:
                yield time


def age_s(item: KubernetesObject, taken_at: datetime | None) -> float | None:
    """Seconds that a pod has been running at the time when the list was taken; None where its start is not told."""
    started = time_of(below(item.body, "status"), "startTime")
    if started is None or taken_at is None:
        return None
    age = (taken_at - started).total_seconds()
    if age < 0:
        raise InputError(
            f"{item.body.file}: status.startTime must not lie after the time when the list was taken, "
            f"{taken_at.isoformat()}, got {started.isoformat()}.",
            hint="Correct --taken-at.",
        )
    return age
