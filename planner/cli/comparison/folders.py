"""Reports of folders of several runs: of a fleet, a schedule, a watch, a sweep, a batch, or of runs side by side."""

from dataclasses import dataclass
from pathlib import Path

from planner.cli import screen


@dataclass(frozen=True, slots=True, kw_only=True)
class _Report:
    """What the command line says of a report; `out`: None where it goes to the folder itself."""

    out: Path | None
    force: bool
    as_json: bool
    page: bool


def report_folder(folder: Path, out: Path | None, *, force: bool, as_json: bool, page: bool) -> bool:
    """Report a fleet, a schedule, a watch, a sweep, a batch or a folder of runs; False where it is none of them, but
    one run or none. A fleet, a schedule, a watch and a folder of runs get a `page` where nothing else is asked for; the
    others have one.

    Raises InputError where a run in it is not sound, or `out` cannot be written.
    """
    from planner import files
    from planner.files.plan.batches.indexes import holds_batch, holds_sweep
    from planner.files.plan.fleet_document import holds_fleet
    from planner.files.plan.stored_schedules import holds_schedule
    from planner.files.plan.watch_folders import holds_watch

    if not files.is_folder(folder) or files.holds_run(folder):
        return False
    kinds = (
        (holds_fleet, _report_fleet),
        (holds_schedule, _report_schedule),
        (holds_watch, _report_watch),
        (holds_sweep, _report_sweep),
        (holds_batch, _report_batch),
        (_holds_runs, _report_runs),
    )
    for holds, report in kinds:
        if holds(folder):
            report(folder, _Report(out=out, force=force, as_json=as_json, page=page))
            return True
    return False


def _holds_runs(folder: Path) -> bool:
    return any(folder.glob("*/plan.json"))


def _report_fleet(folder: Path, request: _Report) -> None:
    from planner import files
    from planner.files.plan.fleet_document import fleet_document, folder_of
    from planner.report.fleets.page import fleet_summary
    from planner.runs.fleets import KINDS, fleet_html, read_fleet, report_files, source_of_fleet
    from planner.runs.pages import plan_html, source_of

    fleet = read_fleet(folder)
    if request.out is not None:
        files.write_folder(request.out, report_files(fleet), force=request.force, kinds=KINDS)
    elif request.page and not request.as_json:
        for part in fleet.plans:
            place = folder / folder_of(part) / files.PAGE_FILE
            files.write_page(place, plan_html(part.plan), source=source_of(part.plan), force=request.force)
        place = folder / files.PAGE_FILE
        files.write_page(place, fleet_html(fleet), source=source_of_fleet(fleet), force=request.force)
        screen.show_note(f"Page: {place}")
    if request.as_json:
        screen.show_json(fleet_document(fleet))
    else:
        screen.show_markdown(fleet_summary(fleet))


def _report_schedule(folder: Path, request: _Report) -> None:
    from planner import files
    from planner.cli.replanning.schedule import show
    from planner.files.plan.stored_schedules import load_schedule
    from planner.runs.replanning.scheduling import schedule_html, source_of, write_schedule

    schedule = load_schedule(folder)
    if request.out is not None:
        write_schedule(request.out, schedule, force=request.force)
    elif request.page and not request.as_json:
        files.write_page(
            folder / files.PAGE_FILE, schedule_html(schedule), source=source_of(schedule), force=request.force
        )
    show(schedule, request.out or folder, as_json=request.as_json)


def _report_watch(folder: Path, request: _Report) -> None:
    from planner import files
    from planner.cli.replanning.watch import show
    from planner.runs.watching.watches import read_log, source_of, watch_files, watch_html

    log = read_log(folder)
    if request.out is not None:
        files.write_folder(request.out, watch_files(log, source_of(folder)), force=request.force)
    elif request.page and not request.as_json:
        place, source = folder / files.PAGE_FILE, source_of(folder)
        files.write_page(place, watch_html(log, source), source=source, force=request.force)
        screen.show_note(f"Page: {place}")
    show(log, request.out or folder, as_json=request.as_json)


def _report_sweep(folder: Path, request: _Report) -> None:
    from planner import files
    from planner.cli.comparison.sweep import show
    from planner.runs.batches.sweeps import read_sweep
    from planner.runs.comparisons import sweep_files

    sweep = read_sweep(folder)
    if request.out is not None:
        files.write_folder(request.out, sweep_files(sweep), force=request.force)
    show(sweep, folder, as_json=request.as_json)


def _report_batch(folder: Path, request: _Report) -> None:
    from planner import files
    from planner.cli.batches.batch import show
    from planner.runs.batches.batches import read_batch
    from planner.runs.comparisons import batch_files

    batch = read_batch(folder)
    if request.out is not None:
        files.write_folder(request.out, batch_files(batch), force=request.force)
    show(batch, folder, as_json=request.as_json)


def _report_runs(folder: Path, request: _Report) -> None:
    from planner import files
    from planner.cli.comparison.compare import show
    from planner.report.comparison.side_by_side import comparison_document
    from planner.runs.comparisons import FOLDER_SOURCE, compared, comparison_bytes, comparison_files, read_plans

    comparison = compared(read_plans([folder]))
    if request.out is not None:
        files.write_folder(request.out, comparison_files(comparison), force=request.force)
    elif request.page and not request.as_json:
        place = folder / files.PAGE_FILE
        files.write_page(place, comparison_bytes(comparison), source=FOLDER_SOURCE, force=request.force)
        screen.show_note(f"Page: {place}")
    if request.as_json:
        screen.show_json(comparison_document(comparison))
    else:
        show(comparison)
