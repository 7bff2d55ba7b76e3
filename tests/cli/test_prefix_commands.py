"""Traces with hashes of their prompts' blocks, from the command line: what is told, planned and refused."""

import json
from pathlib import Path

import pytest
import yaml
from command_line import TINY, Command

from planner.domain import RequestTrace
from planner.errors import EXIT_BAD_INPUT, EXIT_DONE
from planner.files.plan.runs import load_run
from planner.runs.replays.replays import trace_of

ROWS = [
    {
        "timestamp": 1000 * k,
        "input_length": 1024 + 512 * (k % 3),
        "output_length": 9 + k,
        "hash_ids": [k % 2, *range(100 + k % 4, 101 + k % 4 + k % 3)],
    }
    for k in range(40)
]
AUTO = TINY.replace("workload: normal-500-2000", "workload: {kind: trace, file: hashed.jsonl, time_unit: ms}")


@pytest.fixture
def hashed(here: Path) -> Path:
    path = here / "hashed.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    return Path(path.name)


def test_a_summary_tells_what_caches_find(planner: Command, hashed: Path) -> None:
    answer = planner("workload", "summarize", hashed, "--time-unit", "ms", "--json")
    assert answer.status == EXIT_DONE
    shares = [value for key, value in answer.json.items() if key.startswith("cached_at_")]
    assert len(shares) == 14
    assert shares == sorted(shares)
    assert 0 < shares[-1] < 1
    assert list(answer.json)[-1] == "cached_at_without_bounds"
    assert yaml.safe_load(Path("hashed.yaml").read_text())["prefix"]["block_tokens"] == 512
    assert "found by a cache of 16K" in planner("workload", "summarize", hashed, "--time-unit", "ms", "--force").out


def test_show_says_what_a_cache_of_an_asked_size_finds(planner: Command, hashed: Path) -> None:
    asked = ("--cache-tokens", "1600", "--cache-tokens", "700")
    answer = planner("workload", "show", hashed, "--time-unit", "ms", *asked, "--json")
    assert answer.status == EXIT_DONE
    assert answer.json["cached_at_700_tokens"] <= answer.json["cached_at_1600_tokens"]
    # every id of 40 requests in 39 s comes again within 12 s, and half of the first ones within 2 s
    shares = {row["timeout_s"]: row["share"] for row in answer.json["cached_by_timeout"]}
    assert 0 < shares[10.0] <= shares[60.0] == answer.json["cached_at_without_bounds"]
    shown = planner("workload", "show", hashed, "--time-unit", "ms", *asked).out
    for words in ("found by a cache of 1K", "found by a cache of 2K", "found if blocks unused for 10 s go", "16K  "):
        assert words in shown
    assert "found by a cache of 16K" not in shown
    refused = planner("workload", "show", "mooncake-conversation", "--cache-tokens", "5")
    assert refused.status == EXIT_BAD_INPUT
    assert "mooncake-conversation: a cache must be one of its table's (16384" in refused.err


SESSIONS = """kind: sessions
name: drawn
sessions_per_s: 0.5
span_s: 200
turns: {mean: 3}
message_tokens: {mean: 900}
answer_tokens: {mean: 50}
pause_s: {mean: 5}
"""


def test_sessions_of_marginals_go_where_traces_go(planner: Command, here: Path) -> None:
    """A plan made of them is replayed with them, as long as the marginals are those that it was made of."""
    (here / "drawn.yaml").write_text(SESSIONS)
    shown = planner("workload", "show", "drawn.yaml", "--json").json
    assert shown["sessions"]["mean_pause_s"] == pytest.approx(5)
    for place, workload in (("file", "drawn.yaml"), ("inline", yaml.safe_load(SESSIONS))):
        document = yaml.safe_load(TINY) | {"workload": workload, "search": {"method": "random", "iterations": 1}}
        (here / f"{place}.yaml").write_text(yaml.safe_dump(document))
        assert planner("plan", f"{place}.yaml", "--out", place).status == EXIT_DONE
        plan = load_run(here / place)
        trace = trace_of(plan, None, here / place)
        assert isinstance(trace, RequestTrace)
        assert len(trace.arrival_s) == shown["requests"]
        assert trace.sessions is not None
        changed = here / ("drawn.yaml" if place == "file" else "inline.yaml")
        changed.write_text(changed.read_text().replace("900", "901"))
        assert trace_of(plan, None, here / place) is plan.scenario.workload


def test_ids_of_other_blocks_are_refused_with_what_to_give(planner: Command, hashed: Path) -> None:
    answer = planner("workload", "summarize", hashed, "--time-unit", "ms", "--block-tokens", "64")
    assert answer.status == EXIT_BAD_INPUT
    for words in ("hashed.jsonl", "row 1, key hash_ids", "64 tokens", "got 2 ids", "--block-tokens"):
        assert words in answer.err


def test_auto_is_checked_with_a_trace_that_has_hashes(planner: Command, tiny: Path, hashed: Path) -> None:
    tiny.write_text(f"{AUTO}cost: {{kv_cache_rate: auto}}\nrouting: {{policy: prefix_aware}}\n")
    assert planner("check", tiny).status == EXIT_DONE


SMALL = AUTO.replace("deepseek-v3", "llama-3.1-70b").replace("{H200: 32, H20: 32}", "{H200: 16}")
TIERED = f"{SMALL}cost: {{kv_cache_rate: auto}}\nrouting: {{policy: prefix_aware}}\ntiers: {{host_gb_per_node: 800}}\n"


def test_a_plan_with_tiers_is_exported_with_them_and_an_edited_size_is_told(
    planner: Command, tiny: Path, hashed: Path
) -> None:
    tiny.write_text(TIERED)
    assert planner("plan", tiny).status == EXIT_DONE
    assert planner("export", "runs/tiny", "--out", "made", "--router", "none").status == EXIT_DONE
    assert planner("import", "made", "--out", "back.json").status == EXIT_DONE
    file, *_ = sorted(path for path in Path("made").glob("*.yaml") if "cpu_bytes_to_use" in path.read_text())
    assert "planner/host-cache-gb: '100.0'" in file.read_text(), "800 GB of a node of eight GPUs"
    file.write_text(file.read_text().replace("cpu_bytes_to_use", "cpu_bytes_to_uze"))
    for words in (("export", "--check", "made", "runs/tiny"), ("import", "made", "--out", "again.json")):
        answer = planner(*words)
        assert answer.status == EXIT_BAD_INPUT
        assert file.name in f"{answer.out}{answer.err}"


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        ("auto", ("cost.kv_cache_rate", "begin alike", "normal-500-2000", "hash_ids")),
        ("often", ("cost.kv_cache_rate", "auto, a number", "rows {from, to, share}", "'often'")),
        ("[{from: 9, to: 5, share: 0.1}]", ("cost.kv_cache_rate[0].to", "at least 10", "got 5")),
        ("[{from: 9}]", ("cost.kv_cache_rate[0].share", "missing", "Add the key")),
        ("auto, mode: reference", ("cost.kv_cache_rate", "a number where cost.mode is reference", "'auto'")),
    ],
)
def test_other_rates_are_refused(planner: Command, tiny: Path, rate: str, words: tuple[str, ...]) -> None:
    tiny.write_text(f"{TINY}cost: {{kv_cache_rate: {rate}}}\n")
    answer = planner("plan", tiny)
    assert (answer.status, answer.out) == (EXIT_BAD_INPUT, "")
    assert [word for word in ("tiny.yaml", *words) if word not in answer.err] == []
    assert not Path("runs").exists()
