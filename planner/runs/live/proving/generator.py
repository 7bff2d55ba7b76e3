"""AIPerf, a load generator of its makers': started with a schedule of requests that it sends as they stand there, ended
with all that it started, and its records of each request.

Source: AIPerf's `docs/` and `aiperf profile --help`, version 0.13: traces with a `payload` are sent verbatim at their
`timestamp` (ms); a configuration may name a variable in the place of an API key. Its folder is the caller's, who throws
it away.
"""

import json
import math
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from planner.domain.arrivals import Requests
from planner.errors import InputError, PlannerError
from planner.files.benchmarks.aiperf_records import AiperfRequest, read_aiperf_requests
from planner.runs.live.proving.settings import DRAIN_S, ProofSettings
from planner.runs.rehearsal.naming import program_words
from planner.units import MS_PER_S

NAME, VERSION = "aiperf", "0.13.0"
_CONFIGURATION, _SCHEDULE, _TOKENIZERS, _OUTPUT = "load.yaml", "schedule.jsonl", "tokenizer", "output"
_RECORDS = "profile_export.jsonl"
_KEY = "OPENAI_API_KEY"
_LOOK_S, _GENTLE_S, _LOG_BYTES = 0.2, 3.0, 600
_DROPPED = ("AIPERF_", "OPENAI_", "PLANNER_", "HF_TOKEN")
"""Beginnings of variables that would change what is sent, or are secrets of others."""
_ENVIRONMENT = {"HF_HUB_DISABLE_TELEMETRY": "1", "AIPERF_RECORD_EXPORT_BATCH_SIZE": "1"}
"""A record is written as soon as there is one: where the time is up, those that came are known."""
_COPIES = ("AIPERF_DATASET_MMAP_BASE_PATH", "AIPERF_DATASET_MMAP_CACHE_DIR")
_PER_WORKER_RPS = 50.0
_TOKENIZER = {
    "version": "1.0",
    "added_tokens": [],
    "pre_tokenizer": {"type": "Whitespace"},
    "model": {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"},
}
"""AIPerf loads a tokenizer though it needs none, as prompts are texts and servers count their tokens; else it would
fetch one from the network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What became of the requests that were sent, by number. `ended_ms`: when it was ended, since 1970, as the time was
    up before it ended by itself (inf: it did)."""

    records: Mapping[int, AiperfRequest]
    ended_ms: float


def require_generator(settings: ProofSettings) -> tuple[str, ...]:
    """The words that start it. Raises InputError where it is not at hand."""
    return program_words((NAME,), settings.programs)


def send(
    folder: Path,
    settings: ProofSettings,
    model: str,
    load: tuple[Requests, Iterable[bytes]],
    progress: Callable[[float], None],
) -> Sent:
    """Send the load: requests and the bodies of each. `folder`: for its files.

    Raises:
        InputError: it is not at hand.
        PlannerError: it ended without an answer to any.
    """
    requests, bodies = load
    start_s = time.monotonic()
    _write(folder, requests, bodies)
    (folder / _CONFIGURATION).write_text(json.dumps(_configuration(settings, model, folder)), encoding="utf-8")
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(  # noqa: S603
            (*require_generator(settings), "profile", "--config", str(folder / _CONFIGURATION)),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=folder,
            env=_environment(settings.key, folder),
            start_new_session=True,  # a group of its own, which is ended as one
        )
    records = folder / _OUTPUT / _RECORDS
    answered = _Counted(records)
    try:
        while process.poll() is None and (left_s := start_s + settings.limit_s - time.monotonic()) > 0:
            progress(min(1.0, answered.lines() / len(requests)))
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=min(_LOOK_S, left_s))
    finally:
        _end(process, gently=time.monotonic() - start_s < settings.limit_s)
    time_is_up = time.monotonic() - start_s >= settings.limit_s
    by_number = _read(records)
    if not by_number:
        ended = f"had no answer within {settings.minutes:g} minutes" if time_is_up else f"ended: {process.returncode}"
        raise PlannerError(
            f"Load generator {NAME} {ended}: {_last_words(log, settings.key)}",
            hint=f"See that the engines answer; try {NAME} by itself, which must be of version {VERSION}.",
        )
    return Sent(records=by_number, ended_ms=time.time() * MS_PER_S if time_is_up else math.inf)


