"""What a live watch reads: files that others write, a Prometheus, a cluster; each a source that is read when it is
time."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from planner.domain import Scenario
from planner.domain.watching import Feed, clock_text
from planner.errors import InputError
from planner.files.tables.feeds import load_feed, written_at_s
from planner.runs.live.kubernetes import Kubernetes
from planner.runs.live.loads import PrometheusLoad
from planner.runs.live.nodes import NodeFeed
from planner.runs.live.prometheus import Prometheus

EARLIEST_EPOCH_S = 1e9
"""September 2001: smaller times are no seconds since 1970."""


class LiveFeed(Protocol):
    """A source of values. What keeps it from being read at the start ends the watch before it begins; later it is
    told, and the values read before stand."""

    @property
    def name(self) -> str:
        """By which a watch that goes on knows it again: no secret, and nothing that changes between two starts."""

    def read(self, scenario: Scenario, now_s: float) -> Feed:
        """What it says of a scenario's GPUs and load now, `now_s` seconds since 1970; `notes` as long as they hold, in
        the same words, so that they are told once. Raises InputError where it cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFeed:
    """A CSV or YAML file. `stale_s`: one that nobody has written for so long is told (None: none is)."""

    path: Path
    stale_s: float | None = None

    @property
    def name(self) -> str:
        """Of the file, wherever it lies."""
        return self.path.name

    def read(self, scenario: Scenario, now_s: float) -> Feed:
        """The file as it is now. Raises InputError as `load_feed`, and where its times are of no calendar."""
        feed = load_feed(self.path, [item.gpu.name for item in scenario.inventory.items], live=True)
        if any(value.at_s is not None and value.at_s < EARLIEST_EPOCH_S for value in feed.values):
            raise InputError(
                f"{self.path}: times must be dates, or seconds since 1970, to be watched as they are.",
                hint="Give --simulate to go through a history.",
            )
        written_s = written_at_s(self.path)
        if self.stale_s is None or written_s is None or now_s - written_s <= self.stale_s:
            return feed
        since = clock_text(written_s, iso=True)
        return replace(
            feed, notes=(f"{self.path}: stale, nobody has written it since {since}. Its last values stand.",)
        )


def live_feeds(
    prometheus: Prometheus | None, kubernetes: Kubernetes | None, window: str, name: str
) -> tuple[LiveFeed, ...]:
    """Of the sources that there are: the load over a window of the plan of a name, and a cluster's nodes."""
    loads = () if prometheus is None else (PrometheusLoad(prometheus, window, name),)
    return (*loads, *(() if kubernetes is None else (NodeFeed(kubernetes=kubernetes),)))
