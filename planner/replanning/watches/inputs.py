"""What feeds say at a moment: of each series the last value that can be believed, else the one before."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from planner.domain.watching import Feed, FeedKind, FeedValue, Observation, Refusal

MOST_PRICE_FACTOR, LEAST_PRICE_SHARE = 5.0, 0.1
"""Of the scenario's price: more or less is a slip of a unit or of a decimal point. A node of eight GPUs costs eight
times as much as one of them; spot capacity is given for a tenth."""

MOST_LOAD_FACTOR = 20.0
"""Of the highest load so far: a day swings by a factor of two to three; requests a minute are 60 times those a
second."""

MOST_STOCK_FACTOR = 100.0
"""Of the scenario's GPUs of a type."""

_Series = tuple[FeedKind, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usual:
    """What holds where no feed says otherwise, and what values are measured against: the scenario's own. `node_gpus`:
    GPUs by type of each node of its cluster."""

    prices: tuple[tuple[str, float], ...]
    counts: tuple[tuple[str, int], ...]
    load_rps: float | None = None
    node_gpus: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()


class Timeline:
    """Values of all feeds by series and time. `before`: what was observed last, which stands where a feed says nothing
    that can be believed."""

    def __init__(self, feeds: Iterable[Feed], usual: Usual, before: Observation | None = None) -> None:
        self.usual = usual
        self._times: dict[_Series, list[float]] = {}
        self._values: dict[_Series, list[float]] = {}
        self._refusals: list[tuple[float, str]] = []
        self._highest_rps = max(usual.load_rps or 0.0, (before.load_rps or 0.0) if before else 0.0)
        for feed in feeds:
            for refusal in feed.refused:
                self._refuse(refusal)
            for value in feed.values:
                self._add(value)
        self._refusals.sort(key=lambda row: row[0])

    @property
    def span_s(self) -> tuple[float, float] | None:
        """The first and the last time of a value; None where none has a time."""
        times = [time for series in self._times.values() for time in series if time > _EVER]
        return (min(times), max(times)) if times else None

    def observe(self, at_s: float, before: Observation | None = None, notes: Sequence[str] = ()) -> Observation:
        """What is believed at `at_s`, where `before` was observed last; `notes` with the refusals since then."""
        after_s = before.at_s if before else None
        fresh = [text for time, text in self._refusals if time <= at_s and (after_s is None or time > after_s)]
        usual, nodes = self.usual, self._lost_nodes(at_s, before)
        stock = self._series(FeedKind.INVENTORY, usual.counts, before.stock if before else usual.counts, at_s)
        lost = self._series(FeedKind.LOST, usual.counts, before.lost if before else (), at_s)
        loads = self._series(FeedKind.LOAD, (("", 0),), (), at_s)
        return Observation(
            at_s=at_s,
            load_rps=dict(loads).get("", before.load_rps if before else usual.load_rps),
            prices=self._series(FeedKind.PRICE, usual.prices, before.prices if before else usual.prices, at_s),
            stock=_counts(stock),
            lost=_counts(lost),
            available=self._available(dict(stock), dict(lost), nodes),
            lost_nodes=nodes,
            notes=(*notes, *fresh),
        )

    def refusals(self, until_s: float) -> tuple[str, ...]:
        """What is not believed of the values up to a time."""
        return tuple(text for time, text in self._refusals if time <= until_s)

    def _series(
        self, kind: FeedKind, names: Iterable[tuple[str, float]], former: Iterable[tuple[str, float]], at_s: float
    ) -> tuple[tuple[str, float], ...]:
        """The values of a kind; a series that says nothing yet has its former one, or is left out without it."""
        stood = dict(former)
        values = [(name, self._at(kind, name, at_s)) for name, _ in names]
        return tuple(
            (name, stood[name] if value is None else value)
            for name, value in values
            if value is not None or name in stood
        )

    def _available(
        self, stock: Mapping[str, float], lost: Mapping[str, float], nodes: tuple[str, ...]
    ) -> tuple[tuple[str, int], ...]:
        on_nodes = [dict(gpus) for node, gpus in self.usual.node_gpus if node in nodes]
        return tuple(
            (gpu, max(0, int(count - lost.get(gpu, 0.0)) - sum(row.get(gpu, 0) for row in on_nodes)))
            for gpu, count in stock.items()
        )

    def _lost_nodes(self, at_s: float, before: Observation | None) -> tuple[str, ...]:
        former = before.lost_nodes if before else ()
        values = [(node, self._at(FeedKind.LOST_NODE, node, at_s)) for node, _ in self.usual.node_gpus]
        return tuple(node for node, value in values if (node in former if value is None else value > 0))

    def _at(self, kind: FeedKind, name: str, at_s: float) -> float | None:
        """The value in force; that of the name "" is of all that are not named."""
        for series in dict.fromkeys(((kind, name), (kind, ""))):
            place = bisect_right(self._times.get(series, ()), at_s)
            if place:
                return self._values[series][place - 1]
        return None

    def _add(self, value: FeedValue) -> None:
        fault = self._fault(value)
        series = (value.kind, value.name)
        times = self._times.setdefault(series, [])
        at_s = _EVER if value.at_s is None else value.at_s
        if not fault and times and at_s < times[-1]:
            fault = "its time must not be before that of the row above it"
        if fault:
            self._refuse(Refusal(text=f"{value.where}: {fault}; the value before stands", at_s=value.at_s))
            return
        if value.kind is FeedKind.LOAD:
            self._highest_rps = max(self._highest_rps, value.value)
        times.append(at_s)
        self._values.setdefault(series, []).append(value.value)

    def _refuse(self, refusal: Refusal) -> None:
        self._refusals.append((_EVER if refusal.at_s is None else refusal.at_s, refusal.text))

    def _fault(self, value: FeedValue) -> str:
        """Why a value is not believed; empty: it is."""
        match value.kind:
            case FeedKind.PRICE:
                return _price_fault(value, dict(self.usual.prices))
            case FeedKind.LOAD:
                limit = MOST_LOAD_FACTOR * self._highest_rps
                beyond = 0 < limit < value.value
                return f"{value.value:g} requests/s are over {MOST_LOAD_FACTOR:g} times the highest load" * beyond
            case FeedKind.LOST_NODE:
                listed = not value.name or any(node == value.name for node, _ in self.usual.node_gpus)
                return "" if listed else f"{value.name!r:.60} is no node of the scenario's cluster"
            case _:
                return _stock_fault(value, dict(self.usual.counts))


_EVER = float("-inf")


def _price_fault(value: FeedValue, usual: Mapping[str, float]) -> str:
    if value.name not in usual:
        return f"{value.name!r:.60} is no GPU type of the scenario's inventory"
    listed = usual[value.name]
    if listed and value.value > listed * MOST_PRICE_FACTOR:
        return (
            f"{value.value:g} USD/hour for a GPU is over {MOST_PRICE_FACTOR:g} times the scenario's price, {listed:g}"
        )
    if value.value < listed * LEAST_PRICE_SHARE:
        return (
            f"{value.value:g} USD/hour for a GPU is below {LEAST_PRICE_SHARE:.0%} of the scenario's price, {listed:g}"
        )
    return ""


def _stock_fault(value: FeedValue, usual: Mapping[str, int]) -> str:
    if not value.name:
        return ""
    if value.name not in usual:
        return f"{value.name!r:.60} is no GPU type of the scenario's inventory"
    if value.value > MOST_STOCK_FACTOR * max(1, usual[value.name]):
        return f"{value.value:g} GPUs are over {MOST_STOCK_FACTOR:g} times the scenario's {usual[value.name]}"
    return ""


def _counts(rows: Iterable[tuple[str, float]]) -> tuple[tuple[str, int], ...]:
    return tuple((gpu, int(count)) for gpu, count in rows)
