"""Tuning from the command line and notebooks: what is asked for, and the folder that tells what came of it."""

from dataclasses import replace

from planner.domain import LengthProfile, Plan, RequestTrace
from planner.domain.arrivals import ReplaySettings
from planner.domain.serving.tuning import TunedPlan, TuneGoal, TuneSettings
from planner.errors import InputError
from planner.files.records import read_record
from planner.files.sections import top_level
from planner.report.kit.markdown import page_text
from planner.report.replay.tuning import trials_table, tuned_page
from planner.runs.pages import page_bytes
from planner.runs.publication import publish
from planner.runs.replays.replay_settings import replay_settings
from planner.runs.replays.replays import rate_of
from planner.runs.verifying.runs import TUNE_FILE

SHORT_S, _FEWEST = 30.0, 2000
"""Seconds at the plan's promise that a short replay has unless somebody says how many requests: an overload shows late,
and 4,000 requests are over in 10 s at 400 requests/s."""
RUN = "run"
"""The folder of the tuned plan, a run like any other."""
NAMES = (TUNE_FILE, "tune.html", "trials.csv", RUN)


def tune_settings(
    plan: Plan, goals: str | None = None, rate: str | float | None = None, **counts: int | None
) -> TuneSettings:
    """What is asked for; `goals` with commas between (None: goodput, without levels ttft), `counts`: rounds, batch,
    requests and seed (None: as usual). Raises InputError for what cannot be."""
    goals = goals or ("goodput" if plan.scenario.slo.bounds_anything else "ttft")
    words = [word.strip() for word in goals.split(",")]
    if "rent" in words:
        raise _fault("rent", "the servers of the plan stay, and with them its rent", "planner replan changes servers.")
    if len(set(words)) < len(words) or not set(words) <= set(TuneGoal):
        every = ", ".join(TuneGoal)
        raise _fault(repr(goals), f"must be some of {every}, each once", "Write --goals goodput,ttft.")
    usual = max(_FEWEST, round(SHORT_S * plan.outlook.promise_rps))
    values = {"requests": usual, **{key: value for key, value in counts.items() if value is not None}}
    settings = read_record(TuneSettings, top_level({**values, "rate_rps": rate_of(plan, rate)}, "tune"))
    return replace(settings, goals=tuple(TuneGoal(word) for word in words))


def _fault(shown: str, rule: str, hint: str) -> InputError:
    return InputError(f"tune: goals: {rule}, got {shown}.", hint=hint)


def tune_replays(plan: Plan, source: RequestTrace | LengthProfile, **choices: object) -> ReplaySettings:
    """How requests come: a trace's as its own did, those of lengths independently, unless `choices` say otherwise."""
    own_arrivals = "trace" if isinstance(source, RequestTrace) else "poisson"
    return replay_settings(plan, **{"arrivals": own_arrivals, "seeds": 1, **choices})  # type: ignore[arg-type]


def tune_folder(tuned: TunedPlan, plan: Plan | None) -> dict[str, bytes]:
    """Relative path -> content: the report, and the run of the tuned plan where it gains."""
    page = tuned_page(tuned)
    report = page_text(page).encode()
    written = {TUNE_FILE: report, "tune.html": page_bytes(page), "trials.csv": trials_table(tuned).csv()}
    if plan is None:
        return written
    of_run = {**publish(plan, figures=False).files, TUNE_FILE: report}
    return {**written, **{f"{RUN}/{name}": content for name, content in of_run.items()}}
