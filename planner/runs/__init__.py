"""Many scenarios, a process each. Door: `run_scenarios`."""

from planner.runs.batch import Job, Outcome, resume_job, run_job, run_scenarios

__all__ = ["Job", "Outcome", "resume_job", "run_job", "run_scenarios"]
