"""One call: `python -m planner.cli.assistants.confined ROOT SCRATCH WORDS`, the command `planner WORDS` in the folder
ROOT, which it does not leave. Its answer, or its error, is one JSON document on standard output.

It ends when standard input does: then whoever called is gone.
"""

import os
import signal
import sys
import threading
from pathlib import Path

from planner.cli import app, screen
from planner.errors import PlannerError
from planner.processes.confinement import confine


def main() -> None:
    """Run the command that the words are."""
    root, scratch, *words = sys.argv[1:]
    threading.Thread(target=_end_with_caller, daemon=True).start()
    confine((Path(root), Path(scratch)))
    sys.argv = ["planner", *words]
    app.main(_show_error)


def _end_with_caller() -> None:
    while os.read(0, 64):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _show_error(error: PlannerError) -> None:
    screen.show_json({"error": {"message": error.message, "hint": error.hint, "where": error.where}})


if __name__ == "__main__":
    main()
