"""Fleets at hand: several services on one inventory, each deployment a plan."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from planner import pipeline
from planner.api.cards import card
from planner.api.deployments import PlannedDeployment
from planner.api.progress import Listener, search_bar
from planner.domain.arrivals import ReplaySettings
from planner.domain.fleets import FleetPlan, FleetScenario
from planner.domain.serving.fleets.lending import FleetSchedule, LendingTerms
from planner.errors import InputError
from planner.files.scenario.fleets import SERVICES, load_fleet
from planner.files.scenario.settings import Setting
from planner.report.fleets import tables
from planner.report.kit.markdown import plain
from planner.workload import summarize

if TYPE_CHECKING:
    import pandas as pd

    from planner.api.changes import ChangedFleet


class PlannedFleet:
    """A fleet at hand. `record` is its frozen plan; everything here is read from it.

    >>> fleet = planner.plan(services=[...], inventory={"H200": 64, "H20": 128})
    >>> fleet.value, fleet.bound, fleet.gap, fleet.promised_rps
    >>> fleet.frame, fleet.nodes, fleet.idle              # services, what one more node is worth, GPUs without work
    >>> fleet.plans["chat"].replay(); fleet.save("company")
    >>> week = fleet.schedule(days=7); week.gained_tokens_a_day; week.replay(burstiness=2)
    """

    def __init__(self, record: FleetPlan) -> None:
        self.record = record
        self.plans = {part.name: PlannedDeployment(part.plan) for part in record.plans}

    @property
    def name(self) -> str:
        """What the fleet is called."""
        return self.record.fleet.name

    @property
    def value(self) -> float:
        """What the division is best at, in its unit: such as the common multiple of all demands that is promised."""
        return self.record.value

    @property
    def unit(self) -> str:
        """The unit of `value` and `bound`."""
        return self.record.aim.row.unit

    @property
    def bound(self) -> float | None:
        """No division of the GPUs among deployable pools has a better value; None where nothing bounds it."""
        return self.record.bound

    @property
    def gap(self) -> float | None:
        """How far the value is from its bound, as a share: 0.02 is 2 %; None where it has none."""
        return self.record.gap

    @property
    def promised_rps(self) -> dict[str, float]:
        """Requests/s that each service is promised."""
        return {row.service: row.promised_rps for row in self.record.shares}

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

    @cached_property
    def deployments(self) -> "pd.DataFrame":
        """One row a deployment: its GPUs, and what its plan promises."""
        from planner.report.replanning.fleet_tables import deployments

        return deployments(self.record).frame()

    def schedule(
        self, days: float | None = None, progress: Callable[[str], None] = lambda _: None, **terms: float
    ) -> "FleetWeek":
        """Hour by hour, what services need for the rates of their curves, and who has the other nodes. `terms`:
        headroom, window_s, least_windows, floor, most_steps. Raises InputError."""
        from planner.files.records import read_record
        from planner.files.sections import top_level

        settings = read_record(LendingTerms, top_level(terms, "schedule of a fleet"))
        return FleetWeek(pipeline.schedule_fleet(self.record, settings, days, progress))

    def export(
        self,
        path: str | Path,
        target: str = "",
        *,
        engine: str = "",
        router: str = "",
        queues: bool = False,
        force: bool = False,
    ) -> Path:
        """Write manifests into the folder `path`: one folder a deployment, and `fleet/` with what routes requests to
        them by model, priorities, and with `queues` Kueue's quotas, which sum to the inventory. Raises ExportError
        where the target cannot express a plan."""
        from planner.files import write_folder
        from planner.runs.deployments import render_fleet

        rendered = render_fleet(self.record, target=target, engine=engine, router=router, queues=queues)
        write_folder(Path(path), rendered.folder, force=force)
        return Path(path)

    def replay(self, share: float = 1.0, *, requests: int = 20_000, seeds: int = 3) -> "pd.DataFrame":
        """Requests of all services through their deployments, at so much of what is promised: one row a service and
        deployment, and whether its own levels hold there."""
        from planner.report.replay.services import services_table

        settings = {
            part.name: ReplaySettings(router=part.plan.scenario.router, requests=requests, seeds=tuple(range(seeds)))
            for part in self.record.parts
        }
        return services_table(pipeline.replay_fleet(self.record, settings, share)).frame()

    def replan(
        self,
        scenario: str | Path | None = None,
        *,
        inventory: Any = None,
        settings: Mapping[str, object] | None = None,
        lost: Iterable[str] = (),
        least_share: float | None = None,
        meanwhile: Any = None,
        progress: Callable[[str], None] = lambda _: None,
    ) -> "ChangedFleet[PlannedFleet]":
        """The fleet for what is asked of it now, changed as little as will do, in steps that keep every service.

        >>> changed = fleet.replan(settings={"services.chat.demand": 60}, least_share=0.8)
        >>> changed.fleet, changed.deployments, changed.steps, changed.reached_share; changed.save("company-2")

        `scenario`: the new fleet's file; else this one's own question with other demands, weights and priorities
        (`settings`) and GPUs (`inventory`; types that it leaves out stay as they are). `lost`: GPU=COUNT or
        DEPLOYMENT/GPU=COUNT. `least_share`: of the smaller of its old and its new promise, that every step leaves a
        service. `meanwhile`: GPUs that there are until the change is done. Raises InputError where something cannot be
        used, InfeasibleError where demands cannot be met together, or no order of steps leaves so much.
        """
        from planner.api.changes import changed_fleet

        return changed_fleet(
            self.record,
            PlannedFleet,
            scenario,
            inventory=inventory,
            settings=settings,
            lost=lost,
            least_share=least_share,
            meanwhile=meanwhile,
            progress=progress,
        )

    def rehearse(
        self,
        share: float = 1.0,
        *,
        requests: int = 2000,
        seed: int = 0,
        slower: float | None = None,
        minutes: float = 10.0,
        programs: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> "pd.DataFrame":
        """The front and all routers as real programs on this machine, before engines simulated at the step times:
        one row a service and deployment, beside the same requests replayed. `share` of what is promised; `slower`:
        times that plan time runs as slowly as the wall's (None: as one process keeps up); `minutes` of the wall's time
        at most; `programs`: words that start haproxy, vllm_router, sglang_router. Raises InputError where one is not
        there."""
        from planner.runs.rehearsal.settings import RehearsalSettings, check_fleet_settings

        settings = RehearsalSettings(
            rate_rps=share * self.record.promise_rps,
            requests=requests,
            seed=seed,
            slower=slower,
            minutes=minutes,
            programs=programs,
        )
        check_fleet_settings(settings, self.record)
        # what speaks HTTP is an extra, whose absence the check tells
        from planner.runs.rehearsal.fleets.rehearsing import rehearse_fleet
        from planner.runs.rehearsal.fleets.writing import rehearsed_services

        return rehearsed_services(rehearse_fleet(self.record, settings)).frame()

    def losses(self) -> "pd.DataFrame":
        """For the loss of one node of every deployment: who lends one, and what all services are still promised."""
        from planner.report.replanning.fleet_tables import losses

        return losses(pipeline.lost_nodes_of_fleet(self.record)).frame()

    def summary(self) -> str:
        """The fleet in Markdown."""
        from planner.report.fleets.page import fleet_summary

        return fleet_summary(self.record)

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write its folder: fleet.json, tables, and a run folder a deployment. Refuses to replace one unless `force`.

        `planner.load(path)` reads it, and so does `planner report`."""
        from planner.runs.fleets import publish_fleet, write_fleet

        write_fleet(Path(path), publish_fleet(self.record), force=force)
        return Path(path)

    def __repr__(self) -> str:
        names = ", ".join(row.service for row in self.record.shares)
        bound = "no bound" if self.bound is None else f"bound {self.bound:.4g}"
        return f"<fleet {self.name} of {names}: {self.value:.4g} {self.unit}, {bound}>"

    def _repr_html_(self) -> str:
        from planner.report.fleets.words import verdict

        columns, rows = tables.services(self.record).words()
        listed = [dict(zip(columns, row, strict=True)) for row in rows]
        return card(f"Fleet {self.name}", plain(verdict(self.record)), rows=listed, rows_at="fleet.frame")


