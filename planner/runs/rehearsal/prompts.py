"""Bodies of requests whose prompts are texts of the right number of bytes: routers in front of engines may know no more
of a prompt than its size.

symbol   meaning                                                          unit
b        bytes a token, of the export's options                           bytes/token
s        standard deviation of the logarithm of a text's bytes a token    1
bytes    of the prompt of n tokens: b n exp(s z), z drawn normally        bytes

A prompt ends in the number of its request, after which nothing but the text of the answer tells requests apart.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from random import Random
from typing import Any

from planner.domain.arrivals import Requests

_TEXT = (
    "The ferry leaves the harbour at seven and is full on most days, so that those who live on the islands come early "
    "and stand in the rain with their bread and their letters. A second boat was promised in spring; it lies in the "
    "yard, painted and without an engine. Whoever has to cross in winter asks the captain first, who looks at the sky, "
    "at the list of names, and at the water behind the pier, and then says how many he will take. "
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """Who sends requests: the `model` that they name, and the bytes a token of their prompts."""

    model: str
    bytes_per_token: float


def request_bodies(requests: Requests, senders: Sequence[Sender], *, spread: float, seed: int) -> list[bytes]:
    """A chat request for each, which asks for its answer as a stream; the same seed gives the same bytes. `senders`: of
    the classes of requests, by their numbers."""
    draw = Random(seed)  # noqa: S311  (draws of a simulation)
    bodies = []
    for number, tokens in enumerate(requests.prompt_tokens):
        sender = senders[requests.classes[number] if requests.classes else 0]
        size = round(sender.bytes_per_token * tokens * exp(draw.gauss(0.0, spread)))
        bodies.append(_body(number, sender.model, size, requests.answer_tokens[number], draw.randrange(len(_TEXT))))
    return bodies


def _body(number: int, model: str, size: int, answer: int, start: int) -> bytes:
    end = f" #{number}"
    return json.dumps(chat_request(model, filler(max(0, size - len(end)), start) + end, answer)).encode()


def filler(size: int, start: int = 0) -> str:
    """English of so many bytes, from the byte `start` of a text that repeats itself."""
    start %= len(_TEXT)
    return (_TEXT * (2 + size // len(_TEXT)))[start : start + size]


def chat_request(model: str, prompt: str, answer: int) -> dict[str, Any]:
    """A chat of one message, which asks for its answer of so many tokens as a stream."""
    return {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": answer,
        "temperature": 0.0,
        "stream": True,
    }
