"""A plan at hand: data frames, figures, manifests, replays."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner import export, files, pipeline, report
from planner.api.observations import ObservedPlan
from planner.api.replays import ReplayedPlan, SweptRates
from planner.domain import (
    Cluster,
    InputHash,
    LengthProfile,
    PlacementSettings,
    Plan,
    RequestTrace,
    require_sound,
)
from planner.domain.replay.settings import ReplaySettings
from planner.plans.rate_bands import probability_better
from planner.plans.router_grid import CELLS
from planner.report.kit.bands import banded_rate
from planner.runs import publication
from planner.runs.deployments import render_plan
from planner.runs.observing import observe_run
from planner.runs.placed_runs import scenario_on
from planner.runs.replay_settings import replay_settings
from planner.runs.replays import rate_of, trace_of, with_failures

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
