"""What images take: the tower's weights on every GPU, its time in every prefill, nothing where none come."""

from dataclasses import replace

import numpy as np
import pytest
from test_engine_caches import published

from planner.cost import CostContext, explain, memory
from planner.cost.images import image_parts
from planner.cost.mixed import explain_mixed
from planner.cost.step import Steps, step_cost, step_ms
from planner.domain import CostSettings, ModelSpec, Phase
from planner.files import load_gpu_spec

GPU = load_gpu_spec("H200")
TOWERS = {  # width of a layer, layers, patches that become a token: their vision_config
    "qwen/qwen3.5-27b": (1152, 27, 4),
    "moonshotai/kimi-k2.5": (1152, 27, 4),
    "google/gemma-4-26b-a4b": (1152, 27, 9),
}


def of(model: ModelSpec, **settings: float) -> CostContext:
    return CostContext(gpu=GPU, model=model, settings=CostSettings(**settings))


def prefill(context: CostContext, length: float, tp: float = 1.0, cached: float = 0.0) -> float:
    return float(step_ms(context, Steps.at(Phase.PREFILL, tp, 1, 1, length=length, batch=1, cached=cached)))


@pytest.mark.parametrize("name", TOWERS)
def test_towers_are_read_as_they_are_described(name: str) -> None:
    width, layers, patches = TOWERS[name]
    model = published(name, 2)
    assert (model.tower_width, model.tower_patches) == (width * layers, patches)
    assert not published("deepseek-ai/deepseek-v3.2", 2).tower_patches


def test_operations_by_hand() -> None:
    """An image of 1,024 tokens is 4,096 patches: each passes all weights, and sees all of them in 27 layers."""
    model = published("qwen/qwen3.5-27b", 2)
    context = of(model, images_per_request=1)
    cost = step_cost(context, Steps.at(Phase.PREFILL, 1, 1, 1, length=4000, batch=2), overlap=False)
    expected = 2 * (2 * model.tower_parameters * 4096 + 2 * 2 * 27 * 1152 * 4096**2)
    assert float(cost.part("images").flops) == pytest.approx(expected)
    assert float(cost.part("images").ms) == pytest.approx(expected / (GPU.fp16_tflops * 1e9 * 0.6), rel=0.4)


def test_what_images_take_is_part_of_every_prefill() -> None:
    model = published("qwen/qwen3.5-27b", 2)
    none, one, two = (prefill(of(model, images_per_request=count), 8000) for count in (0, 1, 2))
    assert two - one == pytest.approx(one - none)
    assert one > none
    larger = prefill(of(model, images_per_request=1, tokens_per_image=2048), 8000)
    assert larger - none > 2 * (one - none)  # patches see each other
    split = [prefill(of(model, images_per_request=count), 8000, tp=2) for count in (0, 1)]
    assert split[1] - split[0] == pytest.approx((one - none) / 2)
    half = [prefill(of(model, images_per_request=count), 8000, cached=0.5) for count in (0, 1)]
    assert half[1] - half[0] == pytest.approx((one - none) / 2)


def test_a_short_prompt_has_no_room_for_images() -> None:
    """Where images are longer than the prompt, as much of one counts as the prompt has."""
    model = published("qwen/qwen3.5-27b", 2)
    short = [prefill(of(model, images_per_request=count), 512) for count in (0, 1)]
    long = [prefill(of(model, images_per_request=count), 1024) for count in (0, 1)]
    assert short[1] - short[0] == pytest.approx((long[1] - long[0]) / 2)


def test_mixed_passes_read_the_images_of_their_chunk() -> None:
    model, ms = published("qwen/qwen3.5-27b", 2), []
    for count in (0, 1):
        settings = CostSettings(images_per_request=count)
        explained = explain_mixed("H200", model, tp=1, devices=1, length=2000, chunk=1000, batch=8, settings=settings)
        ms.append(explained.total_ms)
    alone = [prefill(of(model, images_per_request=count), 2000) for count in (0, 1)]
    assert ms[1] - ms[0] == pytest.approx((alone[1] - alone[0]) / 2, rel=1e-6)


def test_no_images_are_no_part() -> None:
    model = published("qwen/qwen3.5-27b", 2)
    cost = step_cost(of(model), Steps.at(Phase.PREFILL, 1, 1, 1, length=4000, batch=2))
    assert "images" not in [part.name for part in cost.parts]
    assert "images" in [
        part.name
        for part in explain(
            "H200", model, phase="prefill", tp=1, devices=1, length=4000, settings=CostSettings(images_per_request=1)
        ).parts
    ]
    one = np.array(1.0)
    assert not image_parts(None, model, CostSettings(), prompts=one, length=one, tp=one, passes=one)


def test_the_tower_lies_on_every_group_split_like_the_layers() -> None:
    model = published("qwen/qwen3.5-27b", 2)
    blind = replace(model, tower_parameters=0)
    for tp in (1, 4):
        seeing, text = (float(memory.weights_gb(each, tp=tp, experts_on_device=0)) for each in (model, blind))
        assert seeing - text == pytest.approx(2 * model.tower_parameters / tp / 1e9)
    assert float(memory.weights_gb(model, tp=1, experts_on_device=0)) == pytest.approx(model.weights_gb)
