"""As the tests of the other commands."""

import sys
from pathlib import Path

sys.path.extend(str(Path(__file__).parents[2] / folder) for folder in ("cli", "studies"))

from called_program import *  # noqa: F403  (fixtures)
