"""Servers for tests of what Prometheus tells: any that answers on the loopback, and Debian's that scrapes one."""

import json
import shutil
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

Reply = Callable[[BaseHTTPRequestHandler], tuple[int, dict[str, str], bytes]]
WAIT_S = 30.0


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


def replied(status: int = 200, body: bytes = b"{}", **headers: str) -> Reply:
    """The same answer to every question."""
    return lambda _: (status, {key.replace("_", "-"): text for key, text in headers.items()}, body)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def asked(url: str, query: str) -> list[dict[str, object]]:
    """The series of an instant query."""
    text = urllib.parse.quote(query)
    with urllib.request.urlopen(f"{url}/api/v1/query?query={text}", timeout=5) as response:
        return list(json.load(response)["data"]["result"])


@contextmanager
def scraping(folder: Path, exposition: Callable[[], bytes], ready: Callable[[str], bool]) -> Iterator[str]:
    """Debian's Prometheus in a folder, which scrapes what `exposition` writes every second; its address, once it is
    `ready`. Tests are skipped where it is not installed."""
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed")
    port = free_port()
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
            while not _is(ready, url):
                assert time.monotonic() < until, "Prometheus has scraped nothing"
                time.sleep(0.2)
            yield url
        finally:
            process.terminate()
            process.wait()


def _is(ready: Callable[[str], bool], url: str) -> bool:
    try:
        return ready(url)
    except OSError:
        return False
