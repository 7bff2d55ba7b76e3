"""`planner observe --prometheus`: a real one that scrapes what a deployment would tell, and servers that are none."""

import json
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from command_line import Command
from observed_answers import answer, on_other_gpus, series, write

from planner import files
from planner.api.deployments import PlannedDeployment
from planner.domain import Plan
from planner.errors import EXIT_BAD_INPUT, EXIT_DONE, InputError
from planner.runs.live.prometheus import TOKEN

sys.path.insert(0, str(Path(__file__).parents[1] / "replay"))

from small_plans import small_plan, small_trace

Rows = list[tuple[dict[str, str], float]]
NAME, SLOW, LOAD = "dense, with levels", 0.8, 0.7
WAIT_S = 30.0


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


Reply = Callable[[BaseHTTPRequestHandler], tuple[int, dict[str, str], bytes]]


@contextmanager
def serving(reply: Reply) -> Iterator[str]:
    """An HTTP server on the loopback; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = reply(self)
            self.send_response(status)
            for key, text in headers.items():
                self.send_header(key, text)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: object) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def scraped(url: str) -> int:
    """Series of the deployment that Prometheus has."""
    with urllib.request.urlopen(f"{url}/api/v1/series?match[]={{job=%22engines%22}}", timeout=5) as response:
        return len(json.load(response)["data"])


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Debian's, with one target."""
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed")
    folder, port = tmp_path_factory.mktemp("prometheus"), free_port()
    with serving(lambda _: (200, {"Content-Type": "text/plain; version=0.0.4"}, exposition())) as exporter:
        config = {
            "global": {"scrape_interval": "1s"},
            "scrape_configs": [
                {"job_name": "engines", "static_configs": [{"targets": [exporter.removeprefix("http://")]}]}
            ],
        }
        (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML, too
        command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                   f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]  # fmt: skip
        process = subprocess.Popen(command)
        try:
            url, until = f"http://127.0.0.1:{port}", time.monotonic() + WAIT_S
            while True:
                try:
                    if scraped(url) >= len(rows()):
                        break
                except OSError:
                    pass
                assert time.monotonic() < until, "Prometheus has scraped nothing"
                time.sleep(0.2)
            yield url
        finally:
            process.terminate()
            process.wait()


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


def replied(status: int = 200, body: bytes = b"{}", **headers: str) -> Reply:
    return lambda _: (status, {key.replace("_", "-"): text for key, text in headers.items()}, body)


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
