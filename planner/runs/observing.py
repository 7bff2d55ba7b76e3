"""A saved plan beside what its running deployment told."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from planner import export, files, pipeline, report
from planner.domain import CalibrationFit, Plan
from planner.domain.serving.observed import Observation
from planner.files.plan.digests import with_seal

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
    series = files.load_answers(answers)
    observation = pipeline.observe(plan, series, export.island_labels(plan), export.plan_label(plan, name))
    label = export.plan_label(plan, name)
    fit = pipeline.calibrate_observed(plan, observation, f"{label}-observed") if observation.measurements else None
    return ObservedRun(observation=observation, fit=fit)


def file_names() -> tuple[str, ...]:
    """All that the folder of an observation may hold."""
    return (*report.observation_file_names(), CALIBRATION)
