"""What a user gets wrong is told in one paragraph: which file, which key, what to do. Nothing is left behind."""

from pathlib import Path

import pytest
from command_line import TINY, Answer, Command

from planner.errors import EXIT_BAD_INPUT, EXIT_INFEASIBLE

ROOT = str(Path(__file__).resolve().parents[2])
GARBAGE = bytes(range(128, 256)) * 4


def _told(answer: Answer, here: Path, status: int, words: tuple[str, ...], lines: int = 1) -> None:
    """One paragraph, or so many lines, on standard error: all of `words`, no trace of the machine or of our insides."""
    assert answer.status == status
    assert answer.out == ""
    steps, error, text = answer.err.strip().partition("error: ")
    assert error
    assert all(line.startswith("check: ") for line in steps.splitlines())  # what it was about when it ended
    assert len(text.splitlines()) == lines
    assert text.endswith(".")
    assert [word for word in words if word not in text] == [], text
    assert [word for word in ("Traceback", "internal error", ROOT, str(here)) if word in text] == []


def _tree(folder: Path) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def _altered(old: str, new: str) -> str:
    assert old in TINY
    return TINY.replace(old, new)


SCENARIOS = {
    "unknown GPU": (_altered("H200: 32", "H2OO: 32"), ("inventory.H2OO", "not a known GPU type", "mean", "H200")),
    "negative count": (_altered("H200: 32", "H200: -4"), ("inventory.H200", "at least 1", "-4", "Correct")),
    "zero count": (_altered("H200: 32", "H200: 0"), ("inventory.H200", "at least 1", "Leave H200 out")),
    "fractional count": (_altered("H200: 32", "H200: 1.5"), ("inventory.H200", "whole number", "1.5", "Correct")),
    "count in words": (_altered("H200: 32", "H200: many"), ("inventory.H200", "whole number", "'many'")),
    "empty inventory": (_altered("{H200: 32, H20: 32}", "{}"), ("inventory", "at least one GPU type", "H200: 64")),
    "no inventory": (_altered("inventory: {H200: 32, H20: 32}\n", ""), ("inventory", "missing")),
    "missing price": (
        _altered("H20: 32", "Rubin-NVL144: 144").replace("method: random", "method: exact")
        + "objective: {kind: per_dollar}\n",
        ("prices_usd_per_gpu_hour.Rubin-NVL144", "no price", "Add `Rubin-NVL144: USD`"),
    ),
    "misspelt key": (_altered("inventory", "inventroy"), ("inventroy", "not a known key", "Did you mean inventory")),
    "misspelt key below": (_altered("iterations", "iteration"), ("search.iteration", "Did you mean iterations?")),
    "key given twice": (TINY + "name: again\n", ("line 8", "'name' is given twice")),
    "unreadable YAML": (_altered("model: deepseek-v3", "model: [deepseek"), ("line 3", "not readable YAML", "Mend")),
    "tabs": (_altered("ranges: {", "ranges:\n\twidth: {"), ("line 6", "not readable YAML", "spaces, not tabs")),
    "a list": ("- 1\n- 2\n", ("the top level must be a mapping", "list")),
    "empty file": ("", ("the top level must be a mapping", "an empty file")),
    "unknown model": (_altered("deepseek-v3", "deepsek-v3"), ("model", "'deepsek-v3'", "Did you mean deepseek-v3")),
    "unknown workload": (_altered("normal-500-2000", "azure-cod-2023"), ("workload", "Did you mean azure-code-2023")),
    "missing trace": (_altered("normal-500-2000", "gone.csv"), ("workload", "gone.csv", "no such file", "Check")),
    "missing model": (_altered("deepseek-v3", "./gone.json"), ("model", "gone.json", "no such file", "Check")),
    "folder for a trace": (_altered("normal-500-2000", "folder.csv"), ("workload", "folder.csv", "cannot be read")),
    "unknown method": (_altered("random", "randon"), ("search.method", "one of", "'randon'", "Did you mean random?")),
    "island too large": (_altered("size: 12", "size: 64"), ("search.min_island_size", "32")),
    "a name with a slash": (_altered("name: tiny", "name: ../tiny"), ("name", "letters, digits", "Rename")),
    "python in YAML": (_altered("name: tiny", "name: !!python/object/apply:os.getcwd []"), ("line 1", "tag")),
}


@pytest.mark.parametrize("command", ["check", "plan"])
@pytest.mark.parametrize("case", SCENARIOS)
def test_bad_scenarios(planner: Command, here: Path, case: str, command: str) -> None:
    text, words = SCENARIOS[case]
    (here / "folder.csv").mkdir()
    (here / "bad.yaml").write_text(text)
    before = _tree(here)
    _told(planner(command, "bad.yaml"), here, EXIT_BAD_INPUT, ("bad.yaml", *words))
    assert _tree(here) == before


