"""The most memory that a piece of work takes: measured in a process of its own.

Linux hands `ru_maxrss` on to a child, `exec` included, so a child of a large parent seems large; VmHWM begins anew.
"""

import os
import subprocess
import sys

_TELL = "\nprint(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))\n"


def peak_mb(program: str) -> float:
    """MB at the peak of a fresh interpreter that runs `program`; what can be imported here can be in it."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    answer = subprocess.run(
        [sys.executable, "-c", program + _TELL], capture_output=True, text=True, check=True, env=environment
    )
    return int(answer.stdout.splitlines()[-1]) * 1024 / 1e6
