"""Processes with this folder on their PYTHONPATH, and those that they start, write runs without pictures.

Painting is most of a short run's time, and what such processes are watched for is something else. Their searches halt
where tests say so, so that who is killed in the middle of one is: see `halted` in tests/faults/dask_processes.py.
"""

import sys
import time

if not any("resource_tracker" in word for word in sys.orig_argv):  # multiprocessing's own, which writes no runs
    from planner.files.plan.journals import Journal
    from planner.report.plan import page

    page.figures_of = lambda _plan: ()  # type: ignore[assignment]
    keep = Journal.keep_judged

    def keep_and_halt(journal, judged) -> None:
        """Keep an evaluation, and go no further while a test has it halt."""
        keep(journal, judged)
        while _halts(journal._folder.absolute(), journal.evaluations):
            time.sleep(0.01)

    def _halts(run, evaluations: int) -> bool:
        for folder in run.parents:
            try:
                name, least = (folder / "halt").read_text().split()
            except (FileNotFoundError, NotADirectoryError):
                continue
            return run.name.startswith(name) and evaluations >= int(least)
        return False

    Journal.keep_judged = keep_and_halt
