"""`planner rehearse`: what it refuses before anything runs. Rehearsals with real programs: tests/export."""

from pathlib import Path

import pytest
from command_line import Command

ALONE = ("--program", "haproxy=/no/such/haproxy")


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (("--requests", "20001"), "requests: must be from 1 to 20,000, got 20001"),
        (("--slower", "0"), "slower: must be from 0.125"),
        (("--rate", "5", "--requests", "20000"), "minutes: must be enough for 20,000 requests at 5 requests/s"),
        (("--kill", "somewhere"), "--kill: must be ISLAND@SECONDS, got 'somewhere'"),
        (("--kill", "nobody@3s"), "kill: must name an island that serves"),
        (("--program", "nginx=/bin/true"), "--program: must be NAME=COMMAND, NAME one of haproxy"),
        (("--router", "llm-d"), "Router llm-d, target: must be"),
        (("--router", "haproxy", *ALONE), "Router's program haproxy: must be at hand"),
        (("--rate", "fast"), "rate: must be a share of the capacity"),
    ],
)
def test_bad_words_are_refused_with_a_hint(planner: Command, planned: Path, words: tuple[str, ...], rule: str) -> None:
    answer = planner("rehearse", planned, "--trace", "lengths", *words)
    assert (answer.status, answer.out) == (2 if "target" not in rule else 3, "")
    assert rule in " ".join(answer.err.split())


def test_a_program_that_is_not_there_says_how_to_install_it(planner: Command, planned: Path) -> None:
    answer = planner("rehearse", planned, "--trace", "lengths", "--router", "haproxy", *ALONE)
    assert "apt-get install haproxy" in answer.err
    assert "--program haproxy=COMMAND" in answer.err


def test_an_existing_folder_is_not_overwritten(planner: Command, planned: Path) -> None:
    Path("kept").mkdir()
    Path("kept/notes.txt").write_text("mine")
    answer = planner("rehearse", planned, "--trace", "lengths", "--out", "kept", "--force")
    assert answer.status == 2
    assert Path("kept/notes.txt").read_text() == "mine"


def test_without_the_library_the_extra_is_named(
    planner: Command, planned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("planner.runs.rehearsal.settings.find_spec", lambda _: None)
    answer = planner("rehearse", planned, "--trace", "lengths")
    assert answer.status == 1
    assert "llm-fleet-planner[rehearse]" in answer.err
