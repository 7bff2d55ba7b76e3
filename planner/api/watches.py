"""Watches at hand: plans that follow feeds of load, prices, GPUs and losses."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.api.cards import card
from planner.api.deployments import PlannedDeployment
from planner.domain.watching import WatchLog, WatchStep, WatchTally
from planner.report.kit.quantities import counted

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class WatchAtHand:
    """A watch at hand, as far as it has come. `record` is the frozen log; everything here is read from it.

    >>> watched = planner.load_watch("watched")
    >>> watched.usd, watched.regret, watched.gpus_touched
    >>> watched.frame(), watched.changes, watched.plan     # observations, changes, the plan that stands
    >>> watched.figure(); watched.figure("gpus")
    """

    def __init__(self, record: WatchLog, folder: Path) -> None:
        self.record, self.folder = record, folder

    @property
    def tally(self) -> WatchTally:
        """What it comes to."""
        return self.record.tally

    @property
    def usd(self) -> float:
        """USD of rent and changes."""
        return self.tally.usd

    @property
    def regret(self) -> float:
        """Share that it costs more than the best sequence of its plans in hindsight."""
        return self.tally.regret

    @property
    def gpus_touched(self) -> int:
        """GPUs of servers that its changes did not let run on."""
        return self.tally.gpus_touched

    @property
    def steps(self) -> tuple[WatchStep, ...]:
        """Each observation with its decision."""
        return tuple(window.step for window in self.record.windows)

    @cached_property
    def plan(self) -> PlannedDeployment | None:
        """The plan that stands; None where there is none yet."""
        number = self.steps[-1].decision.number if self.steps else 0
        return self.plan_at(number) if number else None

    def plan_at(self, number: int) -> PlannedDeployment:
        """The plan of that number, from 1. Raises InputError where there is none."""
        from planner import files
        from planner.files.plan.watch_folders import plan_folder

        return PlannedDeployment(files.load_run(plan_folder(self.folder, number)))

    def frame(self) -> "pd.DataFrame":
        """One row an observation: load, promise in force, plan, USD, verdict and why."""
        from planner.report.replanning.watch_tables import windows

        return windows(self.record).frame()

    @cached_property
    def changes(self) -> "pd.DataFrame":
        """One row a plan that took its place."""
        from planner.report.replanning.watch_tables import changes

        return changes(self.record).frame()

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of the pictures that there are, for `figure`."""
        from planner.report.replanning.watch_page import WATCH_FIGURES

        return tuple(WATCH_FIGURES)

    def figure(self, name: str = "watch") -> "Figure":
        """A picture: watch (load, promise, rent, changes) or gpus. Raises InputError for any other name."""
        from planner.report.replanning.watch_page import watch_figure

        return watch_figure(self.record, name)

    def summary(self) -> str:
        """The watch in Markdown."""
        from planner.report.kit.markdown import page_text
        from planner.report.replanning.watch_page import watch_page

        return page_text(watch_page(self.record))

    def page(self) -> str:
        """The watch as one HTML file that reaches nothing outside itself."""
        from planner.runs.watching.watches import source_of, watch_html

        return watch_html(self.record, source_of(self.folder)).decode()

    def __repr__(self) -> str:
        return f"<watch of {self.record.name}: {self._verdict()}>"

    def _verdict(self) -> str:
        changes = sum(count for _, count in self.tally.changes)
        hours = f"{self.tally.hours:,.1f} hours"
        return f"{self.usd:,.2f} USD in {hours}, {counted(changes, 'change')}, {self.gpus_touched} GPUs touched"

    def _repr_html_(self) -> str:
        from planner.report.replanning.watch_tables import changes

        rows = changes(self.record).records()
        facts = {"beside hindsight": f"{self.regret:+.1%}", "requests beyond": f"{self.tally.unserved:.3%}"}
        return card(f"Watch of {self.record.name}", self._verdict(), facts=facts, rows=rows, rows_at="watched.frame()")


def watch(
    scenario: str | Path,
    feeds: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    prometheus: str = "",
    window: str = "5m",
    name: str = "",
    kubernetes: str = "",
    kubeconfig: str | Path | None = None,
    repository: str | Path | None = None,
    run: str | Path | None = None,
    every_s: float = 60.0,
    simulate: bool = False,
    ticks: int | None = None,
    until_s: float | None = None,
    stale_s: float | None = None,
    settings: Mapping[str, Any] | None = None,
    force: bool = False,
    **rules: float,
) -> Iterator[WatchStep]:
    """Follow feeds: each observation with its decision, once both are on the disk in `out`.

    >>> for step in planner.watch("mixed-fleet", ["load.csv", "prices.csv"], "watched", simulate=True, every_s=300):
    ...     if step.decision.fleet is not None: print(step.decision.reason)
    >>> watched = planner.load_watch("watched")

    A watch in `out` goes on where it stood; its earlier steps do not come again. `prometheus`: address of one that
    tells the load beside the feeds, of which there may then be none ([]): the mean over `window` of the plan that was
    exported under `name` (empty: the scenario's); its token is that of PLANNER_PROMETHEUS_TOKEN, where set. `run`:
    folder of the plan that stands at first; `simulate`: the feeds' own times, as fast as plans are made; `ticks`:
    observations of this call; `until_s`: none after it; `stale_s`: a feed that nobody has written for so long is told;
    `settings`: keys of the scenario set anew; `kubernetes`: the context of a running cluster whose nodes are watched
    (`current`: the kubeconfig's), `kubeconfig`: its file (None: KUBECONFIG, or ~/.kube/config); `repository`: a
    git work tree where changes are committed stage by stage, as `prometheus` says that they stand; `rules`: fields of
    WatchSettings (dwell_s, headroom, give_up, most_savings, ...).

    Raises InputError, with the first step, for what cannot be used.
    """
    from planner.files.scenario.settings import Setting
    from planner.runs.live.kubernetes import kubernetes_at
    from planner.runs.live.prometheus import prometheus_at
    from planner.runs.watching.acting import Acting
    from planner.runs.watching.live_feeds import live_feeds
    from planner.runs.watching.watches import WatchJob, watch_settings
    from planner.runs.watching.watches import watch as steps_of

    paths = [feeds] if isinstance(feeds, str | Path) else feeds
    source = prometheus_at(prometheus) if prometheus else None
    cluster = kubernetes_at(kubernetes, kubeconfig) if kubernetes else None
    job = WatchJob(
        scenario=Path(scenario),
        feeds=tuple(map(Path, paths)),
        live=live_feeds(source, cluster, window, name),
        acting=Acting.at(None if repository is None else Path(repository), source, window),
        out=Path(out),
        run=None if run is None else Path(run),
        every_s=every_s,
        simulate=simulate,
        ticks=ticks,
        until_s=until_s,
        stale_s=stale_s,
        force=force,
        changes=tuple(Setting(key=key, value=value) for key, value in (settings or {}).items()),
        settings=watch_settings(**rules),
    )
    return steps_of(job)


def load_watch(folder: str | Path) -> WatchAtHand:
    """The watch in a folder, which may be at work. Raises InputError where it is none, or its log is damaged.

    >>> watched = planner.load_watch("watched")
    """
    from planner.runs.watching.watches import read_log

    return WatchAtHand(read_log(Path(folder)), Path(folder))
