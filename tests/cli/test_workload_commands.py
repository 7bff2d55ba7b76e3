"""`planner workload`: what is shown of a trace, what becomes of it, and what is refused."""

from pathlib import Path

import pytest
import yaml
from command_line import TINY, TRACE, Command

from planner.errors import EXIT_BAD_INPUT, EXIT_DONE

LOGS = "when;Model;in;out\n" + "".join(
    f"2026-03-01 10:{k // 60:02}:{k % 60:02};{'big' if k % 3 else 'small'};{100 + k};{k % 4}\n" for k in range(120)
)
COLUMNS = "arrival=when,input_tokens=in,output_tokens=out"


@pytest.fixture
def logs(here: Path) -> Path:
    (here / "logs.csv").write_text(LOGS)
    return Path("logs.csv")


def test_a_summary_says_what_was_understood(planner: Command, logs: Path) -> None:
    answer = planner(
        "workload", "summarize", logs, "--columns", COLUMNS, "--where", "model=big", "--drop", "unanswered"
    )
    assert answer.status == EXIT_DONE
    for words in (
        "CSV, semicolons",
        "arrival_s: when, input_tokens: in, output_tokens: out, model: Model",
        "ISO 8601; the first arrival 2026-03-01 10:00:01 UTC",
        "rows left out: where",
        "40 (33.33%)",
        "rows left out: no answer",
        "busiest minute",
        "prompts (tokens)",
        "█",
    ):
        assert words in answer.out, words
    assert "in a scenario: `workload: logs.yaml`" in answer.err
    assert yaml.safe_load(Path("logs.yaml").read_text())["requests"] == 60


def test_the_same_as_json(planner: Command, logs: Path) -> None:
    answer = planner("workload", "show", logs, "--columns", COLUMNS, "--last", "30s", "--json")
    assert answer.status == EXIT_DONE
    shown = answer.json
    assert (shown["requests"], shown["rows"]) == (31, 120)
    assert shown["rows_left_out"] == {"outside the stretch of time": 89}
    assert shown["input_tokens"] == {"mean": 204, "p50": 204, "p90": 216, "p99": 219, "max": 219}
    assert shown["arrival_rps"] == 1.0
    assert not list(Path.cwd().glob("*.yaml"))


def test_pictures_and_pages_are_written_once(planner: Command, logs: Path) -> None:
    words = ("workload", "show", logs, "--columns", COLUMNS, "--picture", "a.svg", "--html", "a.html")
    assert planner(*words).status == EXIT_DONE
    page = Path("a.html").read_text()
    assert Path("a.svg").read_text().startswith("<?xml")
    assert "Workload logs" in page
    assert "120 requests at 1 a second" in page
    refused = planner(*words)
    assert (refused.status, "a.svg" in refused.err) == (EXIT_BAD_INPUT, True)
    before = page
    assert planner(*words, "--force").status == EXIT_DONE
    assert Path("a.html").read_text() == before


def test_outputs_are_written_together_or_not_at_all(planner: Command, logs: Path) -> None:
    before = sorted(Path().iterdir())
    words = ("workload", "summarize", logs, "--columns", COLUMNS, "--out", "o.yaml", "--picture", "a.svg")
    answer = planner(*words, "--html", "nodir/x.html")
    assert (answer.status, "nodir/x.html: cannot be written" in answer.err) == (EXIT_BAD_INPUT, True)
    assert sorted(Path().iterdir()) == before
    assert planner(*words, "--html", "a.svg").status == EXIT_BAD_INPUT  # two of them under one name
    assert sorted(Path().iterdir()) == before
    assert planner(*words, "--html", "x.html").status == EXIT_DONE
    assert {"o.yaml", "a.svg", "x.html"} <= {path.name for path in Path().iterdir()}


def test_shipped_workloads_are_shown(planner: Command, here: Path) -> None:
    answer = planner("workload", "show", "mooncake-conversation")
    assert answer.status == EXIT_DONE
    for words in ("12,031", "3.401 requests/s", "mean 12,035.1", "working set", "37.4% of all prompt tokens"):
        assert words in answer.out, words
    refused = planner("workload", "show", "mooncake-conversation", "--last", "1h")
    assert (refused.status, "is a workload file" in refused.err) == (EXIT_BAD_INPUT, True)


def test_a_sample_is_a_trace(planner: Command, here: Path) -> None:
    (here / "trace.csv").write_text(TRACE)
    words = ("workload", "sample", "trace.csv", "--requests", "30", "--seed", "1")
    assert planner(*words, "--out", "a.csv").status == EXIT_DONE
    assert planner(*words, "--out", "b.csv").status == EXIT_DONE
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()
    assert planner("workload", "show", "a.csv").status == EXIT_DONE
    assert planner(*words, "--out", "a.csv").status == EXIT_BAD_INPUT


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show", "none.csv"), "no such file"),
        (("show", "nobody"), "There is no workload 'nobody'"),
        (("show", "logs.csv"), "one column of arrival_s; none does"),
        (("show", "logs.csv", "--columns", "a,b"), "--columns: must be three names"),
        (("show", "logs.csv", "--columns", COLUMNS, "--where", "big"), "--where: must be COLUMN=VALUE"),
        (("show", "logs.csv", "--columns", COLUMNS, "--where", "Model=huge"), "these columns hold: big, small"),
        (("show", "logs.csv", "--columns", COLUMNS, "--time-unit", "ms"), "it has ISO 8601"),
        (("show", "logs.csv", "--columns", COLUMNS, "--picture", "a.gif"), "must end in .png or .svg"),
        (("summarize", "logs.csv", "--columns", COLUMNS, "--name", "a/b"), "workload name"),
        (("sample", "logs.csv", "--columns", COLUMNS, "--requests", "0", "--out", "a.csv"), "requests"),
    ],
)
def test_what_cannot_be_leaves_nothing_behind(
    planner: Command, logs: Path, words: tuple[str, ...], message: str
) -> None:
    answer = planner("workload", *words)
    assert answer.status == EXIT_BAD_INPUT
    assert message in " ".join(answer.err.split())
    assert [path.name for path in Path.cwd().iterdir()] == ["logs.csv"]


def test_from_own_logs_to_a_plan(planner: Command, logs: Path) -> None:
    document = "{kind: trace, file: logs.csv, columns: {arrival: when, input_tokens: in, output_tokens: out}}"
    Path("mine.yaml").write_text(TINY.replace("workload: normal-500-2000", f"workload: {document}"))
    answer = planner("plan", "mine.yaml", "--out", "run", "--quiet")
    assert answer.status == EXIT_DONE, answer.err
