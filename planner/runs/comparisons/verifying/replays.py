"""The replay in a run folder, made again as it was asked for."""

from pathlib import Path

from planner import files, pipeline
from planner.domain import Plan
from planner.domain.comparisons import Difference, Verification
from planner.errors import InputError
from planner.files.disk.documents import read_bytes
from planner.files.disk.opening import MOST_OF_A_LIST
from planner.files.plan.digests import KEY as DIGESTS
from planner.runs.comparisons.verifying.leaves import file_differences
from planner.runs.pages import REPLAY_FOLDER
from planner.runs.replays.replay_folders import AskedReplay, asked_of, replay_folder
from planner.runs.replays.replays import trace_of, with_failures


def replay_verified(run: Path, due: Plan) -> Verification:
    """What the folder `replay/` of a run says, beside the replay of the plan that is due."""
    folder = run / REPLAY_FOLDER
    if not files.is_folder(folder):
        return Verification(files=(), differences=())
    name = f"{REPLAY_FOLDER}/{files.REPLAY_FILE}"
    try:
        wanted = _replayed(due, asked_of(folder), run)
    except InputError as error:
        refused = Difference(file=name, key="asked", written="a replay", due=error.message)
        return Verification(files=(name,), differences=(refused,))
    there = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if not path.is_dir()]
    names = list(dict.fromkeys((*wanted, *there)))
    differences = [
        difference
        for name in names
        for difference in file_differences(f"{REPLAY_FOLDER}/{name}", _content(folder / name), wanted.get(name))
        if not difference.key.startswith(f"{DIGESTS}.")  # they follow from the rest, and reading held them against it
    ]
    return Verification(files=tuple(f"{REPLAY_FOLDER}/{name}" for name in names), differences=tuple(differences))


def _replayed(due: Plan, request: AskedReplay, run: Path) -> dict[str, bytes]:
    trace = trace_of(due, request.trace, run)
    result = with_failures(pipeline.replay(due, trace, request.settings, request.rate_rps), request.settings)
    rates = pipeline.sweep_rates(due, trace, request.settings) if request.sweep else None
    return replay_folder(request, result, rates)


def _content(path: Path) -> bytes | None:
    return read_bytes(path, most=MOST_OF_A_LIST) if files.is_there(path) else None
