"""What a user asks of a replay, turned into its settings; what would be ignored in silence is refused."""

import math
from collections.abc import Sequence

from planner import export, files
from planner.domain import Plan, RouterBehaviour, RouterPolicy, behaviour_of
from planner.domain.arrivals import ArrivalProcess, ArrivalSettings, Failure, RateCurve, ReplaySettings, SessionPace
from planner.errors import InputError

_MOST_REQUESTS = 10_000_000
_POLICIES = tuple(policy.value for policy in RouterPolicy)
COMPRESSED = "compressed"
"""The word for the trace's own arrivals at another speed."""


def arrival_settings(
    process: str | None = None,
    *,
    variation: float | None = None,
    curve: str | RateCurve | None = None,
    between: tuple[float, float] | None = None,
    sessions: str = SessionPace.OPEN,
) -> ArrivalSettings:
    """How requests arrive. Without a process a `variation` means gamma, a `curve` diurnal, closed `sessions` the
    trace's own arrivals, none of them Poisson.

    `curve`: a shipped one by name, a file, or the record. InputError for unknown words, values out of their bounds,
    and what the process makes no use of.
    """
    if sessions not in (words := tuple(pace.value for pace in SessionPace)):
        raise _fault("sessions", f"must be one of {', '.join(words)}", repr(sessions), "Choose one of these.")
    pace = SessionPace(sessions)
    alone = "trace" if pace is SessionPace.CLOSED else "poisson"
    usual = "diurnal" if curve is not None else "gamma" if variation is not None else alone
    drawn = _process(process or usual)
    _require_used(drawn, variation=variation, curve=curve)
    if variation is not None and not 0 < variation < math.inf:
        raise _fault("variation", "must be above 0", variation, "Give the squared coefficient of variation: 1, 4, 13.")
    if between is not None and not 0 <= between[0] < between[1] < math.inf:
        shown = f"{between[0]:g}:{between[1]:g}"
        raise _fault("between", "must be two seconds of the trace, the first below the second", shown, "Try 0:1800.")
    return ArrivalSettings(
        process=drawn,
        variation=1.0 if variation is None else variation,
        curve=files.load_rate_curve(curve) if isinstance(curve, str) else curve,
        between=between,
        compress=process == COMPRESSED,
        sessions=pace,
    )


def _process(word: str) -> ArrivalProcess:
    words = (*(process.value for process in ArrivalProcess), COMPRESSED)
    if word not in words:
        raise _fault("arrivals", f"must be one of {', '.join(words)}", repr(word), "Choose one of these.")
    return ArrivalProcess.TRACE if word == COMPRESSED else ArrivalProcess(word)


def _require_used(process: ArrivalProcess, *, variation: float | None, curve: object) -> None:
    if variation is not None and process not in (ArrivalProcess.GAMMA, ArrivalProcess.DIURNAL):
        raise _fault(
            "variation", "goes with gamma and diurnal arrivals only", process.value, "Choose --arrivals gamma."
        )
    if curve is not None and process is not ArrivalProcess.DIURNAL:
        raise _fault("curve", "goes with diurnal arrivals only", process.value, "Choose --arrivals diurnal.")
    if curve is None and process is ArrivalProcess.DIURNAL:
        raise _fault("curve", "must be given with diurnal arrivals", "none", "Give --curve NAME.")


def replay_settings(
    plan: Plan,
    *,
    router: str | RouterBehaviour | None = None,
    length_spread: float | None = None,
    arrivals: str | ArrivalSettings | None = None,
    variation: float | None = None,
    curve: str | RateCurve | None = None,
    between: tuple[float, float] | None = None,
    sessions: str = SessionPace.OPEN,
    requests: int = 20_000,
    seeds: int | Sequence[int] = 3,
    warm_up: float = 0.1,
    storage_gb_s: float = 2.0,
    failures: Sequence[Failure] = (),
) -> ReplaySettings:
    """The settings, checked against the plan; `arrivals` to `sessions` as for `arrival_settings`, or the record.

    `router`: a program or a policy by name, or its description; None: the plan's. `length_spread`: how far off it takes
    a prompt's length (standard deviation of the logarithm; None: 0.2 where it counts bytes or characters). `seeds`: how
    many, or which. `failures` of islands, by id. InputError names the value that cannot be.
    """
    process = arrivals
    if not isinstance(process, ArrivalSettings):
        process = arrival_settings(process, variation=variation, curve=curve, between=between, sessions=sessions)
    drawn_with = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    if not 1 <= requests <= _MOST_REQUESTS:
        raise _fault("requests", f"must be from 1 to {_MOST_REQUESTS:,}", requests, "Try 20000.")
    if not drawn_with or len(set(drawn_with)) < len(drawn_with) or min(drawn_with) < 0:
        raise _fault("seeds", "must be some different whole numbers from 0 on", seeds, "Give 3, or 0,1,2.")
    if not 0 <= warm_up < 1:
        raise _fault("warm_up", "must be a share of the requests from 0 to below 1", warm_up, "Try 0.1.")
    if not 0 < storage_gb_s < math.inf:
        raise _fault("storage_gb_s", "must be above 0", storage_gb_s, "Give GB/s that a server reads weights at.")
    if length_spread is not None and not 0 <= length_spread <= 1:
        raise _fault("length_spread", "must be from 0 to 1", length_spread, "Try 0.2.")
    for failure in failures:
        _require_island(plan, failure)
    chosen = router_behaviour(plan, router) if isinstance(router, str) else router or plan.scenario.router
    return ReplaySettings(
        router=chosen,
        length_spread=chosen.length_spread if length_spread is None else length_spread,
        arrivals=process,
        seeds=drawn_with,
        requests=requests,
        warm_up=warm_up,
        storage_gb_s=storage_gb_s,
        failures=tuple(sorted(failures, key=lambda failure: failure.at_s)),
    )


def router_behaviour(plan: Plan, router: str) -> RouterBehaviour:
    """What a router of `planner export`, or a policy, goes by. InputError where there is none of that name."""
    if router in _POLICIES:
        return behaviour_of(RouterPolicy(router))
    if router not in export.ROUTERS:
        names = ", ".join((*export.ROUTERS, *_POLICIES))
        raise _fault("router", f"must be one of {names}", repr(router), "Choose one of these.")
    targets = export.ROUTERS[router].targets
    chosen = plan.scenario.deploy.target
    return export.router_behaviour(plan, router, target=chosen if chosen in targets else targets[0])


def _require_island(plan: Plan, failure: Failure) -> None:
    names = [island.id for island in plan.islands]
    if failure.island not in names:
        raise _fault(
            "fail", f"must name an island of the plan ({', '.join(names)})", repr(failure.island), "Choose one."
        )
    if not 0 <= failure.at_s < math.inf:
        raise _fault("fail", f"of {failure.island} must be at a second from 0 on", failure.at_s, "Try 60.")
    if failure.nodes < 0:
        raise _fault("fail", f"of {failure.island} must take nodes from 0 (all) on", failure.nodes, "Try 1.")


def _fault(key: str, rule: str, shown: object, hint: str) -> InputError:
    return InputError(f"replay: {key}: {rule}, got {shown}.", hint=hint)
