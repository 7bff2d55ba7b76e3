"""A saved plan beside what its running deployment told."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from planner import export, files, pipeline, report
from planner.domain import CalibrationFit, Plan
from planner.domain.serving.observed import Observation, ObservedSeries
from planner.files.plan.digests import with_seal
from planner.runs.live.prometheus import Prometheus

CALIBRATION = "calibration.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRun:
    """An observation, and the factors that its steps ask for (None: no step time could be taken)."""

    observation: Observation
    fit: CalibrationFit | None

    @property
    def files(self) -> dict[str, bytes]:
        """observe.md, observe.csv, observe.json, and calibration.yaml where there is one."""
        written = with_seal(report.observation_files(self.observation, self.fit), "observe.json")
        if self.fit is not None:
            written[CALIBRATION] = files.calibration_text(self.fit).encode()
        return written


def observe_run(plan: Plan, answers: Sequence[Path], name: str = "") -> ObservedRun:
    """The plan beside answer files of Prometheus; `name`: that it was exported under (empty: the scenario's).

    Raises InputError as of `files.load_answers` and `pipeline.observe`.
    """
    return _observed(plan, files.load_answers(answers), name)


def observe_live(plan: Plan, prometheus: Prometheus, engine: str = "", name: str = "", window: str = "") -> ObservedRun:
    """The plan beside what a Prometheus tells of it now; `engine`: that runs (empty: the plan's); `window`: from the
    engines' own metrics over the last so long, as 1h (empty: what the rules of monitoring.yaml record).

    Raises InputError as `Prometheus.answers`, `files.read_answers` and `pipeline.observe`.
    """
    queries = export.observe_queries(plan, export.priced_engine(plan, engine).name, name, window)
    return _observed(plan, files.read_answers(prometheus.answers(queries)), name)


def _observed(plan: Plan, series: Sequence[ObservedSeries], name: str) -> ObservedRun:
    observation = pipeline.observe(plan, series, export.island_labels(plan), export.plan_label(plan, name))
    label = export.plan_label(plan, name)
    fit = pipeline.calibrate_observed(plan, observation, f"{label}-observed") if observation.measurements else None
    return ObservedRun(observation=observation, fit=fit)


def file_names() -> tuple[str, ...]:
    """All that the folder of an observation may hold."""
    return (*report.observation_file_names(), CALIBRATION)
