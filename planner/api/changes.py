"""A deployed plan changed, at hand: the new plan, what becomes of servers, the steps, the frontier."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from planner import pipeline, report
from planner.api.cards import card, rows_of
from planner.api.tables import counts_of
from planner.domain import Plan
from planner.domain.fleets import FleetPlan
from planner.domain.serving.fleets.changes import FleetChange
from planner.errors import InputError
from planner.files.scenario.settings import Setting
from planner.report.replanning.fleet_changes import change_page_of_fleet, deployment_rows, step_rows
from planner.runs.replanning.asking import ChangedPlan, ChangeQuestion, change_plan, lost_servers
from planner.runs.replanning.fleets import asked_of_fleet, publish_fleet_change, terms_of_change
from planner.runs.replanning.inputs import change_limits, change_settings, new_scenario

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


PlanAtHand = TypeVar("PlanAtHand")


class ChangedDeployment(Generic[PlanAtHand]):
    """A changed plan at hand: `record` has the plans, the change, the steps and the frontier as frozen records, `plan`
    is the new plan."""

    def __init__(self, record: ChangedPlan, plan: PlanAtHand) -> None:
        self.record, self.plan = record, plan

    @property
    def name(self) -> str:
        """What the new plan's scenario is called."""
        return self.record.plan.scenario.name

    @property
    def running_on_share(self) -> float:
        """Of the deployed servers, those whose engines run on."""
        return self.record.change.running_on_share

    @property
    def gpus_touched(self) -> int:
        """GPUs of all servers whose engines do not run on."""
        return self.record.change.gpus_touched

    @property
    def reached_share(self) -> float:
        """Of the lower of both plans' rates, what the worst step leaves."""
        return self.record.roll_out.reached_share

    @property
    def holds(self) -> bool | None:
        """Whether the levels held in the replays of all steps; None where none was replayed."""
        return self.record.roll_out.holds

    @cached_property
    def servers(self) -> "pd.DataFrame":
        """One row a kind of change and servers."""
        return report.changes_frame(self.record.change)

    @cached_property
    def steps(self) -> "pd.DataFrame":
        """One row a step: what stops and starts, requests/s meanwhile and then, seconds."""
        return report.steps_frame(self.record.roll_out)

    @cached_property
    def frontier(self) -> "pd.DataFrame":
        """One row a plan: the best rate for so many GPUs touched."""
        return report.change_frontier_frame(self.record.frontier)

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of the pictures that there are, for `figure`."""
        return tuple(report.CHANGE_FIGURES)

    def figure(self, name: str = "rollout") -> "Figure":
        """A picture: rollout (what can be served, step by step) or frontier (rate against change). InputError."""
        return report.change_figure(self.record.roll_out, self.record.frontier, name, self.name)

    def summary(self) -> str:
        """The change in Markdown."""
        record = self.record
        page = report.change_page(record.change, record.frontier, record.roll_out, record.plan, record.notes)
        return report.page_text(page)

    def save(
        self,
        path: str | Path,
        *,
        deployed: str | Path | None = None,
        target: str = "",
        engine: str = "",
        force: bool = False,
    ) -> Path:
        """Write the new plan's run folder, with the change and the steps' manifests; refuses to replace one unless
        `force`. `deployed`: the run folder of the plan before, whose manifests stand; None: those that it would get."""
        from planner import files
        from planner.runs.replanning.asking import publish_change
        from planner.runs.replanning.inputs import deployed_manifests

        run = None if deployed is None else Path(deployed)
        stands = deployed_manifests(self.record.before, run, target=target, engine=engine)
        published = publish_change(self.record, deployed=stands.files, target=stands.target, engine=stands.engine)
        files.write_run(Path(path), published.files, force=force)
        return Path(path)

    def __repr__(self) -> str:
        return f"<change of {self.name}: {self._verdict()}>"

    def _verdict(self) -> str:
        return (
            f"{self.running_on_share:.0%} of the servers run on, {self.gpus_touched} GPUs touched, "
            f"{len(self.record.roll_out.steps)} steps, at least {self.reached_share:.1%} of the rate at any time"
        )

    def _repr_html_(self) -> str:
        return card(f"Change of {self.name}", self._verdict(), rows=rows_of(self.steps), rows_at="changed.steps")


def changed_deployment(
    saved: Plan,
    at_hand: Callable[[Plan], PlanAtHand],
    scenario: str | Path | None = None,
    *,
    workload: str | Path | None = None,
    inventory: Any = None,
    cluster: str | Path | None = None,
    settings: Mapping[str, object] | None = None,
    meanwhile: Any = None,
    lost: Sequence[str] = (),
    most_gpus: int | None = None,
    keep: float | None = None,
    turns_only: bool | None = None,
    horizon_hours: float | None = None,
    least_share: float | None = None,
    replay: bool = True,
    **seconds: float,
) -> ChangedDeployment[PlanAtHand]:
    """As `PlannedDeployment.replan` says. `seconds`: storage_gb_s, start_s, drain_s; what is left out is
    as the scenario says (`changes`); `at_hand`: what makes the new
    plan's."""
    new = new_scenario(
        saved,
        scenario,
        workload=workload,
        inventory=counts_of(inventory, "plan.replan(...): inventory"),
        cluster=cluster,
        settings=tuple(Setting(key, value) for key, value in (settings or {}).items()),
    )
    question = ChangeQuestion(
        scenario=new,
        settings=change_settings(new.changes.times, **seconds),
        limits=change_limits(new.changes.limits, most_gpus, keep, horizon_hours, turns_only=turns_only),
        lost=lost_servers(saved, lost),
        least_share=least_share,
        replays=replay,
        meanwhile=_counts(meanwhile),
    )
    changed = change_plan(saved, question)
    return ChangedDeployment(changed, at_hand(changed.plan))