TRACES: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "empty": (b"", ("header", "empty", "Give a trace")),
    "a header alone": (b"time,input_tokens,output_tokens\n", ("at least one request", "Give a trace")),
    "no columns": (b"a,b,c\n1,2,3\n", ("arrival_s", "a, b, c", "--columns")),
    "no number": (b"time,input_tokens,output_tokens\n0,ten,3\n", ("row 1", "input_tokens", "'ten'", "Mend")),
    "a missing cell": (b"time,input_tokens,output_tokens\n0,10\n", ("row 1", "output_tokens", "''", "Mend")),
    "no prompt": (b"time,input_tokens,output_tokens\n0,0,3\n", ("row 1", "at least 1", "no request")),
    "half a token": (b"time,input_tokens,output_tokens\n0,1.5,3\n", ("row 1", "whole number", "'1.5'")),
    "no answer": (b"time,input_tokens,output_tokens\n0,5,0\n1,6,0\n", ("output_tokens", "decode tokens", "every row")),
    "mixed times": (b"time,input_tokens,output_tokens\n0,5,1\n2023-01-01,6,2\n", ("row 2", "seconds", "ISO 8601")),
    "garbage": (GARBAGE, ("UTF-8", "line 1", "0x80", "Save")),
}


@pytest.mark.parametrize("case", TRACES)
def test_bad_traces(planner: Command, here: Path, case: str) -> None:
    content, words = TRACES[case]
    (here / "bad.csv").write_bytes(content)
    (here / "s.yaml").write_text(_altered("normal-500-2000", "bad.csv"))
    before = _tree(here)
    _told(planner("plan", "s.yaml"), here, EXIT_BAD_INPUT, ("s.yaml: workload: bad.csv", *words))
    _told(planner("workload", "summarize", "bad.csv"), here, EXIT_BAD_INPUT, ("bad.csv", *words))
    assert _tree(here) == before


def test_probabilities_must_sum_to_1(planner: Command, here: Path) -> None:
    lengths = (
        "mean_output_tokens: 5\nmax_output_tokens: 9\nlengths: |\n  input_tokens,probability\n  10,0.5\n  20,0.3\n"
    )
    (here / "w.yaml").write_text(f"name: w\nkind: lengths\n{lengths}")
    (here / "s.yaml").write_text(_altered("normal-500-2000", "w.yaml"))
    words = ("s.yaml: workload: w.yaml", "lengths", "sum to 1", "0.8")
    _told(planner("plan", "s.yaml"), here, EXIT_BAD_INPUT, words)


def test_two_h200_alone_are_too_few(planner: Command, here: Path) -> None:
    few = _altered("{H200: 32, H20: 32}", "{H200: 2}").replace("size: 12", "size: 1")
    # 671 GB of weights, 141 GB a GPU: five cannot hold them, and the cache and the activations want their part
    words = ("deepseek-v3", "673 GB", "H200", "has 2", "prefill", "decode", "add GPUs")
    (here / "two.yaml").write_text(few + "routing: {form: table}\n")
    _told(planner("check", "two.yaml"), here, EXIT_INFEASIBLE, (*words, "at least 6"))
    (here / "two.yaml").write_text(few)
    words = (*words, "at least 8 would do")  # servers are equal parts of a node, or whole ones
    for command in (("check", "two.yaml"), ("plan", "two.yaml", "--quiet"), ("plan", "two.yaml", "--json")):
        _told(planner(*command), here, EXIT_INFEASIBLE, words, lines=3)
    assert list(_tree(here)) == [here / "two.yaml"]


