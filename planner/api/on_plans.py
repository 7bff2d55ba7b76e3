"""What is done with a plan, as functions: `planner.replay(plan)` is `plan.replay()`, of a run folder, too."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.api.deployments import PlannedDeployment
from planner.domain import Plan
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.api.compared import VerifiedRun
    from planner.api.replays import ReplayedPlan


def plan_of(plan: "PlannedDeployment | Plan | str | Path") -> PlannedDeployment:
    """A plan at hand from one, from its record, or from a run folder. Raises InputError for anything else."""
    if isinstance(plan, PlannedDeployment):
        return plan
    if isinstance(plan, Plan):
        return PlannedDeployment(plan)
    if isinstance(plan, str | Path):
        from planner import files, pipeline

        return PlannedDeployment(pipeline.recheck(files.load_run(Path(plan)), str(plan)))
    raise InputError(
        f"plan: must be a plan or the path of a run folder, got {type(plan).__name__}.",
        hint="As planner.load('runs/mixed-fleet').",
    )


def replay(plan: "PlannedDeployment | str | Path", *trace_and_rate: Any, **settings: Any) -> "ReplayedPlan":
    """Requests through a plan one by one, in virtual time: does its promise hold?

    >>> planner.replay(plan, "lengths", "0.9x", requests=2000, seeds=3)
    >>> planner.replay("runs/mixed-fleet", "trace.csv", arrivals="trace")

    `plan`: a plan, or the path of a run folder; all else as `plan.replay` takes it. Raises InputError.
    """
    return plan_of(plan).replay(*trace_and_rate, **settings)


def export(plan: "PlannedDeployment | str | Path", path: str | Path, target: str = "", **options: Any) -> Path:
    """Write the manifests of a plan into the folder `path`, and give that folder back.

    >>> planner.export(plan, "manifests", target="lws", engine="vllm")

    `plan`: a plan, or the path of a run folder; all else as `plan.export` takes it. Raises ExportError where the target
    cannot express the plan, InputError for unknown names and a folder that is not empty.
    """
    return plan_of(plan).export(path, target, **options)


def verify(run: str | Path, *, scenario: str | Path | None = None, search: bool = False) -> "VerifiedRun":
    """A run folder computed anew from its question: does every figure of every file follow?

    >>> planner.verify("runs/mixed-fleet").agrees
    >>> planner.verify("runs/mixed-fleet").frame          # file, key, what is written, what comes out

    `run`: a run folder, its plan.json, or a folder of a schedule, a watch, a batch or a sweep. `scenario`: the file
    that it was planned from (looked for where it is not given). `search`: a search is repeated, not only judged anew.

    Raises InputError where a document was edited and its digests tell.
    """
    from planner.api.compared import VerifiedRun
    from planner.runs.verifying.folders import verify as verified

    return VerifiedRun(verified(Path(run), scenario=None if scenario is None else Path(scenario), search=search))
