"""What every question does with its answer: print it, write the scenario and the run folder, say what to ask next."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from planner.cli import screen

if TYPE_CHECKING:
    from planner.domain import ReportProgress
    from planner.runs.questions import MoneyAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Where the answer goes; `flags`: the question's own, for the next one."""

    scenario: Path | None
    out: Path | None
    force: bool
    json: bool
    quiet: bool
    flags: str


def answer_with(wanted: Wanted, name: str, ask: "Callable[[ReportProgress], MoneyAnswer]") -> None:
    """Ask, write what is to be written, print. What cannot be written fails before the work, not after it."""
    from planner import files
    from planner.runs.questions import answer_document, answer_text
    from planner.runs.questions.documents import text_of
    from planner.runs.questions.words import next_questions

    if wanted.scenario is not None:
        files.refuse_existing(wanted.scenario, force=wanted.force)
    if wanted.out is not None:
        files.claim_run_folder(wanted.out, force=wanted.force)
    with screen.search_progress(name, quiet=wanted.quiet or wanted.json) as progress:
        answer = ask(progress)
    texts = {} if wanted.scenario is None else {wanted.scenario: text_of(answer, wanted.scenario.parent).encode()}
    with files.files_written(texts, force=wanted.force):
        warnings = () if wanted.out is None else _published(answer, wanted.out, force=wanted.force)
    if wanted.json:
        screen.show_json(answer_document(answer, scenario=wanted.scenario, run=wanted.out, flags=wanted.flags))
    else:
        screen.show_prose(answer_text(answer))
        _show_scenario(text_of(answer), wanted.scenario, str(answer.document["name"]))
        screen.show_text("What to ask next")
        for why, command in next_questions(answer, wanted.scenario, wanted.flags, wanted.out):
            screen.show_text(f"  {why}\n    {command}")
        if wanted.out is not None:
            screen.show_text(f"Written to {wanted.out}")
    for warning in warnings:
        screen.show_warning(warning)


def _show_scenario(text: str, path: Path | None, name: str) -> None:
    where = f"written to {path}" if path else f"--scenario {name}.yaml writes it"
    screen.show_text(f"The scenario that this stands for ({where})")
    screen.show_text("".join(f"  {line}\n" for line in text.splitlines()))


def _published(answer: "MoneyAnswer", folder: Path, *, force: bool) -> tuple[str, ...]:
    from planner import files
    from planner.runs import publication

    published = publication.publish(answer.plan, engine=answer.scenario.engine.name)
    files.write_run(folder, published.files, force=force)
    return published.warnings
