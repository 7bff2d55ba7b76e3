"""`planner observe --prometheus`: a real one that scrapes what a deployment would tell, and servers that are none."""

import json
import sys
from collections.abc import Iterator
from functools import cache, partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from command_line import Command
from observed_answers import answer, on_other_gpus, series, write
from prometheus_servers import Reply, asked, replied, scraping, serving

from planner import files
from planner.api.deployments import PlannedDeployment
from planner.domain import Plan
from planner.errors import EXIT_BAD_INPUT, EXIT_DONE, InputError
from planner.runs.live.prometheus import TOKEN, Prometheus

sys.path.insert(0, str(Path(__file__).parents[1] / "replay"))

from small_plans import small_plan, small_trace

Rows = list[tuple[dict[str, str], float]]
NAME, SLOW, LOAD = "dense, with levels", 0.8, 0.7


@cache
def plan() -> Plan:
    return small_plan(NAME)


@cache
def rows() -> Rows:
    """What the plan's deployment tells on GPUs a fifth slower."""
    return list(series(on_other_gpus(plan(), SLOW), small_trace(NAME), LOAD * plan().throughput_rps))


def exposition() -> bytes:
    """As an exporter writes it."""
    lines = []
    for labels, value in rows():
        pairs = ",".join(f'{key}="{text}"' for key, text in labels.items() if key != "__name__")
        lines.append(f"{labels['__name__']}{{{pairs}}} {value!r}")
    return ("\n".join(lines) + "\n").encode()


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Debian's, with one target."""

    def ready(url: str) -> bool:
        return len(asked(url, '{job="engines",__name__=~"planner:.*"}')) >= len(rows())

    with scraping(tmp_path_factory.mktemp("prometheus"), exposition, ready) as url:
        yield url


@pytest.fixture
def run(here: Path) -> Path:
    files.write_run(Path("run"), {"plan.json": files.encode_plan(plan())})
    return here / "run"


def test_a_prometheus_tells_what_its_answers_in_files_do(planner: Command, run: Path, prometheus: str) -> None:
    live = planner("observe", run, "--prometheus", prometheus, "--json", "--out", "live")
    assert live.status == EXIT_DONE, live.err
    write(Path("answer.json"), answer(rows()))
    from_file = planner("observe", run, "answer.json", "--json")
    for key in ("figures", "islands", "advice"):
        assert live.json[key] == from_file.json[key]
    assert Path("live/calibration.yaml").exists()
    factors = planner("observe", run, "--prometheus", prometheus).out
    assert "factor pace_decode" in factors


def test_notebooks_ask_it_too(prometheus: str) -> None:
    observed = PlannedDeployment(plan()).observe(prometheus=prometheus)
    assert observed.record.measurements
    with pytest.raises(InputError, match="answers go without prometheus"):
        PlannedDeployment(plan()).observe("answer.json", prometheus=prometheus)


def test_a_plan_that_nobody_deployed_is_told(planner: Command, run: Path, prometheus: str) -> None:
    nothing = planner("observe", run, "--prometheus", prometheus, "--name", "another")
    assert nothing.status == EXIT_BAD_INPUT
    assert "a list with at least one series" in nothing.err


SECRET = "tell-nobody"


def guarded(seen: list[str], handler: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
    """Answers who knows the token."""
    seen.append(handler.headers.get("Authorization", ""))
    answered = json.dumps(answer(rows())).encode()
    return (200, {}, answered) if seen[-1] == f"Bearer {SECRET}" else (401, {}, b"")


def test_a_token_is_sent_and_kept_nowhere(planner: Command, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    with serving(partial(guarded, seen)) as url:
        without = planner("observe", run, "--prometheus", url)
        assert without.status == EXIT_BAD_INPUT
        assert "asks for a token (HTTP 401)" in without.err
        monkeypatch.setenv(TOKEN, "wrong")
        assert "refused the token" in planner("observe", run, "--prometheus", url).err
        Path("token").write_text(f"{SECRET}\n")
        told = planner("observe", run, "--prometheus", url, "--token-file", "token", "--out", "observed")
    assert told.status == EXIT_DONE, told.err
    assert seen[0] == ""
    written = "".join(path.read_text() for path in Path("observed").iterdir())
    assert SECRET not in told.out + told.err + written


def test_who_is_sent_elsewhere_does_not_go(planner: Command, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, SECRET)
    seen: list[str] = []
    with serving(partial(guarded, seen)) as other, serving(replied(302, Location=f"{other}/api/v1/query")) as url:
        sent = planner("observe", run, "--prometheus", url)
    assert sent.status == EXIT_BAD_INPUT
    assert "must answer /api/v1/query, got HTTP 302" in sent.err
    assert seen == []


def test_no_proxy_is_between_this_machine_and_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token would go through it in the clear; to another machine a proxy may be the only way."""
    passed: list[str] = []

    def proxy(handler: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        passed.append(f"{handler.path} {handler.headers.get('Authorization')}")
        return 200, {}, b"proxied"

    with serving(proxy) as between, serving(replied(body=b"direct")) as url:
        for name in ("http_proxy", "HTTP_PROXY"):
            monkeypatch.setenv(name, between)
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        here = Prometheus(url=url, token=SECRET)
        by_name = Prometheus(url=url.replace("127.0.0.1", "localhost"), token=SECRET)
        answers = [*here.answers({"up": "up"}).values(), *by_name.answers({"up": "up"}).values()]
        assert (answers, passed) == (["direct", "direct"], [])
        elsewhere = Prometheus(url="http://prometheus.example").answers({"up": "up"})
    assert list(elsewhere.values()) == ["proxied"]
    assert passed == ["http://prometheus.example/api/v1/query?query=up None"]


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (replied(404), "got HTTP 404"),
        (replied(body=b"<html>"), "is not readable JSON"),
        (replied(400, b'{"status": "error", "error": "bad query"}'), "status must be success, got error: bad query"),
    ],
)
def test_what_is_no_prometheus_is_refused(planner: Command, run: Path, reply: Reply, words: str) -> None:
    with serving(reply) as url:
        answered = planner("observe", run, "--prometheus", url)
    assert answered.status == EXIT_BAD_INPUT
    assert words in answered.err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--prometheus", "ftp://localhost"), "must be an address as http://localhost:9090"),
        (("--prometheus", "localhost:9090"), "must be an address as http://localhost:9090"),
        (("--prometheus", "http://me:password@localhost"), "must hold no user and no password"),
        (("--prometheus", "http://prometheus.example:9090", "--token-file", "token"), "must be https where a token"),
        (("--prometheus", "http://127.0.0.1:1"), "must answer within"),
        (("--prometheus", "https://localhost", "--ca-file", "token"), "must hold certificates in PEM"),
        (("--prometheus", "http://localhost", "--token-file", "two"), "must be one word"),
        (("--token-file", "token", "--queries"), "go with --prometheus alone"),
        (("--prometheus", "http://localhost", "--queries"), "must get one of answer files"),
    ],
)
def test_bad_addresses_are_refused(planner: Command, run: Path, flags: tuple[str, ...], words: str) -> None:
    Path("token").write_text(SECRET)
    Path("two").write_text(f"{SECRET} {SECRET}")
    refused = planner("observe", run, *flags)
    assert refused.status == EXIT_BAD_INPUT
    assert words in refused.err
    assert SECRET not in refused.err
    assert "password@" not in refused.err
