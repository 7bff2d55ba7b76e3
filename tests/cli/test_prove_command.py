"""`planner prove`: what it refuses before anything is loaded. Proofs with the real generator: tests/export."""

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Command
from counting_engine import MODEL, CountingEngine, open_engine

from planner.domain.arrivals import Requests
from planner.files.benchmarks.aiperf_records import AiperfRequest
from planner.runs.live.proving.generator import Sent

AT_HAND = ("--program", f"aiperf={sys.executable}")
"""A program that is there; what is refused is refused before it starts."""
SPEAKING = ("--program", "aiperf=sh -c 'echo no such flag $OPENAI_API_KEY'")


@pytest.fixture
def engine() -> Iterator[CountingEngine]:
    with open_engine(CountingEngine()) as opened:
        yield opened


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (("--url", "localhost:8000"), "--url: must be an address as http://localhost:8000, got 'localhost:8000'"),
        (("--url", "http://localhost:8000/docs"), "--url: must be an address"),
        (("--url", "http://localhost:port"), "--url: must be an address"),
        (("--url", "http://me:hush@localhost"), "--url: must hold no user and no password"),
        (("--url", "http://10.1.2.3:80"), "must be on this machine unless its host is confirmed, got 10.1.2.3"),
        (("--url", "http://0.0.0.0:80"), "must be on this machine unless its host is confirmed, got 0.0.0.0"),
        (("--url", "http://localhost.example.com"), "unless its host is confirmed, got localhost.example.com"),
        (("--url", "http://10.1.2.3", "--confirm", "10.1.2.4"), "--confirm: must be the host of --url, 10.1.2.3"),
        (("--url", "http://localhost", "--requests", "20001"), "requests: must be from 1 to 20,000, got 20001"),
        (("--url", "http://localhost", "--minutes", "0.7"), "minutes: must be above 0.75"),
        (("--url", "http://localhost", "--minutes", "inf"), "minutes: must be above 0 and at most 240"),
        (("--url", "http://localhost", "--warm-up", "1"), "warm_up: must be a share"),
        (("--url", "http://localhost", "--seed", "-1"), "seed: must be a whole number"),
        (("--url", "http://localhost", "--bytes-per-token", "nan"), "bytes_per_token: must be from 0.5 to 16"),
        (("--url", "http://localhost", "--rate", "fast"), "rate: must be a share of the capacity"),
        (("--url", "http://localhost", "--program", "haproxy=/bin/true"), "NAME one of aiperf"),
        (("--url", "http://localhost", "--program", "aiperf=/no/such"), "Load generator aiperf: must be at hand"),
        (("--url", "http://localhost:9", *AT_HAND), "must answer within 10 s"),
        (("--url", "http://localhost:9", "--router", "nobody"), "router: must be one of"),
    ],
)
def test_bad_words_are_refused_with_a_hint(planner: Command, planned: Path, words: tuple[str, ...], rule: str) -> None:
    answer = planner("prove", planned, "--trace", "lengths", *words)
    assert (answer.status, answer.out) == (2, "")
    assert rule in " ".join(answer.err.split())
    assert "hush" not in answer.err


@pytest.mark.parametrize(
    ("models", "status", "rule"),
    [
        (b"<html>It works!</html>", 200, "must list its models at /v1/models as an engine does, got '<html>It works!"),
        (b'{"data": [{"name": "x"}]}', 200, "must list its models"),
        (b'{"data": 7}', 200, "must list its models"),
        (b"", 404, "must answer /v1/models as an engine or a router does, got HTTP 404"),
        (b"", 302, "got HTTP 302"),
        (b"", 401, "asks for a key (HTTP 401)"),
        (b'{"data": [{"id": "llama"}]}', 200, "must serve the model"),
    ],
)
def test_what_is_no_engine_with_the_model_is_not_loaded(
    planner: Command, planned: Path, models: bytes, status: int, rule: str
) -> None:
    with open_engine(CountingEngine(models=models, status=status)) as engine:
        answer = planner("prove", planned, "--trace", "lengths", "--url", engine.url, *AT_HAND)
    assert (answer.status, engine.posts, len(engine.gets)) == (2, [], 1)  # no redirect is followed
    assert rule in " ".join(answer.err.split())


