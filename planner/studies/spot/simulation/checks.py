"""What is looked at before a run and, from outside, at every event of it.

Pods are counted anew, node by node: what runs or is ending never exceeds a node's GPUs or CPUs; guaranteed jobs never
claim more than it has; only spot jobs are evicted; a guaranteed job ends where it began, after its duration on its own
clock and not before; a spot job ends when the work of its runs, each up to its last checkpoint, is done.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import fmod, inf, isclose, nan

from planner.errors import InconsistentPlanError, InputError
from planner.studies.spot.records import JobClass, SpotAction, SpotEvent, SpotJob, SpotNode

S_PER_DAY = 86_400.0
MOST_SAMPLES = 1_000_000


def require_simulable(nodes: Sequence[SpotNode], jobs: Sequence[SpotJob]) -> None:
    """InputError, which names the node or the job: names twice, times that are none, windows that overlap or leave the
    job, checkpoints of zero, a job that fits on no empty cluster of these nodes."""
    _require_once("node", [node.name for node in nodes])
    _require_once("job", [job.name for job in jobs])
    if not nodes:
        raise InputError("nodes: must be at least one, got none.", hint="Add nodes.")
    for node in nodes:
        if node.gpus < 1 or node.cpus < 0:
            raise InputError(
                f"node {node.name}: must have at least 1 GPU and no fewer than 0 CPUs, got {node.gpus} and "
                f"{node.cpus}.",
                hint="Drop nodes without GPUs.",
            )
    for job in jobs:
        _require_times(job)
        _require_windows(job)
    _require_room(nodes, jobs)


def require_span(days: float, warm_up_days: float, sample_s: float) -> None:
    """InputError: times that are none, nothing left after the warm-up, more samples than `MOST_SAMPLES`."""
    if not (0 < days < inf and 0 <= warm_up_days < days):
        raise InputError(
            f"days: must be above 0 and above the warm-up, which is 0 or more, got {days:g} with a warm-up of "
            f"{warm_up_days:g}.",
            hint="Give 6 days with a warm-up of 1.",
        )
    if not 0 < sample_s < inf:
        raise InputError(f"sample: must be seconds above 0, got {sample_s:g}.", hint="Give 3600.")
    if days * S_PER_DAY > MOST_SAMPLES * sample_s:
        raise InputError(
            f"sample: must cut the days into at most {MOST_SAMPLES:,} stretches; {days:g} days of {sample_s:g} s are "
            "more.",
            hint="Give fewer days or longer stretches.",
        )


def _fault(job: SpotJob, key: str, rule: str, got: object, hint: str) -> InputError:
    return InputError(f"job {job.name}: {key} must {rule}, got {got}.", hint=hint)


def _require_once(kind: str, names: Sequence[str]) -> None:
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise InputError(f"{kind} {twice}: must be a name of its own; it came twice.", hint="Rename one of the two.")


def _require_times(job: SpotJob) -> None:
    if not 0 <= job.submit_s < inf:
        raise _fault(job, "submit_s", "be seconds, 0 or more", f"{job.submit_s:g}", "Count from the first job.")
    if not 0 < job.duration_s < inf:
        raise _fault(job, "duration_s", "be seconds above 0", f"{job.duration_s:g}", "Mend or drop the job.")
    if job.kind is JobClass.SPOT and not (job.checkpoint_s is not None and 0 < job.checkpoint_s < inf):
        got = "none" if job.checkpoint_s is None else f"{job.checkpoint_s:g}"
        raise _fault(
            job, "checkpoint_s", "be seconds above 0", got, "Give its duration for a job that saves nothing before."
        )
    for key, low, value in (("pods", 1, job.pods), ("gpus", 1, job.gpus), ("cpus", 0, job.cpus)):
        if value < low:
            raise _fault(job, key, f"be at least {low}", value, "Mend or drop the job.")


def _require_windows(job: SpotJob) -> None:
    if job.standby and job.kind is JobClass.SPOT:
        raise _fault(job, "standby", "be empty for a spot job", len(job.standby), "Only guaranteed jobs lend GPUs out.")
    before_s = -inf
    for window in job.standby:
        shown = f"{window.start_s:g}-{window.end_s:g} s"
        if not 0 <= window.start_s < window.end_s <= job.duration_s:
            rule = f"lie within the job, 0 to {job.duration_s:g} s, and end after it begins"
            raise _fault(job, "standby", rule, shown, "Give seconds from the job's start.")
        if window.start_s <= before_s:
            rule = f"be windows in order that do not overlap or touch (the one before ends at {before_s:g} s)"
            raise _fault(job, "standby", rule, shown, "Join the two.")
        before_s = window.end_s


def _require_room(nodes: Sequence[SpotNode], jobs: Sequence[SpotJob]) -> None:
    kinds = Counter((node.gpu_model, node.gpus, node.cpus) for node in nodes)
    room: dict[tuple[str, int, int], int] = {}
    for job in jobs:
        request = job.gpu_model, job.gpus, job.cpus
        if request not in room:
            room[request] = sum(
                count * min(gpus // job.gpus, cpus // job.cpus if job.cpus else gpus)
                for (model, gpus, cpus), count in kinds.items()
                if job.gpu_model in ("", model)
            )
        if room[request] < job.pods:
            where = f" of {job.gpu_model}" if job.gpu_model else ""
            raise InputError(
                f"job {job.name}: its {job.pods} pods of {job.gpus} GPUs and {job.cpus} CPUs must fit on the empty "
                f"nodes{where}; {room[request]} do.",
                hint="Drop the job, or give larger nodes.",
            )


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
