"""What jobs and nodes must be like before they are simulated."""

from collections import Counter
from collections.abc import Sequence
from math import inf

from planner.errors import InputError
from planner.studies.spot.records import JobClass, SpotJob, SpotNode

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


def _fault(job: SpotJob, key: str, rule: str, came: object, hint: str) -> InputError:
    return InputError(f"job {job.name}: {key} must {rule}, got {came}.", hint=hint)


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
        came = "none" if job.checkpoint_s is None else f"{job.checkpoint_s:g}"
        raise _fault(
            job, "checkpoint_s", "be seconds above 0", came, "Give its duration for a job that saves nothing before."
        )
    for key, least, value in (("pods", 1, job.pods), ("gpus", 1, job.gpus), ("cpus", 0, job.cpus)):
        if value < least:
            raise _fault(job, key, f"be at least {least}", value, "Mend or drop the job.")


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
