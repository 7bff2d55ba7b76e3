"""`planner study asi`: the ASI paper's figures 2 to 14 and 16 on any trace of its columns."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.errors import InputError
from planner.studies.commands import FIGURES_FOLDER, REPORT_FILE, SUMMARY_FILE, Figures, Force, Json

if TYPE_CHECKING:
    from planner.studies.asi.records import AsiStudy


def command(
    trace: Annotated[
        Path | None,
        typer.Argument(
            help="Folder with pod_hourly, server_hourly, network_hourly, job_execution_summary; or job_info.",
            show_default=False,
        ),
    ] = None,
    *,
    out: Annotated[Path, typer.Option(help="Folder for summary.md, a CSV a figure, and figures.", show_default=False)],
    synthetic: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=60,
            help="Instead: write a made-up trace of so many days, which meets the paper's marginals, to --out.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the made-up trace.")] = 0,
    days: Annotated[
        str | None,
        typer.Option(help="Only these days of the hourly tables.", metavar="FIRST..LAST", show_default=False),
    ] = None,
    figures: Figures = True,
    force: Force = False,
    json: Json = False,
) -> None:
    """Job types, models, GPU types, demand, run times, requests, allocation, traffic, idle GPUs of a trace."""
    from planner import files
    from planner.studies.asi.study import FILE_STEMS, study_trace

    if synthetic is not None:
        _refuse_trace(trace, days)
        _write_synthetic(synthetic, seed, out, force=force, json=json)
        return
    if trace is None:
        raise InputError("TRACE: must be a folder, got none.", hint="Add it, or make one up with --synthetic 7.")
    between = _days(days)
    kinds = [SUMMARY_FILE, REPORT_FILE, *(f"{stem}.csv" for stem in FILE_STEMS), *map(_picture, FILE_STEMS)]
    files.claim_folder(out, kinds, force=force)
    study = study_trace(trace, between)
    files.write_folder(out, _files(study, figures=figures), force=force, kinds=kinds)
    if json:
        screen.show_json(_document(study))
        return
    rows = [(figure.number, figure.title, len(figure.points), "") for figure in study.figures]
    rows += [(gap.number, gap.title, 0, gap.why) for gap in study.missing]
    screen.show_table(f"Trace {study.trace}", ("figure", "of", "points", "missing because"), rows)
    screen.show_text(f"Written to {out}")


def _refuse_trace(trace: Path | None, days: str | None) -> None:
    for name, value in (("TRACE", trace), ("--days", days)):
        if value is not None:
            raise InputError(f"{name}: goes without --synthetic, got both.", hint="Drop one of the two.")


def _write_synthetic(days: int, seed: int, out: Path, *, force: bool, json: bool) -> None:
    from planner import files
    from planner.studies.asi.synthetic.trace import FILES, synthetic_trace

    files.claim_folder(out, FILES, force=force)
    tables = synthetic_trace(days, seed)
    files.write_folder(out, tables, force=force, kinds=FILES)
    if json:
        screen.show_json({"files": {name: len(text) for name, text in tables.items()}})
    else:
        screen.show_text(f"Written to {out}")


def _picture(stem: str) -> str:
    return f"{FIGURES_FOLDER}/{stem}.png"


def _days(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    first, dots, last = text.partition("..")
    ends = [part if part.isascii() and part.isdigit() and len(part) < 7 else "" for part in (first, last or first)]
    if not all(ends) or (dots and not last) or int(ends[0]) > int(ends[1]):
        raise InputError(f"--days: must be FIRST..LAST, whole numbers from 0, got {text!r}.", hint="Write 109..115.")
    return int(ends[0]), int(ends[1])


def _files(study: "AsiStudy", *, figures: bool) -> dict[str, bytes]:
    from planner.report.kit import style
    from planner.runs.pages import written_page
    from planner.studies.asi.page import asi_page, asi_plots, figure_csv
    from planner.studies.asi.panels import draw_figure
    from planner.studies.asi.study import tables_of

    stems = tables_of(study)
    paths = {stem: _picture(stem) for stem in stems} if figures else {}
    drawn = {paths[stem]: style.encoded(draw_figure(stems[stem])) for stem in paths}
    tables = {f"{stem}.csv": figure_csv(figure) for stem, figure in stems.items()}
    pages = {
        SUMMARY_FILE: asi_page(study, paths).encode(),
        REPORT_FILE: written_page(asi_page(study, {}), asi_plots(study)),
    }
    return {**pages, **tables, **drawn}


def _document(study: "AsiStudy") -> dict[str, object]:
    from dataclasses import asdict

    return {
        "trace": study.trace,
        "rows": dict(study.rows),
        "days": study.days,
        "figures": [asdict(figure) for figure in study.figures],
        "missing": [asdict(gap) for gap in study.missing],
    }
