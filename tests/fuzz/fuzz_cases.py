"""A case: a sound command line with one thing wrong; and what must hold of the answer."""

import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fuzz_calls import HANGS, Call, call, tree
from fuzz_files import Damage, file_damage
from fuzz_lines import LINES, Line
from fuzz_words import Typed, word_damage
from hypothesis import strategies as st

from planner.errors import SolverError

DONE, BAD_INPUT, INFEASIBLE = 0, 2, 3
MOST_BEYOND_S = 2
FLAGS = frozenset({"--quiet", "--small", "--pin-nodes", "--topology-objects", "--no-figures", "--decisions"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A line and its damage; `name` for totals and messages."""

    line: Line
    damage: Damage | Typed

    @property
    def words(self) -> tuple[str, ...]:
        """What is typed."""
        return self.damage.words if isinstance(self.damage, Typed) else self.line.words

    def __str__(self) -> str:
        return f"planner {' '.join(self.words):.300} | {self.damage.what}"


def inputs_of(workshop: Path, line: Line) -> list[str]:
    """The files of a line, patterns resolved to the first match."""
    return [min(path.relative_to(workshop).as_posix() for path in workshop.glob(name)) for name in line.inputs]


def cases(workshop: Path, lines: Sequence[Line] = LINES, *, cheap: bool = False) -> st.SearchStrategy[Case]:
    """Cases of these lines; `cheap`: those that take seconds only with damage that must be refused."""

    def of(line: Line) -> st.SearchStrategy[Case]:
        damages = [file_damage(workshop, name) for name in inputs_of(workshop, line)]
        kinds = [word_damage(line), *([st.one_of(damages)] * 3 if damages else [])]
        made = st.builds(Case, line=st.just(line), damage=st.one_of(kinds))
        return made.filter(lambda case: case.damage.sure) if line.long or (line.costly and cheap) else made

    return st.one_of([of(line) for line in lines])


def run(case: Case, workshop: Path, folder: Path, slow: list[str]) -> tuple[Call, list[str]]:
    """The answer of a case in a copy of the workshop at `folder`, and what is wrong with it; `slow` gets refusals that
    take more than two CPU-s beyond the sound command, which is no matter of right and wrong on a laden machine."""
    with _copy(workshop, folder):
        if isinstance(case.damage, Damage):
            case.damage.do(folder)
        before = tree(folder)
        answer = call(case.words, folder)
        if answer.crash == HANGS and _searching(folder):
            return answer, []
        wrong = list(_wrong(case, answer, before == tree(folder)))
    if answer.status == BAD_INPUT and answer.cpu_s > MOST_BEYOND_S:
        with _copy(workshop, folder):
            sound = call(case.line.words, folder)
        if answer.cpu_s > sound.cpu_s + MOST_BEYOND_S:
            slow.append(f"{case}: refused after {answer.cpu_s:.1f} CPU-s, the sound command takes {sound.cpu_s:.1f}")
    return answer, wrong


@contextmanager
def _copy(workshop: Path, folder: Path) -> Iterator[None]:
    shutil.copytree(workshop, folder, copy_function=os.link)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _searching(folder: Path) -> bool:
    """Whether a search was at work: damage may leave it the defaults, which take minutes."""
    return any('"judged"' in journal.read_text() for journal in folder.glob("made/search/journal.jsonl"))


def _wrong(case: Case, answer: Call, unchanged: bool) -> Iterator[str]:
    if answer.crash:
        yield f"leaves by another door: {answer.crash}"
        return
    if answer.status not in (DONE, BAD_INPUT, INFEASIBLE) and not isinstance(answer.error, SolverError):
        yield f"status {answer.status}: {answer.err.strip()[-400:]}"
    if re.search("Traceback|internal error", answer.err + answer.out):
        yield f"tells of its insides: {answer.err.strip()[-400:]}"
    if re.search(r"([x9])\1{200}|(?:xy){100}", re.sub(r"[\s│]", "", answer.err)):
        yield f"repeats more than 200 characters of input: {answer.err.strip()[:400]}"
    if answer.status == DONE:
        yield from _wrong_when_done(case, answer)
    elif not _several_scenarios(case.words):  # of several each is told in a table, and the sound ones are planned
        yield from _wrong_when_refused(case, answer)
        if not unchanged:
            yield "left something behind"


def _several_scenarios(words: Sequence[str]) -> bool:
    return words[:1] == ("plan",) and len(words) > 2 and not any(word.startswith("-") for word in words[1:3])


def _wrong_when_done(case: Case, answer: Call) -> Iterator[str]:
    if case.damage.sure:
        yield "took what cannot be for sound"
    if _asks_for_json(case.words):
        try:
            json.loads(answer.out, parse_constant=_refuse)
        except ValueError as error:
            yield f"printed no JSON: {error}"


def _asks_for_json(words: Sequence[str]) -> bool:
    """Whether `--json` stands there as a flag, not as the value of the option before it."""
    before = words[words.index("--json") - 1] if "--json" in words else "--out"
    return not before.startswith("--") or before in FLAGS


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def _wrong_when_refused(case: Case, answer: Call) -> Iterator[str]:
    if answer.error is None:
        said = answer.err + answer.out
        if not re.search("Usage:|─ Error ─", said) and not (answer.out and "--check" in case.words):
            yield f"no error and no usage: {said.strip()[-300:]}"
        return
    message, hint = answer.error.message, answer.error.hint
    if not hint.strip():
        yield f"no remedy: {message:.300}"
    if not re.search(r"[.!?]`?$", str(answer.error).strip()):
        yield f"no sentence: {str(answer.error)[-200:]}"
    if len(message) > 6000:
        yield f"a message of {len(message)} characters"
    if any(sign in answer.err for sign in "\x00\x1b\u202e"):
        yield f"prints what came as it came: {answer.err!r:.300}"
    if not _names_its_object(case, message):
        yield f"names no file and no option: {message:.300}"


def _names_its_object(case: Case, message: str) -> bool:
    """The file or a word of the line, or an object that ends in a colon."""
    words = [word for word in case.words if word.strip()]
    names = [Path(name).name for name in case.line.inputs]
    names += [part for word in words for part in (word.lstrip("-"), Path(word).name, ascii(word)[1:-1]) if part]
    names += [name[:60] for name in names if len(name) > 200]  # the rest is left out
    names += ["''"] if "" in case.words else []  # an empty value is quoted
    return any(name in message for name in names) or bool(re.match(r".{1,80}?: ", message))
