"""A workload as data frames. pandas is loaded with the first, not with this file."""

from typing import Any

from planner.domain import LengthProfile, RequestTrace
from planner.report.kit.frames import Frame, tabled


def lengths_frame(profile: LengthProfile) -> Frame:
    """One row a prompt length (tokens): its share of the requests, and the mean answer where that is known."""
    columns: dict[str, Any] = {"input_tokens": profile.input_tokens, "share": profile.probabilities}
    if profile.output_tokens:
        columns["output_tokens"] = profile.output_tokens
    return tabled(columns)


def requests_frame(trace: RequestTrace) -> Frame:
    """One row a request: seconds since the first arrival, tokens in and out."""
    columns = (trace.arrival_s, trace.input_tokens, trace.output_tokens)
    return tabled(dict(zip(("arrival_s", "input_tokens", "output_tokens"), columns, strict=True)))