@pytest.mark.parametrize("command", ["plan", "check", "report", "export", "workload summarize"])
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("gone", ("gone", "no such file")),
        ("folder", ("folder", "cannot be read")),
        ("garbage", ("garbage",)),
        ("empty", ("empty",)),
        ("n" * 300, ("n" * 90, "cannot be read")),
    ],
)
def test_what_is_not_a_file_of_ours(
    planner: Command, here: Path, command: str, given: str, words: tuple[str, ...]
) -> None:
    (here / "folder").mkdir()
    (here / "garbage").write_bytes(GARBAGE)
    (here / "empty").write_bytes(b"")
    before = _tree(here)
    rest = ("--out", "manifests") if command == "export" else ()
    answer = planner(*command.split(), given, *rest)
    needed = (given, "o such file") if given == "gone" else words
    _told(answer, here, EXIT_BAD_INPUT, needed)
    assert _tree(here) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("plan", "tiny.yaml", "--engine", "tgi"), ("--engine", "vllm, sglang", "'tgi'", "Choose")),
        (("export", "run", "--out", "m", "--engine", "tgi"), ("Engine 'tgi'", "vllm", "sglang")),
        (("export", "run", "--out", "m", "--target", "helm"), ("Target 'helm'", "lws")),
        (("gpus", "H2000"), ("GPU type", "'H2000'", "Did you mean", "H200")),
        (("plan", "tiny.yaml", "--out", "run"), ("run", "already holds a result", "islands.csv", "--force")),
        (("plan", "tiny.yaml", "--out", "file"), ("file", "must be a folder, is a file", "Choose")),
        (("plan", "tiny.yaml", "--out", "file/below"), ("file/below", "cannot be written", "Choose")),
        (("plan", "tiny.yaml", "--out", "mine"), ("mine", "holds thesis.tex", "Choose")),
        (("plan", "tiny.yaml", "--out", "mine", "--force"), ("mine", "thesis.tex", "even with --force")),
        (("plan", "tiny.yaml", "--out", "o" * 300), ("cannot be written", "too long", "Choose")),
        (("plan", "tiny.yaml", "--out", "."), ("current folder", "Choose")),
        (("export", "run", "--out", "mine"), ("mine", "thesis.tex", "Choose")),
        (("report", "run", "--out", "mine", "--force"), ("mine", "thesis.tex", "Choose")),
        (("report", "run", "--out", "file/below"), ("file/below", "cannot be written", "Choose")),
        (("workload", "summarize", "mine.csv", "--out", "file"), ("file", "exists already", "--force")),
        (("workload", "summarize", "mine.csv", "--out", "no/w.yaml"), ("no/w.yaml", "cannot be written", "Make")),
        (("workload", "summarize", "mine.csv", "--out", "mine", "--force"), ("mine", "is a folder", "file's name")),
        (("workload", "summarize", "mine.csv", "--name", "../up"), ("name", "'../up'", "Rename")),
        (("workload", "summarize", "mine.csv", "--columns", "a,b"), ("--columns", "three names", "TIMESTAMP")),
        (("workload", "summarize", "mine.csv", "--columns", "a,b,c"), ("mine.csv", "'a'", "TIMESTAMP")),
        (("plan", "tiny.yaml", "other/tiny.yaml"), ("two of them", "runs/tiny", "different names")),
    ],
)
def test_bad_arguments(
    planner: Command, here: Path, run: Path, tiny: Path, trace: Path, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    (here / "file").write_text("mine")
    (here / "mine").mkdir()
    (here / "mine" / "thesis.tex").write_text("precious")
    before = _tree(here)
    _told(planner(*arguments), here, EXIT_BAD_INPUT, words)
    assert _tree(here) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan",),
        ("plan", "tiny.yaml", "--seed", "-1"),
        ("plan", "tiny.yaml", "--seed", str(2**32)),
        ("plan", "tiny.yaml", "--processes", "0"),
        ("plan", "tiny.yaml", "--iterations", "3"),
        ("export", "run"),
        ("plam", "tiny.yaml"),
    ],
)
def test_bad_usage(planner: Command, here: Path, tiny: Path, arguments: tuple[str, ...]) -> None:
    answer = planner(*arguments)
    assert (answer.status, answer.out) == (EXIT_BAD_INPUT, "")
    assert "Usage" in answer.err
    assert "Traceback" not in answer.err
    assert [path.name for path in here.iterdir()] == ["tiny.yaml"]


def test_markup_and_emoji_in_names_are_names(planner: Command) -> None:
    assert "[red]x:warning:.yaml: there is no such file" in planner("plan", "[red]x:warning:.yaml").err


def test_a_defect_is_one_line_and_status_1(
    planner: Command, tiny: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("lost")

    monkeypatch.setattr("planner.pipeline.plan", broken)
    answer = planner("plan", tiny)
    assert answer.status == 1
    assert answer.err.strip().startswith("error: internal error: KeyError: 'lost'.")
    assert "PLANNER_DEBUG=1" in answer.err
    assert "Traceback" not in answer.err
    assert [path.name for path in here.iterdir()] == ["tiny.yaml"]
    monkeypatch.setenv("PLANNER_DEBUG", "1")
    assert "Traceback" in planner("plan", tiny).err


@pytest.mark.parametrize("name", ["a\x1b[2Jb", "\u202etxt.yaml", "\udc80", "a\rb"])
def test_what_came_steers_no_terminal(planner: Command, name: str) -> None:
    for command in (("plan", name), ("gpus", name), ("workload", "summarize", name)):
        answer = planner(*command)
        assert answer.status == EXIT_BAD_INPUT
        assert [c for c in answer.err if not (c.isprintable() or c == "\n")] == []
        assert ascii(name)[1:-1].split("\\")[1][:3] in answer.err
