"""What these tests take from those of the core: helpers that lie in its folders."""

import sys
from pathlib import Path

for _folder in ("benchmarks", "cli", "faults", "report"):
    sys.path.append(str(Path(__file__).parents[1] / _folder))