def _counts(meanwhile: Any, where: str = "plan.replan(...): meanwhile") -> dict[str, int]:
    counts = {} if meanwhile is None else counts_of(meanwhile, where)
    if not isinstance(counts, dict) or not all(isinstance(n, int) and n >= 0 for n in counts.values()):
        raise InputError(f"{where}: must be GPUs by type, got {meanwhile!r:.80}.", hint='Give {"A100": 24}.')
    return counts


FleetAtHand = TypeVar("FleetAtHand")


class ChangedFleet(Generic[FleetAtHand]):
    """A changed fleet at hand: `record` has both plans, every deployment's change and the steps; `fleet` is the new
    one."""

    def __init__(self, record: FleetChange, fleet: FleetAtHand) -> None:
        self.record, self.fleet = record, fleet

    @property
    def running_on_share(self) -> float:
        """Of the deployed servers, those whose engines run on."""
        return self.record.running_on_share

    @property
    def moved_gpus(self) -> dict[str, int]:
        """GPUs of nodes that change hands, by type."""
        return dict(self.record.moved_gpus)

    @property
    def reached_share(self) -> float:
        """Of the smaller of its old and its new promise, the least that a step leaves a service."""
        return self.record.reached_share

    @cached_property
    def deployments(self) -> "pd.DataFrame":
        """One row a deployment: GPUs before and after, what becomes of it, servers that run on."""
        return deployment_rows(self.record).frame()

    @cached_property
    def steps(self) -> "pd.DataFrame":
        """One row a step: what happens, nodes that change hands, what every service keeps, seconds."""
        return step_rows(self.record).frame()

    def summary(self) -> str:
        """The change in Markdown."""
        return report.page_text(change_page_of_fleet(self.record))

    def save(
        self,
        path: str | Path,
        *,
        deployed: str | Path | None = None,
        target: str = "",
        engine: str = "",
        force: bool = False,
    ) -> Path:
        """Write the new fleet's folder, with the change and its steps' manifests; refuses to replace one unless
        `force`. `deployed`: the folder of the fleet that runs, whose manifests stand."""
        from planner.runs.fleets import write_fleet

        run = None if deployed is None else Path(deployed)
        write_fleet(Path(path), publish_fleet_change(self.record, run, target=target, engine=engine), force=force)
        return Path(path)

    def __repr__(self) -> str:
        return f"<change of fleet {self.record.plan.fleet.name}: {self._verdict()}>"

    def _verdict(self) -> str:
        return (
            f"{sum(self.moved_gpus.values())} GPUs change hands, {self.running_on_share:.0%} of the servers run on, "
            f"{len(self.record.steps)} steps, at least {self.reached_share:.1%} of every promise at any time"
        )

    def _repr_html_(self) -> str:
        title = f"Change of fleet {self.record.plan.fleet.name}"
        return card(title, self._verdict(), rows=rows_of(self.steps), rows_at="changed.steps")


def changed_fleet(
    saved: FleetPlan,
    at_hand: Callable[[FleetPlan], FleetAtHand],
    scenario: str | Path | None = None,
    *,
    inventory: Any = None,
    settings: Mapping[str, object] | None = None,
    lost: Iterable[str] = (),
    least_share: float | None = None,
    meanwhile: Any = None,
    progress: Callable[[str], None] = lambda _: None,
) -> ChangedFleet[FleetAtHand]:
    """As `PlannedFleet.replan` says; `at_hand`: what makes the new fleet's."""
    chosen = tuple(Setting(key, value) for key, value in (settings or {}).items())
    counts = _counts(inventory, "fleet.replan(...): inventory")
    fleet = asked_of_fleet(saved, scenario, inventory=counts, settings=chosen)
    present = _counts(meanwhile, "fleet.replan(...): meanwhile")
    terms = terms_of_change(saved, lost, least_share=least_share, meanwhile=present)
    change = pipeline.replan_fleet(saved, fleet, terms, progress)
    return ChangedFleet(change, at_hand(change.plan))