def _write(folder: Path, requests: Requests, bodies: Iterable[bytes]) -> None:
    """The schedule, and a tokenizer that nothing is asked of."""
    with (folder / _SCHEDULE).open("w", encoding="utf-8") as file:
        for number, (arrival_ms, body) in enumerate(zip(requests.arrival_ms, bodies, strict=True)):
            row = {"session_id": f"r{number}", "timestamp": arrival_ms, "output_length": requests.answer_tokens[number]}
            file.write(json.dumps({**row, "payload": json.loads(body)}) + "\n")
    tokenizer = folder / _TOKENIZERS
    tokenizer.mkdir()
    (tokenizer / "tokenizer.json").write_text(json.dumps(_TOKENIZER), encoding="utf-8")
    head = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"}
    (tokenizer / "tokenizer_config.json").write_text(json.dumps(head), encoding="utf-8")


def _configuration(settings: ProofSettings, model: str, folder: Path) -> dict[str, object]:
    """What it is to do, by its own keys. The key's place is filled from the environment, by itself."""
    workers = max(1, min(os.cpu_count() or 1, round(settings.rate_rps / _PER_WORKER_RPS)))
    endpoint = {
        "url": settings.base_url,
        "type": "chat",
        "streaming": True,
        "useServerTokenCount": True,
        "timeout": settings.limit_s,
        **({"apiKey": f"${{{_KEY}}}"} if settings.key else {}),
    }
    return {
        "schemaVersion": "2.0",
        "randomSeed": settings.seed,
        "benchmark": {
            "model": model,
            "endpoint": endpoint,
            "dataset": {"type": "file", "path": str(folder / _SCHEDULE), "format": "mooncake_trace"},
            "phases": {"type": "fixed_schedule", "duration": settings.sending_s, "gracePeriod": DRAIN_S},
            "tokenizer": {"name": str(folder / _TOKENIZERS)},
            "artifacts": {"dir": str(folder / _OUTPUT), "records": ["jsonl"], "summary": False},
            "gpuTelemetry": {"enabled": False},
            "serverMetrics": {"enabled": False},
            "runtime": {"ui": "none", "workers": workers, "recordProcessors": 1},
        },
    }


def _environment(key: str, folder: Path) -> Mapping[str, str]:
    """This process's, without what would change the load; the key goes here, as command lines are read by others. What
    it keeps of the requests lies in the folder, too, and not in a user's cache."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED)}
    copies = {"TMPDIR": str(folder), **{name: str(folder / "copies") for name in _COPIES}}
    return {**kept, **_ENVIRONMENT, **copies, **({_KEY: key} if key else {})}


def _end(process: "subprocess.Popen[bytes]", *, gently: bool) -> None:
    """End it and all that it started, by their group."""
    for kind, patience_s in ((signal.SIGTERM, _GENTLE_S if gently else 0.0), (signal.SIGKILL, _GENTLE_S)):
        try:
            if process.poll() is None or kind is signal.SIGKILL:
                os.killpg(process.pid, kind)
        except (ProcessLookupError, PermissionError):
            pass  # none of them is left
        try:
            process.wait(timeout=patience_s)
        except subprocess.TimeoutExpired:
            continue


class _Counted:
    """Lines of a file that grows."""

    def __init__(self, path: Path) -> None:
        self._path, self._read, self._lines = path, 0, 0

    def lines(self) -> int:
        """So many by now; 0 where there is no file yet."""
        with suppress(OSError), self._path.open("rb") as file:
            file.seek(self._read)
            content = file.read()
            self._read += len(content)
            self._lines += content.count(b"\n")
        return self._lines


def _read(records: Path) -> dict[int, AiperfRequest]:
    """By number of request. A last line that was cut when the program was ended is left out."""
    if not records.is_file():
        return {}
    content = records.read_bytes()
    records.write_bytes(content[: content.rfind(b"\n") + 1])
    by_number: dict[int, AiperfRequest] = {}
    for request in read_aiperf_requests(records):
        try:
            by_number[int(request.name.removeprefix("r"))] = request
        except ValueError:
            raise InputError(
                f"{records}: must name a conversation r0, r1, ..., got {request.name!r}.",
                hint=f"Use {NAME} {VERSION}.",
            ) from None
    return by_number


def _last_words(log: Path, key: str) -> str:
    """The end of what it wrote, without the key."""
    text = " ".join(log.read_text("utf-8", errors="replace").split())
    return (text.replace(key, "...") if key else text)[-_LOG_BYTES:]
