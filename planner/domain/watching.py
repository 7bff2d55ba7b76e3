"""Watching load, prices, inventory and lost GPUs: what was observed, what was decided, and why."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

from planner.domain.keys import Bounds, Key, Mapped

DAY_S = 86_400.0
_Seconds = Annotated[float, Bounds(above=0, high=7 * DAY_S)]
_Share = Annotated[float, Bounds(low=0, high=10)]
_Times = Annotated[int, Bounds(low=1, high=1000)]
_Usd = Annotated[tuple[tuple[str, float], ...], Mapped()]
_Gpus = Annotated[tuple[tuple[str, int], ...], Mapped()]


class FeedKind(StrEnum):
    """What a feed tells. `price`: USD per GPU and hour; `inventory`: GPUs that can be had, by type; `load`: requests/s;
    `lost`: GPUs of a type that are out of service; `lost_node`: 1 where a node of the cluster is, else 0."""

    PRICE = "price"
    INVENTORY = "inventory"
    LOAD = "load"
    LOST = "lost"
    LOST_NODE = "lost_node"


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedValue:
    """A value of a feed from `at_s` on (None: since ever, of a file of the current state). `name`: GPU type or node;
    empty for the load. `where`: file and row or key."""

    kind: FeedKind
    name: str
    value: float
    where: str
    at_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """What a file or another source holds: values that can be had, and what is wrong with the others. `iso`: its times
    are dates, as seconds since 1970; None: it has no times. `notes`: what is to be known of it as it is now."""

    file: str
    values: tuple[FeedValue, ...]
    refused: tuple["Refusal", ...] = ()
    iso: bool | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A value of a feed that is not believed, in words; `at_s`: from when on it would count (None: since ever)."""

    text: str
    at_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings:
    """When a plan gives way to another.

    A change that load or lost GPUs force comes as soon as the need has lasted (the median over `smooth_s`); one that
    saves money must save `least_saving` of the rent, and `factor` times what it costs within `horizon_hours`, at every
    moment of `dwell_s`. In any 24 hours there are at most `most_savings`, `most_rises` and `most_losses` changes for
    money, load and lost GPUs.
    """

    smooth_s: Annotated[_Seconds, Key("medians of load and prices over so long", unit="s")] = 300.0
    dwell_s: Annotated[_Seconds, Key("so long must a saving last", unit="s")] = 3600.0
    retry_s: Annotated[_Seconds, Key("between two looks for a cheaper plan", unit="s")] = 900.0
    least_gap_s: Annotated[_Seconds, Key("from any change to the next one for money", unit="s")] = 3600.0
    gap_per_change: Annotated[
        float, Bounds(low=0, high=1000), Key("the same, in multiples of the last change's drain and load time")
    ] = 6.0
    raise_at: Annotated[float, Bounds(above=0, high=1), Key("share of the promise above which load needs more")] = 0.95
    headroom: Annotated[_Share, Key("of a new plan's promise over the highest load of the dwell time")] = 0.25
    least_saving: Annotated[
        float, Bounds(low=0, below=1), Key("of the rent; the n-th of a day must save n times as much")
    ] = 0.1
    horizon_hours: Annotated[float, Bounds(above=0, high=8760), Key("within which a change must pay")] = 24.0
    factor: Annotated[float, Bounds(low=1, high=1000), Key("times that it must pay for itself")] = 2.0
    give_up: Annotated[
        float,
        Bounds(low=0, below=1),
        Key("of the cheapest plan's rent, so that more servers run on"),
    ] = 0.02
    most_savings: Annotated[_Times, Key("changes a day for money")] = 4
    most_rises: Annotated[_Times, Key("changes a day for load")] = 6
    most_losses: Annotated[_Times, Key("changes a day for lost GPUs")] = 8

    @property
    def most_changes(self) -> int:
        """Changes in any 24 hours, whatever the feeds say; the first plan not counted."""
        return self.most_savings + self.most_rises + self.most_losses


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What the feeds say at `at_s`. `load_rps` None: no load was told yet. `stock`: GPUs that are offered, by type;
    `lost`: those of them out of service, nodes not counted; `available`: what both and the lost nodes leave. `notes`:
    what of the feeds was refused or could not be read."""

    at_s: float
    load_rps: float | None
    prices: _Usd
    stock: _Gpus
    lost: _Gpus
    available: _Gpus
    lost_nodes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a new plan is asked for: to promise `load_rps` (None: as much as there is) at these prices, out of `offered`
    GPUs by type, without `lost_nodes`."""

    load_rps: float | None
    prices: _Usd
    offered: _Gpus
    lost_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A plan as the watch sees it: `plan` tells it from others. `nodes`: that it lies on, of a placed plan.
    `change_usd`, `change_s`, `gpus_touched`: what getting there from the plan that stands costs, how long it takes, and
    the GPUs of servers whose engines do not run on."""

    plan: str
    promise_rps: float
    gpus: _Gpus
    nodes: tuple[str, ...] = ()
    change_usd: float = 0.0
    change_s: float = 0.0
    gpus_touched: int = 0

    def usd_per_hour(self, prices: Mapping[str, float]) -> float:
        """Rent of its GPUs; a type without a price costs nothing."""
        return sum(count * prices.get(gpu, 0.0) for gpu, count in self.gpus)


class Verdict(StrEnum):
    """`keep`: the plan stands. `replan`: another one takes its place. `short`: one is needed, and cannot be."""

    KEEP = "keep"
    REPLAN = "replan"
    SHORT = "short"


class Cause(StrEnum):
    """Why a plan changes, or should. `start`: there was none. `load`: it does not promise the load. `lost`: GPUs of it
    are gone. `saving`: another one is cheaper."""

    START = "start"
    LOAD = "load"
    LOST = "lost"
    SAVING = "saving"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What came of an observation. `fleet`: the new one, of a change. `looked`: another plan was asked for. `reason` in
    words. `number`: of the plan that stands from now on (0: none)."""

    verdict: Verdict
    reason: str
    cause: Cause | None = None
    looked: bool = False
    fleet: Fleet | None = None
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchStep:
    """One line of the decision log."""

    observation: Observation
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchTally:
    """What a watch came to, over `hours`. `usd`: rent and changes. `gpus_touched`: by all changes.

    `hindsight_usd`: of the cheapest sequence of its own plans that carries all that the watch carried, with at most
    `bound_a_day` changes a day, chosen knowing all to come; `free_usd`: with changes that cost nothing, any number;
    `static_usd`: of the cheapest one that stands all the time (None: none carries it all). `short_hours`: with more
    load than the plan in force promises (a plan that loads is not in force yet); `unserved`: share of the requests that
    were beyond it. `most_in_a_day`: changes in the worst 24 hours.
    """

    hours: float
    usd: float
    change_usd: float
    gpus_touched: int
    changes: _Gpus
    most_in_a_day: int
    bound_a_day: int
    short_hours: float
    unserved: float
    static_usd: float | None
    hindsight_usd: float
    free_usd: float

    @property
    def regret(self) -> float:
        """Share that the watch costs more than the best sequence in hindsight."""
        return self.usd / self.hindsight_usd - 1.0 if self.hindsight_usd else 0.0

    @property
    def free_regret(self) -> float:
        """Share that it costs more than switching freely at no cost."""
        return self.usd / self.free_usd - 1.0 if self.free_usd else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchWindow:
    """From one observation to the next: the plan that stands (None: none yet), the promise in force (the smaller of two
    while a change is under way), and USD of rent and change."""

    step: WatchStep
    hours: float
    fleet: Fleet | None
    promise_rps: float
    usd: float

    @property
    def usd_per_hour(self) -> float:
        """Rent at the prices of the moment."""
        return 0.0 if self.fleet is None else self.fleet.usd_per_hour(dict(self.step.observation.prices))


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchLog:
    """All that a watch has observed and decided so far. `iso`: times are seconds since 1970."""

    name: str
    iso: bool
    settings: WatchSettings
    windows: tuple[WatchWindow, ...]
    tally: WatchTally

    @property
    def changes(self) -> tuple[WatchWindow, ...]:
        """The windows that a new plan begins in, the first plan's among them."""
        return tuple(window for window in self.windows if window.step.decision.fleet is not None)


def clock_text(at_s: float, *, iso: bool) -> str | float:
    """A time as people read it: a date in UTC, else seconds."""
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds").replace("+00:00", "Z") if iso else at_s
