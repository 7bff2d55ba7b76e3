"""When a plan that stands gives way to another: hysteresis, as a pure function of what was observed and decided.

| symbol | meaning | unit |
|---|---|---|
| L_t | median load of the last `smooth_s` | requests/s |
| p_t | median prices of the last `smooth_s` | USD/GPU/hour |
| r | promise of the plan that stands | requests/s |
| C(p), C'(p) | rent of the plan that stands, and of another | USD/hour |
| x | what the change to the other plan costs | USD |
| H | hours within which a change must pay | h |

A change is forced where GPUs of the plan have been gone for `smooth_s` (`lost`), or L_t > raise_at r (`load`). One for
money (`saving`), the n-th of 24 hours, comes where C(p_s) - C'(p_s) >= max(n least_saving C(p_s), factor x / H) at
every moment s of the dwell time, no other change was near, and the other plan promises the dwell time's highest L_s and
the headroom. H shrinks to how long such changes lasted in the last day until load forced them back (their median), so
that a load that swings faster than changes pay is left alone.

No feed makes it flap, by construction: in any 24 hours there are at most `most_savings` changes for money, `most_rises`
for load and `most_losses` for lost GPUs, as each is counted. So that the limit of rises does not bind where it hurts,
from the fourth of a day on they ask for the day's highest load as well, and for headroom that doubles; the last asks
for the most that there is; and while the day's rises are used up no plan gives way to one that does not promise the
day's highest load and `WORN_OUT` times the headroom.
"""

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from planner.domain.watching import (
    DAY_S,
    Cause,
    Decision,
    Fleet,
    Need,
    Observation,
    Verdict,
    WatchSettings,
)

RUNG = 1.05
"""Loads asked for are rounded up to powers of it: likes need not be planned for twice."""

PRICE_STEP = 0.05
"""Prices that have moved by less are what plans were made for."""

LEAST_LOAD_RPS = 0.01
"""What a plan is asked to promise where nobody asks for anything."""

FEW_RISES = 3
"""Rises of a day that ask for the load and the headroom alone: a day's swing of two to three takes no more."""

WORN_OUT = 2.0
"""Times the headroom that a plan keeps over the day's highest load while it cannot be raised again."""

SPELLS = 3
"""Of a day, whose median says how long savings last."""

