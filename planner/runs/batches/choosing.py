"""Executors by name, as the command line's `--executor` has them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from planner.errors import InputError
from planner.runs.batches.jobs import Executor
from planner.runs.batches.local import LocalExecutor, SerialExecutor

if TYPE_CHECKING:
    from planner.processes.workers import TaskPool

LOCAL, SERIAL, DASK = "local", "serial", "dask"
EXECUTORS = (LOCAL, SERIAL, DASK)
"""Processes of this machine; one job after the other in this process; workers of Dask's distributed."""
INSTALL_DASK = 'pip install "llm-fleet-planner[dask]"'


Tell = Callable[[str], None]


def executor_of(name: str, *, workers: int, scheduler: str | None = None, tell: Tell = lambda _: None) -> Executor:
    """The executor called `name`, with at most `workers` processes on this machine.

    `scheduler`: address of a Dask scheduler (`tls://host:port`), whose workers then do the work; `tell` hears of those
    that get none. Raises InputError where the name is unknown, the scheduler is not for Dask, or Dask is not installed.
    """
    require_executor(name, scheduler)
    if name == DASK:
        from planner.runs.batches.dask_engine.executor import (  # noqa: PLC0415  (an optional extra)
            DaskExecutor,
            DaskSettings,
        )

        return DaskExecutor(settings=DaskSettings(workers=workers, scheduler=scheduler, tell=tell))
    return SerialExecutor() if name == SERIAL else LocalExecutor(workers=workers)


@contextmanager
def open_pool(
    name: str, *, workers: int, scheduler: str | None = None, tell: Tell = lambda _: None
) -> "Iterator[TaskPool | None]":
    """The workers of the executor called `name`, for tasks of studies and searches; None: processes of this machine,
    which those start themselves. Arguments and errors as of `executor_of`."""
    require_executor(name, scheduler)
    if name != DASK:
        yield None
        return
    from planner.runs.batches.dask_engine.executor import (  # noqa: PLC0415  (an optional extra)
        DaskSettings,
        open_dask_pool,
    )

    with open_dask_pool(DaskSettings(workers=workers, scheduler=scheduler, tell=tell)) as pool:
        yield pool


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
    needed = ["distributed"] if name == DASK else []
    if needed and scheduler is None:
        needed.append("cryptography")  # for the key of a cluster on this machine
    absent = [module for module in needed if find_spec(module) is None]
    if absent:
        raise InputError(
            f"--executor {DASK}: must have {' and '.join(absent)}, not installed here.",
            hint=f"Install it: `{INSTALL_DASK}`; or use --executor local.",
        )
