"""The most memory that a piece of work takes: measured in a process of its own.

Linux hands `ru_maxrss` on to a child, `exec` included, so a child of a large parent seems large; VmHWM begins anew.
"""

import os
import subprocess
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_TELL = "\nprint(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))\n"


def peak_mb(program: str) -> float:
    """MB at the peak of a fresh interpreter that runs `program`; modules of the benchmarks can be imported in it."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(_HERE), str(_HERE.parents[1])))}
    answer = subprocess.run(
        [sys.executable, "-c", program + _TELL], capture_output=True, text=True, check=True, env=environment
    )
    return int(answer.stdout.splitlines()[-1]) * 1024 / 1e6
