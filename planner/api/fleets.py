"""Fleets at hand: several services on one inventory, and who has its nodes hour by hour."""

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.api.cards import card
from planner.api.deployments import PlannedDeployment
from planner.domain.fleets import FleetPlan
from planner.domain.serving.lending import FleetSchedule, LendingTerms
from planner.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


class PlannedFleet:
    """The plan of a fleet at hand. `record` is the frozen plan itself; everything here is read from it.

    >>> fleet = planner.fleet("company.yaml")
    >>> fleet.services, fleet.nodes, fleet.plans["chat"]   # what services get and pay, one more node, a deployment
    >>> week = fleet.schedule(days=7); week.gained_tokens_a_day; week.replay(burstiness=2)
    """

    def __init__(self, record: FleetPlan) -> None:
        self.record = record

    @property
    def value(self) -> float:
        """Of the objective, in its unit."""
        return self.record.value

    @property
    def gap(self) -> float:
        """How far the value is from its bound, relative."""
        return self.record.gap

    @cached_property
    def plans(self) -> dict[str, PlannedDeployment]:
        """The plan of every deployment by name, batches' too."""
        return {part.name: PlannedDeployment(part.plan) for part in self.record.plans}

    @cached_property
    def services(self) -> "pd.DataFrame":
        """One row a service with a demand."""
        from planner.report.kit.tables import fields, table_of

        names = ("service", "demand_rps", "promised_rps", "share", "rent_usd_per_hour", "marginal_usd_per_hour")
        return table_of(fields(*names), self.record.shares).frame()

    @cached_property
    def deployments(self) -> "pd.DataFrame":
        """One row a deployment: its GPUs, and what its plan promises."""
        from planner.report.replanning.fleet_tables import deployments

        return deployments(self.record).frame()

    @cached_property
    def nodes(self) -> "pd.DataFrame":
        """One row a GPU type: what one more node changes, and requests/s that each service alone would gain by it."""
        from planner.report.kit.tables import entries, fields, table_of

        worths = self.record.worths
        requests = entries(lambda worth: worth.requests, worths)
        return table_of((*fields("gpu", "gpus", "change"), *requests), worths).frame()

    def schedule(
        self, days: float | None = None, progress: Callable[[str], None] = lambda _: None, **terms: float
    ) -> "FleetWeek":
        """Hour by hour, what services need for the rates of their curves, and who has the other nodes. `terms`:
        headroom, window_s, least_windows, floor, most_steps. Raises InputError."""
        from planner import pipeline
        from planner.files.records import read_record
        from planner.files.sections import top_level

        settings = read_record(LendingTerms, top_level(terms, "schedule of a fleet"))
        return FleetWeek(pipeline.schedule_fleet(self.record, settings, days, progress))

    def losses(self) -> "pd.DataFrame":
        """For the loss of one node of every deployment: who lends one, and what all services are still promised."""
        from planner import pipeline
        from planner.report.replanning.fleet_tables import losses

        return losses(pipeline.lost_nodes_of_fleet(self.record)).frame()

    def __repr__(self) -> str:
        return f"<fleet {self.record.fleet.name}: {self._verdict()}>"

    def _verdict(self) -> str:
        row = self.record.fleet.objective.kind.row
        return f"{self.value:,.4g} {row.unit}, at most {self.gap:.1%} from the bound"

    def _repr_html_(self) -> str:
        from planner.report.replanning.fleet_tables import deployments

        rows = deployments(self.record).records()
        return card(f"Fleet {self.record.fleet.name}", self._verdict(), rows=rows, rows_at="fleet.deployments")


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
        from planner import pipeline
        from planner.report.replanning.fleet_tables import replays

        return replays(pipeline.replay_fleet_schedule(self.record, burstiness, requests, seeds)).frame()

    def losses(self, window: int) -> "pd.DataFrame":
        """The same as a fleet's, in a window."""
        from planner import pipeline
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


def fleet(scenario: str | Path | Mapping[str, Any], progress: Callable[[str], None] = lambda _: None) -> PlannedFleet:
    """The plan of several services on one inventory.

    >>> fleet = planner.fleet("company.yaml")

    `scenario`: a file, or its document. `progress` hears of each step. Raises InputError for what cannot be used,
    InfeasibleError where demands or floors cannot be met together.
    """
    from planner import pipeline
    from planner.files.scenario.fleets import fleet_from_document, load_fleet
    from planner.workload import summarize

    if isinstance(scenario, Mapping):
        return PlannedFleet(
            pipeline.plan_fleet(
                fleet_from_document(scenario, origin="fleet", base=Path(), summarize=summarize), progress
            )
        )
    loaded = load_fleet(Path(scenario), summarize)
    if loaded is None:
        raise InputError(
            f"{scenario}: services: must be there for a fleet.", hint="Plan it with planner.plan_scenario."
        )
    return PlannedFleet(pipeline.plan_fleet(loaded, progress))
