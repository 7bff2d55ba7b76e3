"""A plan at hand: figures, data frames, pictures, manifests, replays, pages."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.api.progress import share_bar
from planner.domain import Plan
from planner.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from planner.api.changes import ChangedDeployment
    from planner.api.compared import ComparedPlans, VerifiedRun
    from planner.api.observations import ObservedPlan
    from planner.api.replays import PlanInDoubt, ReplayedPlan, SweptRates, TunedKnobs
    from planner.domain import Cluster, LengthProfile, PlacementSettings, RequestTrace, Scenario
    from planner.export import ExportOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCost:
    """What a plan costs: rent of its GPUs, that rent per 10^6 input and output tokens at the plan's rate, and the most
    that its GPUs draw. GPU types without a price are not among the sums."""

    usd_per_hour: float
    usd_per_million_tokens: float
    watts: float


class PlannedDeployment:
    """A plan at hand. `record` is the frozen plan itself; everything here is read from it.

    >>> plan.throughput_rps, plan.gap, plan.cost          # requests/s, share below the bound, money and watts
    >>> plan.pools, plan.latency, plan.shadow_prices      # data frames
    >>> plan.figure("routing")                            # a picture; plan.figures has the names
    >>> plan.place("cluster.yaml"); plan.replay(); plan.export("manifests", target="lws")
    >>> plan.save("run"); plan.save_page("plan.html")
    """

    def __init__(self, record: Plan) -> None:
        self.record = record

    @property
    def name(self) -> str:
        """What the scenario is called."""
        return self.record.scenario.name

    @property
    def scenario(self) -> "Scenario":
        """The question that this plan answers: model, workload, inventory, levels, objective."""
        return self.record.scenario

    @property
    def throughput_rps(self) -> float:
        """Requests/s at which the whole mix is served."""
        return self.record.throughput_rps

    @property
    def promise_rps(self) -> float:
        """Requests/s that the plan promises, its margin below the capacity."""
        return self.record.outlook.promise_rps

    @property
    def rate_band_rps(self) -> tuple[float, float] | None:
        """P10 and P90 of that rate, by measurements left out of the fit; None where its estimates have no band."""
        band = self.record.rate_band
        return None if band is None else (band.low_rps, band.high_rps)

    @property
    def bound_rps(self) -> float | None:
        """No layout of the GPUs that the plan has serves more requests/s under this model; None where none is known."""
        certificate = self.record.certificate
        return None if certificate is None else certificate.bound_rps

    @property
    def gap(self) -> float | None:
        """How far the plan's objective is from the best that any plan of its form reaches, as a share: 0.02 is 2 %.

        None where there is no bound. `bound_rps` is of all layouts, deployable or not, and lies higher."""
        certificate = self.record.certificate
        if certificate is None:
            return None
        return certificate.gap if certificate.objective_gap is None else certificate.objective_gap

    @property
    def price_usd_per_hour(self) -> float:
        """Rent of the inventory, or of what is rented where the objective chooses it."""
        return self.record.price_usd_per_hour

    @property
    def cost(self) -> PlanCost:
        """Rent (USD/hour, USD per 10^6 tokens) and watts of the plan's GPUs at full load."""
        fleet = self.record.fleet
        return PlanCost(
            usd_per_hour=self.record.price_usd_per_hour,
            usd_per_million_tokens=self.record.price_usd_per_million_tokens,
            watts=sum(item.gpu.max_w * fleet[item.gpu.name] for item in self.scenario.inventory.items),
        )

    def probability_better(self, other: "PlannedDeployment") -> float | None:
        """How likely this plan serves more requests/s than the other; what both rest on errs alike. None: no bands."""
        from planner.plans.rate_bands import probability_better

        return probability_better(self.record, other.record)

    def compare(self, *others: "PlannedDeployment | Plan | str | Path") -> "ComparedPlans":
        """This plan and others beside each other: rate, price, gap, levels, GPUs, which is likely better.

        `others`: plans, or paths of run folders. Raises InputError where a run is not sound.
        """
        from planner.api.compared import compare_records

        return compare_records(
            self.record, *(other.record if isinstance(other, PlannedDeployment) else other for other in others)
        )

    @cached_property
    def islands(self) -> "pd.DataFrame":
        """One row an island."""
        from planner import report

        return report.islands_frame(self.record)

    @cached_property
    def pools(self) -> "pd.DataFrame":
        """One row a pool of equal servers behind a bucket; none where the plan has no buckets."""
        from planner import report

        return report.pools_frame(self.record)

    @cached_property
    def latency(self) -> "pd.DataFrame":
        """TTFT and TPOT, P50 and P99, by bucket at demand, promise and capacity; none where it has no buckets."""
        from planner import report

        return report.latency_frame(self.record)

    @cached_property
    def routing(self) -> "pd.DataFrame":
        """One row a phase, range and island."""
        from planner import report

        return report.routing_frame(self.record)

    @cached_property
    def sensitivity(self) -> "pd.DataFrame":
        """One row a GPU type: what a GPU or a node more, or a node less, does to the best possible rate (requests/s).

        No row where the plan has none; `record.sensitivity` has the phases and ranges, too.
        """
        from planner import report

        return report.sensitivity_frame(self.record)

    @property
    def shadow_prices(self) -> "pd.Series[float]":
        """Requests/s that the best possible rate gains by one more GPU, by type: what that GPU is worth."""
        return self.sensitivity.set_index("gpu")["dual_rps"].rename("requests/s per GPU")

    @cached_property
    def history(self) -> "pd.DataFrame":
        """One row a layout that the search tried."""
        from planner import report

        return report.trials_frame(self.record)

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of the pictures that there are of this plan, for `figure`."""
        from planner import report

        return tuple(report.figures_of(self.record))

    def figure(self, name: str = "") -> "Figure":
        """A picture of the plan: one of `plan.figures`, the first where none is named. Raises InputError for any other
        name."""
        from planner import report

        return report.figure(self.record, name or self.figures[0])

    def summary(self) -> str:
        """The plan in Markdown."""
        from planner import report

        return report.summary(self.record)

    def page(self) -> str:
        """The plan as one HTML file that reaches nothing outside itself: to open in a browser, or to send."""
        from planner.runs.pages import plan_html

        return plan_html(self.record).decode()

    def save_page(self, path: str | Path, *, force: bool = False) -> Path:
        """Write that page; refuses to replace a file unless `force`."""
        from planner import files

        files.write_file(Path(path), self.page().encode(), force=force)
        return Path(path)

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the run folder, manifests included where they can be; refuses to replace one unless `force`.

        `planner.load_plan(path)` reads it, and so do the commands of `planner`.
        """
        from planner import files
        from planner.runs import publication

        files.write_run(Path(path), publication.publish(self.record).files, force=force)
        return Path(path)

    def verify(self) -> "VerifiedRun":
        """This plan computed anew from its question: what of it does not follow? Of its files `planner.verify(path)`
        tells, too."""
        from planner.api.compared import VerifiedRun
        from planner.runs.verifying.runs import verify_plan

        return VerifiedRun(verify_plan(self.record))

    def place(
        self, cluster: "str | Path | Cluster | Any", settings: "PlacementSettings | None" = None
    ) -> "PlannedDeployment":
        """The plan on the nodes of a cluster (a file, what `planner.cluster` gives, or the record).

        `settings`: the scenario's own, but for an exchange, where not given. Raises InputError where the cluster is not
        sound, InfeasibleError where too little of the plan finds room.
        """
        from planner import pipeline
        from planner.api.clusters import nodes_of
        from planner.runs.publication import scenario_on

        nodes, inputs = nodes_of(cluster)
        settings = settings or replace(self.record.scenario.placement, exchange="")
        scenario = scenario_on(self.record, nodes, settings, inputs)
        return PlannedDeployment(pipeline.place(self.record, scenario))

    @cached_property
    def placement(self) -> "pd.DataFrame":
        """One row an island, replica and node. Raises InputError where the plan is on no nodes."""
        from planner import report

        return report.placement_frame(self.record)

    @cached_property
    def sites(self) -> "pd.DataFrame":
        """One row an island on nodes: GPUs, nodes, switches, spread, whether its groups align, what topology costs."""
        from planner import report

        return report.sites_frame(self.record)

    def doubt(self, knowing: int = 0, breakpoints_s: float = 0.0, **doubts: float) -> "PlanInDoubt":
        """The plan in draws of what is doubted (`speeds`, `demand`, `prices`, `unavailable`, `draws`); in `knowing` of
        them beside a plan made knowing them; with breakpoints that are sought for so many seconds of CPU. Raises
        InputError."""
        from planner import pipeline
        from planner.api.replays import PlanInDoubt
        from planner.runs.questions.doubts import doubt_settings

        settings = doubt_settings(self.record, **doubts)
        return PlanInDoubt(pipeline.doubt(self.record, settings, knowing, breakpoints_s=breakpoints_s), settings)

    def tune(
        self, trace: "str | Path | None" = None, goals: str | None = None, **settings: Any
    ) -> "TunedKnobs[PlannedDeployment]":
        """Other flags and weights of the plan's servers, judged by replays; `.plan` is the tuned one where it gains.

        `trace`, `goals`: as of `planner tune`, and so are `settings`: rate, rounds, batch, requests, seed, arrivals,
        variation, between, failures. Raises InputError."""
        from planner.api.replays import tuned_knobs

        return tuned_knobs(self.record, PlannedDeployment, trace, goals, settings)

    def replay(
        self,
        trace: "str | Path | RequestTrace | LengthProfile | None" = None,
        rate: str | float | None = None,
        *,
        router: str | None = None,
        progress: Callable[[float], None] | bool | None = None,
        **settings: Any,
    ) -> "ReplayedPlan":
        """The plan, met by requests one by one: does its promise hold?

        `trace`: a file, a workload, the word lengths (the plan's own table), or the record; None: the trace that the
        plan was made for where it is at hand, else its lengths. `rate`: requests/s, 0.9x of the capacity, or promise
        (the default). `router`: the plan's own where it is None. `settings`: arrivals, variation, curve, between,
        requests, seeds, warm_up, storage_gb_s and failures, as of `planner replay`. `progress`: False for no bar.
        Raises InputError.
        """
        from planner import pipeline
        from planner.api.replays import ReplayedPlan, replaying
        from planner.runs.replays.replays import rate_of, unasked_lengths, with_failures

        source, chosen = replaying(self.record, trace, {"router": router, **settings})
        with share_bar(f"replay {self.name}", progress) as heard:
            result = pipeline.replay(self.record, source, chosen, rate_of(self.record, rate), heard)
        return ReplayedPlan(with_failures(result, chosen, *unasked_lengths(self.record, trace, source)))

    def sweep(
        self,
        trace: "str | Path | RequestTrace | LengthProfile | None" = None,
        *,
        router: str | None = None,
        progress: Callable[[float], None] | bool | None = None,
        **settings: Any,
    ) -> "SweptRates":
        """The highest rate that holds the levels, and latency against the rate; all else as for `replay`."""
        from planner import pipeline
        from planner.api.replays import SweptRates, replaying

        source, chosen = replaying(self.record, trace, {"router": router, **settings})
        with share_bar(f"sweep {self.name}", progress) as heard:
            return SweptRates(pipeline.sweep_rates(self.record, source, chosen, heard))

    def replan(self, scenario: "str | Path | None" = None, **changes: Any) -> "ChangedDeployment[PlannedDeployment]":
        """This plan, deployed, changed as little as a new question needs; steps that keep it serving meanwhile.

        >>> changed = plan.replan(workload="azure-conv-2023", keep=0.8, least_share=0.9)
        >>> changed.plan, changed.steps, changed.figure("rollout"), changed.save("run")

        `scenario`: a file or a shipped name, else the plan's own. `changes`: workload, inventory, cluster and settings
        (a mapping of keys) that are new; GPUs that are there meanwhile; what is lost, as H20=8, servers of an island,
        or nodes; most_gpus, keep, turns_only, horizon_hours: limits of the change; storage_gb_s, start_s, drain_s;
        least_share, and replay (False: steps are not replayed). As of `planner replan`. Raises InputError, and
        InfeasibleError where nothing serves within the limits, or no order of steps leaves so much.
        """
        from planner.api.changes import changed_deployment

        return changed_deployment(self.record, PlannedDeployment, scenario, **changes)

    def observe(self, *answers: str | Path, prometheus: str = "", name: str = "") -> "ObservedPlan":
        """A running deployment of the plan beside it: `answers` of Prometheus to the queries that the export writes, or
        what the one at an address tells now, with the token of PLANNER_PROMETHEUS_TOKEN where that is set.

        `name`: that it was exported under, else the scenario's. Raises InputError where they are none, hold no load, or
        are of another plan.
        """
        from planner.api.observations import observed_plan

        return observed_plan(self.record, [Path(path) for path in answers], prometheus, name)

    def export(
        self,
        path: str | Path,
        target: str = "",
        *,
        engine: str = "",
        options: "ExportOptions | None" = None,
        cells: int | None = None,
        router: str = "",
        pin: Mapping[str, str] | None = None,
        force: bool = False,
    ) -> Path:
        """Write manifests into the folder `path`: for `target`, with `options` and `router`, the scenario's where they
        are not given. `cells` of prompt length where the target's router has a grid. `pin`: image -> digest, of all
        images. Raises ExportError where the target cannot express the plan, InputError for unknown names, a digest
        that is missing and a folder that is not empty."""
        from planner import files
        from planner.export import TARGETS
        from planner.plans.router_grid import CELLS
        from planner.runs.deployments import render_plan

        if not target and str(path) in TARGETS:
            raise InputError(
                f"path: must be a folder, got the target {path}.",
                hint=f'Write plan.export("manifests", target="{path}").',
            )

        chosen = options or self.record.scenario.deploy
        rendered = render_plan(
            self.record,
            target=target,
            engine=engine,
            options=replace(chosen, image_digests=tuple(pin.items())) if pin else chosen,
            cells=CELLS if cells is None else cells,
            router=router,
        )
        files.write_folder(Path(path), rendered.folder, force=force)
        return Path(path)

    def __repr__(self) -> str:
        return (
            f"<plan {self.name}: {self._rate()} requests/s, "
            f"{len(self.record.islands)} {self.record.form.row.part}s, {self.price_usd_per_hour:g} USD/hour>"
        )

    def _rate(self) -> str:
        from planner.report.kit.quantities import banded_rate

        banded = banded_rate(self.record)
        return f"about {banded}" if banded else f"{self.throughput_rps:.1f}"

    def _repr_html_(self) -> str:
        from planner.api.cards import plan_card

        return plan_card(self, self._rate())
