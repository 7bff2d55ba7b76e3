"""Reports of folders that hold several runs: of a schedule, a sweep, a batch, or of runs beside each other."""

from pathlib import Path

from planner.cli import screen


def report_folder(folder: Path, out: Path | None, *, force: bool, as_json: bool, page: bool) -> bool:
    """Report a schedule, a sweep, a batch or a folder of runs; False where it is none of them, but one run or none. A
    schedule and a folder of runs get a `page` where nothing else is asked for; sweeps and batches have one.

    Raises InputError where a run in it is not sound, or `out` cannot be written.
    """
    from planner import files
    from planner.files.plan.batches.indexes import holds_batch
    from planner.files.plan.batches.sweep_indexes import holds_sweep
    from planner.files.plan.stored_schedules import holds_schedule

    if not files.is_folder(folder) or files.holds_run(folder):
        return False
    if holds_schedule(folder):
        _report_schedule(folder, out, force=force, as_json=as_json, page=page)
        return True
    if holds_sweep(folder):
        _report_sweep(folder, out, force=force, as_json=as_json)
        return True
    if holds_batch(folder):
        _report_batch(folder, out, force=force, as_json=as_json)
        return True
    if any(folder.glob("*/plan.json")):
        _report_runs(folder, out, force=force, as_json=as_json, page=page)
        return True
    return False


def _report_schedule(folder: Path, out: Path | None, *, force: bool, as_json: bool, page: bool) -> None:
    from planner import files
    from planner.cli.replanning.schedule import show
    from planner.files.plan.stored_schedules import load_schedule
    from planner.runs.replanning.scheduling import schedule_html, source_of, write_schedule

    schedule = load_schedule(folder)
    if out is not None:
        write_schedule(out, schedule, force=force)
    elif page and not as_json:
        files.write_page(folder / files.PAGE_FILE, schedule_html(schedule), source=source_of(schedule), force=force)
    show(schedule, folder if out is None else out, as_json=as_json)


def _report_sweep(folder: Path, out: Path | None, *, force: bool, as_json: bool) -> None:
    from planner import files
    from planner.cli.comparison.sweep import show
    from planner.runs.batches.sweeps import read_sweep
    from planner.runs.comparisons.pages import sweep_files

    sweep = read_sweep(folder)
    if out is not None:
        files.write_folder(out, sweep_files(sweep), force=force)
    show(sweep, folder, as_json=as_json)


def _report_batch(folder: Path, out: Path | None, *, force: bool, as_json: bool) -> None:
    from planner import files
    from planner.cli.batches.batch import show
    from planner.runs.batches.batches import read_batch
    from planner.runs.comparisons.batch_files import batch_files

    batch = read_batch(folder)
    if out is not None:
        files.write_folder(out, batch_files(batch), force=force)
    show(batch, folder, as_json=as_json)


def _report_runs(folder: Path, out: Path | None, *, force: bool, as_json: bool, page: bool) -> None:
    from planner import files
    from planner.cli.comparison.compare import show
    from planner.report.comparison.plans.side_by_side import comparison_document
    from planner.runs.comparisons.pages import FOLDER_SOURCE, comparison_bytes, comparison_files
    from planner.runs.comparisons.reading import compared, read_plans

    comparison = compared(read_plans([folder]))
    if out is not None:
        files.write_folder(out, comparison_files(comparison), force=force)
    elif page and not as_json:
        place = folder / files.PAGE_FILE
        files.write_page(place, comparison_bytes(comparison), source=FOLDER_SOURCE, force=force)
        screen.show_note(f"Page: {place}")
    if as_json:
        screen.show_json(comparison_document(comparison))
    else:
        show(comparison)
