"""Engines without a model, for routers to send requests to: `python stub_engine.py SECONDS NAME=PORT ...`, loopback
alone; an answer takes SECONDS, one to a prompt with the word SLOWLY longer.

Each answers what routers ask before they use an engine, completions in the forms of vLLM and SGLang, and `/record`:
what came to it, in order. A prompt begins with the number of its request. Ends with its process.
"""

import asyncio
import json
import sys
from typing import Any

HEALTHY = ("/health", "/health_generate", "/ready")
MODEL = "stub"
SLOWLY, SLOW_S = "slowly", 0.6
"""The word of a prompt that takes so long."""
_ABOUT: dict[str, object] = {
    "model_path": MODEL,
    "served_model_name": MODEL,
    "tokenizer_path": "",
    "is_generation": True,
    "dp_size": 1,
    "tp_size": 1,
}
_TOLD = ("kv_transfer_params", "bootstrap_host", "bootstrap_port", "bootstrap_room", "max_tokens")


class Engine:
    """One engine: its name, and the requests that came to it."""

    def __init__(self, name: str, seconds: float) -> None:
        self.name, self.seconds = name, seconds
        self.record: list[dict[str, Any]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while (head := await reader.readuntil(b"\r\n\r\n")) is not None:
                method, path, headers = _head(head)
                body = await _body(reader, headers)
                status, answer = await self.answer(method, path, body)
                text = json.dumps(answer).encode()
                writer.write(
                    b"HTTP/1.1 %d OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
                    % (status, len(text))
                )
                writer.write(text)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def answer(self, method: str, path: str, body: bytes) -> tuple[int, object]:
        """Status and body of an answer."""
        path = path.partition("?")[0]
        if path in HEALTHY:
            return 200, {}
        if path == "/record":
            return 200, self.record
        if path == "/v1/models":
            return 200, {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "tests"}]}
        if method == "GET":
            return 200, _ABOUT
        request = json.loads(body or b"{}")
        prompt = request.get("prompt", request.get("text", ""))
        entry = {key: request[key] for key in _TOLD if key in request}
        number = int(str(prompt).split()[0])
        self.record.append({"number": number, "bytes": len(body), "path": path, **entry})
        await asyncio.sleep(SLOW_S if f" {SLOWLY} " in str(prompt) else self.seconds)
        return 200, self.completion(request)

    def completion(self, request: dict[str, Any]) -> dict[str, Any]:
        """An answer in the OpenAI form; one that is to be decoded elsewhere says where its cache lies."""
        answer: dict[str, Any] = {
            "id": "stub",
            "object": "text_completion",
            "model": MODEL,
            "choices": [{"index": 0, "text": self.name, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
        if (request.get("kv_transfer_params") or {}).get("do_remote_decode"):
            answer["kv_transfer_params"] = {"remote_engine_id": self.name, "remote_block_ids": [1], "remote_port": 1}
        return answer


def _head(head: bytes) -> tuple[str, str, dict[str, str]]:
    first, *rows = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {key.strip().lower(): value.strip() for key, _, value in (row.partition(":") for row in rows if row)}
    return method, path, headers


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(int(headers.get("content-length", "0")))
    parts: list[bytes] = []
    while size := int((await reader.readline()).partition(b";")[0], 16):
        parts.append(await reader.readexactly(size))
        await reader.readline()
    await reader.readline()
    return b"".join(parts)


async def main(words: list[str]) -> None:
    """Serve until the process is ended."""
    seconds, *engines = words
    for word in engines:
        name, _, port = word.partition("=")
        await asyncio.start_server(Engine(name, float(seconds)).serve, "127.0.0.1", int(port), limit=2**24)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
