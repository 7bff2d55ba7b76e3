"""A server that answers as an engine does and counts what it is asked."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "deepseek-v3"
_CHUNK = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": MODEL}


class CountingEngine:
    """`posts`: when each came (s, monotonic), and with which headers; `gets`: of those that ask. `models`: what it says
    of its models, with a status; `first_s`: until it answers a request; `failing`: every so manieth fails with 503."""

    def __init__(self, models: bytes | None = None, status: int = 200, first_s: float = 0.0, failing: int = 0) -> None:
        self.posts: list[tuple[float, dict[str, str], dict[str, Any]]] = []
        self.gets: list[dict[str, str]] = []
        self.models = json.dumps({"object": "list", "data": [{"id": MODEL}]}).encode() if models is None else models
        self.status, self.first_s, self.failing = status, first_s, failing
        self.url = ""


@contextmanager
def open_engine(engine: CountingEngine) -> Iterator[CountingEngine]:
    """The engine at a port of the loopback, until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_args: object) -> None:
            """Nothing is logged."""

        def do_GET(self) -> None:
            engine.gets.append(dict(self.headers))
            self._send(engine.status, engine.models)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            engine.posts.append((time.monotonic(), dict(self.headers), body))
            time.sleep(engine.first_s)
            if engine.failing and len(engine.posts) % engine.failing == 0:
                self._send(503, b'{"error": {"message": "too busy"}}')
                return
            tokens = body["max_tokens"]
            usage = {"prompt_tokens": 1000, "completion_tokens": tokens, "total_tokens": 1000 + tokens}
            last = {**_CHUNK, "choices": [_choice("more", "stop")], "usage": usage}
            events = [{**_CHUNK, "choices": [_choice("word ", None)]}, last]
            text = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
            self._send(200, text + b"data: [DONE]\n\n", "text/event-stream")

        def _send(self, status: int, text: bytes, kind: str = "application/json") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(text)))
            self.send_header("Location", "/elsewhere")  # which a status below 300 makes nothing of
            self.end_headers()
            self.wfile.write(text)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    engine.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield engine
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _choice(text: str, finish: str | None) -> dict[str, Any]:
    return {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": finish}
