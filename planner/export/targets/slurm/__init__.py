"""Slurm's batch jobs."""
