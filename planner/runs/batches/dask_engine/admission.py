"""Which workers may take up tasks: those with the versions of this process that see the same folders and files."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distributed import Client

from planner.errors import InputError, PlannerError
from planner.files.plan.batches.locks import probes_in, unseen
from planner.plans.provenance import DISTRIBUTION, versions

PLANNER, PYTHON = "planner", "python"
DASK = ("dask", "distributed", "cloudpickle")
"""What client, scheduler and workers speak to each other with."""
MOST_COLUMNS = 6
HERE, SCHEDULER = "here", "scheduler"

Versions = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterVersions:
    """Versions by name: of this process, of the scheduler, and of each worker by its address."""

    here: Versions
    scheduler: Versions
    workers: Mapping[str, Versions]

    @property
    def skewed(self) -> tuple[str, ...]:
        """Addresses of workers that have something else than this process."""
        return tuple(address for address, theirs in self.workers.items() if theirs != self.here)

    @property
    def scheduler_skewed(self) -> bool:
        """Whether the scheduler speaks otherwise. It makes no plans: the planner's libraries are not asked for."""
        return any(self.scheduler.get(name) != self.here[name] for name in (PYTHON, *DASK))


def cluster_versions(client: Client) -> ClusterVersions:
    """What everybody has now."""
    names = tuple(name for name, _ in versions() if name not in (PLANNER, PYTHON))
    listed = client.get_versions(packages=[DISTRIBUTION, *names, *DASK])
    return ClusterVersions(
        here=_versions(listed["client"], names),
        scheduler=_versions(listed["scheduler"], names),
        workers={address: _versions(theirs, names) for address, theirs in sorted(listed["workers"].items())},
    )


def require_no_skew(scheduler: str, cluster: ClusterVersions) -> None:
    """InputError, with a table of who has what, where a worker or the scheduler has another version than this one."""
    if cluster.skewed or cluster.scheduler_skewed:
        raise InputError(
            f"{scheduler}: scheduler and workers must have the versions of this process, got others:\n"
            f"{skew_table(cluster)}",
            hint="Install the same constraints.txt, and the same Python, everywhere, and start the workers again.",
        )


