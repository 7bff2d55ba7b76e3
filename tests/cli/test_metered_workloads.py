"""Loads and workloads of a real Prometheus that scrapes engines, one of which starts anew; and of servers that lie."""

import json
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from command_line import Command
from engine_expositions import Engine, exposition
from prometheus_servers import asked, scraping, serving

import planner as package
from planner.domain.watching import Decision, Verdict
from planner.errors import EXIT_BAD_INPUT, EXIT_DONE, InputError
from planner.files.tables.workloads import load_workload
from planner.runs.live.loads import PrometheusLoad
from planner.runs.live.prometheus import TOKEN, prometheus_at
from planner.runs.watching import watches
from planner.runs.watching.watches import Clock, WatchJob, watch

SCENARIO = """\
name: small
model: deepseek-v3
workload: normal-500-2000
inventory: {H200: 64, H20: 64}
prices_usd_per_gpu_hour: {H200: 4, H20: 1}
ranges: {width: 4096}
serving: split
"""
A_SECOND = 20
RESTART = 5  # of so many scrapes the first server counts from 0
POD = {"model_name": "ds", "app_kubernetes_io_part_of": "small", "planner_phase": "decode"}
OURS = "'app_kubernetes_io_part_of=\"small\"'"


class Cluster:
    """Two decode servers and a prefill server of the plan `small`, and one of another plan; a scrape is a second."""

    def __init__(self) -> None:
        self.old = Engine(labels={**POD, "pod": "a"}, edges=(100.0, 1000.0, 2000.0, 5000.0))
        self.new = Engine(labels={**POD, "pod": "b"})
        self.first = Engine(labels={**POD, "planner_phase": "prefill", "pod": "c"})
        self.other = Engine(labels={**POD, "app_kubernetes_io_part_of": "other", "pod": "d"})
        self.random, self.scrapes = np.random.default_rng(5), 0

    def scraped(self) -> bytes:
        """A second later."""
        self.scrapes += 1
        if self.scrapes == RESTART:
            self.old.restart()
        for engine in (self.old, self.new):
            prompts = self.random.integers(1, 3000, A_SECOND // 2).tolist()
            answers = self.random.integers(1, 400, A_SECOND // 2).tolist()
            engine.add(prompts, answers)
            self.first.add(prompts, [1] * len(prompts), cached=0.25)
        self.other.add([9] * 50, [9] * 50)
        self.other.running, self.other.waiting = 30 + 20 * self.scrapes, 10 * self.scrapes
        return exposition([self.old, self.new, self.first, self.other])


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    cluster = Cluster()

    def ready(_url: str) -> bool:
        return cluster.scrapes > RESTART + 4

    with scraping(tmp_path_factory.mktemp("prometheus"), cluster.scraped, ready) as url:
        yield url


@pytest.fixture(autouse=True)
def _scenario(here: Path) -> None:
    Path("small.yaml").write_text(SCENARIO)


def test_engines_of_two_versions_one_of_which_starts_anew_tell_a_workload(planner: Command, prometheus: str) -> None:
    arguments = ("workload", "from-metrics", "--prometheus", prometheus, "--selector", OURS[1:-1], "--window", "1m")
    told = planner(*arguments, "--out", "mine.yaml", "--json")
    assert told.status == EXIT_DONE, told.err
    assert told.json["arrival_rps"] == pytest.approx(A_SECOND, rel=0.3)  # without the restart: half of it
    assert told.json["mean_input_tokens"] == pytest.approx(1500, rel=0.1)
    assert told.json["mean_output_tokens"] == pytest.approx(200, rel=0.1)  # prefill servers' answers do not count
    assert told.json["hit_share"] == pytest.approx(0.25, abs=0.02)
    assert told.json["max_output_tokens"] == 1000
    for words in ("Engines differ in", "of the window: rates are of that time", "count as independent"):
        assert any(words in note for note in told.json["notes"]), words
    profile = load_workload("mine.yaml", Path())
    assert profile.name == "mine"
    assert "independent" in Path("mine.yaml").read_text()
    assert planner(*arguments, "--out", "mine.yaml").status == EXIT_BAD_INPUT  # it is there
    at_hand = package.workload_from_metrics(prometheus=prometheus, selector=OURS[1:-1], window="1m")
    assert at_hand.facts.prompts.mean == pytest.approx(1500, rel=0.1)


def test_answers_in_files_tell_the_same(planner: Command, prometheus: str) -> None:
    queries = planner("workload", "from-metrics", "--queries", "--window", "1m", "--selector", OURS[1:-1], "--json")
    paths = []
    for name, query in queries.json.items():
        paths.append(f"{name}.json")
        answer = {"status": "success", "data": {"resultType": "vector", "result": asked(prometheus, query)}}
        Path(paths[-1]).write_text(json.dumps(answer))
    told = planner("workload", "from-metrics", *paths, "--json")
    assert told.status == EXIT_DONE, told.err
    assert told.json["mean_input_tokens"] == pytest.approx(1500, rel=0.1)


def test_two_plans_are_named_not_mixed(planner: Command, prometheus: str) -> None:
    mixed = planner("workload", "from-metrics", "--prometheus", prometheus, "--window", "1m")
    assert mixed.status == EXIT_BAD_INPUT
    assert "must be of one deployment, are of 2: vllm, plan other, model ds; vllm, plan small, model ds" in mixed.err
    source = prometheus_at(prometheus)
    watched = planner("watch", "small.yaml", "--prometheus", prometheus, "--once", "--out", "watched")
    assert watched.status == EXIT_BAD_INPUT
    assert "must have series of small alone, has those of other, small" in watched.err
    assert not Path("watched").exists()
    scenario = package.files.load_scenario(Path("small.yaml"), package.workload.summarize)
    with pytest.raises(InputError, match="must have series of plan third, has those of other, small"):
        PrometheusLoad(source, "1m", "third").read(scenario, time.time())


def test_a_watch_follows_the_engines_of_its_plan(
    planner: Command, prometheus: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "decide", lambda *_: Decision(verdict=Verdict.KEEP, reason="by hand"))
    arguments = ("watch", "small.yaml", "--prometheus", prometheus, "--name", "small", "--window", "1m", "--once")
    watched = planner(*arguments, "--out", "watched")
    assert watched.status == EXIT_DONE, watched.err
    (step,) = package.load_watch("watched").steps
    assert step.observation.load_rps == pytest.approx(A_SECOND, rel=0.3)
    assert watched.err == ""
    again = planner(*arguments, "--out", "watched")
    assert again.status == EXIT_DONE, again.err


def test_requests_that_queue_up_are_load(prometheus: str) -> None:
    """50 a second end, and 30 more are in the engine each second."""
    scenario = package.files.load_scenario(Path("small.yaml"), package.workload.summarize)
    (value,) = PrometheusLoad(prometheus_at(prometheus), "1m", "other").read(scenario, time.time()).values
    assert value.value == pytest.approx(80, rel=0.25)


def test_a_clock_that_is_off_is_told(prometheus: str) -> None:
    scenario = package.files.load_scenario(Path("small.yaml"), package.workload.summarize)
    feed = PrometheusLoad(prometheus_at(prometheus), "1m", "small")
    assert feed.read(scenario, time.time()).notes == ()
    (late,) = feed.read(scenario, time.time() + 300).notes
    (early,) = feed.read(scenario, time.time() - 300).notes
    assert "more than a minute behind this machine's" in late
    assert "more than a minute ahead of this machine's" in early


Values = dict[str, Any]
NOW = 1_700_000_000.0


def lying(values: Values) -> Callable[[BaseHTTPRequestHandler], tuple[int, dict[str, str], bytes]]:
    """Answers each query with the value of the quantity that it asks for; None: with no series; a number: status."""

    def reply(handler: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        if "status" in values:
            return values["status"], {}, b""
        query = parse_qs(urlsplit(handler.path).query)["query"][0]
        result = []
        for name, value in values.items():
            if f'"planner:{name}"' in query and value is not None:
                labels = {"__name__": f"planner:{name}", "planner_engine": "vllm", "app_kubernetes_io_part_of": "small"}
                result.append({"metric": labels, "value": [NOW, str(value)]})
        return 200, {}, json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()

    return reply


def test_a_prometheus_without_our_metrics_is_refused_at_the_start(planner: Command) -> None:
    with serving(lying({})) as url:
        watched = planner("watch", "small.yaml", "--prometheus", url, "--once", "--out", "watched")
    assert watched.status == EXIT_BAD_INPUT
    assert "must have vllm:request_success_total with the label of a plan, has none" in watched.err
    assert not Path("watched").exists()


def test_what_fails_later_is_told_and_the_last_load_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    values: Values = {"arrivals:rate": 6.0, "newest_sample:time": NOW}
    later: list[Values] = [
        {"arrivals:rate": "NaN"},
        {"status": 502},
        {"arrivals:rate": None},
        {"arrivals:rate": 7.0, "newest_sample:time": NOW - 90},
        {"arrivals:rate": 8.0, "newest_sample:time": NOW - 95},
    ]
    now = [NOW]
    changes = iter(later)

    def sleep(seconds: float) -> None:
        now[0] += min(seconds, 1.0)
        values.clear()
        values.update(next(changes, {}))

    monkeypatch.setattr(watches, "decide", lambda *_: Decision(verdict=Verdict.KEEP, reason="by hand"))
    with serving(lying(values)) as url:
        job = WatchJob(
            scenario=Path("small.yaml"),
            feeds=(),
            out=Path("live"),
            ticks=6,
            live=(PrometheusLoad(prometheus_at(url)),),
        )
        steps = list(watch(job, Clock(now=lambda: now[0], sleep=sleep)))
    assert [step.observation.load_rps for step in steps] == [6, 6, 6, 6, 7, 8]
    notes = ["; ".join(step.observation.notes) for step in steps]
    assert notes[0] == notes[5] == ""  # what was told once is not told again
    for note, words in zip(notes[1:5], ("NaN", "HTTP 502", "has none", "newest sample of plan small"), strict=True):
        assert words in note
    assert all("What was read before stands." in note for note in notes[1:4])


def test_a_plan_that_comes_later_is_passed_over() -> None:
    """A watch that runs goes on where somebody deploys another plan; one that begins is refused."""
    plans = ["small"]

    def reply(_handler: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        labels = {"__name__": "planner:arrivals:rate", "planner_engine": "vllm"}
        result = [
            {"metric": {**labels, "app_kubernetes_io_part_of": plan}, "value": [NOW, str(len(plan))]} for plan in plans
        ]
        first = "planner:arrivals" in parse_qs(urlsplit(_handler.path).query)["query"][0]
        data = {"resultType": "vector", "result": result if first else []}
        return 200, {}, json.dumps({"status": "success", "data": data}).encode()

    scenario = package.files.load_scenario(Path("small.yaml"), package.workload.summarize)
    with serving(reply) as url:
        feed = PrometheusLoad(prometheus_at(url))
        feed.read(scenario, NOW)
        plans.append("another")
        (value,) = feed.read(scenario, NOW).values
        assert value.value == len("small")
        with pytest.raises(InputError, match="must have series of small alone, has those of another, small"):
            PrometheusLoad(prometheus_at(url)).read(scenario, NOW)


SECRET = "tell-nobody"


def test_a_token_is_kept_nowhere(planner: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, SECRET)
    seen: list[str] = []
    answers = lying({"arrivals:rate": 6.0, "newest_sample:time": NOW})

    def reply(handler: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        seen.append(handler.headers.get("Authorization", ""))
        return answers(handler)

    monkeypatch.setattr(watches, "decide", lambda *_: Decision(verdict=Verdict.KEEP, reason="by hand"))
    with serving(reply) as url:
        watched = planner("watch", "small.yaml", "--prometheus", url, "--once", "--out", "watched")
        made = planner("workload", "from-metrics", "--prometheus", url)
    assert watched.status == EXIT_DONE, watched.err
    assert made.status == EXIT_BAD_INPUT
    assert set(seen) == {f"Bearer {SECRET}"}
    written = "".join(path.read_text() for path in Path("watched").rglob("*") if path.is_file())
    assert SECRET not in watched.out + watched.err + made.out + made.err + written


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("watch", "small.yaml", "--out", "w"), "must get --feed, --prometheus or --kubernetes"),
        (("watch", "small.yaml", "--out", "w", "--feed", "small.yaml", "--window", "5m"), "go with --prometheus alone"),
        (
            ("watch", "small.yaml", "--out", "w", "--prometheus", "http://localhost:1", "--simulate"),
            "tells what is now, got a simulation",
        ),
        (("watch", "small.yaml", "--out", "w", "--prometheus", "http://127.0.0.1:1"), "must answer within"),
        (
            ("watch", "small.yaml", "--out", "w", "--prometheus", "http://127.0.0.1:1", "--window", "x"),
            "--window: must",
        ),
        (("workload", "from-metrics"), "must get one of answer files, --prometheus and --queries"),
        (("workload", "from-metrics", "a.json", "--queries"), "must get one of answer files"),
        (("workload", "from-metrics", "a.json", "--window", "1h"), "must be left out with answer files"),
        (("workload", "from-metrics", "--queries", "--selector", 'a="b"} or {c="d"'), "must be matchers of labels"),
        (("workload", "from-metrics", "--queries", "--engine", "tgi"), "must be one of vllm, sglang"),
        (("workload", "from-metrics", "--queries", "--window", "1 hour"), "must be a time such as 30m or 6h"),
        (("workload", "from-metrics", "--queries", "--token-file", "t"), "go with --prometheus alone"),
    ],
)
def test_what_cannot_be_asked_is_refused(planner: Command, arguments: tuple[str, ...], words: str) -> None:
    refused = planner(*arguments)
    assert refused.status == EXIT_BAD_INPUT
    assert words in refused.err
    assert not Path("w").exists()
