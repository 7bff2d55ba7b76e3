"""Whatever a planner has written, verified by its kind: a run, or a folder of a schedule, a watch, a batch, a sweep."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from planner import files, pipeline
from planner.domain.comparisons import Difference, Verification
from planner.domain.schedules import Schedule, TariffKind
from planner.files.disk.documents import read_bytes
from planner.files.disk.opening import MOST_OF_A_LIST
from planner.files.plan.batches import indexes
from planner.files.plan.batches.indexes import read_note
from planner.files.plan.digests import sealed_text
from planner.files.plan.fleet_document import folder_of, holds_fleet
from planner.files.plan.stored_schedules import PLANS_FOLDER, SCHEDULE_FILE, holds_schedule, level_names, load_schedule
from planner.files.plan.watch_folders import holds_watch
from planner.files.records import record_document
from planner.files.scenario.settings import Setting
from planner.plans.comparing import plan_figures
from planner.replanning.schedules.levels import window_usd
from planner.runs.batches.batches import exit_status, read_batch
from planner.runs.batches.sweeps import read_sweep
from planner.runs.comparisons import batch_files, runs_in, sweep_files
from planner.runs.verifying.leaves import ELSEWHERE, document_differences, file_differences
from planner.runs.verifying.runs import NEAR, joined, verify_run
from planner.runs.watching.watches import read_log, watch_html
from planner.runs.watching.watches import source_of as source_of_watch

_DERIVED = "digests."
_PARQUET, _MANIFESTS = ".parquet", "/manifests/"
MONEY = (
    "schedule.json: which plan stands when, what changes cost, and bounds, as they follow from rates, times of changes "
    "and plans that were not chosen"
)
CHANGE = "changes.json"
"""Of a fleet that took another's place."""
DIVISION = (
    "fleet.json: how the nodes were divided, its bound, parts of the rent and worths of nodes, as they follow from "
    "divisions that were not chosen (--search divides anew)"
)
OWNED = "schedule.json: costs of windows, as they follow from GPUs that no plan has"
REQUEST = "what was asked for, and how jobs without a plan ended"
TIMES = f"{indexes.TIMES_FILE}: what the clock said"


def verify(
    folder: Path, *, scenario: Path | None = None, settings: tuple[Setting, ...] = (), search: bool = False
) -> Verification:
    """All of a folder that the planner wrote, computed anew. `scenario`, `settings`: what a run was planned from, or a
    watch begun with; `search`: searches are repeated.

    Raises InputError where a document cannot be read, was edited and its digests tell, or is none of these kinds.
    """
    if files.holds_run(folder) or not files.is_folder(folder):
        return verify_run(folder, scenario=scenario, settings=settings, search=search)
    kinds: tuple[tuple[Callable[[Path], bool], Callable[..., Verification]], ...] = (
        (holds_fleet, _of_fleet),
        (holds_schedule, _of_schedule),
        (holds_watch, partial(_of_watch, scenario=scenario, settings=settings)),
        (indexes.holds_sweep, _of_sweep),
        (indexes.holds_batch, _of_batch),
    )
    for holds, verified in kinds:
        if holds(folder):
            return verified(folder, search=search)
    return joined([_below(folder, run, search=search) for run in runs_in(folder)])


def _below(folder: Path, run: Path, *, near: bool = False, search: bool = False) -> Verification:
    """A run below a folder, its files named from there."""
    verification, name = verify_run(run, near=near, search=search), run.relative_to(folder).as_posix()
    return replace(
        verification,
        files=tuple(f"{name}/{file}" for file in verification.files),
        differences=tuple(replace(row, file=f"{name}/{row.file}") for row in verification.differences),
        unchecked=tuple(f"{name}/{sentence}" for sentence in verification.unchecked),
    )


def _written(folder: Path, expected: Mapping[str, bytes]) -> Verification:
    """Files that are made of a folder's own documents."""
    differences: list[Difference] = []
    for name, content in expected.items():
        path = folder / name
        written = read_bytes(path, most_bytes=MOST_OF_A_LIST) if files.is_there(path) else None
        differences += [row for row in file_differences(name, written, content) if not row.key.startswith(_DERIVED)]
    return Verification(files=tuple(expected), differences=tuple(differences))


def _of_fleet(folder: Path, *, search: bool) -> Verification:
    """Every plan anew, and the files that are made of the document; with `search` the division anew, too. What the
    document says of its plans is held against them as it is read."""
    from planner.runs.fleets import own_files, read_fleet  # noqa: PLC0415  (loads what fleets are told with)

    plan = read_fleet(folder)
    near = files.is_there(folder / CHANGE)  # nodes were divided near an old division, and plans made near others
    runs = [_below(folder, folder / folder_of(part), near=near, search=search) for part in plan.plans]
    # what was placed afterwards has other plans than the division gave it
    anew = search and not near and all(part.plan.placement is None for part in plan.plans)
    again = pipeline.plan_fleet(plan.fleet) if anew else plan
    return joined([*runs, _written(folder, own_files(again))], () if anew else (DIVISION,))