class FleetWeek:
    """A fleet's schedule at hand; `record` is the frozen one."""

    def __init__(self, record: FleetSchedule) -> None:
        self.record = record

    @property
    def gained_tokens_a_day(self) -> float:
        """Of batches on lent nodes, on average: for no more rent."""
        return self.record.gained_tokens_a_day

    @property
    def switches(self) -> int:
        """Changes of a deployment's level."""
        return self.record.switches

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """One row a window."""
        from planner.report.replanning.fleet_tables import windows

        return windows(self.record).frame()

    @cached_property
    def levels(self) -> "pd.DataFrame":
        """One row a level that stands in some window."""
        from planner.report.replanning.fleet_tables import levels

        return levels(self.record).frame()

    def replay(self, burstiness: float = 2.0, *, requests: int = 4000, seeds: tuple[int, ...] = (0,)) -> "pd.DataFrame":
        """Every level with its servers alone, at the highest rate of its windows: do its requests keep the levels?"""
        from planner.report.replanning.fleet_tables import replays

        return replays(pipeline.replay_fleet_schedule(self.record, burstiness, requests, seeds)).frame()

    def losses(self, window: int) -> "pd.DataFrame":
        """The same as a fleet's, in a window."""
        from planner.report.replanning.fleet_tables import losses

        return losses(pipeline.lost_nodes_of_fleet(self.record.plan, self.record, window)).frame()

    def summary(self) -> str:
        """The schedule in Markdown."""
        from planner.report.kit.markdown import page_text
        from planner.report.replanning.fleet_tables import fleet_schedule_page

        return page_text(fleet_schedule_page(self.record))

    def __repr__(self) -> str:
        return f"<schedule of {self.record.plan.fleet.name}: {self._verdict()}>"

    def _verdict(self) -> str:
        return f"{self.gained_tokens_a_day:,.4g} tokens a day on lent nodes, {self.switches} changes of level"

    def _repr_html_(self) -> str:
        from planner.report.replanning.fleet_tables import levels

        rows = levels(self.record).records()
        return card(f"Schedule of {self.record.plan.fleet.name}", self._verdict(), rows=rows, rows_at="week.levels")


def load_fleet_folder(path: str | Path) -> PlannedFleet:
    """The fleet of a folder that `planner plan` or `.save` wrote. Raises InputError where something of it was edited,
    is missing or contradicts itself."""
    from planner.runs.fleets import read_fleet

    return PlannedFleet(read_fleet(Path(path)))


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
    with search_bar(fleet.name, progress) as heard:
        return PlannedFleet(pipeline.plan_fleet(fleet, progress=heard))


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
