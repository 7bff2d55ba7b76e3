"""Bodies of requests for engines that are real: prompts of the right size that share no more of their beginnings than
the plan counts on, and answers that do not stop before their length.

An engine's prefix cache finds what begins alike. Every prompt begins with a word of its own; where the plan counts on a
share that caches find, so large a part of each is the beginning of one common text; where the trace says which blocks
are alike, each block is a text of its own.
"""

import json
from bisect import bisect_left
from collections.abc import Iterator
from zlib import crc32

from planner.domain.arrivals import Requests
from planner.domain.fleet import ReplayFleet
from planner.runs.rehearsal.prompts import Sender, chat_request, filler


def engine_bodies(requests: Requests, sender: Sender, fleet: ReplayFleet, run: str) -> Iterator[bytes]:
    """A chat request each. `run`: a word that no earlier load of these engines had, as their caches remember those."""
    for number, tokens in enumerate(requests.prompt_tokens):
        size, end = round(sender.bytes_per_token * tokens), f" #{number}"
        pieces, length = [], 0
        for seed, until in _pieces(requests, number, fleet, run):
            stop = max(length, round(until * (size - len(end))))
            pieces.append(_piece(seed, stop - length))
            length = stop
        body = chat_request(sender.model, "".join(pieces) + end, requests.answer_tokens[number])
        yield json.dumps({**body, "ignore_eos": True, "stream_options": {"include_usage": True}}).encode()


def _pieces(requests: Requests, number: int, fleet: ReplayFleet, run: str) -> Iterator[tuple[str, float]]:
    """(word that a piece begins with, share of the prompt at which it ends)."""
    tokens, blocks = requests.prompt_tokens[number], requests.blocks
    if blocks is not None:
        ids = blocks.ids[blocks.ends[number - 1] if number else 0 : blocks.ends[number]]
        for place, block in enumerate(ids, start=1):
            yield f"{run}-block-{block}", min(1.0, place * blocks.block_tokens / tokens)
    elif share := _hit_share(fleet, tokens):
        yield run, share
    yield f"{run}-{number}", 1.0


def _piece(seed: str, size: int) -> str:
    """So many bytes, the same for a seed but for where they end."""
    return f"{seed} {filler(size, crc32(seed.encode()))}"[:size]


def _hit_share(fleet: ReplayFleet, tokens: int) -> float:
    """What the plan counts on that caches find of a prompt: the mean over the pools that count on any."""
    row = bisect_left(fleet.lengths, tokens)
    shares = [pool.hit_shares[min(row, len(pool.hit_shares) - 1)] for pool in fleet.pools if pool.hit_shares]
    return sum(shares) / len(shares) if shares else 0.0
