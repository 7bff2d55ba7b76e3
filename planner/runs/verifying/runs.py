"""A run folder computed anew from its question, file by file."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from planner import files, pipeline
from planner.domain import Plan
from planner.domain.comparisons import Difference, Verification
from planner.errors import InputError, PlannerError
from planner.files.disk.documents import read_bytes
from planner.files.disk.folders import CLUSTER_FILE, PAGE_FILE, PLAN_FILE, SEARCH_FOLDER
from planner.files.disk.opening import MOST_OF_A_LIST
from planner.files.plan.digests import KEY as DIGESTS
from planner.files.plan.digests import MEASURED
from planner.files.scenario.settings import Setting
from planner.proposing.certificate import is_exact
from planner.runs import pages
from planner.runs.pages import REPLAY_FOLDER
from planner.runs.publication import publish
from planner.runs.replays.replays import AskedReplay, asked_of, replay_folder, trace_of, with_failures
from planner.runs.verifying.leaves import document_differences, file_differences, question_verified

CHANGE_FILES = ("changes.json", "change.md", "change.html", "change", "steps")
TUNE_FILE = "tune.md"
"""Of a run whose pools are another plan's with knobs turned; all else is as of any run."""
RUNNING_FILE = "running.md"
"""Of a run whose pools are servers that run without a plan."""
AS_THEY_ARE = (TUNE_FILE, RUNNING_FILE)
_PICTURES, _MANIFESTS = "figures", "manifests"

NEAR = (
    "plan.json: which pools were chosen, as they were chosen near another plan that is not in the folder; all that "
    "follows from them was computed"
)
CHANGED = f"{', '.join(CHANGE_FILES)}, {_MANIFESTS}: the way from another plan, which is not in the folder"
SEARCHED = (
    "plan.json: search.trials: which layouts were tried and by whom, and notes of rounds; each was judged anew "
    "(--search chooses them anew, too)"
)
EXPERIMENT = f"{SEARCH_FOLDER}: what a later search may go on from; nothing of the plan is read from it"
MEASUREMENTS = "plan.json: search.rounds: CPU-seconds, which were measured"


def verify_run(
    run: Path,
    *,
    scenario: Path | None = None,
    settings: tuple[Setting, ...] = (),
    near: bool = False,
    search: bool = False,
) -> Verification:
    """A run folder, or its plan.json alone. `scenario`: the file that it was planned from, with `settings`; None:
    looked for. `near`: it may have been planned near another plan, as every run may that tells of a change. `search`: a
    search is repeated.

    Raises InputError where there is no plan, or it was edited and its digests tell.
    """
    saved = files.load_run(run)
    folder = run if files.is_folder(run) else run.parent
    changed = folder == run and any(files.is_there(folder / name) for name in CHANGE_FILES)
    turned = folder == run and any(files.is_there(folder / name) for name in AS_THEY_ARE)
    try:
        due, pools_near = _due(saved, run, changed=changed or turned, near=near, search=search)
    except PlannerError as error:
        refused = Difference(file=PLAN_FILE, key="scenario", written="a plan", due=error.message)
        return Verification(files=(PLAN_FILE,), differences=(refused,))
    question = question_verified(saved, run, scenario, settings, near=near or changed or turned)
    parts = [Verification(files=(PLAN_FILE,), differences=plan_differences(run, due)), question]
    if folder == run:
        parts += [_of_files(folder, due, changed=changed), replay_verified(folder, due)]
    return joined(parts, _unchecked_parts(saved, folder, near=pools_near, changed=changed, search=search))


def _due(saved: Plan, run: Path, *, changed: bool, near: bool, search: bool) -> tuple[Plan, bool]:
    """What the plan should be, and whether its pools were taken as they are: those of a change are, others that may
    have been chosen near another plan where planning anew gives something else."""
    due = pipeline.remade(saved, near=changed, search=search)
    if changed or not near or not plan_differences(run, due):
        return due, changed
    return pipeline.remade(saved, near=True), True


def joined(parts: Iterable[Verification], unchecked: tuple[str, ...] = ()) -> Verification:
    """Several verifications as one."""
    parts = list(parts)
    return Verification(
        files=tuple(name for part in parts for name in part.files),
        differences=tuple(difference for part in parts for difference in part.differences),
        unchecked=(*unchecked, *(sentence for part in parts for sentence in part.unchecked)),
    )


def verify_plan(saved: Plan) -> Verification:
    """A plan at hand, which may have been planned near another."""
    written, near = _bare(files.encode_plan(saved)), False
    differences = _unlike(written, pipeline.remade(saved))
    if differences and saved.outlook.pools:
        of_pools = _unlike(written, pipeline.remade(saved, near=True))
        differences, near = (of_pools, True) if len(of_pools) < len(differences) else (differences, False)
    searched = (SEARCHED,) if not near and not is_exact(saved.scenario) else ()
    unchecked = (*((NEAR,) if near else ()), *searched)
    return Verification(files=(PLAN_FILE,), differences=differences, unchecked=unchecked)


