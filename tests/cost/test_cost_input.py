"""Calls that cannot be answered: an InputError names the argument and what came."""

from collections.abc import Callable
from typing import Any

import pytest

from planner.cost import decode_time, max_batch_size, prefill_time
from planner.errors import InputError

NAN, INFINITE = float("nan"), float("inf")

PREFILL: dict[str, Any] = {"gpu": "H200", "seq_len": 1000, "tp": 1, "dp": 8}
DECODE: dict[str, Any] = {"gpu": "H200", "seq_len": 1000, "tp": 1, "batch_size": 8, "devices": 8}
MAX_BATCH: dict[str, Any] = {"gpu": "H200", "seq_len": 1000, "decode_len": 100, "tp": 1, "experts_on_device": 5}


def refused(function: Callable[..., object], call: dict[str, Any], **change: Any) -> InputError:
    """The InputError of a call with one argument changed; the call as it stands is answered."""
    function(**call)
    with pytest.raises(InputError) as caught:
        function(**{**call, **change})
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    ("function", "call"), [(prefill_time, PREFILL), (decode_time, DECODE), (max_batch_size, MAX_BATCH)]
)
class TestAnyFunction:
    def test_unknown_gpu_is_told_the_nearest(self, function: Callable[..., object], call: dict[str, Any]) -> None:
        error = refused(function, call, gpu="H2000")
        assert "'H2000'" in str(error)
        assert "Did you mean H200" in str(error)

    def test_unknown_model_is_told_the_nearest(self, function: Callable[..., object], call: dict[str, Any]) -> None:
        error = refused(function, call, model="deepseek-v4")
        assert "'deepseek-v4'" in str(error)
        assert "deepseek-v3" in error.hint

    @pytest.mark.parametrize("mode", ["fast", "", "DEFAULT", None])
    def test_unknown_mode(self, function: Callable[..., object], call: dict[str, Any], mode: object) -> None:
        error = refused(function, call, mode=mode)
        assert "mode: must be one of default, reference" in error.message
        assert repr(mode) in error.message

    @pytest.mark.parametrize("value", [-1, NAN, INFINITE, [1000, -1], [1000, NAN], []])
    @pytest.mark.parametrize("argument", ["seq_len", "tp"])
    def test_lengths_and_degrees(
        self, function: Callable[..., object], call: dict[str, Any], argument: str, value: object
    ) -> None:
        error = refused(function, call, **{argument: value})
        assert error.message.startswith(f"{argument}: must be")
        assert repr(value) in error.message


@pytest.mark.parametrize("value", [0, 0.5])
def test_a_prompt_has_at_least_one_token(value: float) -> None:
    assert refused(prefill_time, PREFILL, seq_len=value).message.startswith("seq_len: must be finite and at least 1")


def test_an_answer_may_start_from_nothing_but_has_a_length() -> None:
    assert float(decode_time(**{**DECODE, "seq_len": 0}).total_ms) > 0
    assert "seq_len + decode_len" in refused(max_batch_size, MAX_BATCH, seq_len=0, decode_len=0).message


@pytest.mark.parametrize("value", [0, -8, NAN])
@pytest.mark.parametrize(
    ("function", "call", "argument"),
    [
        (prefill_time, PREFILL, "dp"),
        (prefill_time, PREFILL, "prompts_per_rank"),
        (prefill_time, PREFILL, "tp"),
        (decode_time, DECODE, "batch_size"),
        (decode_time, DECODE, "devices"),
        (decode_time, DECODE, "experts_per_device"),
        (decode_time, DECODE, "tp"),
    ],
)
def test_counts_are_at_least_one(
    function: Callable[..., object], call: dict[str, Any], argument: str, value: float
) -> None:
    assert refused(function, call, **{argument: value}).message.startswith(f"{argument}: must be")


@pytest.mark.parametrize("argument", ["decode_len", "experts_on_device"])
@pytest.mark.parametrize("value", [-1, NAN])
def test_what_memory_holds_is_not_negative(argument: str, value: float) -> None:
    assert refused(max_batch_size, MAX_BATCH, **{argument: value}).message.startswith(f"{argument}: must be")


@pytest.mark.parametrize("value", [1, 1.0, 1.7, -0.1, NAN, [0.2, 1]])
def test_cache_rate_lies_below_one(value: object) -> None:
    error = refused(prefill_time, PREFILL, kv_cache_rate=value)
    assert "kv_cache_rate: must lie in [0, 1)" in error.message
    assert repr(value) in error.message
