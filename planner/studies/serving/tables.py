"""Tables of a serving study as CSV: figures of every run, counts by minute, and what happened in a run."""

from collections.abc import Iterable

from planner.report.kit.tables import csv_table
from planner.studies.serving.measures import FIGURE_NAMES, by_minute
from planner.studies.serving.records import ServingPool
from planner.studies.serving.simulation.log import ACTIONS
from planner.studies.serving.study import ServingSeedRun

SERVING_FILE, MINUTES_FILE, RECORDS_FOLDER = "serving.csv", "minutes.csv", "records"
_RUN = ("policy", "seed")


def serving_csv(runs: Iterable[ServingSeedRun]) -> bytes:
    """A row a run; the same bytes for the same seeds."""
    rows = ([run.policy, run.seed, *(getattr(run.figures, name) for name in FIGURE_NAMES)] for run in runs)
    return csv_table((*_RUN, *FIGURE_NAMES), rows)


def minutes_csv(runs: Iterable[ServingSeedRun]) -> bytes:
    """A row a minute of a run."""
    rows = (
        [run.policy, run.seed, row.minute, row.requests, row.missed]
        for run in runs
        for row in by_minute(run.run.requests)
    )
    return csv_table((*_RUN, "minute", "requests", "missed"), rows)


def record_files(run: ServingSeedRun, pool: ServingPool) -> dict[str, bytes]:
    """Every request and every action of a run, by path."""
    stem = f"{RECORDS_FOLDER}/{run.policy}-{run.seed}"
    return {f"{stem}-requests.csv": _requests_csv(run, pool), f"{stem}-actions.csv": _actions_csv(run, pool)}


def _requests_csv(run: ServingSeedRun, pool: ServingPool) -> bytes:
    columns = run.run.requests
    names = [model.name for model in pool.models]
    rows = zip(
        [names[model] for model in columns.model.tolist()],
        columns.arrival_s.tolist(),
        columns.deadline_s.tolist(),
        columns.start_s.tolist(),
        columns.finish_s.tolist(),
        columns.machine.tolist(),
        strict=True,
    )
    return csv_table(("model", "arrival_s", "deadline_s", "start_s", "finish_s", "machine"), list(rows))


def _actions_csv(run: ServingSeedRun, pool: ServingPool) -> bytes:
    columns = run.run.actions
    names = [*(model.name for model in pool.models), ""]  # -1: of no model
    rows = zip(
        columns.machine.tolist(),
        [ACTIONS[action].value for action in columns.action.tolist()],
        [names[model] for model in columns.model.tolist()],
        columns.requests.tolist(),
        columns.start_s.tolist(),
        columns.end_s.tolist(),
        columns.done.tolist(),
        strict=True,
    )
    return csv_table(("machine", "action", "model", "requests", "start_s", "end_s", "done"), list(rows))
