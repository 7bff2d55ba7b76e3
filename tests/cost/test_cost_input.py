"""Calls that cannot be answered: an InputError names the argument and what came."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cost_figures import gpu, model
from cost_workloads import workload

from planner.cost import decode_time, max_batch_size, prefill_time, tabulate
from planner.domain import CostMode, CostSettings
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
        (decode_time, {**DECODE, "mode": "reference"}, "experts_per_device"),
        (decode_time, DECODE, "tp"),
    ],
)
def test_counts_are_at_least_one(
    function: Callable[..., object], call: dict[str, Any], argument: str, value: float
) -> None:
    assert refused(function, call, **{argument: value}).message.startswith(f"{argument}: must be")


@pytest.mark.parametrize("argument", ["tp", "dp", "pp", "prompts_per_rank"])
def test_no_fraction_of_a_gpu(argument: str) -> None:
    assert refused(prefill_time, PREFILL, **{argument: 1.5}).message.startswith(f"{argument}: must be a whole number")


@pytest.mark.parametrize("argument", ["seq_len", "tp", "dp"])
@pytest.mark.parametrize("value", ["8", True, None, "many", object()])
def test_no_number_at_all(argument: str, value: object) -> None:
    assert refused(prefill_time, PREFILL, **{argument: value}).message.startswith(f"{argument}: must be")


def test_arrays_must_broadcast() -> None:
    error = refused(prefill_time, PREFILL, seq_len=[1000, 2000], dp=[8, 16, 32])
    assert "(2,)" in error.message
    assert "(3,)" in error.message


@pytest.mark.parametrize("argument", ["gpu", "model"])
def test_neither_record_nor_name(argument: str) -> None:
    assert refused(prefill_time, PREFILL, **{argument: 7}).message.startswith(f"{argument}: must be a")


@pytest.mark.parametrize("argument", ["decode_len", "experts_on_device"])
@pytest.mark.parametrize("value", [-1, NAN])
def test_what_memory_holds_is_not_negative(argument: str, value: float) -> None:
    assert refused(max_batch_size, MAX_BATCH, **{argument: value}).message.startswith(f"{argument}: must be")


@pytest.mark.parametrize("value", [1, 1.0, 1.7, -0.1, NAN, [0.2, 1]])
def test_cache_rate_lies_below_one(value: object) -> None:
    error = refused(prefill_time, PREFILL, kv_cache_rate=value)
    assert "kv_cache_rate: must lie in [0, 1)" in error.message
    assert repr(value) in error.message


class TestConfiguration:
    """What no engine can run is refused with the rule and what came."""

    def test_tp_must_divide_the_heads(self) -> None:
        error = refused(prefill_time, PREFILL, tp=3)
        assert error.message == "tp: must divide the 128 attention heads of deepseek-v3, got 3."
        assert error.hint == "Choose one of 1, 2, 4, 8."

    def test_tp_must_stay_on_a_host(self) -> None:
        error = refused(prefill_time, PREFILL, gpu="GB200-NVL72", tp=8)
        assert error.message.startswith("tp: must stay within one host of 4 GB200-NVL72")

    def test_tp_must_share_out_the_kv_heads(self) -> None:
        shape = model("llama-3.1-70b")
        (layers,) = shape.groups
        six = replace(shape, groups=(replace(layers, attention=replace(layers.attention, heads=48, kv_heads=6)),))
        prefill_time("H200", 1000, tp=2, dp=1, model=six)
        with pytest.raises(InputError, match="share out 6 KV heads evenly, got 4"):
            prefill_time("H200", 1000, tp=4, dp=1, model=six)

    def test_tp_must_divide_the_devices(self) -> None:
        assert refused(decode_time, DECODE, tp=4, devices=6).message == "tp: must divide devices, 6, got 4."

    def test_no_more_devices_than_experts(self) -> None:
        error = refused(decode_time, DECODE, devices=257)
        assert error.message.startswith("devices: must be at most the 256 experts of deepseek-v3")
        assert refused(prefill_time, PREFILL, dp=257).message == error.message
        more = CostSettings(redundant_experts=32)
        assert float(decode_time(**{**DECODE, "devices": 288}, settings=more).total_ms) > 0
        assert "288" in refused(decode_time, {**DECODE, "settings": more}, devices=289).message

    def test_groups_of_a_dense_model_are_replicas(self) -> None:
        error = refused(prefill_time, {**PREFILL, "tp": 2, "dp": 1, "model": "llama-3.1-70b"}, dp=2)
        assert error.message.startswith("dp: must be 1, llama-3.1-70b has no experts")

    def test_no_more_stages_than_layers(self) -> None:
        assert refused(prefill_time, PREFILL, pp=62).message.startswith("pp: must be at most the 61 layers")

    @pytest.mark.parametrize(("function", "call"), [(prefill_time, PREFILL), (decode_time, DECODE)])
    def test_one_bad_configuration_among_good_ones(self, function: Callable[..., object], call: dict[str, Any]) -> None:
        assert "got 16" in refused(function, call, tp=[1, 2, 16], **({"devices": 16} if call is DECODE else {})).message

    @pytest.mark.parametrize(("function", "call"), [(prefill_time, PREFILL), (decode_time, DECODE)])
    def test_no_more_tokens_than_context(self, function: Callable[..., object], call: dict[str, Any]) -> None:
        roomy = {**call, "dp": 64} if function is prefill_time else {**call, "devices": 64}
        function(**{**roomy, "seq_len": 163_840})
        error = refused(function, roomy, seq_len=[1000, 163_841])
        assert error.message.startswith("seq_len: must be at most the 163840 tokens of context of deepseek-v3")

    @pytest.mark.parametrize("extra", [{"experts_per_device": 4}, {"fp8_combine": True}])
    def test_what_belongs_to_reference_mode(self, extra: dict[str, Any]) -> None:
        assert "are of reference mode only" in refused(decode_time, DECODE, **extra).message
        assert float(decode_time(**DECODE, **extra, mode="reference").total_ms) > 0

    @pytest.mark.parametrize("shape", ["llama-3.1-70b", "gpt-oss-120b", "qwen3-30b-a3b"])
    def test_reference_mode_knows_one_shape(self, shape: str) -> None:
        reference = {**PREFILL, "mode": "reference"}
        assert "DeepSeek's shape only" in refused(prefill_time, reference, model=shape).message
        settings = CostSettings(mode=CostMode.REFERENCE)
        with pytest.raises(InputError, match="DeepSeek's shape only"):
            tabulate(gpu("H200"), 8, model=model(shape), workload=workload(), settings=settings)


NEEDED = (
    "sms",
    "fp16_tflops",
    "memory_gb",
    "memory_gb_s",
    "nvlink_gb_s",
    "nic_gb_s",
    "gpus_per_nvlink_domain",
)
NO_FIGURES = (0, -1.0, NAN, INFINITE, None, "8")


@pytest.mark.parametrize("value", NO_FIGURES)
@pytest.mark.parametrize("figure", NEEDED)
class TestMissingFigures:
    """A figure that is no positive number is named; nothing is computed with it."""

    def test_in_single_steps(self, figure: str, value: object) -> None:
        broken = replace(gpu("H200"), **{figure: value})
        for function, call in ((prefill_time, PREFILL), (decode_time, DECODE)):
            error = refused(function, call, gpu=broken)
            assert error.message.startswith(f"GPU H200: {figure} must be a positive number")
            assert repr(value) in error.message

    def test_in_tables(self, figure: str, value: object) -> None:
        if figure == "memory_gb" and (value is None or isinstance(value, str)):
            return  # see the next test
        broken = replace(gpu("H200"), **{figure: value})
        with pytest.raises(InputError, match=f"GPU H200: {figure} must be a positive number"):
            tabulate(broken, 16, model=model(), workload=workload(), settings=CostSettings())


@pytest.mark.parametrize("figure", ["gpus_per_host", "memory_gb"])
def test_missing_figures_that_are_used_early(figure: str) -> None:
    for value in NO_FIGURES:
        broken = replace(gpu("H200"), **{figure: value})
        for function, call in ((prefill_time, PREFILL), (decode_time, DECODE)):
            assert figure in refused(function, call, gpu=broken).message
        with pytest.raises(InputError, match=f"GPU H200: {figure} must be a positive number"):
            tabulate(broken, 16, model=model(), workload=workload(), settings=CostSettings())


@pytest.mark.parametrize("value", [0, NAN, None])
def test_memory_without_a_figure(value: object) -> None:
    assert "memory_gb" in refused(max_batch_size, MAX_BATCH, gpu=replace(gpu("H200"), memory_gb=value)).message


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize(
    ("figure", "value"), [("fp8_tflops", NAN), ("sms_for_communication", 132), ("sms_for_communication", None)]
)
def test_figures_that_may_be_zero_are_numbers_all_the_same(figure: str, value: object) -> None:
    """A NaN would come out as the answer, and as many SMs for communication as there are leave none to compute."""
    error = refused(prefill_time, PREFILL, gpu=replace(gpu("H200"), **{figure: value}))
    assert figure in error.message


def test_formats_that_the_gpu_lacks_are_zero() -> None:
    bare = replace(gpu("H200"), fp8_tflops=0.0, fp4_tflops=0.0, sms_for_communication=0)
    assert np.isfinite(float(prefill_time(**{**PREFILL, "gpu": bare}).total_ms))
