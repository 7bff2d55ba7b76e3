"""A client of Dask workers: of a cluster on this machine that ends with it, or of a scheduler that is there already.

Whoever can speak to a scheduler or a worker runs code there. A cluster of our own speaks by TLS with a key that is made
for it, lies in the memory of its processes alone, and is asked of every connection; other schedulers are reached by
TLS with the certificates of Dask's configuration, without it only on this machine.
"""

import asyncio
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from ipaddress import ip_address
from tempfile import TemporaryDirectory

import dask
from distributed import Client, LocalCluster, Security, rpc

from planner.errors import InputError
from planner.processes.workers import deaf_to_interrupts

SCHEDULER = "Scheduler"
OPEN, ENCRYPTED = "tcp", "tls"
_TLS = "distributed.comm.tls"
_TLS_KEYS = {"ca_file": "ca-file", "cert": "client.cert"}
CONFIG = {
    "distributed.admin.large-graph-warning-threshold": "1GB",  # a placed layout is sent with its cluster
    "distributed.worker.daemon": False,
    "distributed.worker.profile.enabled": False,  # it would look at every worker a hundred times a second
    "distributed.scheduler.http.routes": [],  # pages without a key; the port is there, and nothing on it
    "distributed.worker.http.routes": [],
}


@contextmanager
def open_client(scheduler: str | None, workers: int, patience_s: float) -> Iterator[Client]:
    """A client of the scheduler at that address; None: of `workers` processes on this machine, that end with the block.

    Certificates and timeouts are those of Dask's own configuration. Raises InputError where the address is none, or no
    scheduler answers there within `patience_s` seconds.
    """
    with ExitStack() as stack:
        stack.enter_context(_silence())
        stack.enter_context(dask.config.set(CONFIG))
        if scheduler is None:
            yield stack.enter_context(_local_client(stack, workers))
        else:
            yield stack.enter_context(_connected(scheduler, patience_s))


def _local_client(stack: ExitStack, workers: int) -> Client:
    folder = stack.enter_context(TemporaryDirectory(prefix="planner-dask-", ignore_cleanup_errors=True))
    with deaf_to_interrupts():  # Ctrl-C is for this process, which ends the others
        cluster = stack.enter_context(
            LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                protocol=f"{ENCRYPTED}://",
                security=Security.temporary(),
                dashboard_address=None,
                worker_dashboard_address="127.0.0.1:0",  # left out it is a port for everybody; there is nothing on it
                scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
                local_directory=folder,
                memory_limit=0,  # the memory is that of children, which Dask does not count
                silence_logs=logging.CRITICAL,
            )
        )
        return Client(cluster, set_as_default=False)


def _connected(scheduler: str, patience_s: float) -> Client:
    _require_certificate(scheduler)
    try:
        with dask.config.set({"distributed.comm.timeouts.connect": f"{patience_s}s"}), deaf_to_interrupts():
            kind = _kind(scheduler, patience_s)  # a client would wait for ever for one that answers something else
            client = Client(scheduler, timeout=patience_s, set_as_default=False) if kind == SCHEDULER else None
    except Exception as error:
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise InputError(
            f"--scheduler {scheduler}: must be a Dask scheduler that answers within {patience_s:g} s, "
            f"got {reason.splitlines()[0].rstrip('.')}.",
            hint="Look whether it runs (`dask scheduler`), and whether a firewall or TLS is between.",
        ) from error
    if client is None:
        raise InputError(
            f"--scheduler {scheduler}: must be the address of a Dask scheduler, got that of a {kind}.",
            hint="Give the address that `dask scheduler` prints.",
        )
    return client


def _require_certificate(scheduler: str) -> None:
    """InputError where TLS is asked for and Dask's configuration names no certificate of a client."""
    settings = Security().get_tls_config_for_role("client")
    absent = [f"{_TLS}.{_TLS_KEYS[key]}" for key in _TLS_KEYS if not settings[key]]
    if scheduler.startswith(f"{ENCRYPTED}://") and absent:
        raise InputError(
            f"--scheduler {scheduler}: must come with a client's certificate in Dask's configuration, which lacks "
            f"{' and '.join(absent)}.",
            hint="Set DASK_DISTRIBUTED__COMM__TLS__CA_FILE, __CLIENT__CERT and __CLIENT__KEY, as `planner docs dask` "
            "says.",
        )


def _kind(address: str, patience_s: float) -> str:
    """What answers there says that it is."""

    async def ask() -> str:
        async with rpc(address, connection_args=Security().get_connection_args("client")) as other:
            return str((await other.identity())["type"])

    async def ask_in_time() -> str:
        return await asyncio.wait_for(ask(), patience_s)

    with ThreadPoolExecutor(1) as thread:  # of its own: a notebook's has a loop already
        return thread.submit(asyncio.run, ask_in_time()).result()


def require_address(scheduler: str) -> None:
    """InputError where it cannot be the address of a scheduler, or is one of another machine without TLS."""
    protocol, _, place = scheduler.partition("://")
    host, _, port = place.rpartition(":")
    if protocol not in (OPEN, ENCRYPTED) or not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise InputError(
            f"--scheduler: must be tls://HOST:PORT or tcp://HOST:PORT, got {scheduler!r}.",
            hint="Give the address that `dask scheduler` prints, such as tls://10.0.0.5:8786.",
        )
    if protocol == OPEN and not _is_loopback(host):
        raise InputError(
            f"--scheduler: must be tls:// where the scheduler is on another machine, got {scheduler!r}: by tcp:// "
            "whoever reaches it, or stands between, runs code in the workers and in this process.",
            hint="Start scheduler and workers with certificates, as `planner docs dask` says; or tunnel the port to "
            "this machine by SSH and give tcp://127.0.0.1:PORT.",
        )


def openness(scheduler: str) -> str:
    """What a user must know of an address without TLS; empty where there is nothing."""
    if not scheduler.startswith(f"{OPEN}://"):
        return ""
    return (
        f"--scheduler {scheduler} asks nobody for a key: every user of this machine can run code in its workers. "
        "A tls:// scheduler, or none for a cluster of the planner's own, asks."
    )


def _is_loopback(host: str) -> bool:
    """Of names only `localhost`: others mean what a resolver says."""
    with suppress(ValueError):
        return ip_address(host.strip("[]")).is_loopback
    return host == "localhost"


@contextmanager
def _silence() -> Iterator[None]:
    """Dask's loggers say nothing meanwhile: what matters of it becomes an error of ours."""
    loggers = [logging.getLogger(name) for name in ("distributed", "tornado")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
