"""Executors by name, as the command line's `--executor` has them."""

from importlib.util import find_spec

from planner.errors import InputError
from planner.runs.batches.executors import Executor
from planner.runs.batches.local import LocalExecutor, SerialExecutor

EXECUTORS = ("local", "serial", "dask")
"""Processes of this machine; one job after the other in this process; workers of Dask's distributed."""
DASK = "dask"
INSTALL_DASK = 'pip install "llm-fleet-planner[dask]"'


def executor_of(name: str, *, workers: int, scheduler: str | None = None) -> Executor:
    """The executor called `name`, with at most `workers` processes on this machine.

    `scheduler`: address of a Dask scheduler (`tcp://host:port`), whose workers then do the work. Raises InputError
    where the name is unknown, the scheduler is not for Dask or its address is none, or Dask is not installed.
    """
    require_executor(name, scheduler)
    if name == DASK:
        from planner.runs.batches.dask_engine.executor import DaskExecutor  # noqa: PLC0415  (an optional extra)
        from planner.runs.batches.dask_engine.sessions import DaskSettings  # noqa: PLC0415  (as above)

        return DaskExecutor(settings=DaskSettings(workers=workers, scheduler=scheduler))
    return SerialExecutor() if name == "serial" else LocalExecutor(workers=workers)


def require_executor(name: str, scheduler: str | None) -> None:
    """InputError where there is no such executor, or it cannot be had here."""
    if name not in EXECUTORS:
        raise InputError(
            f"--executor: must be one of {', '.join(EXECUTORS)}, got {name!r}.", hint="Leave it out for local."
        )
    if name != DASK and scheduler is not None:
        raise InputError(
            f"--scheduler: must come with --executor {DASK}, got --executor {name}.", hint="Leave out one of the two."
        )
    if name == DASK and find_spec("distributed") is None:
        raise InputError(
            f"--executor {DASK}: must have Dask's distributed, which is not installed.",
            hint=f"Install it: `{INSTALL_DASK}`; or use --executor local.",
        )
