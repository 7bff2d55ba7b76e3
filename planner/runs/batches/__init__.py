"""Many scenarios: jobs, who executes them, sweeps over keys. Door: `run_scenarios`."""