Propose = Callable[[Need], Fleet | None]
"""The cheapest plan for a need, and what changing to it costs; None where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """An observation with medians of load and prices."""

    at_s: float
    raw: Observation
    load_rps: float | None
    prices: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchState:
    """All that decisions depend on. `moments`: of the dwell time, the last one now; `prices`: those asked at, which
    follow the medians in steps of `PRICE_STEP`; `highs` (median loads that no later one reached),
    `changes`, `lows` (GPU type, count it fell to) and `spells` (when a saving ended, how long it lasted) of the last
    day; `looked_s`: when another plan was asked for."""

    settings: WatchSettings
    moments: tuple[Moment, ...] = ()
    prices: tuple[tuple[str, float], ...] = ()
    standing: Fleet | None = None
    number: int = 0
    begun_s: float = 0.0
    since_s: float = 0.0
    highs: tuple[tuple[float, float], ...] = ()
    changes: tuple[tuple[float, Cause], ...] = ()
    lows: tuple[tuple[float, str, int], ...] = ()
    spells: tuple[tuple[float, float], ...] = ()
    looked_s: float = -math.inf
    looked_at: Need | None = field(default=None)

    @property
    def now(self) -> Moment:
        """The last moment."""
        return self.moments[-1]

    def count(self, cause: Cause) -> int:
        """Changes for this cause in the last 24 hours."""
        return sum(other is cause for _, other in self.changes)


def advance(state: WatchState, observation: Observation) -> WatchState:
    """The state with one more observation, not older than the last."""
    at_s, settings = observation.at_s, state.settings
    near = [moment.raw for moment in state.moments if moment.at_s > at_s - settings.smooth_s]
    near.append(observation)
    loads = [raw.load_rps for raw in near if raw.load_rps is not None]
    moment = Moment(
        at_s=at_s,
        raw=observation,
        load_rps=statistics.median(loads) if loads else None,
        prices=_median_prices(near),
    )
    return replace(
        state,
        begun_s=state.begun_s if state.moments else at_s,
        moments=(*(other for other in state.moments if other.at_s >= at_s - settings.dwell_s), moment),
        prices=_followed(state.prices, moment.prices),
        highs=_highs(state.highs, moment),
        changes=tuple(row for row in state.changes if row[0] > at_s - DAY_S),
        lows=tuple(row for row in state.lows if row[0] > at_s - DAY_S),
        spells=tuple(row for row in state.spells if row[0] > at_s - DAY_S),
    )


def _highs(before: tuple[tuple[float, float], ...], moment: Moment) -> tuple[tuple[float, float], ...]:
    """The first is the highest of the last 24 hours; those after it may become that."""
    if before and before[0][0] <= moment.at_s - DAY_S:
        before = before[1:]
    if moment.load_rps is None:
        return before
    # A high that a later load reached never becomes the highest again.
    last = len(before)
    while last and before[last - 1][1] <= moment.load_rps:
        last -= 1
    return (*before[:last], (moment.at_s, moment.load_rps))


def _median_prices(near: list[Observation]) -> tuple[tuple[str, float], ...]:
    if all(raw.prices == near[0].prices for raw in near):
        return near[0].prices
    rows = [dict(raw.prices) for raw in near]
    return tuple((gpu, statistics.median(row[gpu] for row in rows if gpu in row)) for gpu in rows[-1])


def _followed(
    before: tuple[tuple[str, float], ...], prices: tuple[tuple[str, float], ...]
) -> tuple[tuple[str, float], ...]:
    """Prices that stay where they are until they have moved by more than a share."""
    stayed = dict(before)
    return tuple(
        (gpu, stayed[gpu] if gpu in stayed and abs(usd - stayed[gpu]) <= PRICE_STEP * stayed[gpu] else usd)
        for gpu, usd in prices
    )


def decide(state: WatchState, propose: Propose) -> Decision:
    """Whether the plan stands at the state's last moment. While a change is carried out none other is begun, unless
    GPUs are lost: what waits for them would wait for ever."""
    if state.standing is None:
        return _started(state, propose)
    gone = _gone(state, state.standing)
    if gone:
        return _without_lost(state, gone, propose)
    if state.now.raw.rolling:
        return _keep(state, state.now.raw.rolling)
    load_rps = state.now.load_rps
    if load_rps is not None and load_rps > state.settings.raise_at * state.standing.promise_rps:
        return _raised(state, state.standing, load_rps, propose)
    return _saved(state, state.standing, propose)


def after(state: WatchState, decision: Decision) -> WatchState:
    """The state once the decision has been taken."""
    if decision.looked:
        state = replace(state, looked_s=state.now.at_s, looked_at=_need_of(state, decision))
    if decision.fleet is None:
        return state
    now_s, cause = state.now.at_s, decision.cause
    changes, lows, spells = state.changes, state.lows, state.spells
    if state.standing is not None and cause is not None:
        if cause is Cause.LOST:
            available = dict(state.now.raw.available)
            gone = _gone(state, state.standing)
            lows = (*lows, *((now_s, gpu, available.get(gpu, 0)) for gpu in gone if gpu in dict(state.standing.gpus)))
        # A saving that a rise undid tells how long savings last here: what a change may cost follows from that.
        if cause is Cause.LOAD and changes and changes[-1][1] is Cause.SAVING:
            spells = (*spells, (now_s, now_s - changes[-1][0]))
        changes = (*changes, (now_s, cause))
    return replace(
        state,
        standing=decision.fleet,
        number=decision.number,
        since_s=now_s,
        changes=changes,
        lows=lows,
        spells=spells,
    )


def _need_of(state: WatchState, decision: Decision) -> Need | None:
    """What was asked for in vain, where a change is needed; else the next look is a matter of time."""
    return _need(state, _target(state), _smooth(state)) if decision.verdict is Verdict.SHORT else None


def _started(state: WatchState, propose: Propose) -> Decision:
    if state.now.load_rps is None:
        return Decision(verdict=Verdict.KEEP, reason="no load yet")
    return _changed(state, Cause.START, _target(state), "the first plan", propose, least_rps=0.0)


def _without_lost(state: WatchState, gone: tuple[str, ...], propose: Propose) -> Decision:
    names = ", ".join(gone)
    if state.count(Cause.LOST) >= state.settings.most_losses:
        limit = state.settings.most_losses
        return _short(state, Cause.LOST, f"{names} lost, and {limit} changes for lost GPUs in the last 24 hours")
    return _changed(state, Cause.LOST, _target(state), f"{names} lost", propose, least_rps=0.0)


def _raised(state: WatchState, standing: Fleet, load_rps: float, propose: Propose) -> Decision:
    settings, rises = state.settings, state.count(Cause.LOAD)
    reason = f"load of {load_rps:.6g} requests/s, the plan promises {standing.promise_rps:.6g}"
    if state.now.at_s < state.since_s + standing.change_s:
        return _short(state, Cause.LOAD, f"{reason}; the last change is under way")
    if rises >= settings.most_rises:
        return _short(state, Cause.LOAD, f"{reason}, and {rises} changes for load in the last 24 hours")
    # The day's last rise goes to the most that there is, as no other can follow it.
    target = None if rises == settings.most_rises - 1 else _raised_target(state, rises)
    least_rps = standing.promise_rps * RUNG
    return _changed(state, Cause.LOAD, target, reason, propose, least_rps=least_rps)


def _changed(
    state: WatchState, cause: Cause, target_rps: float | None, reason: str, propose: Propose, *, least_rps: float
) -> Decision:
    """A change that is needed: for the target where there is such a plan, else to the largest of more than
    `least_rps`; looked for again where the need has changed, or after `retry_s`."""
    need = _need(state, target_rps, _smooth(state))
    waits = state.now.at_s < state.looked_s + state.settings.retry_s
    # Asking costs a plan: the same question is put again only after a while.
    if waits and state.looked_at == _need(state, _target(state), _smooth(state)):
        return _short(state, cause, f"{reason}; nothing better is offered")
    fleet = propose(need)
    if fleet is None and target_rps is not None:
        fleet = propose(replace(need, load_rps=None))
        reason = f"{reason}; no plan promises {target_rps:.6g}, this is the most"
    if fleet is None or fleet.promise_rps <= least_rps:
        return replace(_short(state, cause, f"{reason}; nothing better is offered"), looked=True)
    return Decision(
        verdict=Verdict.REPLAN, reason=reason, cause=cause, looked=True, fleet=fleet, number=state.number + 1
    )


def _saved(state: WatchState, standing: Fleet, propose: Propose) -> Decision:
    settings = state.settings
    early = _too_early(state, standing)
    if early:
        return _keep(state, early)
    # On what was there all of the dwell time: a cheaper plan is not to lean on GPUs that come and go.
    need = _need(state, _saved_target(state), tuple(moment.raw for moment in state.moments))
    fleet = propose(need)
    if fleet is None or fleet.plan == standing.plan:
        return replace(_keep(state, "no cheaper plan"), looked=True)
    if fleet.promise_rps * settings.raise_at < _peak(state):
        return replace(_keep(state, "no cheaper plan for the load"), looked=True)
    # Each saving of the day has to be worth more than the one before it, so that plans do not follow every price.
    share = settings.least_saving * (1 + state.count(Cause.SAVING))
    threshold = factor_usd = settings.factor * fleet.change_usd / _horizon_hours(state)
    # At every moment of the dwell time, not at its mean: a short dip of a price is no saving.
    for moment in state.moments:
        prices = dict(moment.prices)
        rent = standing.usd_per_hour(prices)
        saving, threshold = rent - fleet.usd_per_hour(prices), max(factor_usd, share * rent)
        if saving < threshold or saving <= 0:
            return replace(_keep(state, f"a plan saves {saving:.2f} USD/hour, needs {threshold:.2f}"), looked=True)
    return Decision(
        verdict=Verdict.REPLAN,
        reason=f"saves {saving:.2f} of {rent:.2f} USD/hour, for {fleet.change_usd:.2f} USD",
        cause=Cause.SAVING,
        looked=True,
        fleet=fleet,
        number=state.number + 1,
    )


def _too_early(state: WatchState, standing: Fleet) -> str:
    """Why no cheaper plan is looked for; empty: one may be."""
    settings, now_s = state.settings, state.now.at_s
    gap_s = max(settings.least_gap_s, settings.dwell_s, settings.gap_per_change * standing.change_s)
    if now_s < state.begun_s + settings.dwell_s:
        return "watched for less than the dwell time"
    if now_s < state.since_s + gap_s:
        return f"the last change is less than {gap_s / 3600:.3g} hours ago"
    if state.count(Cause.SAVING) >= settings.most_savings:
        return f"{settings.most_savings} changes for money in the last 24 hours"
    return "stands" if now_s < state.looked_s + settings.retry_s else ""


def _gone(state: WatchState, standing: Fleet) -> tuple[str, ...]:
    """GPU types, and nodes, of the plan that have been gone for the smoothing time."""
    near = _smooth(state)
    counts = [dict(raw.available) for raw in near]
    # Gone is what no observation had: a feed that stutters must not cost a change.
    gpus = [gpu for gpu, count in standing.gpus if count > max(row.get(gpu, 0) for row in counts)]
    nodes = [node for node in standing.nodes if all(node in raw.lost_nodes for raw in near)]
    return (*gpus, *nodes)


def _smooth(state: WatchState) -> tuple[Observation, ...]:
    """Observations of the smoothing time; the last one counts however long nothing came before it."""
    from_s = state.now.at_s - state.settings.smooth_s
    return tuple(moment.raw for moment in state.moments if moment.at_s > from_s or moment is state.now)


def _peak(state: WatchState) -> float:
    """The highest median load of the dwell time."""
    return max((moment.load_rps for moment in state.moments if moment.load_rps is not None), default=0.0)


def _target(state: WatchState, headroom: float | None = None) -> float:
    """What a new plan is to promise: the dwell time's highest load and the headroom, on a rung."""
    share = state.settings.headroom if headroom is None else headroom
    return _rung(max(_peak(state) * (1 + share), LEAST_LOAD_RPS))