def _bare(text: bytes) -> dict[str, Any]:
    """A plan's document without its digests, which follow from the rest."""
    return {key: value for key, value in json.loads(text).items() if key != DIGESTS}


def _unlike(written: dict[str, Any], due: Plan) -> tuple[Difference, ...]:
    return tuple(document_differences(PLAN_FILE, written, _bare(files.encode_plan(due)), free=MEASURED))


def plan_differences(run: Path, due: Plan) -> tuple[Difference, ...]:
    """What plan.json of a run says otherwise than the plan that is due."""
    path = run / PLAN_FILE if files.is_folder(run) else run
    written, expected = _bare(read_bytes(path, most_bytes=MOST_OF_A_LIST)), _bare(files.plan_files(due)[PLAN_FILE])
    return tuple(document_differences(path.name, written, expected, free=MEASURED))


def _of_files(folder: Path, due: Plan, *, changed: bool) -> Verification:
    """All files beside plan.json but those of replays and searches."""
    expected = _expected_files(folder, due)
    drawn = files.is_folder(folder / _PICTURES)
    names = [
        name
        for name in (*expected, *_stray(folder, expected))
        if name not in (PLAN_FILE, *AS_THEY_ARE)
        and (drawn or not name.startswith(f"{_PICTURES}/"))
        and not (changed and _tells(name))
    ]
    differences = [
        difference
        for name in dict.fromkeys(names)
        for difference in file_differences(name, _content(folder / name), expected.get(name))
    ]
    return Verification(files=tuple(dict.fromkeys(names)), differences=tuple(differences))


def _expected_files(folder: Path, due: Plan) -> Mapping[str, bytes]:
    published = publish(due, engine=due.scenario.engine.name or files.engine_of(folder)).files
    if not files.is_there(folder / PAGE_FILE):
        return published
    return {**published, PAGE_FILE: pages.plan_html(due, replay=pages.replay_of(due, folder))}


def _stray(folder: Path, expected: Mapping[str, bytes]) -> Iterator[str]:
    """Files that no such run has."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        top = name.partition("/")[0]
        if name not in expected and not path.is_dir() and top not in (SEARCH_FOLDER, pages.REPLAY_FOLDER):
            yield name


def _tells(name: str) -> bool:
    """Whether a file of a changed plan's run tells of the way to it."""
    return name.partition("/")[0] in (*CHANGE_FILES, _MANIFESTS)


def _content(path: Path) -> bytes | None:
    return read_bytes(path, most_bytes=MOST_OF_A_LIST) if files.is_there(path) else None


def _unchecked_parts(saved: Plan, folder: Path, *, near: bool, changed: bool, search: bool) -> tuple[str, ...]:
    """What was taken as it is."""
    searched = not near and not search and not is_exact(saved.scenario)
    timed = any(row.generation_cpu_s is not None for row in saved.search.rounds)
    rows = (
        (NEAR, near),
        (CHANGED, changed),
        (SEARCHED, searched),
        (EXPERIMENT, files.is_folder(folder / SEARCH_FOLDER)),
        (MEASUREMENTS, timed),
        (
            f"{CLUSTER_FILE}: the nodes of the cluster, which are part of the question",
            saved.scenario.cluster is not None,
        ),
    )
    return tuple(sentence for sentence, holds in rows if holds)


def replay_verified(run: Path, due: Plan) -> Verification:
    """What the folder `replay/` of a run says, beside the replay of the plan that is due."""
    folder = run / REPLAY_FOLDER
    if not files.is_folder(folder):
        return Verification(files=(), differences=())
    name = f"{REPLAY_FOLDER}/{files.REPLAY_FILE}"
    try:
        expected = _replayed(due, asked_of(folder), run)
    except InputError as error:
        refused = Difference(file=name, key="asked", written="a replay", due=error.message)
        return Verification(files=(name,), differences=(refused,))
    present = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if not path.is_dir()]
    names = list(dict.fromkeys((*expected, *present)))
    differences = [
        difference
        for name in names
        for difference in file_differences(f"{REPLAY_FOLDER}/{name}", _content(folder / name), expected.get(name))
        if not difference.key.startswith(f"{DIGESTS}.")  # they follow from the rest, and reading held them against it
    ]
    return Verification(files=tuple(f"{REPLAY_FOLDER}/{name}" for name in names), differences=tuple(differences))


def _replayed(due: Plan, request: AskedReplay, run: Path) -> dict[str, bytes]:
    trace = trace_of(due, request.trace, run)
    result = with_failures(pipeline.replay(due, trace, request.settings, request.rate_rps), request.settings)
    rates = pipeline.sweep_rates(due, trace, request.settings) if request.sweep else None
    return replay_folder(request, result, rates)
