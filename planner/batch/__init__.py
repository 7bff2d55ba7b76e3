"""Many scenarios, a process each. Door: `run_scenarios`."""

from planner.batch.runner import Job, Outcome, run_job, run_scenarios

__all__ = ["Job", "Outcome", "run_job", "run_scenarios"]