def _rung(load_rps: float) -> float:
    rungs = math.ceil(math.log(load_rps) / math.log(RUNG) - 1e-9)
    return float(f"{RUNG**rungs:.6g}")


def _raised_target(state: WatchState, rises: int) -> float:
    """What is asked for after so many rises of the last 24 hours."""
    if rises < FEW_RISES:
        return _target(state)
    return max(_target(state, state.settings.headroom * 2 ** (rises - FEW_RISES)), _rung(state.highs[0][1] * RUNG))


def _saved_target(state: WatchState) -> float:
    """What a cheaper plan is to promise; once the day's rises are used up, enough for what the day may still bring."""
    target_rps = _target(state)
    if state.count(Cause.LOAD) < state.settings.most_rises or not state.highs:
        return target_rps
    return max(target_rps, _rung(max(state.highs[0][1], LEAST_LOAD_RPS) * (1 + WORN_OUT * state.settings.headroom)))


def _need(state: WatchState, target_rps: float | None, observations: tuple[Observation, ...]) -> Need:
    """Offered is what could be had at each of these times, and no more than what a lost type fell to in a day."""
    counts = [dict(raw.available) for raw in observations]
    offered = {gpu: min(row.get(gpu, 0) for row in counts) for gpu in counts[-1]}
    for _, gpu, low in state.lows:
        offered[gpu] = min(offered.get(gpu, 0), low)
    nodes = sorted({node for raw in observations for node in raw.lost_nodes})
    return Need(
        load_rps=target_rps, prices=state.prices, offered=tuple(sorted(offered.items())), lost_nodes=tuple(nodes)
    )


def _horizon_hours(state: WatchState) -> float:
    lasted = [spell_s / 3600 for _, spell_s in state.spells[-SPELLS:]]
    return min([state.settings.horizon_hours, *([statistics.median(lasted)] if lasted else [])])


def _keep(state: WatchState, reason: str) -> Decision:
    return Decision(verdict=Verdict.KEEP, reason=reason, number=state.number)


def _short(state: WatchState, cause: Cause, reason: str) -> Decision:
    return Decision(verdict=Verdict.SHORT, reason=reason, cause=cause, number=state.number)
