"""Plans beside each other, sweeps and batches of scenarios, and why a plan is what it is."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner import files, pipeline
from planner.api.cards import card, rows_of
from planner.api.compared import ComparedPlans, compare_records
from planner.api.deployments import PlannedDeployment
from planner.api.progress import point_bar
from planner.domain import Plan
from planner.domain.comparisons import Batch, Sweep
from planner.domain.explanations import SECONDS
from planner.files.scenario.settings import Setting, swept_key
from planner.proposing.explaining.plans import explained
from planner.report.comparison.batch import batch_page, exact_jobs
from planner.report.comparison.explanation import Explanation, explanation_page
from planner.report.comparison.sweep import exact_points, sweep_page
from planner.report.kit.markdown import page_text
from planner.runs.batches.batches import BatchRequest, run_batch
from planner.runs.batches.choosing import executor_of
from planner.runs.batches.local import LocalExecutor, SerialExecutor
from planner.runs.batches.sweeps import SweepRequest, run_sweep
from planner.runs.batches.working import ReportJob
from planner.runs.comparisons import batch_files, sweep_files, write_batch_files, write_sweep_files

if TYPE_CHECKING:
    import pandas as pd


class SweptScenario:
    """A sweep at hand: `record` is the frozen sweep, `folder` where its runs lie."""

    def __init__(self, record: Sweep, folder: Path) -> None:
        self.record = record
        self.folder = folder

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """One row a point: its keys, state and figures."""
        return exact_points(self.record).frame()

    def summary(self) -> str:
        """The sweep in Markdown."""
        return page_text(sweep_page(self.record))

    def page(self) -> str:
        """The sweep as one HTML file that reaches nothing outside itself."""
        return sweep_files(self.record)["report.html"].decode()

    def __repr__(self) -> str:
        return f"<sweep of {self.record.index.scenario}: {len(self.record.points)} points>"

    def _repr_html_(self) -> str:
        return card(repr(self).strip("<>"), rows=rows_of(self.frame), rows_at=".frame")


class PlannedBatch:
    """A batch at hand: `record` is the frozen batch, `folder` where its runs lie."""

    def __init__(self, record: Batch, folder: Path) -> None:
        self.record = record
        self.folder = folder

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """One row a job: what was asked, how it ended, its figures, its run."""
        return exact_jobs(self.record).frame()

    def summary(self) -> str:
        """The batch in Markdown."""
        return page_text(batch_page(self.record))

    def page(self) -> str:
        """The batch as one HTML file that reaches nothing outside itself."""
        return batch_files(self.record)["report.html"].decode()

    def __repr__(self) -> str:
        return f"<batch of {self.record.index.source}: {len(self.record.jobs)} jobs>"

    def _repr_html_(self) -> str:
        return card(repr(self).strip("<>"), rows=rows_of(self.frame), rows_at=".frame")


class ExplainedPlan:
    """Why a plan, a pool or an island is what it is: `record` is the frozen explanation."""

    def __init__(self, record: Explanation) -> None:
        self.record = record

    def summary(self) -> str:
        """The explanation in Markdown."""
        return page_text(explanation_page(self.record))

    def __repr__(self) -> str:
        return f"<explanation of {self.record.plan}>"

    def _repr_html_(self) -> str:
        lines = [line.replace("**", "") for line in self.summary().splitlines() if line and not line.startswith("|")]
        return card(
            f"Explanation of {self.record.plan}", facts={"": " ".join(lines)[:600]}, rows_at="print(.summary())"
        )


def compare(*plans: PlannedDeployment | Plan | str | Path) -> ComparedPlans:
    """Plans at hand, or runs (their folders, plan.json files, folders of runs), beside each other.

    >>> planner.compare(plan, "runs/mixed-fleet")

    Plans at hand are called by their scenario's name, numbered where several have it. Raises InputError where a run is
    not sound, or nothing is given.
    """
    return compare_records(*(plan.record if isinstance(plan, PlannedDeployment) else plan for plan in plans))


def sweep(
    scenario: str | Path,
    settings: Mapping[str, Iterable[Any]],
    out: str | Path,
    *,
    resume: bool = False,
    processes: int = 1,
    seed: int | None = None,
    engine: str | None = None,
    progress: ReportJob | bool | None = None,
) -> SweptScenario:
    """A scenario file at every combination of values of its keys: `settings={"inventory.H20": range(64, 257, 64)}`.

    Runs, table and page are written to the folder `out`; `resume` plans only what is missing or changed in it. None
    leaves a key out. `progress`: False for no bar, or what hears of each point. With more `processes` than one a script
    needs `if __name__ == "__main__":` around its own code, as they load it, too. Raises InputError where a scenario of
    the grid is none, or `out` is not new.
    """
    keys = tuple(swept_key(key, values) for key, values in settings.items())
    folder = Path(out)
    request = SweepRequest(scenario=Path(scenario), keys=keys, folder=folder, seed=seed, engine=engine)
    executor = LocalExecutor(workers=processes) if processes != 1 else SerialExecutor()
    with point_bar(f"sweep {request.scenario.stem}", progress) as heard:
        record = run_sweep(request, executor, heard, resume=resume)
    write_sweep_files(folder, record)
    return SweptScenario(record, folder)


def batch(
    jobs: str | Path,
    out: str | Path,
    *,
    settings: Mapping[str, Any] | None = None,
    resume: bool = False,
    processes: int = 1,
    executor: str = "",
    scheduler: str | None = None,
    seed: int | None = None,
    engine: str | None = None,
    figures: bool = True,
    progress: ReportJob | bool | None = None,
) -> PlannedBatch:
    """The jobs of a jobs file, or every scenario of a folder, each planned once: `.frame` has a row a job.

    >>> planner.batch("jobs.yaml", "nightly", processes=4).frame

    Runs, tables and page are written to the folder `out`; `resume` plans only what is missing or changed in it.
    `settings`: keys of every scenario. `executor`: local, serial or dask; left out, processes where there is more than
    one. Without `figures` runs have no pictures. `progress`: False for no bar, or what hears of each job. A job that
    fails is a row of the frame, and not raised. With more `processes` than one a script needs `if __name__ ==
    "__main__":` around its own code. Raises InputError where jobs are none, `out` is not new, or another batch is at
    work in it.
    """
    folder, name = Path(out), executor or ("local" if processes != 1 else "serial")
    request = BatchRequest(
        source=Path(jobs),
        folder=folder,
        settings=tuple(Setting(key, value) for key, value in (settings or {}).items()),
        seed=seed,
        engine=engine,
        executor=name,
        figures=figures,
    )
    chosen = executor_of(name, workers=processes, scheduler=scheduler)
    with point_bar(f"batch {request.source.stem}", progress) as heard:
        result = run_batch(request, chosen, heard, resume=resume)
    write_batch_files(folder, result)
    return PlannedBatch(result.batch, folder)


def explain(
    plan: PlannedDeployment | Plan | str | Path, island: str | None = None, *, seconds: float = SECONDS
) -> ExplainedPlan:
    """Why a plan, or one of its pools or islands, is what it is; `seconds` of CPU for planning again what would change
    a pool. Raises InputError where there is none of that name."""
    if isinstance(plan, str | Path):
        record = pipeline.recheck(files.load_run(Path(plan)), str(plan))
    else:
        record = plan if isinstance(plan, Plan) else plan.record
    return ExplainedPlan(explained(record, island, seconds))
