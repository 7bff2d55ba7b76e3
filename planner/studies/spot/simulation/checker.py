"""A run looked at from outside: nothing but the events, against rules that none of them may break.

Pods are counted anew, node by node: what runs or is ending never exceeds a node's GPUs or CPUs; guaranteed jobs never
claim more than it has; only spot jobs are evicted; a guaranteed job ends where it began, after its duration on its own
clock and not before; a spot job ends when the work of its runs, each up to its last checkpoint, is done.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import fmod, isclose, nan

from planner.errors import InconsistentPlanError
from planner.studies.spot.records import JobClass, SpotAction, SpotEvent, SpotJob, SpotNode

TOLERANCE_S = 1e-3
_BEFORE: dict[tuple[JobClass, SpotAction], frozenset[SpotAction | None]] = {
    (JobClass.HP, SpotAction.CLAIM): frozenset({None}),
    (JobClass.HP, SpotAction.START): frozenset({SpotAction.CLAIM}),
    (JobClass.HP, SpotAction.STANDBY): frozenset({SpotAction.START, SpotAction.RESUME}),
    (JobClass.HP, SpotAction.RECLAIM): frozenset({SpotAction.STANDBY}),
    (JobClass.HP, SpotAction.RESUME): frozenset({SpotAction.RECLAIM}),
    (JobClass.HP, SpotAction.FINISH): frozenset({SpotAction.START, SpotAction.RESUME, SpotAction.STANDBY}),
    (JobClass.SPOT, SpotAction.START): frozenset({None, SpotAction.GONE}),
    (JobClass.SPOT, SpotAction.EVICT): frozenset({SpotAction.START}),
    (JobClass.SPOT, SpotAction.GONE): frozenset({SpotAction.EVICT}),
    (JobClass.SPOT, SpotAction.FINISH): frozenset({SpotAction.START}),
}
"""What may have happened to a job last before something happens to it; what is not here never may."""

_PRESENT: dict[SpotAction, int] = {
    SpotAction.START: 1,
    SpotAction.GONE: -1,
    SpotAction.STANDBY: -1,
    SpotAction.RESUME: 1,
    SpotAction.FINISH: -1,
}
"""What an event adds to the pods that are on their nodes."""


@dataclass(slots=True)
class _Seen:
    """A job as its events told it: the last of them, where it is, its work and its clock."""

    last: SpotAction | None = None
    nodes: tuple[int, ...] = ()
    since_s: float = nan
    start_s: float = nan
    done_s: float = 0.0
    waited_s: float = 0.0


class SpotChecker:
    """Hears every event of a run. `seen`: how many there were."""

    def __init__(self, nodes: Sequence[SpotNode]) -> None:
        self._limits = [(node.gpus, node.cpus) for node in nodes]
        self._models = [node.gpu_model for node in nodes]
        self._there = [[0, 0] for _ in nodes]
        self._claimed = [[0, 0] for _ in nodes]
        self._jobs: dict[str, _Seen] = {}
        self.seen = 0

    def __call__(self, event: SpotEvent) -> None:
        """Look at one event. InconsistentPlanError: it breaks a rule."""
        self.seen += 1
        job, action = event.job, event.action
        state = self._jobs.setdefault(job.name, _Seen())
        if state.last not in _BEFORE.get((job.kind, action), frozenset()):
            raise _broken(event, f"a {job.kind.value} job must not meet {action.value} after {state.last or 'nothing'}")
        if state.nodes and event.nodes != state.nodes:
            raise _broken(event, "pods must stay where they are")
        self._count(event, job, state)
        self._clock(event, job, state)
        over = action in (SpotAction.GONE, SpotAction.FINISH)
        state.last, state.since_s, state.nodes = action, event.time_s, () if over else event.nodes

    def _count(self, event: SpotEvent, job: SpotJob, state: _Seen) -> None:
        if len(event.nodes) != job.pods:
            raise _broken(event, f"all {job.pods} pods must be together")
        sign = _PRESENT.get(event.action, 0)
        if event.action is SpotAction.FINISH and state.last is SpotAction.STANDBY:
            sign = 0  # a job that ends on standby has nothing on its nodes
        if sign:
            self._add(self._there, event, sign)
        if job.kind is JobClass.HP and event.action in (SpotAction.CLAIM, SpotAction.FINISH):
            self._add(self._claimed, event, 1 if event.action is SpotAction.CLAIM else -1)

    def _add(self, counts: list[list[int]], event: SpotEvent, sign: int) -> None:
        job = event.job
        for place in event.nodes:
            count = counts[place]
            count[0] += sign * job.gpus
            count[1] += sign * job.cpus
            if count[0] > self._limits[place][0] or count[1] > self._limits[place][1] or min(count) < 0:
                raise _broken(event, f"node {place} must hold at most {self._limits[place]} and no less than 0")
            if job.gpu_model not in ("", self._models[place]):
                raise _broken(event, f"node {place} must have GPUs of {job.gpu_model}")

    def _clock(self, event: SpotEvent, job: SpotJob, state: _Seen) -> None:
        now, action = event.time_s, event.action
        if now < job.submit_s or now < state.since_s:
            raise _broken(event, "time must not run backwards")
        if job.kind is JobClass.HP:
            if action is SpotAction.START:
                state.start_s = now
            elif action is SpotAction.RESUME:
                state.waited_s += now - state.since_s
            elif action is SpotAction.FINISH:
                self._require(event, now - state.start_s - state.waited_s)
        elif action is SpotAction.EVICT:
            assert job.checkpoint_s is not None, "spot jobs have checkpoints"
            ran_s = now - state.since_s
            state.done_s += ran_s - fmod(ran_s, job.checkpoint_s)
        elif action is SpotAction.FINISH:
            self._require(event, state.done_s + now - state.since_s)

    @staticmethod
    def _require(event: SpotEvent, worked_s: float) -> None:
        if not isclose(worked_s, event.job.duration_s, rel_tol=1e-9, abs_tol=TOLERANCE_S):
            raise _broken(event, f"a job must end after {event.job.duration_s:g} s of work, ends after {worked_s:g}")


def _broken(event: SpotEvent, rule: str) -> InconsistentPlanError:
    return InconsistentPlanError(
        f"spot simulation, {event.time_s:g} s, {event.action.value} of job {event.job.name}: {rule}.",
        hint="This is a defect of the planner.",
    )


def both(first: Callable[[SpotEvent], None] | None, second: Callable[[SpotEvent], None]) -> Callable[[SpotEvent], None]:
    """A listener that passes events on to two."""
    if first is None:
        return second
    heard = first

    def tell(event: SpotEvent) -> None:
        heard(event)
        second(event)

    return tell
