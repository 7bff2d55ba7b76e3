"""What is typed has bounds: whole numbers a size, and messages repeat little of what came."""

import pytest
from command_line import Command

from planner.errors import EXIT_BAD_INPUT, MOST_OF_INPUT, InputError, shortened

LONG = "x" * 5000
SPACED = "x y " * 1500


def test_numbers_that_no_work_ends_for_are_refused(planner: Command) -> None:
    sized = planner("cost", "configurations", "--gpu", "H200", "--phase", "prefill", "--size", "9" * 23)
    assert sized.status == EXIT_BAD_INPUT
    assert "--size" in sized.err
    assert "100000" in sized.err
    moves = planner("place", "run", "--cluster", "c.yaml", "--out", "o", "--moves", "9" * 23)
    assert moves.status == EXIT_BAD_INPUT
    assert moves.err.startswith("error: --moves: must be a whole number of at most 1e+15 either way, got 999")


@pytest.mark.parametrize("long", [LONG, SPACED, "9" * 5000])
@pytest.mark.parametrize(
    "words",
    [
        ("{}",),
        ("gpus", "{}"),
        ("gpus", "--{}"),
        ("check", "{}"),
        ("plan", "{}"),
        ("plan", "--resume", "{}"),
        ("explain", "run", "--seconds", "{}"),
        ("cost", "explain", "--gpu", "{}", "--model", "{}", "--phase", "{}"),
        ("cost", "explain", "--gpu", "{}", "--model", "{}", "--phase", "decode", "--tp", "1", "--devices", "8"),
        ("workload", "show", "azure-code-2023", "--from", "{}"),
        ("cluster", "import", "--kubectl", "{}", "--out", "c.yaml"),
        ("replay", "{}", "--seeds", "{}", "--between", "{}"),
        ("cheapest", "--rps", "2", "--model", "{}", "--workload", "{}", "--offer", "{}"),
    ],
)
def test_no_message_repeats_what_came_at_length(planner: Command, words: tuple[str, ...], long: str) -> None:
    answer = planner(*(word.format(long) for word in words))
    assert answer.status == EXIT_BAD_INPUT
    squeezed = "".join(answer.err.split()).replace("│", "")
    assert long.replace(" ", "")[: MOST_OF_INPUT + 1] not in squeezed
    assert len(squeezed) < 1500


def test_sentences_are_left_as_they_are() -> None:
    said = "plan's own: nodes' GPUs must be " + "some words and more, " * 20 + "isn't that so."
    assert shortened(said) == said
    assert str(InputError(said, hint=said)) == f"{said} {said}"
    path = "/".join(["folder"] * 40)
    cut = shortened(f"{path}/plan.json: must be there, is missing.")
    assert cut.startswith("folder/folder/")
    assert cut.endswith("folder/plan.json: must be there, is missing.")
    assert len(cut) < MOST_OF_INPUT + 40
    assert len(shortened(f"key: must be a name, got {SPACED!r}.")) < MOST_OF_INPUT + 40
