"""Prices that are asked for again: the same numbers, of the same ranges alone, and only where nothing differs."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from cost_figures import gpu, model
from cost_workloads import workload

from planner.cost import CostContext
from planner.cost.serving import Buckets, DecodeServers, PrefillServers, prompt_times, remembered
from planner.cost.serving.decode_servers import BATCHES
from planner.cost.serving.prompt_times import PromptTimes
from planner.domain import CostSettings, ParallelConfig

CONTEXT = CostContext(gpu=gpu("H200"), model=model("deepseek-v3"), settings=CostSettings())
LOAD = workload((128, 1024, 4096), (0.5, 0.3, 0.2), mean_output_tokens=200, max_output_tokens=1000)
BUCKETS = Buckets.of(LOAD, [(0, 3)])
SHAPE = ParallelConfig(tp=1, dp=8)

Pricing = Callable[[CostContext, Buckets], Any]


def prompts(context: CostContext, buckets: Buckets) -> Any:
    return PromptTimes.of(context, [(SHAPE, 4096), (SHAPE, 8192)], buckets, BATCHES)


def prefill(context: CostContext, buckets: Buckets) -> Any:
    return PrefillServers.of(context, [(SHAPE, 4096, False)], buckets)


def decode(context: CostContext, buckets: Buckets) -> Any:
    return DecodeServers.of(context, [(SHAPE, False), (SHAPE, True)], buckets, 1000, [64, 0])


each_pricing = pytest.mark.parametrize("price", [prompts, prefill, decode])


def columns(servers: Any) -> dict[str, np.ndarray]:
    pairs = ((column.name, getattr(servers, column.name)) for column in fields(servers))
    return {name: value for name, value in pairs if isinstance(value, np.ndarray)}


def assert_as_priced_anew(price: Pricing, context: CostContext, buckets: Buckets) -> None:
    answered = columns(price(context, buckets))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(remembered, "MANY", 0)  # nothing is remembered, and whoever prices sees the mixes
        anew = columns(price(context, buckets))
    assert anew.keys() == answered.keys()
    assert all(np.array_equal(value, answered[name]) for name, value in anew.items())


@each_pricing
def test_other_mixes_of_the_same_ranges_are_no_new_question(price: Pricing) -> None:
    mixes = Buckets.of(LOAD, [(0, 1), (1, 3)])
    assert price(CONTEXT, mixes) is price(CONTEXT, BUCKETS)
    assert_as_priced_anew(price, CONTEXT, mixes)


@each_pricing
@pytest.mark.parametrize("column", ["prompts", "longest", "answers"])
def test_ranges_that_differ_are_priced_anew(price: Pricing, column: str) -> None:
    price(CONTEXT, BUCKETS)
    assert_as_priced_anew(price, CONTEXT, replace(BUCKETS, **{column: 3 * getattr(BUCKETS, column)}))


@each_pricing
def test_other_gpus_are_priced_anew(price: Pricing) -> None:
    slower = replace(CONTEXT, gpu=replace(CONTEXT.gpu, memory_gb_s=CONTEXT.gpu.memory_gb_s / 2))
    assert price(slower, BUCKETS) is not price(CONTEXT, BUCKETS)
    assert_as_priced_anew(price, slower, BUCKETS)


@each_pricing
def test_nobody_writes_to_what_others_are_given(price: Pricing) -> None:
    for value in columns(price(CONTEXT, BUCKETS)).values():
        with pytest.raises(ValueError, match="read-only"):
            value[...] = 0.0


@pytest.mark.parametrize("name", ["deepseek-v3", "qwen3.5-27b"])  # the blocks that a cache finds differ by degree
def test_many_servers_are_priced_in_pieces_to_the_same_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    context = replace(CONTEXT, model=model(name), settings=CostSettings(kv_cache_rate=0.3))
    shapes = [ParallelConfig(tp=tp, dp=8 // tp) for tp in (1, 2, 4, 8)]
    options = [(shape, budget) for shape in shapes for budget in (4096, 8192)]
    monkeypatch.setattr(remembered, "MANY", 0)
    together = columns(PromptTimes.of(context, options, BUCKETS, BATCHES))
    monkeypatch.setattr(prompt_times, "_AT_ONCE", 3 * len(BUCKETS.prompts) * len(BATCHES))
    apart = columns(PromptTimes.of(context, options, BUCKETS, BATCHES))
    assert apart.keys() == together.keys()
    assert all(np.array_equal(value, together[column]) for column, value in apart.items())
