"""`planner study papers`: what the documents claim beside what comes out here, from raw results."""

from pathlib import Path
from typing import Annotated

import typer

from planner.cli import screen
from planner.studies.commands import Force, Json

PAGE_FILE, TABLE_FILE = "papers.md", "claims.csv"


def command(
    results: Annotated[
        Path | None,
        typer.Option(help="Folder with STUDY/results. [default: the clone's own]", show_default=False),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for papers.md and claims.csv.", show_default=False)] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """What five documents claim, beside ours: claim, figures, verdict, reason, command and CPU-seconds."""
    from planner import files
    from planner.report.kit.tables import frame_csv, frame_of
    from planner.studies.papers.page import claim_rows, papers_page
    from planner.studies.papers.study import FOLDER, all_claims

    claims = all_claims(results or FOLDER)
    rows, page = claim_rows(claims), papers_page(claims)
    if out is not None:
        contents = {PAGE_FILE: page.encode(), TABLE_FILE: frame_csv(frame_of(rows))}
        files.write_folder(out, contents, force=force, kinds=tuple(contents))
    if json:
        screen.show_json({"claims": rows})
    elif out is None:
        screen.show_markdown(page)
    else:
        screen.show_text(f"Written to {out}")
