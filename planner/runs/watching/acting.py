"""Changes that a watch has decided on, carried out: a commit a stage, and the next one once Prometheus says that the
last one stands.

| symbol | meaning | unit |
|---|---|---|
| t_k | when stage k was committed | s |
| w | window of the gate's times | s |

Stage k + 1 follows where every question of gate k holds, asked at t_k + w or later: times before the stage do not count
for it. Nothing else lets it go on, however long it takes; what is waited for is told. Where GPUs are lost meanwhile the
next plan's stages begin from wherever the last ones came to. The last stage of all is waited for, too, for an hour:
engines that fall out later are no reason to hold up what they call for.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from planner.domain.rollouts import GateQuery
from planner.domain.watching import clock_text
from planner.errors import InputError
from planner.export.objects.operating.queries import require_window
from planner.files.disk.opening import read_text
from planner.files.plan.watch_folders import plan_folder
from planner.runs.live.prometheus import Prometheus
from planner.runs.replanning.stages import FOLDER, GATE, read_gate
from planner.runs.watching.repository import Commit, Repository

LAST_S = 3600.0
"""So long the last stage may take before the next change may begin."""


def _title(commit: Commit) -> str:
    if not commit.stages:
        return f"plan {commit.plan} as a whole"
    return f"plan {commit.plan}, stage {commit.stage} of {commit.stages}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Acting:
    """Where stages are committed, a folder of a git work tree, and who is asked before the next. `window`: of
    times, as 5m."""

    path: Path
    prometheus: Prometheus
    window: str

    @classmethod
    def at(cls, path: Path | None, prometheus: Prometheus | None, window: str) -> "Acting | None":
        """None where no repository is named; InputError where nobody says when the next stage may follow."""
        if path is None:
            return None
        if prometheus is None:
            raise InputError(
                "--repository: goes with --prometheus, which says when the next stage may follow.",
                hint="Name the Prometheus that scrapes the engines.",
            )
        return cls(path=path, prometheus=prometheus, window=window)

    @property
    def window_s(self) -> float:
        """The window in seconds. InputError where it is none."""
        return require_window(self.window)


class RollingOut:
    """A watch's changes on their way. `watch`: its folder, in which the plans lie with their stages; `label`: of the
    folder that is written. InputError where that is in no repository."""

    def __init__(self, acting: Acting, watch: Path, label: str) -> None:
        self._acting, self._watch = acting, watch
        self._repository = Repository.at(acting.path, label)
        self._stood: Commit | None = None

    @property
    def window(self) -> str:
        """Of the gates' times."""
        return self._acting.window

    @property
    def coming_up(self) -> bool:
        """Whether nothing was committed yet, or the first plan alone: its engines may not answer."""
        standing = self._repository.standing
        return standing is None or not standing.stages

    def go_on(self, number: int, now_s: float) -> str:
        """Carry out what is due of plan `number`, the one that stands by decision; what is still to come, in words,
        empty where nothing is.

        Raises InputError where the folder was changed by hand, or holds another watch's plans; PlannerError where git
        fails.
        """
        standing = self._repository.standing
        if number == 0 or (standing is not None and standing.plan == number and standing == self._stood):
            return ""
        if standing is None or standing.plan == number - 1:
            return self._begin(number, standing, now_s)
        if standing.plan != number:
            raise InputError(
                f"{self._repository.folder}: must be on the way to plan {number} of {self._watch}, is on that to plan "
                f"{standing.plan}.",
                hint="Two watches must not write to one folder: give each its own --repository or deploy.name.",
            )
        faults = [] if standing.done and now_s > standing.at_s + LAST_S else self._faults(standing, now_s)
        if faults:
            since = clock_text(standing.at_s, iso=True)
            more = f" and {len(faults) - 1} more" if len(faults) > 1 else ""
            return f"{_title(standing)}, since {since}, waits: {faults[0]}{more}"
        if standing.done:
            self._stood = standing
            return ""
        return self._commit(number, standing.stage + 1, standing.stages, now_s)

    def _begin(self, number: int, standing: Commit | None, now_s: float) -> str:
        """The first stage to a plan; the plan as a whole where nothing was committed before."""
        folder = self._stages(number)
        if not folder.is_dir():
            raise InputError(
                f"{folder}: must hold the stages of plan {number}, is missing: its manifests could not be written, see "
                f"{folder.parent}.",
                hint="Deploy for lws or kubernetes (deploy.target), and watch into another folder.",
            )
        stages = sum(1 for _ in folder.iterdir()) - 1
        if standing is None or not stages:
            return self._commit(number, 0, 0, now_s)
        return self._commit(number, 1, stages, now_s)

    def _commit(self, number: int, stage: int, stages: int, now_s: float) -> str:
        folder = self._stages(number) / f"{stage:02}"
        contents = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
        reached = Commit(plan=number, stage=stage, stages=stages, at_s=now_s)
        self._repository.commit(contents, _title(reached), reached)
        return f"{_title(reached)}, was committed"

    def _stages(self, number: int) -> Path:
        return plan_folder(self._watch, number) / FOLDER

    def _faults(self, standing: Commit, now_s: float) -> list[str]:
        """What the gate waits for."""
        due_s = standing.at_s + self._acting.window_s
        if now_s < due_s:
            return [f"its times count from {clock_text(due_s, iso=True)} on"]
        path = self._stages(standing.plan) / f"{standing.stage:02}" / GATE
        return list(self._answers(read_gate(read_text(path), str(path))))

    def _answers(self, questions: Iterable[GateQuery]) -> Iterable[str]:
        for question in questions:
            try:
                fault = question.fault(self._acting.prometheus.values(question.query))
            except InputError as error:
                fault = error.message
            if fault:
                yield fault
