"""Streams of several services as one, each request with the number of its service."""

from array import array
from collections.abc import Sequence

import numpy as np

from planner.domain.arrivals import LeftOut, Requests


def merged_streams(name: str, streams: Sequence[Requests], count: int) -> Requests:
    """The first `count` requests of all, in the order of arrival; prompts have no blocks then."""
    arrival_ms = np.concatenate([np.asarray(stream.arrival_ms, dtype=float) for stream in streams])
    classes = np.repeat(np.arange(len(streams)), [len(stream) for stream in streams])
    order = np.argsort(arrival_ms, kind="stable")[:count]

    def tokens(column: str) -> Sequence[int]:
        joined = np.concatenate([np.asarray(getattr(stream, column), dtype=np.intc) for stream in streams])
        return array("i", joined[order].tobytes())

    left_out = [stream.left_out for stream in streams]
    return Requests(
        name=name,
        arrival_ms=array("d", arrival_ms[order].tobytes()),
        prompt_tokens=tokens("prompt_tokens"),
        answer_tokens=tokens("answer_tokens"),
        left_out=LeftOut(
            empty_prompts=sum(each.empty_prompts for each in left_out),
            empty_answers=sum(each.empty_answers for each in left_out),
            long_prompts=sum(each.long_prompts for each in left_out),
            long_answers=sum(each.long_answers for each in left_out),
        ),
        same_instant=int((np.diff(arrival_ms[order]) == 0).sum()),
        notes=tuple(dict.fromkeys(note for stream in streams for note in stream.notes)),
        classes=classes[order].tolist(),
    )
