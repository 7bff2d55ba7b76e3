"""A run folder computed anew from its question, file by file."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from planner import files, pipeline
from planner.domain import Plan
from planner.domain.comparisons.verification import Difference, Verification
from planner.errors import PlannerError
from planner.files.disk.documents import read_bytes
from planner.files.disk.folders import CLUSTER_FILE, PAGE_FILE, PLAN_FILE, SEARCH_FOLDER
from planner.files.disk.opening import MOST_OF_A_LIST
from planner.files.plan.digests import KEY as DIGESTS
from planner.files.plan.digests import MEASURED
from planner.files.scenario.settings import Setting
from planner.layouts.certificate import is_exact
from planner.runs import pages
from planner.runs.publication import publish
from planner.runs.verifying.leaves import document_differences, file_differences
from planner.runs.verifying.questions import question_verified
from planner.runs.verifying.replays import replay_verified

CHANGE_FILES = ("changes.json", "change.md", "change.html", "change", "steps")
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
    whole = files.is_folder(run)
    folder = run if whole else run.parent
    changed = whole and any(files.is_there(folder / name) for name in CHANGE_FILES)
    try:
        due = pipeline.remade(saved, search=search)
        taken_near = (near or changed) and not _same_pools(saved, due)
        if taken_near:
            due = pipeline.remade(saved, near=True)
    except PlannerError as error:
        found = Difference(file=PLAN_FILE, key="scenario", written="a plan", due=error.message)
        return Verification(files=(PLAN_FILE,), differences=(found,))
    asked = question_verified(saved, run, scenario, settings, near=near or changed)
    parts = [Verification(files=(PLAN_FILE,), differences=_of_plan(folder if whole else run, due)), asked]
    if whole:
        parts += [_of_files(folder, due, changed=changed), replay_verified(folder, due)]
    taken = _taken(saved, folder, near=taken_near, changed=changed, search=search)
    return joined(parts, taken)


def verify_plan(saved: Plan) -> Verification:
    """A plan at hand, which may have been planned near another."""
    due = pipeline.remade(saved)
    near = saved.buckets is not None and not _same_pools(saved, due)
    if near:
        due = pipeline.remade(saved, near=True)
    documents = (json.loads(files.encode_plan(plan)) for plan in (saved, due))
    bare = [{key: value for key, value in document.items() if key != DIGESTS} for document in documents]
    differences = tuple(document_differences(PLAN_FILE, *bare, free=MEASURED))
    searched = (SEARCHED,) if not near and not is_exact(saved.scenario) else ()
    return Verification(files=(PLAN_FILE,), differences=differences, unchecked=(*((NEAR,) if near else ()), *searched))


def _same_pools(saved: Plan, due: Plan) -> bool:
    pools = [plan.buckets.pools if plan.buckets else () for plan in (saved, due)]
    kinds = [[(pool.gpu, pool.phase, pool.server, pool.count, pool.start, pool.end) for pool in plan] for plan in pools]
    return kinds[0] == kinds[1]


def joined(parts: Iterable[Verification], taken: tuple[str, ...] = ()) -> Verification:
    """Several verifications as one."""
    parts = list(parts)
    return Verification(
        files=tuple(name for part in parts for name in part.files),
        differences=tuple(difference for part in parts for difference in part.differences),
        unchecked=(*taken, *(sentence for part in parts for sentence in part.unchecked)),
    )


def _of_plan(run: Path, due: Plan) -> tuple[Difference, ...]:
    path = run / PLAN_FILE if files.is_folder(run) else run
    documents = json.loads(read_bytes(path, most=MOST_OF_A_LIST)), json.loads(files.plan_files(due)[PLAN_FILE])
    for document in documents:
        document.pop(DIGESTS, None)  # they follow from the rest, and reading held them against it
    return tuple(document_differences(path.name, *documents, free=MEASURED))


def _of_files(folder: Path, due: Plan, *, changed: bool) -> Verification:
    """All files beside plan.json but those of replays and searches."""
    wanted = _wanted(folder, due)
    drawn = files.is_folder(folder / _PICTURES)
    names = [
        name
        for name in (*wanted, *_stray(folder, wanted))
        if name != PLAN_FILE and (drawn or not name.startswith(f"{_PICTURES}/")) and not (changed and _tells(name))
    ]
    differences = [
        difference
        for name in dict.fromkeys(names)
        for difference in file_differences(name, _content(folder / name), wanted.get(name))
    ]
    return Verification(files=tuple(dict.fromkeys(names)), differences=tuple(differences))


def _wanted(folder: Path, due: Plan) -> Mapping[str, bytes]:
    published = publish(due, engine=due.scenario.engine.name or files.engine_of(folder)).files
    if not files.is_there(folder / PAGE_FILE):
        return published
    return {**published, PAGE_FILE: pages.plan_html(due, replay=pages.replay_of(due, folder))}


def _stray(folder: Path, wanted: Mapping[str, bytes]) -> Iterator[str]:
    """Files that no such run has."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        top = name.partition("/")[0]
        if name not in wanted and not path.is_dir() and top not in (SEARCH_FOLDER, pages.REPLAY_FOLDER):
            yield name


def _tells(name: str) -> bool:
    """Whether a file of a changed plan's run tells of the way to it."""
    return name.partition("/")[0] in (*CHANGE_FILES, _MANIFESTS)


def _content(path: Path) -> bytes | None:
    return read_bytes(path, most=MOST_OF_A_LIST) if files.is_there(path) else None


def _taken(saved: Plan, folder: Path, *, near: bool, changed: bool, search: bool) -> tuple[str, ...]:
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
