"""What goes over the wire: requests in the OpenAI form, answers in one piece or as events, and how an engine's servers
agree on the KV cache of a prompt.

vLLM with NIXL hands over in sequence: the prefill server's answer says in `kv_transfer_params` whose cache it is, and
the decode server is asked with that. SGLang is asked at once for both phases, which meet in a `bootstrap_room`.

Sources: the OpenAI API reference (completions, chat completions, streaming); vLLM's page on NixlConnector; SGLang's
page on PD disaggregation.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from planner.errors import InputError

LOOPBACK = "127.0.0.1"
CHAT = "/v1/chat/completions"
END_OF_STREAM = b"data: [DONE]\n\n"
_NUMBER = re.compile(r"#(\d+)\s*$")
_WORD = "word "


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """How an engine's servers name a cache. `cache_of`: of a request, None where the prefill server names it in its
    answer, by what `offer` adds to that. `any_name`: the engine looks at no model's name."""

    cache_of: Callable[[Mapping[str, Any]], int | None]
    offer: Callable[[int, str], dict[str, Any]]
    any_name: bool = False


def _nixl_cache(body: Mapping[str, Any]) -> int | None:
    blocks = (body.get("kv_transfer_params") or {}).get("remote_block_ids")
    return int(blocks[0]) if blocks else None


def _nixl_offer(cache: int, name: str) -> dict[str, Any]:
    offered = {"do_remote_prefill": True, "do_remote_decode": False, "remote_block_ids": [cache]}
    return {"kv_transfer_params": {**offered, "remote_engine_id": name, "remote_host": LOOPBACK, "remote_port": 1}}


def _room(body: Mapping[str, Any]) -> int | None:
    room = body.get("bootstrap_room")
    return int(room[0] if isinstance(room, list) else room) if room is not None else None


def _no_offer(_cache: int, _name: str) -> dict[str, Any]:
    return {}


HAND_OVERS: Mapping[str, HandOver] = MappingProxyType(
    {
        "vllm": HandOver(cache_of=_nixl_cache, offer=_nixl_offer),
        "sglang": HandOver(cache_of=_room, offer=_no_offer, any_name=True),
        "trtllm": HandOver(cache_of=lambda _: None, offer=_no_offer, any_name=True),  # servers of both phases alone
    }
)
"""By the engine's name."""


def request_number(body: Mapping[str, Any]) -> int:
    """The number of a request of ours, which its prompt ends in.

    Raises:
        InputError: there is none.
    """
    prompt = body.get("prompt", body.get("text", ""))
    for message in body.get("messages", ()):
        prompt = message.get("content", "")
    if isinstance(prompt, list):  # parts of a message, or prompts of a batch
        prompt = prompt[-1].get("text", "") if isinstance(prompt[-1], dict) else prompt[-1]
    match = _NUMBER.search(str(prompt))
    if match is None:
        raise InputError("Request: its prompt must end in #NUMBER, has none.", hint="Send what the rehearsal sends.")
    return int(match[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerForm:
    """An answer of `tokens` to a request for `model`, as its `path` has it."""

    model: str
    path: str
    prompt_tokens: int
    tokens: int

    def completion(self, more: Mapping[str, Any]) -> bytes:
        """In one piece, with further keys."""
        text = _WORD * self.tokens
        choice = {"message": {"role": "assistant", "content": text}} if self.path == CHAT else {"text": text}
        return json.dumps(
            {**self._head(""), "choices": [self._choice(choice, "stop")], "usage": self._usage, **more}
        ).encode()

    def event(self, tokens: int, *, last: bool) -> bytes:
        """A piece of a stream; the last one says how many tokens there were."""
        text = _WORD * tokens
        choice = {"delta": {"role": "assistant", "content": text}} if self.path == CHAT else {"text": text}
        body = {**self._head(".chunk"), "choices": [self._choice(choice, "stop" if last else None)]}
        return b"data: " + json.dumps(body | ({"usage": self._usage} if last else {})).encode() + b"\n\n"

    def _head(self, kind: str) -> dict[str, Any]:
        name = f"chat.completion{kind}" if self.path == CHAT else "text_completion"
        return {"id": "rehearsal", "object": name, "created": 0, "model": self.model}

    @staticmethod
    def _choice(content: Mapping[str, Any], finish: str | None) -> dict[str, Any]:
        return {"index": 0, **content, "finish_reason": finish, "logprobs": None}

    @property
    def _usage(self) -> dict[str, int]:
        total = self.prompt_tokens + self.tokens
        return {"prompt_tokens": self.prompt_tokens, "completion_tokens": self.tokens, "total_tokens": total}