def test_another_model_name_is_refused(planner: Command, planned: Path, engine: CountingEngine) -> None:
    words = ("--trace", "lengths", "--url", engine.url, "--model-name", "chat", *AT_HAND)
    answer = planner("prove", planned, *words)
    assert f"must serve the model chat, serves {MODEL}" in " ".join(answer.err.split())
    assert (answer.status, engine.posts) == (2, [])


def test_a_key_is_sent_in_the_clear_to_this_machine_alone(
    planner: Command, planned: Path, engine: CountingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("prove", planned, "--trace", "lengths")
    Path("key").write_text("s3cret\n")
    answer = planner(*words, "--url", "http://10.1.2.3", "--confirm", "10.1.2.3", "--key-file", "key")
    assert "must be https where a key is sent to another machine" in " ".join(answer.err.split())
    monkeypatch.setenv("PLANNER_ENDPOINT_KEY", "of the environment")
    assert "must be one word" in planner(*words, "--url", engine.url).err
    engine.models, engine.status = b"", 403
    answer = planner(*words, "--url", engine.url, "--key-file", "key", *AT_HAND)
    assert "refused the key (HTTP 403)" in " ".join(answer.err.split())
    assert engine.gets[-1]["Authorization"] == "Bearer s3cret"
    assert "s3cret" not in answer.out + answer.err


def test_an_existing_folder_is_not_overwritten(planner: Command, planned: Path, engine: CountingEngine) -> None:
    Path("kept").mkdir()
    Path("kept/notes.txt").write_text("mine")
    answer = planner("prove", planned, "--trace", "lengths", "--url", engine.url, "--out", "kept", "--force")
    assert (answer.status, engine.gets) == (2, [])
    assert Path("kept/notes.txt").read_text() == "mine"


def test_a_generator_that_sends_nothing_is_told_with_what_it_wrote(
    planner: Command, planned: Path, engine: CountingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANNER_ENDPOINT_KEY", "s3cret")
    words = (
        "--url",
        engine.url,
        "--model-name",
        MODEL,
        "--program",
        "aiperf=sh -c 'echo no such flag $OPENAI_API_KEY'",
    )
    answer = planner("prove", planned, "--trace", "lengths", *words, "--out", "proof")
    assert (answer.status, engine.posts) == (1, [])
    assert "Load generator aiperf ended: 0: no such flag ..." in " ".join(answer.err.split())
    assert not Path("proof").exists()


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_the_exit_status_says_whether_the_levels_hold(
    planner: Command, planned: Path, engine: CountingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ttft_ms, streamed_ms = list[float](), [1.0]

    def sent(_folder: Path, _settings: object, _model: str, load: tuple[Requests, object], _heard: object) -> Sent:
        times = {
            "ttft_ms": ttft_ms[-1],
            "latency_ms": ttft_ms[-1] + streamed_ms[-1],
            "input_tokens": None,
            "output_tokens": None,
        }
        records = {
            number: AiperfRequest(name=f"r{number}", start_ms=1e9 + arrival_ms, failure="", **times)  # type: ignore[arg-type]
            for number, arrival_ms in enumerate(load[0].arrival_ms)
        }
        return Sent(records=records, ended_ms=math.inf)

    monkeypatch.setattr("planner.runs.live.proving.generator.send", sent)
    bounds = ("--set", "slo.ttft_ms=4000", "--set", "slo.percentile=90")
    assert planner("plan", planned.parent / "tiny.yaml", *bounds, "--out", "levels", "--quiet").status == 0
    words = ("prove", "levels", "--trace", "lengths", "--url", engine.url, "--model-name", MODEL, *AT_HAND)
    for answered_ms, requests, status, holds in ((5.0, 200, 0, True), (1e6, 200, 3, False), (5.0, 40, 2, None)):
        ttft_ms.append(answered_ms)
        folder = f"proof-{status}"
        answer = planner(*words, "--requests", str(requests), "--out", folder, "--json")
        document = json.loads(answer.out)
        assert (answer.status, document["holds"], document["requests"]) == (status, holds, requests)
        assert sorted(path.name for path in Path(folder).iterdir()) == ["prove.csv", "prove.json", "prove.md"]
        assert "in one piece" not in " ".join(document["advice"])
    streamed_ms.append(0.0)  # whatever lies in between holds streams back
    answer = planner(*words, "--requests", "40", "--json")
    assert "answers came in one piece" in " ".join(json.loads(answer.out)["advice"])
    again = planner(*words, "--out", "proof-0")
    assert (again.status, "--force" in again.err) == (2, True)
