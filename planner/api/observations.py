"""A running deployment beside its plan, at hand."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from planner import files, report
from planner.api.cards import card, rows_of
from planner.domain import Plan
from planner.domain.advice import Advice
from planner.errors import InputError
from planner.report import advice as advice_report
from planner.runs.live.observing import ObservedRun, observe_live, observe_run
from planner.runs.live.observing import file_names as observed_file_names
from planner.runs.live.prometheus import prometheus_at

if TYPE_CHECKING:
    import pandas as pd


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
        return report.page_text(report.observation_page(self.record, self._run.fit))

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write observe.md, .csv, .json and calibration.yaml, where there is one, into a folder."""
        files.write_folder(Path(path), self._run.files, force=force, kinds=observed_file_names())
        return Path(path)

    def __repr__(self) -> str:
        return f"<observation of {self.record.plan}: {report.observed_verdict(self.record)}>"

    def _repr_html_(self) -> str:
        verdict = report.observed_verdict(self.record)
        return card(
            f"Observation of {self.record.plan}", verdict, rows=rows_of(self.frame), rows_at="observation.frame"
        )


def observed_plan(plan: Plan, answers: Sequence[Path], prometheus: str, name: str) -> ObservedPlan:
    """A plan beside its answers, or what the Prometheus at an address tells. Raises as `planner observe` does."""
    if not prometheus:
        return ObservedPlan(observe_run(plan, answers, name))
    if answers:
        raise InputError("observe: answers go without prometheus.", hint="Leave one of them out.")
    return ObservedPlan(observe_live(plan, prometheus_at(prometheus), name=name))


class AdvisedDeployments:
    """What runs without a plan, and what to change of it first: `record` is the frozen advice; `changes` has a plan
    each."""

    def __init__(self, record: Advice) -> None:
        self.record = record
        self.changes = record.changes

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """One row a deployment."""
        return advice_report.advice_frame(self.record)

    def summary(self) -> str:
        """The advice in Markdown, the verdict first."""
        return report.page_text(advice_report.advice_page(self.record))

    def __repr__(self) -> str:
        return f"<advice: {advice_report.advice_verdict(self.record)}>"

    def _repr_html_(self) -> str:
        verdict = advice_report.advice_verdict(self.record)
        return card("What runs", verdict, rows=rows_of(self.frame), rows_at="advice.frame")


def advise(
    *answers: str | Path,
    manifests: str | Path = "",
    kubernetes: str = "",
    kubeconfig: str | Path | None = None,
    prometheus: str = "",
    workload: str | Mapping[str, str] = "",
    slo: Mapping[str, float] | None = None,
    rps: float | Mapping[str, float] = 0.0,
    gpus: Mapping[str, str] | None = None,
    models: Mapping[str, str] | None = None,
    inventory: Mapping[str, int] | None = None,
    prices: Mapping[str, float] | None = None,
    router: str = "random",
    headroom: float = 0.2,
    least_servers: int = 2,
    window: str = "1h",
    out: str | Path | None = None,
    force: bool = False,
) -> AdvisedDeployments:
    """Engines that run without a plan, in a folder of `manifests` or the cluster of a context (`kubernetes`): what they
    serve, waste and break by what a `prometheus`, or its `answers` in files, tells, and what to change of it first.

    >>> advice = planner.advise(kubernetes="current", prometheus="http://localhost:9090", slo={"tpot_ms": 50})
    >>> advice.frame, [change.summary for change in advice.changes]

    `workload`, `rps`: of all services, or by service; `gpus`, `models`: of deployments that do not tell; `inventory`:
    all GPUs at hand; `out`: the folder to write. Raises InputError as `planner advise` does.
    """
    from planner.runs.live.advice.advising import KINDS
    from planner.runs.live.advice.options import terms_of
    from planner.runs.live.advice.sources import Sources, advised_of
    from planner.runs.live.kubernetes import kubernetes_at

    terms = terms_of(
        workload=_texts(workload),
        slo=_texts(slo or {}),
        rps=_texts(rps or {}),
        gpu=_texts(gpus or {}),
        model=_texts(models or {}),
        inventory=",".join(_texts(inventory or {})) or None,
        prices=",".join(_texts(prices or {})) or None,
        router=router,
        headroom=headroom,
        least_servers=least_servers,
        window=window,
    )
    places = Sources(
        manifests=Path(manifests) if manifests else None,
        cluster=kubernetes_at(kubernetes, kubeconfig) if kubernetes else None,
        prometheus=prometheus_at(prometheus) if prometheus else None,
        answers=tuple(map(Path, answers)),
    )
    if out is not None:
        files.claim_folder(Path(out), KINDS, force=force)
    engines, _ = places.engines(terms)
    advised = advised_of(places, engines, terms, Path(out or "advised"))
    if out is not None:
        files.write_folder(Path(out), advised.files, force=force, kinds=KINDS)
    return AdvisedDeployments(advised.advice)


def _texts(values: object) -> list[str]:
    """As options are typed: `NAME=VALUE` of a mapping, else the value."""
    if isinstance(values, Mapping):
        return [f"{name}={value}" for name, value in values.items()]
    return [str(values)] if values else []
