"""Every command with one thing wrong, in its words or in one of its files: it is done or refused, never lost.

Refused means: status 2 or 3, a sentence that names the file or option and says what to do, and nothing left behind.
"""

import os
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest
from fuzz_calls import call
from fuzz_cases import Case, cases, inputs_of, run
from fuzz_lines import LINES
from fuzz_words import commands
from hypothesis import HealthCheck, Phase, given, seed, settings

# the cases are told as they are: one damage each, nothing to make smaller
EVERY = settings(
    database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck), print_blob=False, deadline=None
)


def faults(
    workshop: Path, folder: Path, count: int, number: int, *, cheap: bool
) -> tuple[Counter[str], list[str], list[str]]:
    """Cases by outcome and command, drawn by the seed `number`, what is wrong with some of them, and slow refusals."""
    totals: Counter[str] = Counter()
    wrong: list[str] = []
    slow: list[str] = []

    @seed(number)
    @settings(EVERY, max_examples=count)
    @given(cases(workshop, cheap=cheap))
    def each(case: Case) -> None:
        answer, told = run(case, workshop, folder / "case", slow)
        totals.update([f"status {answer.status}", case.line.command, f"{case.damage.kind} damaged"])
        wrong.extend(f"{case}: {fault}" for fault in told)

    each()
    return totals, wrong, slow


def test_every_command_has_a_line() -> None:
    assert {line.command for line in LINES} == set(commands())


def test_sixty_cases(workshop: Path, tmp_path: Path) -> None:
    totals, wrong, _ = faults(workshop, tmp_path, 60, 1, cheap=True)
    assert wrong == []
    assert totals["status 2"] > 30
    assert len([name for name in totals if name in commands()]) > 12


@pytest.mark.study
def test_every_line_is_sound(workshop: Path, tmp_path: Path) -> None:
    for line in LINES:
        if not line.long:
            shutil.copytree(workshop, tmp_path / "case", copy_function=os.link)
            answer = call(line.words, tmp_path / "case")
            assert (answer.status, answer.crash) == (0, ""), f"{line.words}: {answer.err}"
            assert all((workshop / name).is_file() for name in inputs_of(workshop, line))
            shutil.rmtree(tmp_path / "case")


@pytest.mark.study
@pytest.mark.parametrize("number", range(10))
def test_thousands_of_cases(workshop: Path, tmp_path: Path, number: int, capsys: pytest.CaptureFixture[str]) -> None:
    totals, wrong, slow = faults(workshop, tmp_path, 300, number, cheap=False)
    with capsys.disabled():
        sys.stdout.writelines(f"\n{count:6} {name}" for name, count in sorted(totals.items()))
    assert (wrong, slow) == ([], [])
    assert totals["status 2"] > 150
