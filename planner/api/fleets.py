"""Fleets at hand: several services on one inventory, each deployment a plan."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner import pipeline
from planner.api.cards import card
from planner.api.deployments import PlannedDeployment
from planner.api.progress import Listener, search_bar
from planner.domain import Plan
from planner.domain.fleets import FleetScenario, StoredFleet
from planner.errors import InputError
from planner.files.scenario.fleets import SERVICES, load_fleet
from planner.files.scenario.settings import Setting
from planner.report.fleets import tables
from planner.report.kit.markdown import plain
from planner.workload import summarize

if TYPE_CHECKING:
    import pandas as pd


class PlannedFleet:
    """A fleet at hand. `record` is what its document says; everything here is read from it and from its plans.

    >>> fleet = planner.plan(services=[...], inventory={"H200": 64, "H20": 128})
    >>> fleet.value, fleet.bound, fleet.gap, fleet.promised_rps
    >>> fleet.frame, fleet.nodes, fleet.idle              # services, what one more node is worth, GPUs without work
    >>> fleet.plans["chat"].replay(); fleet.save("company")
    """

    def __init__(self, record: StoredFleet, plans: Mapping[str, Plan]) -> None:
        self.record = record
        self.plans = {name: PlannedDeployment(plan) for name, plan in plans.items()}

    @property
    def name(self) -> str:
        """What the fleet is called."""
        return self.record.name

    @property
    def value(self) -> float:
        """What the division is best at, in its unit: such as the common multiple of all demands that is promised."""
        return self.record.value

    @property
    def unit(self) -> str:
        """The unit of `value` and `bound`."""
        return self.record.aim.row.unit

    @property
    def bound(self) -> float:
        """No division of the GPUs among deployable pools has a better value."""
        return self.record.bound

    @property
    def gap(self) -> float:
        """How far the value is from its bound, as a share: 0.02 is 2 %."""
        return self.record.gap

    @property
    def promised_rps(self) -> dict[str, float]:
        """Requests/s that each service is promised."""
        return {row.service: row.promised_rps for row in self.record.services}

    @property
    def price_usd_per_hour(self) -> float:
        """Rent of all GPUs that services with a demand have."""
        return self.record.rent_usd_per_hour

    @property
    def idle(self) -> dict[str, int]:
        """GPUs by type that nobody has."""
        return dict(self.record.idle)

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """One row a service: demand, promise, GPUs, its part of the rent."""
        return tables.service_rows(self.record).frame()

    @cached_property
    def nodes(self) -> "pd.DataFrame":
        """One row a GPU type: what one more node of it is worth to all services, and to each alone."""
        return tables.nodes(self.record).frame()

    @cached_property
    def batches(self) -> "pd.DataFrame":
        """One row a service that takes what others leave: its GPUs and tokens a day."""
        return tables.batches(self.record).frame()

    def summary(self) -> str:
        """The fleet in Markdown."""
        from planner.report.fleets.page import fleet_summary

        return fleet_summary(self.record)

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write its folder: fleet.json, tables, and a run folder a deployment. Refuses to replace one unless `force`.

        `planner.load(path)` reads it, and so does `planner report`."""
        from planner.runs.fleets import publish_fleet, write_fleet

        plans = {name: plan.record for name, plan in self.plans.items()}
        write_fleet(Path(path), publish_fleet(self.record, plans), force=force)
        return Path(path)

    def __repr__(self) -> str:
        names = ", ".join(row.service for row in self.record.services)
        return f"<fleet {self.name} of {names}: {self.value:.4g} {self.unit}, bound {self.bound:.4g}>"

    def _repr_html_(self) -> str:
        from planner.report.fleets.words import verdict

        columns, rows = tables.services(self.record).words()
        listed = [dict(zip(columns, row, strict=True)) for row in rows]
        return card(f"Fleet {self.name}", plain(verdict(self.record)), rows=listed, rows_at="fleet.frame")


def load_fleet_folder(path: str | Path) -> PlannedFleet:
    """The fleet of a folder that `planner plan` or `.save` wrote. Raises InputError where something of it was edited,
    is missing or contradicts itself."""
    from planner.runs.fleets import read_fleet

    return PlannedFleet(*read_fleet(Path(path)))


def plan_fleet(
    path: str | Path, *, progress: Listener = None, settings: Mapping[str, Any] | None = None
) -> PlannedFleet:
    """Plan the file of several services on one inventory.

    >>> fleet = planner.plan_fleet("fleet.yaml", settings={"inventory.H20": 96})

    `settings`: keys of it set anew. Raises InputError where the file cannot be used, naming its keys, or is of one
    service; InfeasibleError where the demands cannot be met together.
    """
    chosen = tuple(Setting(key=key, value=value) for key, value in (settings or {}).items())
    fleet = load_fleet(Path(path), summarize, chosen)
    if fleet is None:
        raise InputError(
            f"{path}: {SERVICES}: must be there, is missing: the scenario is of one service.",
            hint="planner.plan_scenario(path) plans it.",
        )
    return planned_fleet(fleet, progress)


def planned_fleet(fleet: FleetScenario, progress: Listener) -> PlannedFleet:
    """The plan of a fleet, at hand."""
    from planner.runs.fleets import stored_and_plans

    with search_bar(fleet.name, progress) as heard:
        return PlannedFleet(*stored_and_plans(pipeline.plan_fleet(fleet, progress=heard)))


def listed_services(services: object, origin: str) -> list[Mapping[str, Any]]:
    """The services of a call. Raises InputError where they are no mappings."""
    if isinstance(services, str | Mapping) or not isinstance(services, Iterable):
        raise InputError(f"{origin}: {SERVICES}: must be a list of services, got {type(services).__name__}.", hint=_AS)
    rows = list(services)
    for place, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise InputError(f"{origin}: {SERVICES}[{place}]: must be a mapping, got {type(row).__name__}.", hint=_AS)
    return rows


_AS = 'As services=[{"name": "chat", "model": "gpt-oss-20b", "workload": "azure-conv-2023", "demand": 20}].'
