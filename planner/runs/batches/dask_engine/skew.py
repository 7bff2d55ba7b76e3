"""Who has which versions: what the numbers come from must be the same here and on every worker."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from distributed import Client

from planner.errors import InputError
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
