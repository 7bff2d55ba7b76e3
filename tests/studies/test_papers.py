"""The page of what the documents claim: written by its command from raw results, and by nobody else."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from planner.cli.docs.markdown_pages import guide_text
from planner.errors import InputError
from planner.studies.papers import study
from planner.studies.papers.page import claim_rows, papers_page
from planner.studies.papers.records import Claim, Paper, Results, Verdict
from planner.studies.papers.results import ResultsFolder
from planner.studies.papers.study import FOLDER, all_claims

MADE_UP = Paper(title="Made up", reference="Nobody, 1999", studies=("chapter5",))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Raw results of one study: a table of one row, and what made it."""
    results = tmp_path / "chapter5" / "results"
    results.mkdir(parents=True)
    (results / "toss.csv").write_text("heads,tails\n3,1\n")
    (results / "runs.csv").write_text(
        "name,command,date,cpu_s\ntoss,planner toss | head,2026-11-27,1.25\nroll,planner roll,2026-11-26,2\n"
    )
    return tmp_path


def tossed(verdict: Verdict, reason: str) -> SimpleNamespace:
    """A module with one claim."""

    def claims(results: Results) -> Iterator[Claim]:
        (row,) = results.table("toss")
        ours = f"{row['heads']} of {int(row['heads']) + int(row['tails'])}"
        run = results.run("toss")
        yield Claim(
            place="table 1", words="Half | half", published="50 %", ours=ours, verdict=verdict, reason=reason, run=run,
            also=(results.run("roll"), run),
        )  # fmt: skip

    return SimpleNamespace(claims=claims)


def test_the_page_is_what_the_command_writes() -> None:
    assert guide_text("papers") == papers_page(all_claims(FOLDER))


def test_every_document_has_claims_and_every_other_figure_a_reason() -> None:
    claims = all_claims(FOLDER)
    assert all(rows for rows in claims.values())
    assert all(claim.reason for rows in claims.values() for claim in rows if claim.verdict is not Verdict.HOLDS)
    assert all(claim.run.command.startswith("planner ") for rows in claims.values() for claim in rows)


def test_a_claim_is_a_row_with_its_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "PAPERS", (MADE_UP,))
    monkeypatch.setattr(study, "import_module", lambda _: tossed(Verdict.OPEN, "Too few."))
    claims = all_claims(folder)
    page = papers_page(claims)
    assert "| table 1 | Half \\| half | 50 % | 3 of 4 | **open** | Too few. | 1, 2 |" in page
    assert "| 1 | `planner toss \\| head` | 2026-11-27 | 1.25 |" in page
    assert "| 2 | `planner roll` | 2026-11-26 | 2.00 |" in page
    assert "| Made up | 1 | 0 | 0 | 0 | 1 |" in page
    (row,) = claim_rows(claims)
    assert row["ours"] == "3 of 4"
    assert row["verdict"] == "open"
    assert row["also"] == "planner roll; planner toss | head"


def test_another_figure_without_a_reason_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "PAPERS", (MADE_UP,))
    monkeypatch.setattr(study, "import_module", lambda _: tossed(Verdict.EXPLAINED, ""))
    with pytest.raises(ValueError, match="without a reason"):
        all_claims(folder)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("runs.csv", "name,command,date,cpu_s\ntoss,planner toss,2026-11-27,much\n", "cpu_s must be CPU-seconds"),
        ("runs.csv", "name,command,date,cpu_s\nother,planner toss,2026-11-27,1\n", "must have a row for toss"),
        ("runs.csv", "name,command\ntoss,planner toss\n", "cpu_s"),
        ("toss.csv", None, "must hold raw results, is not there"),
    ],
)
def test_results_that_cannot_be_read_are_named(folder: Path, name: str, text: str | None, words: str) -> None:
    path = folder / "chapter5" / "results" / name
    path.unlink()
    if text is not None:
        path.write_text(text)
    results = ResultsFolder(path.parent)
    with pytest.raises(InputError, match=words) as refused:
        list(tossed(Verdict.HOLDS, "").claims(results))
    assert refused.value.hint


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"chapter5/results: must hold raw results"):
        all_claims(tmp_path)
