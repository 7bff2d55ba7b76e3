"""The planner in a notebook: plans with data frames, figures and manifests."""

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner import export, files, pipeline, report
from planner.domain import (
    Cluster,
    InputHash,
    LengthProfile,
    PlacementSettings,
    Plan,
    ReportProgress,
    RequestTrace,
    Scenario,
    no_progress,
    require_sound,
)
from planner.domain.replay.results import ReplayResult, ReplaySweep
from planner.domain.replay.settings import ReplaySettings
from planner.plans.rate_bands import probability_better
from planner.plans.router_grid import CELLS
from planner.report.kit.bands import banded_rate
from planner.runs import publication
from planner.runs.deployments import render_plan
from planner.runs.observing import ObservedRun, observe_run
from planner.runs.observing import file_names as observed_file_names
from planner.runs.placed_runs import scenario_on
from planner.runs.replay_settings import replay_settings
from planner.runs.replays import rate_of, trace_of, with_failures
from planner.workload import summarize

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class PlannedDeployment:
    """A plan at hand: `record` is the frozen plan, the properties show it."""

    def __init__(self, record: Plan) -> None:
        self.record = record

    @property
    def throughput_rps(self) -> float:
        """Requests/s at which the whole mix is served."""
        return self.record.throughput_rps

    @property
    def rate_band_rps(self) -> tuple[float, float] | None:
        """P10 and P90 of that rate, by measurements left out of the fit; None where its estimates have no band."""
        band = self.record.rate_band
        return None if band is None else (band.low_rps, band.high_rps)

    def probability_better(self, other: "PlannedDeployment") -> float | None:
        """How likely this plan serves more requests/s than the other; what both rest on errs alike. None: no bands."""
        return probability_better(self.record, other.record)

    @property
    def price_usd_per_hour(self) -> float:
        """Rent of the inventory."""
        return self.record.price_usd_per_hour

    @cached_property
    def islands(self) -> "pd.DataFrame":
        """One row an island."""
        return report.islands_frame(self.record)

    @cached_property
    def pools(self) -> "pd.DataFrame":
        """One row a pool of equal servers behind a bucket; none where the plan has no buckets."""
        return report.pools_frame(self.record)

    @cached_property
    def latency(self) -> "pd.DataFrame":
        """TTFT and TPOT, P50 and P99, by bucket at demand, promise and capacity; none where it has no buckets."""
        return report.latency_frame(self.record)

    @property
    def promise_rps(self) -> float | None:
        """Requests/s that the plan promises, its margin below the capacity; None where it has no buckets."""
        return None if self.record.buckets is None else self.record.buckets.promise_rps

    @cached_property
    def routing(self) -> "pd.DataFrame":
        """One row a phase, range and island."""
        return report.routing_frame(self.record)

    @cached_property
    def history(self) -> "pd.DataFrame":
        """One row a layout that the search tried."""
        return report.trials_frame(self.record)

    def summary(self) -> str:
        """The plan in Markdown."""
        return report.summary(self.record)

    def figure(self, name: str) -> "Figure":
        """A figure of the report: one of `planner.report.figures_of(plan)`."""
        return report.figure(self.record, name)

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the whole run folder, manifests included where they can be; refuses to replace one unless `force`."""
        files.write_run(Path(path), publication.publish(self.record).files, force=force)
        return Path(path)

    def place(self, cluster: str | Path | Cluster, settings: PlacementSettings | None = None) -> "PlannedDeployment":
        """The plan on the nodes of a cluster (a file, or the record); `settings`: the scenario's own where not given.

        Raises InputError where the cluster is not sound, InfeasibleError where too little of the plan finds room.
        """
        inputs: tuple[InputHash, ...] = ()
        if isinstance(cluster, Cluster):
            nodes = cluster
            require_sound(nodes, f"cluster {nodes.name}")
        else:
            nodes, inputs = files.load_cluster(Path(cluster)), (files.input_hash(Path(cluster)),)
        scenario = scenario_on(self.record, nodes, settings or self.record.scenario.placement, inputs)
        return PlannedDeployment(pipeline.place(self.record, scenario))

    @cached_property
    def placement(self) -> "pd.DataFrame":
        """One row an island, replica and node. Raises InputError where the plan is on no nodes."""
        return report.placement_frame(self.record)

    def replay(
        self,
        trace: str | Path | RequestTrace | LengthProfile | None = None,
        rate: str | float | None = None,
        *,
        policy: str | None = None,
        **settings: Any,
    ) -> "ReplayedPlan":
        """The plan, met by requests one by one: does its promise hold?

        `trace`: a file, a workload, the word lengths (the plan's own table), or the record; None: the trace that the
        plan was made for. `rate`: requests/s, 0.9x of the capacity, or promise (the default). `policy`: the plan's own
        where it is None. `settings`: arrivals, variation, curve, between, requests, seeds, warm_up, storage_gb_s and
        failures, as of `planner replay`. Raises InputError.
        """
        source, chosen = self._replaying(trace, {"policy": policy, **settings})
        result = pipeline.replay(self.record, source, chosen, rate_of(self.record, rate))
        return ReplayedPlan(with_failures(result, chosen))

    def sweep(
        self,
        trace: str | Path | RequestTrace | LengthProfile | None = None,
        *,
        policy: str | None = None,
        **settings: Any,
    ) -> "SweptRates":
        """The highest rate that holds the levels, and latency against the rate; all else as for `replay`."""
        source, chosen = self._replaying(trace, {"policy": policy, **settings})
        return SweptRates(pipeline.sweep_rates(self.record, source, chosen))

    def observe(self, *answers: str | Path, name: str = "") -> "ObservedPlan":
        """A running deployment of the plan beside it: `answers` of Prometheus to the queries that the export writes.

        `name`: that it was exported under, else the scenario's. Raises InputError where they are none, hold no load, or
        are of another plan.
        """
        return ObservedPlan(observe_run(self.record, [Path(path) for path in answers], name))

    def _replaying(
        self, trace: str | Path | RequestTrace | LengthProfile | None, settings: Mapping[str, Any]
    ) -> tuple[RequestTrace | LengthProfile, ReplaySettings]:
        """What is replayed, and how."""
        chosen = replay_settings(self.record, **settings)
        if isinstance(trace, RequestTrace | LengthProfile):
            return trace, chosen
        return trace_of(self.record, None if trace is None else str(trace)), chosen

    def export(
        self,
        path: str | Path,
        target: str = "",
        *,
        engine: str = "",
        options: export.ExportOptions | None = None,
        cells: int = CELLS,
        router: str = "",
        force: bool = False,
    ) -> Path:
        """Write manifests into the folder `path`: for `target`, with `options` and `router`, the scenario's where they
        are not given. `cells` of prompt length where the target's router has a grid."""
        rendered = render_plan(self.record, target=target, engine=engine, options=options, cells=cells, router=router)
        files.write_folder(Path(path), rendered.folder, force=force)
        return Path(path)

    def __repr__(self) -> str:
        banded = banded_rate(self.record)
        rate = f"about {banded}" if banded else f"{self.throughput_rps:.1f}"
        noun = "islands" if self.record.buckets is None else "pools"
        return (
            f"<plan {self.record.scenario.name}: {rate} requests/s, "
            f"{len(self.record.islands)} {noun}, {self.price_usd_per_hour:g} USD/hour>"
        )

    def _repr_markdown_(self) -> str:
        return self.summary()


class ReplayedPlan:
    """A replay at hand: `record` is the frozen result."""

    def __init__(self, record: ReplayResult) -> None:
        self.record = record

    @property
    def holds(self) -> bool:
        """Whether every level is held, and the fleet keeps up."""
        return self.record.holds

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """One row for all requests, then one a bucket."""
        return report.replay_frame(self.record)

    @cached_property
    def islands(self) -> "pd.DataFrame":
        """One row an island."""
        return report.replay_islands_frame(self.record)

    @cached_property
    def moments(self) -> "pd.DataFrame":
        """One row a stretch of time of the first seed."""
        return report.replay_moments_frame(self.record)

    def summary(self) -> str:
        """The replay in Markdown, the verdict first."""
        return report.replay_page(self.record)

    def figure(self, name: str) -> "Figure":
        """A figure: moments or islands."""
        return report.replay_figure(self.record, name)

    def __repr__(self) -> str:
        within = self.record.total.within_levels.mean
        verdict = f"{'holds' if self.holds else 'breaks'} at {self.record.rate_rps:.1f} requests/s"
        return f"<replay {self.record.plan}: {verdict}, {within:.1%} within levels>"

    def _repr_markdown_(self) -> str:
        return self.summary()


class ObservedPlan:
    """A running deployment beside its plan: `record` is the frozen observation, `calibration` the factors that its
    steps ask for (None: no step time could be taken)."""

    def __init__(self, run: ObservedRun) -> None:
        self.record = run.observation
        self.calibration = None if run.fit is None else run.fit.calibration
        self._run = run

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """One row a figure: promised and measured."""
        return report.observation_frame(self.record)

    def summary(self) -> str:
        """The observation in Markdown, the verdict first."""
        return report.observation_page(self.record, self._run.fit)

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write observe.md, .csv, .json and calibration.yaml, where there is one, into a folder."""
        files.write_folder(Path(path), self._run.files, force=force, kinds=observed_file_names())
        return Path(path)

    def __repr__(self) -> str:
        return f"<observation of {self.record.plan}: {report.observed_verdict(self.record)}>"

    def _repr_markdown_(self) -> str:
        return self.summary()


class SweptRates:
    """Rates of one plan at hand: `record` is the frozen sweep."""

    def __init__(self, record: ReplaySweep) -> None:
        self.record = record

    @property
    def held_rps(self) -> float | None:
        """The highest rate that holds the levels; None where none that was tried does."""
        return self.record.held_rps

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """One row a rate."""
        return report.replay_sweep_frame(self.record)

    def summary(self) -> str:
        """The highest rate that holds, and a table of all, in Markdown."""
        return report.sweep_page(self.record)

    def figure(self, name: str = "sweep") -> "Figure":
        """The figure sweep; moments and islands are those of the highest rate."""
        return report.replay_figure(self.record.results[-1], name, self.record)

    def __repr__(self) -> str:
        verdict = "no rate holds" if self.held_rps is None else f"holds up to {self.held_rps:.1f} requests/s"
        return f"<sweep {self.record.results[0].plan}: {verdict}>"

    def _repr_markdown_(self) -> str:
        return self.summary()


def plan(
    *,
    inventory: Mapping[str, int] | str,
    workload: str | Path | Mapping[str, object],
    model: str | Path | Mapping[str, object] = "deepseek-v3",
    seed: int | None = None,
    name: str = "plan",
    progress: ReportProgress = no_progress,
    **sections: Any,
) -> PlannedDeployment:
    """Plan from keyword arguments.

    `inventory`: GPUs per type, or the word cluster; `workload`: a shipped name, a workload file or a trace CSV;
    `model`: a shipped name or a config.json; both may also be the document itself, as a mapping. `sections` are a
    scenario's other keys (`prices_usd_per_gpu_hour`, `ranges`, `cost`, `cluster`, `search` ...), as in a scenario file;
    `seed` overrides `search.seed`. Raises InputError and InfeasibleError.
    """
    document = {
        "name": name,
        "model": _plain(model),
        "workload": _plain(workload),
        "inventory": _plain(inventory),
        **sections,
    }
    search = document.setdefault("search", {})
    if seed is not None and isinstance(search, Mapping):
        document["search"] = {**search, "seed": seed}
    scenario = files.scenario_from_document(document, origin="planner.plan(...)", base=Path.cwd(), summarize=summarize)
    return PlannedDeployment(pipeline.plan(scenario, progress))


def _plain(value: object) -> object:
    """The value as a scenario file would hold it; what cannot stand there is left for the reader to refuse."""
    if isinstance(value, Mapping):
        return dict(value)
    return str(value) if isinstance(value, Path) else value


def plan_scenario(
    path: str | Path,
    *,
    progress: ReportProgress = no_progress,
    change: Callable[[Scenario], Scenario] = lambda scenario: scenario,
) -> PlannedDeployment:
    """Plan a scenario file; `change` may alter the scenario after reading."""
    return PlannedDeployment(pipeline.plan(change(files.load_scenario(Path(path), summarize)), progress))


def load_plan(path: str | Path) -> PlannedDeployment:
    """A saved plan: a run folder or its plan.json. Raises InputError where it is none, or contradicts itself."""
    return PlannedDeployment(pipeline.recheck(files.load_run(Path(path)), str(path)))
