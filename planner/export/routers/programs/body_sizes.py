"""Prompt lengths as a proxy sees them: in bytes of the request's body.

symbol     meaning                                             unit         source
b          bytes of a prompt's text for each of its tokens     bytes/token  deploy.bytes_per_token; about 4 in
                                                                            English and code with tokenizers of 100 000
                                                                            words and more
e          the JSON around the prompt                          bytes        counted: a chat request of the model's
size(n)    e + ceil(b n), the body of a prompt of n tokens     bytes
"""

import json
import math

from planner.domain import Plan

_FUZZ = 1e-9
REFUSED_FROM = 2
"""Bodies are refused from so many times the context on: fewer bytes may well be a prompt that an engine takes."""


def envelope_bytes(plan: Plan) -> int:
    """The JSON around the prompt of a chat request with the keys that most have."""
    request = {
        "model": plan.scenario.model.uri.removeprefix("hf://"),
        "messages": [{"role": "user", "content": ""}],
        "max_tokens": plan.scenario.workload.max_output_tokens,
        "temperature": 0.0,
        "stream": True,
    }
    return len(json.dumps(request).encode())


def body_bytes(tokens: int, bytes_per_token: float, envelope: int) -> int:
    """The body of a prompt of so many tokens; 0 of a prompt of none, as a body may be smaller than any envelope."""
    return envelope + math.ceil(bytes_per_token * tokens - _FUZZ) if tokens else 0
