"""AIPerf, a load generator of its makers': started with a schedule of requests that it sends as they stand there, ended
with all that it started, and its records of each request.

Source: AIPerf's `docs/` and `aiperf profile --help`, version 0.13: traces with a `payload` are sent verbatim at their
`timestamp` (ms); the API key is taken from OPENAI_API_KEY. No word of the key or of a prompt is left on the disk once
it has ended.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from planner.domain.arrivals import Requests
from planner.errors import InputError, PlannerError
from planner.files.benchmarks.aiperf_records import AiperfRequest, read_aiperf_requests
from planner.runs.live.proving.settings import DRAIN_S, ProofSettings
from planner.runs.rehearsal.naming import program_words

NAME, VERSION = "aiperf", "0.13.0"
_RECORDS = "profile_export.jsonl"
_LOOK_S, _GENTLE_S, _LOG_BYTES = 0.2, 3.0, 600
_DROPPED = ("AIPERF_", "OPENAI_", "PLANNER_", "HF_TOKEN")
"""Beginnings of variables that would change what is sent, or are secrets of others."""
_PER_WORKER_RPS = 50.0
_TOKENIZER = {
    "version": "1.0",
    "added_tokens": [],
    "pre_tokenizer": {"type": "Whitespace"},
    "model": {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"},
}
"""AIPerf loads a tokenizer though it needs none, as prompts are texts and servers count their tokens; else it would
fetch one from the network."""


def require_generator(settings: ProofSettings) -> tuple[str, ...]:
    """The words that start it. Raises InputError where it is not at hand."""
    return program_words((NAME,), settings.programs)


def send(
    folder: Path,
    settings: ProofSettings,
    model: str,
    load: tuple[Requests, Sequence[bytes]],
    progress: Callable[[float], None],
) -> dict[int, AiperfRequest]:
    """What became of the requests that it sent, by number. `folder`: for its files; `load`: requests and the bodies of
    each.

    Raises:
        InputError: it is not at hand.
        PlannerError: it ended without having sent anything.
    """
    requests, bodies = load
    start_s = time.monotonic()
    output = folder / "output"
    _write(folder, requests, bodies)
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(  # noqa: S603
            (*require_generator(settings), *_options(settings, model, requests, folder)),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=folder,
            env=_environment(settings.key),
            start_new_session=True,  # a group of its own, which is ended as one
        )
    records = output / _RECORDS
    try:
        while process.poll() is None and time.monotonic() - start_s < settings.limit_s:
            progress(min(1.0, _lines(records) / len(requests)))
            time.sleep(_LOOK_S)
    finally:
        _end(process, gently=time.monotonic() - start_s < settings.limit_s)
    answers = _read(records)
    if not answers:
        raise PlannerError(
            f"Load generator {NAME} ended with {process.returncode} and no record of a request: "
            f"{_last_words(log, settings.key)}",
            hint=f"Try it by itself: `{NAME} --version` must say {VERSION}.",
        )
    return answers


def _write(folder: Path, requests: Requests, bodies: Sequence[bytes]) -> None:
    """The schedule, and a tokenizer that nothing is asked of."""
    with (folder / "schedule.jsonl").open("w", encoding="utf-8") as file:
        for number, (arrival_ms, body) in enumerate(zip(requests.arrival_ms, bodies, strict=True)):
            row = {"session_id": f"r{number}", "timestamp": arrival_ms, "output_length": requests.answer_tokens[number]}
            file.write(json.dumps({**row, "payload": json.loads(body)}) + "\n")
    tokenizer = folder / "tokenizer"
    tokenizer.mkdir()
    (tokenizer / "tokenizer.json").write_text(json.dumps(_TOKENIZER), encoding="utf-8")
    head = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"}
    (tokenizer / "tokenizer_config.json").write_text(json.dumps(head), encoding="utf-8")


def _options(settings: ProofSettings, model: str, requests: Requests, folder: Path) -> list[str]:
    seconds = requests.arrival_ms[-1] / 1000
    workers = max(1, min(os.cpu_count() or 1, round(settings.rate_rps / _PER_WORKER_RPS)))
    named = {
        "--model": model,
        "--url": settings.base_url,
        "--endpoint-type": "chat",
        "--input-file": str(folder / "schedule.jsonl"),
        "--custom-dataset-type": "mooncake_trace",
        "--tokenizer": str(folder / "tokenizer"),
        "--output-artifact-dir": str(folder / "output"),
        "--export-level": "records",
        "--ui": "none",
        "--request-timeout-seconds": f"{seconds + DRAIN_S:.0f}",
        "--workers-max": str(workers),
        "--record-processors": "1",
        "--random-seed": str(settings.seed),
    }
    switches = ("--streaming", "--fixed-schedule", "--use-server-token-count", "--no-gpu-telemetry")
    return ["profile", *(word for pair in named.items() for word in pair), *switches, "--no-server-metrics"]


def _environment(key: str) -> Mapping[str, str]:
    """This process's, without what would change the load; the key goes here, as command lines are read by others."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED)}
    return {**kept, "HF_HUB_DISABLE_TELEMETRY": "1", **({"OPENAI_API_KEY": key} if key else {})}


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


def _lines(path: Path) -> int:
    try:
        return path.read_bytes().count(b"\n")
    except OSError:
        return 0


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
