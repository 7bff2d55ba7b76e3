"""The door: jobs on nodes under a policy, and the figures."""

from collections.abc import Callable, Sequence

from planner.studies.spot.records import EvictionLaw, SpotJob, SpotNode, SpotPolicy, SpotRun
from planner.studies.spot.simulation.accounts import Accounts
from planner.studies.spot.simulation.checker import SpotChecker, both
from planner.studies.spot.simulation.events import SpotSimulation, Watch
from planner.studies.spot.simulation.figures import fate, figures_of
from planner.studies.spot.simulation.meters import Meters
from planner.studies.spot.simulation.requirements import require_simulable, require_span

S_PER_DAY = 86_400.0


def simulate_spot(
    nodes: Sequence[SpotNode],
    jobs: Sequence[SpotJob],
    policy: SpotPolicy,
    *,
    days: float,
    warm_up_days: float = 0.0,
    seed: int = 0,
    law: EvictionLaw = EvictionLaw(),
    sample_s: float = 3600.0,
    check: bool = True,
    fates: bool = False,
    watch: Watch | None = None,
    progress: Callable[[float], None] | None = None,
) -> SpotRun:
    """What becomes of the jobs in so many days, the figures counted from the end of the warm-up.

    `seed`: of eviction times and of random choices. `sample_s`: length of a stretch of the series. `check`: every event
    is looked at from outside (`SpotChecker`). `fates`: keep what became of every job. `watch` hears every event,
    `progress` the share of the time that has passed. InputError: see `require_simulable`, and times out of range.
    """
    require_simulable(nodes, jobs)
    require_span(days, warm_up_days, sample_s)
    end_s, warm_s = days * S_PER_DAY, warm_up_days * S_PER_DAY
    meters = Meters(nodes, warm_up_s=warm_s, sample_s=sample_s)
    accounts = Accounts(from_s=warm_s, to_s=end_s)
    simulation = SpotSimulation(
        nodes,
        jobs,
        policy,
        law=law,
        seed=seed,
        meters=meters,
        accounts=accounts,
        watch=both(watch, SpotChecker(nodes)) if check else watch,
    )
    simulation.run(end_s, None if progress is None else lambda now_s: progress(now_s / end_s))
    ended = tuple(fate(guest, end_s) for guest in simulation.guests)
    return SpotRun(
        policy=policy.name,
        gpus=meters.total,
        figures=figures_of(ended, meters, accounts, law.longest_s),
        series=tuple(meters.series),
        fates=ended if fates else (),
    )
