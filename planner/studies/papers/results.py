"""Raw results of long runs on disk: a table a run, and runs.csv, which says what made each."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from planner.errors import InputError
from planner.files.disk.csv_rows import csv_rows
from planner.studies.papers.records import Run

RUNS_FILE = "runs.csv"
COLUMNS = ("name", "command", "date", "cpu_s")
_MEND = "Run the command again, or take the folder from the repository."


class ResultsFolder:
    """The `Results` in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def table(self, name: str) -> list[Mapping[str, str]]:
        """Rows of `name`.csv, cells by column. InputError where it is not there or is no table."""
        path = self.folder / f"{name}.csv"
        if not path.is_file():
            raise InputError(f"{path}: must hold raw results, is not there.", hint=_MEND)
        return [row.cells for row in csv_rows(path, ())]

    def run(self, name: str) -> Run:
        """What made `name`.csv. InputError where runs.csv does not say it."""
        if name not in self._runs:
            raise InputError(
                f"{self.folder / RUNS_FILE}: must have a row for {name}, has {', '.join(self._runs)}.", hint=_MEND
            )
        return self._runs[name]

    @cached_property
    def _runs(self) -> dict[str, Run]:
        runs: dict[str, Run] = {}
        for row in csv_rows(self.folder / RUNS_FILE, COLUMNS):
            cpu_s = row.number("cpu_s")
            if not cpu_s >= 0:
                raise row.fault("cpu_s", "must be CPU-seconds")
            run = Run(name=row.name("name"), command=row.name("command"), date=row.name("date"), cpu_s=cpu_s)
            runs[run.name] = run
        return runs
