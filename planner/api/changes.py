"""A deployed plan changed, at hand: the new plan, what becomes of servers, the steps, the frontier."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from planner import report
from planner.api.cards import card, rows_of
from planner.api.tables import counts_of
from planner.domain import Plan
from planner.errors import InputError
from planner.files.scenario.settings import Setting
from planner.runs.replanning.asking import ChangedPlan, ChangeQuestion, change_plan, lost_servers
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


def _counts(meanwhile: Any) -> dict[str, int]:
    counts = {} if meanwhile is None else counts_of(meanwhile, "plan.replan(...): meanwhile")
    if not isinstance(counts, dict) or not all(isinstance(n, int) and n >= 0 for n in counts.values()):
        raise InputError(
            f"plan.replan(...): meanwhile: must be GPUs by type, got {meanwhile!r:.80}.", hint='Give {"A100": 24}.'
        )
    return counts
