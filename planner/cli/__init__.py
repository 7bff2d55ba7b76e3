"""The command line: one file a command. Door: `main`."""

from planner.cli.app import main

__all__ = ["main"]
