"""An engine without a model, or a router's program without requests: it notes how it was started in SIM_FOLDER/started,
and listens on its host's address alone at the ports that its words name. An answer says who gave it."""

import json
import os
import re
import socketserver
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path

program, *words = sys.argv[1:]
host = os.environ["SLURMD_NODENAME"]
note = {
    "program": program,
    "words": words,
    "host": host,
    "pid": os.getpid(),
    "gpus": os.environ.get("CUDA_VISIBLE_DEVICES", ""),
    "hip": os.environ.get("HIP_VISIBLE_DEVICES", ""),
    "step": json.loads(os.environ["SIM_STEP"]),
    "at": time.monotonic(),
}
folder = Path(os.environ["SIM_FOLDER"])
if program == "apptainer":
    inner = next(at for at, word in enumerate(words) if word == "bash")
    (folder / "started" / f"{os.getpid()}-apptainer.json").write_text(json.dumps(note))
    os.execvp("bash", words[inner:])
if program == "haproxy":
    note["config"] = Path(words[-1]).read_text()


class Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"host": host, "pid": os.getpid()}).encode())

    do_POST = do_GET  # noqa: N815  # the server's name

    def log_message(self, *_: object) -> None:
        """Says nothing."""


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    allow_reuse_address = True
    daemon_threads = True


flags = dict(re.findall(r"--(port|data-parallel-supervisor-port)[= ](\d+)", " ".join(words)))
ports = {8080} if program == "haproxy" else {int(port) for port in flags.values()} or {8000}
headless = "--headless" in words or any(re.fullmatch("--node-rank=[1-9].*", word) for word in words)
for port in () if headless else ports:
    threading.Thread(target=Server((host, port), Answer).serve_forever, daemon=True).start()
(folder / "started" / f"{os.getpid()}.json").write_text(json.dumps(note))
while True:
    time.sleep(60)
