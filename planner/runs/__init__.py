"""Many scenarios, a process each. Door: `run_scenarios`."""

from planner.runs.batches.jobs import Job, Outcome
from planner.runs.batches.local import run_scenarios
from planner.runs.batches.running import resume_job, run_job

__all__ = [
    "Job",
    "Outcome",
    "resume_job",
    "run_job",
    "run_scenarios",
]