def skew_table(cluster: ClusterVersions) -> str:
    """A row for each name whose versions differ, a column for each who has others; equal workers share one."""
    columns: dict[str, Versions] = {HERE: cluster.here, SCHEDULER: cluster.scheduler}
    alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for address, theirs in cluster.workers.items():
        alike.setdefault(tuple(sorted(theirs.items())), []).append(address)
    for pairs, addresses in list(alike.items())[:MOST_COLUMNS]:
        others = f" and {len(addresses) - 1} more" if len(addresses) > 1 else ""
        columns[addresses[0] + others] = dict(pairs)
    compared = {title: (PYTHON, *DASK) if title == SCHEDULER else tuple(cluster.here) for title in columns}
    differing = [
        name
        for name in cluster.here
        if len({theirs.get(name) for title, theirs in columns.items() if name in compared[title]}) > 1
    ]
    rows = [["", *columns]]
    rows += [
        [name, *(theirs.get(name, "-") if name in compared[title] else "-" for title, theirs in columns.items())]
        for name in differing
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _versions(theirs: Mapping[str, Any] | None, names: tuple[str, ...]) -> Versions:
    packages = theirs["packages"] if theirs else {}
    pairs = ((PLANNER, DISTRIBUTION), (PYTHON, PYTHON), *((name, name) for name in (*names, *DASK)))
    return {name: packages.get(package) or "not installed" for name, package in pairs}


LOOK_S = 0.5
AGAIN = (
    "Start it and the command again; `planner plan --resume`, `planner sweep --resume` and `planner batch --resume` go "
    "on from what has ended."
)
Tell = Callable[[str], None]


class Admission:
    """The workers that were let in, and how many tasks each takes at once.

    `folders`, `files`: what workers must see; with none of either nothing is looked for. Those that are there when the
    work begins are all right, or nothing begins; of those that come later the others are told of, and get no task.
    """

    def __init__(
        self,
        client: Client,
        folders: Sequence[Path] = (),
        files: Sequence[Path] = (),
        tell: Tell = lambda _: None,
    ) -> None:
        self._client, self._folders, self._files, self._tell = client, folders, files, tell
        self._refused: dict[str, str] = {}
        self.threads: dict[str, int] = {}

    @property
    def scheduler(self) -> str:
        """Its address."""
        assert self._client.scheduler is not None
        return str(self._client.scheduler.address)

    def begin(self, patience_s: float) -> None:
        """Let in the workers that are there, waiting for a first one. Raises InputError where none comes, versions
        differ, or folders and files are not seen."""
        until_s = time.monotonic() + patience_s
        while not (present := self._present()):
            if time.monotonic() > until_s:
                raise InputError(
                    f"{self.scheduler}: must have workers, got none within {patience_s:g} s.",
                    hint=f"Start some: `dask worker {self.scheduler}`.",
                )
            time.sleep(LOOK_S / 5)
        require_no_skew(self.scheduler, cluster_versions(self._client))
        faults = self._unseen(tuple(present))
        if faults:
            address, reasons = next(iter(faults.items()))
            raise InputError(
                f"worker {address}: must see the folders and files of this machine by the same paths, does not see "
                f"{reasons}.",
                hint="Let client and workers share a file system, or leave out --scheduler to work on this machine.",
            )
        self.threads = present

    def look(self) -> None:
        """Who has gone and who has come. Raises PlannerError where the scheduler is gone."""
        present = self._present()
        fresh = present.keys() - self.threads.keys() - self._refused.keys()
        self.threads = {address: threads for address, threads in present.items() if address in self.threads}
        if fresh:
            refused = self._faults(tuple(sorted(fresh)))
            for address, reason in refused.items():
                self._refused[address] = reason
                self._tell(f"Worker {address} gets no work: {reason}")
            self.threads |= {address: present[address] for address in fresh if address not in refused}

    def why_none(self) -> str:
        """What stands against the workers that are there, for a message."""
        return " ".join(f"Worker {address}: {reason}" for address, reason in self._refused.items())

    def _present(self) -> dict[str, int]:
        try:
            if self._client.status == "running":
                return workers_of(self._client)
        except OSError:  # its connection is gone
            pass
        raise lost(self.scheduler)

    def _faults(self, addresses: tuple[str, ...]) -> dict[str, str]:
        versions = cluster_versions(self._client)
        faults = {
            address: f"it has other versions:\n{skew_table(versions)}"
            for address in addresses
            if address in versions.skewed or address not in versions.workers
        }
        sound = tuple(address for address in addresses if address not in faults)
        blind = {address: f"it does not see {reasons}." for address, reasons in self._unseen(sound).items()}
        return faults | blind

    def _unseen(self, addresses: tuple[str, ...]) -> dict[str, str]:
        """What each worker lacks; those that lack nothing are left out."""
        if not addresses or not (self._folders or self._files):
            return {}
        with probes_in(self._folders) as probes:
            answers = self._client.run(unseen, [*probes, *self._files], workers=list(addresses), on_error="return")
        reasons = {}
        for address in addresses:
            answer = answers.get(address, ("its worker, which has gone",))
            listed = (f"{type(answer).__name__}: {answer}",) if isinstance(answer, Exception) else answer
            if listed:
                more = f" and {len(listed) - 1} more" if len(listed) > 1 else ""
                reasons[address] = f"{listed[0]}{more}"
        return reasons


def workers_of(client: Client) -> dict[str, int]:
    """The addresses of a scheduler's workers, with the threads of each; OSError where it has gone.

    Asked of the scheduler itself: `Client.scheduler_info` may answer what the client's own heartbeat, which asks for no
    workers, has learned in the same moment, and then all workers seem to have gone.
    """
    assert client.scheduler is not None
    info = client.sync(client.scheduler.identity, n_workers=-1)
    return {address: int(worker["nthreads"]) for address, worker in info["workers"].items()}


def lost(scheduler: str) -> PlannerError:
    """The error of a scheduler that went while there was work."""
    return PlannerError(
        f"{scheduler}: the Dask scheduler does not answer any more.",
        hint=AGAIN,
    )
