"""Many scenarios, a process each. Door: `run_scenarios`."""

from typing import TYPE_CHECKING

from planner.doors import door

if TYPE_CHECKING:
    from planner.runs.batch import Job, Outcome, resume_job, run_job, run_scenarios

__all__ = ["Job", "Outcome", "resume_job", "run_job", "run_scenarios"]

__getattr__, __dir__ = door(__name__)