def _of_schedule(folder: Path, *, search: bool) -> Verification:
    from planner.runs.replanning.scheduling import schedule_files  # noqa: PLC0415  (loads what schedules are made with)

    schedule = load_schedule(folder)
    names = level_names(schedule)
    runs = [_below(folder, folder / PLANS_FOLDER / name, near=True, search=search) for name in names]
    # the manifests of its plans carry on what runs from one to the next
    apart = [
        replace(run, differences=tuple(row for row in run.differences if _MANIFESTS not in row.file)) for run in runs
    ]
    written = {
        name: content for name, content in schedule_files(schedule).items() if "/" not in name or _MANIFESTS in name
    }
    rents = Verification(files=(), differences=tuple(rent_differences(schedule)))
    owned = (OWNED,) if schedule.tariff.kind is TariffKind.OWNED else ()
    return joined([*apart, _written(folder, written), rents], (MONEY, *owned))


def rent_differences(schedule: Schedule) -> list[Difference]:
    """What windows cost, from the GPUs of the plans that stand, and all of them together."""
    windows = [{"usd": window.usd} for window in schedule.windows]
    due = list(windows)
    if schedule.tariff.kind is not TariffKind.OWNED:
        scenario, levels = schedule.levels[0].plan.scenario, schedule.levels
        items = {item.gpu.name: item for level in levels for item in level.plan.scenario.inventory.items}
        priced = replace(scenario, inventory=replace(scenario.inventory, items=tuple(items.values())))
        costs = window_usd(priced, schedule.series, levels, schedule.tariff, dict(schedule.reserved))
        due = [{"usd": float(costs[number, window.level])} for number, window in enumerate(schedule.windows)]
    usd = math.fsum(row["usd"] + window.change_usd for row, window in zip(due, schedule.windows, strict=True))
    written = {"usd": schedule.usd, "windows": windows}
    return document_differences(SCHEDULE_FILE, written, {"usd": usd, "windows": due})


def _of_watch(folder: Path, *, scenario: Path | None, settings: tuple[Setting, ...], search: bool) -> Verification:
    from planner.runs.verifying.watches import watch_verified  # noqa: PLC0415  (loads what watches plan with)

    plans = sorted(path for path in (folder / PLANS_FOLDER).iterdir() if files.holds_run(path))
    runs = [_below(folder, plan, near=True, search=search) for plan in plans]
    page = {}
    if files.is_there(folder / files.PAGE_FILE):
        page = {files.PAGE_FILE: watch_html(read_log(folder), source_of_watch(folder))}
    log = watch_verified(folder, scenario, settings)
    if log.decided:  # what was taken of the plans has been planned again
        runs = [replace(run, unchecked=_but(run.unchecked, NEAR, ELSEWHERE)) for run in runs]
    verification = joined([*runs, _written(folder, page), log.verification])
    return replace(verification, differences=tuple(dict.fromkeys(verification.differences)))


def _but(sentences: tuple[str, ...], *settled: str) -> tuple[str, ...]:
    return tuple(sentence for sentence in sentences if not sentence.endswith(settled))


def _of_batch(folder: Path, *, search: bool) -> Verification:
    from planner.report.comparison.batch import batch_document  # noqa: PLC0415  (as its command loads it)

    batch = read_batch(folder)
    names = dict.fromkeys(entry.run for entry in batch.index.entries)
    runs = _noted(folder, [folder / indexes.RUNS_FOLDER / name for name in names], search=search)
    tables = {name: content for name, content in batch_files(batch).items() if not name.endswith(_PARQUET)}
    summary = {indexes.SUMMARY_FILE: sealed_text(batch_document(batch, exit_status(batch)))}
    return joined([*runs, _written(folder, summary | tables)], (f"{indexes.INDEX_FILE}: {REQUEST}", TIMES))


def _of_sweep(folder: Path, *, search: bool) -> Verification:
    sweep = read_sweep(folder)
    names = dict.fromkeys(entry.name for entry in sweep.index.entries)
    runs = _noted(folder, [folder / indexes.POINTS_FOLDER / name for name in names], search=search)
    return joined([*runs, _written(folder, sweep_files(sweep))], (f"{indexes.SWEEP_FILE}: {REQUEST}",))


def _noted(folder: Path, runs: list[Path], *, search: bool) -> Iterator[Verification]:
    """Runs, and what is noted of each beside it."""
    for run in runs:
        if not files.holds_run(run):
            continue
        yield _below(folder, run, search=search)
        note, name = read_note(run), f"{run.relative_to(folder).as_posix()}.note.json"
        plan = files.load_run(run)
        if note is None:
            differences = [Difference(file=name, key="", written="no note that holds", due="how the job ended")]
        else:
            figures = {} if note.figures is None else record_document(note.figures)
            differences = document_differences(name, figures, record_document(plan_figures(plan, run.name)))
        yield Verification(files=(name,), differences=tuple(differences))
