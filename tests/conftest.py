"""Properties are checked on the same examples every time, a laden machine does not fail them, and every file of the
planner is compiled once: not anew by each process that a test starts, nor by each worker that collects the tests."""

import os
import sys

from hypothesis import settings

settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")

sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
