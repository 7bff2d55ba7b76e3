"""Schedules at hand: plans over a day or a week."""

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.api.cards import card
from planner.api.deployments import PlannedDeployment
from planner.domain import Scenario
from planner.domain.changes import ChangeSettings
from planner.domain.schedules import ForecastSettings, GapRule, RateSeries, Schedule, Tariff

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from planner.domain import LengthProfile, RequestTrace


class PlannedSchedule:
    """A schedule at hand. `record` is the frozen schedule itself; everything here is read from it.

    >>> schedule = planner.schedule("mixed-fleet", "rates.csv", most_changes=4)
    >>> schedule.usd, schedule.static_usd, schedule.gap, schedule.carried_share
    >>> schedule.frame, schedule.changes, schedule.plans   # windows, changes, and the plan of each level
    >>> schedule.figure("load"); schedule.save("week")
    """

    def __init__(self, record: Schedule) -> None:
        self.record = record

    @property
    def usd(self) -> float:
        """USD of all windows and changes."""
        return self.record.usd

    @property
    def static_usd(self) -> float:
        """USD of the cheapest plan that stands all the time."""
        return self.record.static_usd

    @property
    def bound_usd(self) -> float:
        """No schedule that carries every rate with so few changes a day costs less."""
        return self.record.bound_usd

    @property
    def gap(self) -> float | None:
        """How much dearer than the bound it is at most, as a share; None where the bound is no cost."""
        return self.record.gap

    @property
    def carried_share(self) -> float:
        """Of all windows, those whose rate the plan that stands promises."""
        return self.record.carried_share

    @property
    def holding_share(self) -> float | None:
        """Of all windows, those whose replay holds the levels; None where they were not replayed."""
        return self.record.holding_share

    @property
    def names(self) -> tuple[str, ...]:
        """Of its plans, smallest promise first."""
        from planner.files.plan.stored_schedules import level_names

        return level_names(self.record)

    @cached_property
    def plans(self) -> dict[str, PlannedDeployment]:
        """Its plans by name."""
        return {name: PlannedDeployment(level.plan) for name, level in zip(self.names, self.record.levels, strict=True)}

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """One row a window."""
        from planner.report.replanning.schedule_tables import windows

        return windows(self.record, self.names).frame()

    @cached_property
    def changes(self) -> "pd.DataFrame":
        """One row a change, in order."""
        from planner.report.replanning.schedule_tables import changes

        return changes(self.record, self.names).frame(headed=True)

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of the pictures that there are, for `figure`."""
        from planner.report.replanning.schedule_page import SCHEDULE_FIGURES

        return tuple(SCHEDULE_FIGURES)

    def figure(self, name: str) -> "Figure":
        """A picture: one of `schedule.figures`. Raises InputError for any other name."""
        from planner.report.replanning.schedule_page import schedule_figure

        return schedule_figure(self.record, name)

    def summary(self) -> str:
        """The schedule in Markdown."""
        from planner.report.kit.markdown import page_text
        from planner.report.replanning.schedule_page import schedule_page

        return page_text(schedule_page(self.record, self.names))

    def replay(
        self,
        trace: "RequestTrace | LengthProfile | None" = None,
        *,
        requests: int = 4000,
        seeds: tuple[int, ...] = (0,),
        bursty: bool = False,
        progress: Callable[[float], None] = lambda _: None,
    ) -> "PlannedSchedule":
        """The schedule with every window replayed. `trace`: the scenario's own table of lengths where it is None;
        `bursty`: gaps vary as the rates' file says of each window. Raises InputError."""
        from planner.replanning.days.replaying import WindowReplay, replay_schedule

        settings = WindowReplay(requests=requests, seeds=seeds, bursty=bursty)
        source = self.record.levels[0].plan.scenario.workload if trace is None else trace
        return PlannedSchedule(replay_schedule(self.record, source, settings, progress))

    def autoscaled(self, change: ChangeSettings | None = None) -> "PlannedSchedule":
        """The schedule beside fleets whose copies follow the load: `summary()` and `record.autoscaled` have cost and
        levels kept. `change`: what starting and stopping takes, the scenario's own where it is None. Raises InputError.
        """
        from planner.replanning.days.autoscaled import autoscaled

        times = change or self.record.levels[0].plan.scenario.changes.times
        return PlannedSchedule(autoscaled(self.record, times))

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write its folder: schedule.json, windows, page, a run folder a plan. Refuses to replace one unless `force`.

        `planner.load_schedule(path)` reads it, and so does `planner report`."""
        from planner.runs.replanning.scheduling import write_schedule

        write_schedule(Path(path), self.record, force=force)
        return Path(path)

    def __repr__(self) -> str:
        return f"<schedule of {self.record.series.name}: {self._verdict()}>"

    def _verdict(self) -> str:
        changes = len(self.record.changes)
        return f"{self.usd:,.2f} USD, {changes} changes, {self.usd / self.static_usd:.1%} of the static plan's cost"

    def _repr_html_(self) -> str:
        from planner.report.replanning.schedule_tables import levels

        return card(
            f"Schedule of {self.record.series.name}",
            self._verdict(),
            facts={"bound (USD)": self.bound_usd, "windows carried": f"{self.carried_share:.2%}"},
            rows=levels(self.record, self.names).records(headed=True),
            rows_at="schedule.frame",
        )


def schedule(
    scenario: "str | Path | Scenario",
    rates: "str | Path | RateSeries",
    *,
    pool: str | None = None,
    gaps: str = "refuse",
    begin_day: float | None = None,
    days: float | None = None,
    most_changes: int = 4,
    tariff: "str | Tariff" = "hourly",
    forecast: "str | ForecastSettings" = "known",
    change: ChangeSettings | None = None,
    settings: Mapping[str, Any] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> PlannedSchedule:
    """Which plan stands when, over a day or a week of changing load, and the bound of it.

    >>> schedule = planner.schedule("mixed-fleet", "servegen-deepseek-r1")

    `scenario`: a file, a shipped one, or the record; its inventory is what may be rented, and has prices. `rates`: a
    CSV file (of `pool`, where it has several; `gaps`: refuse, interpolate or previous), a shipped curve, or the record.
    `most_changes` a day; `tariff`: hourly, reserved, owned; `forecast`: known, last-day, last-week, ewma, or settings.
    `settings`: keys of the scenario set anew. `progress` hears a line a plan.

    Raises InputError for what cannot be used, InfeasibleError where the fleet does not serve the rates.
    """
    from planner.runs.replanning.scheduling import ScheduleRequest, checked, make_schedule, windows_between

    series = rates if isinstance(rates, RateSeries) else _series(rates, pool, gaps)
    first, after = windows_between(series, begin_day, days)
    loaded = scenario if isinstance(scenario, Scenario) else _scenario(scenario, settings)
    request = ScheduleRequest(
        scenario=loaded,
        series=series,
        tariff=tariff if isinstance(tariff, Tariff) else checked(Tariff, kind=tariff),
        change=change or loaded.changes.times,
        most_changes=most_changes,
        forecast=forecast if isinstance(forecast, ForecastSettings) else checked(ForecastSettings, kind=forecast),
        first=first,
        after=after,
    )
    return PlannedSchedule(make_schedule(request, progress))


def load_schedule(path: str | Path) -> PlannedSchedule:
    """A saved schedule: its folder, or its schedule.json. Raises InputError where it is none, or was edited.

    >>> schedule = planner.load_schedule("runs/chat-day")
    """
    from planner.files.plan.stored_schedules import load_schedule as load

    return PlannedSchedule(load(Path(path)))


def _series(rates: str | Path, pool: str | None, gaps: str) -> RateSeries:
    from planner import files
    from planner.errors import InputError

    if gaps not in [rule.value for rule in GapRule]:
        raise InputError(f"gaps: must be one of {', '.join(GapRule)}, got {gaps!r}.", hint="Choose one of them.")
    return files.load_rates(rates, pool, gaps=GapRule(gaps))


def _scenario(path: str | Path, settings: Mapping[str, Any] | None) -> Scenario:
    from planner import files
    from planner.files.scenario.settings import Setting
    from planner.workload import summarize

    chosen = tuple(Setting(key=key, value=value) for key, value in (settings or {}).items())
    return files.load_scenario(Path(path), summarize, chosen)
