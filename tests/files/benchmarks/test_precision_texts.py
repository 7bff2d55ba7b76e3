"""Bytes per element from the texts that sources write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.domain import Precision
from planner.errors import InputError
from planner.files.benchmarks.conditions import parse_precision


@pytest.mark.parametrize(
    ("text", "weights", "experts", "kv", "drafted"),
    [
        ("FP8", 1, 1, 1, 0),
        ("fp8", 1, 1, 1, 0),
        ("fp4", 0.5625, 0.5625, 1, 0),
        ("NVFP4", 0.5625, 0.5625, 1, 0),
        ("BF16", 2, 2, 2, 0),
        ("FP16", 2, 2, 2, 0),
        ("FP16, FP8 KV", 2, 2, 1, 0),
        ("NVFP4 experts", 1, 0.5625, 1, 0),
        ("NVFP4 experts, BF16 KV", 1, 0.5625, 2, 0),
        ("NVFP4 experts, BF16 weights", 2, 0.5625, 2, 0),
        ("BF16, MXFP4 experts", 2, 0.53125, 2, 0),
        ("FP8, BF16 KV", 1, 1, 2, 0),
        ("NVFP4 experts, FP8 attention", 1, 0.5625, 1, 0),
        ("FP8, BF16 attention", 1, 1, 2, 0),
        ("FP8, FP8 MLA, MTP 1", 1, 1, 1, 1),
    ],
)
def test_what_a_text_says(text: str, weights: float, experts: float, kv: float, drafted: int) -> None:
    assert parse_precision(text) == Precision(
        weight_bytes=weights, expert_bytes=experts, kv_bytes=kv, mtp_tokens=drafted
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "FP9",
        "FP8, FP8",
        "FP8 of weights",
        "BF16 KV",
        "MTP 1",
        "FP8, MTP 99",
        "FP8,",
        "FP8 MLA, BF16 KV",
        "FP8 colour",
    ],
)
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="must be formats") as refusal:
        parse_precision(text)
    assert "NVFP4" in refusal.value.message


@given(st.text(max_size=40) | st.from_regex(r"(FP8|BF16|MXFP4)( KV| experts)?(, MTP \d+)?", fullmatch=True))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        precision = parse_precision(text)
    except InputError:
        return
    assert min(precision.weight_bytes, precision.expert_bytes, precision.kv_bytes) > 0
