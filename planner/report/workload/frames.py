"""A workload as data frames. pandas is loaded with the first, not with this file."""

from typing import TYPE_CHECKING, Any

from planner.domain import LengthProfile, RequestTrace

if TYPE_CHECKING:
    import pandas as pd


def lengths_frame(profile: LengthProfile) -> "pd.DataFrame":
    """One row a prompt length (tokens): its share of the requests, and the mean answer where that is known."""
    import pandas as pd  # noqa: PLC0415  # takes half a second to load

    columns: dict[str, Any] = {"input_tokens": profile.input_tokens, "share": profile.probabilities}
    if profile.output_tokens:
        columns["output_tokens"] = profile.output_tokens
    return pd.DataFrame(columns)


def requests_frame(trace: RequestTrace) -> "pd.DataFrame":
    """One row a request: seconds since the first arrival, tokens in and out."""
    import pandas as pd  # noqa: PLC0415  # as above

    columns = (trace.arrival_s, trace.input_tokens, trace.output_tokens)
    return pd.DataFrame(dict(zip(("arrival_s", "input_tokens", "output_tokens"), columns, strict=True)))
