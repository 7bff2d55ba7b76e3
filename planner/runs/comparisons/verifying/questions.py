"""The question of a saved plan, held against the scenario's file that it was read from."""

from dataclasses import replace
from pathlib import Path

from planner import files
from planner.domain import Scenario
from planner.domain.comparisons import Difference, Verification
from planner.domain.plan import Plan
from planner.errors import InputError
from planner.files.disk.folders import PLAN_FILE
from planner.files.disk.shipped import shipped_scenarios
from planner.files.scenario.settings import Setting
from planner.runs.comparisons.verifying.leaves import document_differences
from planner.workload import summarize

FLAGS = ("seed", "processes")
"""Of `search`: keys that flags of `planner plan` set, which nothing in a run tells of."""

_QUESTION = "plan.json: scenario: taken as the question"
ELSEWHERE = f"{_QUESTION}, as another plan was changed for it"
NO_FILE = f"{_QUESTION}; its file is not at hand (--scenario FILE, and --set as it was planned with)"
_SETTINGS = "settings"


def question_verified(
    saved: Plan, run: Path, scenario: Path | None, settings: tuple[Setting, ...] = (), *, near: bool = False
) -> Verification:
    """The scenario and the digests of its inputs, against its file; where none is given, one of that name beside the
    run, in the current folder or among those that are shipped."""
    inputs = dict(saved.provenance.input_hashes)
    path = scenario or at_hand(saved, run)
    if near or path is None or (scenario is None and _SETTINGS in inputs):
        return Verification(files=(), differences=(), unchecked=(ELSEWHERE if near else NO_FILE,))
    try:
        read = files.load_scenario(path, summarize, settings)
    except InputError:
        if scenario is not None:
            raise
        return Verification(files=(), differences=(), unchecked=(NO_FILE,))
    return _held_against(saved.scenario, _placed_as(read, saved.scenario), path, by_name=scenario is not None)


def at_hand(saved: Plan, run: Path) -> Path | None:
    """A scenario file of the name that the plan has first among its inputs."""
    names = [name for name, _ in saved.provenance.input_hashes][:1]
    folders = (Path.cwd(), run.absolute(), *list(run.absolute().parents)[:2])
    paths = [folder / name for folder in folders for name in names if name.lower().endswith((".yaml", ".yml", ".json"))]
    paths += [path for path in shipped_scenarios().values() if path.name in names]
    return next((path for path in paths if path.is_file()), None)


def _placed_as(read: Scenario, saved: Scenario) -> Scenario:
    """With the cluster on which the plan was put later, and its files among the inputs."""
    if saved.cluster is None or read.cluster is not None:
        return read
    names = {item.name for item in read.inputs}
    further = tuple(item for item in saved.inputs if item.name not in names)
    return replace(read, cluster=saved.cluster, placement=saved.placement, inputs=(*read.inputs, *further))


def _held_against(saved: Scenario, read: Scenario, path: Path, *, by_name: bool) -> Verification:
    """Differences where the file is the very one, or was named; else it may be another by now."""
    alike = replace(read, search=replace(read.search, seed=saved.search.seed, processes=saved.search.processes))
    documents = files.scenario_document(saved), files.scenario_document(alike)
    keys = document_differences(PLAN_FILE, *documents)
    hashes = [{item.name: item.sha256 for item in scenario.inputs} for scenario in (saved, read)]
    changed = hashes[0].get(path.name) != hashes[1].get(path.name)
    if keys and changed and not by_name:
        return Verification(files=(), differences=(), unchecked=(f"{_QUESTION}; {path} is another by now",))
    digests = document_differences(PLAN_FILE, *hashes)
    flags = [
        f"plan.json: scenario.search.{key}: {getattr(saved.search, key)}, as a flag of `planner plan` may set it"
        for key in FLAGS
        if getattr(saved.search, key) != getattr(read.search, key)
    ]
    below = [_below("scenario", row) for row in keys] + [_below("provenance.inputs_sha256", row) for row in digests]
    return Verification(files=(), differences=tuple(below), unchecked=tuple(flags))


def _below(key: str, row: Difference) -> Difference:
    return replace(row, key=f"{key}.{row.key}")
