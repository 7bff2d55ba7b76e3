"""GPUs that NVLink joins in pairs, and hosts that it does not join at all: the rate between them, reckoned by hand."""

from dataclasses import replace

import numpy as np
import pytest
from cost_figures import gpu, model

from planner.cost.collectives import all_reduce_part, all_to_all_parts, transfer_part
from planner.cost.device import Device, device
from planner.cost.efficiency import efficiency_of
from planner.domain import CostSettings, GpuSpec, Phase

TOKENS = np.array(4096.0)
HIDDEN, LAYERS = 8192, 80  # Llama 3.1 70B: two all-reduces a layer, two bytes an element
ONCE = np.array(1.0)
PAIRS = gpu("H100-NVL")


def rates(spec: GpuSpec, shape: str = "llama-3.1-70b") -> Device:
    """The device in decode."""
    return device(spec, model(shape), Phase.DECODE, CostSettings(), overlapped=np.array(False))


def dispatch_ms(spec: GpuSpec, devices: int) -> float:
    """Network time in which decode on so many GPUs sends its tokens to their experts."""
    served, settings = model("qwen3-30b-a3b"), CostSettings()
    assert served.experts is not None
    sent, _ = all_to_all_parts(
        rates(spec, served.name),
        served,
        served.experts,
        settings,
        tokens=TOKENS,
        group_tokens=TOKENS,
        devices=np.array(float(devices)),
        dp=np.array(float(devices)),
        micro_batches=ONCE,
    )
    return float(sent.network_ms)


@pytest.mark.parametrize(
    ("name", "tp", "gb_s"),
    [("H100-NVL", 2, 300), ("H100-NVL", 4, 64), ("H100-NVL", 8, 64), ("L40S", 2, 32), ("RTX-PRO-6000", 8, 64)],
)
def test_an_all_reduce_runs_over_the_slowest_link_of_its_group(name: str, tp: int, gb_s: float) -> None:
    dev = rates(gpu(name))
    one_group = {"tp": np.array(float(tp)), "dp": ONCE, "micro_batches": ONCE}
    part = all_reduce_part(dev, model("llama-3.1-70b"), tokens=TOKENS, **one_group)
    sent = 2 * LAYERS * float(TOKENS) * HIDDEN * 2 * 2 * (tp - 1) / tp
    share = efficiency_of(gpu(name), None).nvlink
    assert float(part.network_ms) == pytest.approx(sent / (gb_s * 1e6 * share))


def test_experts_within_a_host_of_pairs_are_reached_over_pcie_and_not_over_the_nic() -> None:
    slower = replace(PAIRS, nic_gb_s=PAIRS.nic_gb_s / 10)
    assert dispatch_ms(PAIRS, 8) == dispatch_ms(slower, 8)
    reached = [(d - 1) * (1 - (1 - 1 / d) ** 8) for d in (2, 8)]  # other GPUs that have one of a token's eight experts
    assert dispatch_ms(PAIRS, 8) / dispatch_ms(PAIRS, 2) == pytest.approx(300 / 64 * reached[1] / reached[0])
    assert dispatch_ms(slower, 16) == pytest.approx(10 * dispatch_ms(PAIRS, 16))


def test_stages_of_one_host_hand_over_over_pcie() -> None:
    served, settings = model("llama-3.1-70b"), CostSettings()
    two, eight, sixteen = (
        float(
            transfer_part(
                rates(PAIRS), served, settings, tokens=TOKENS, tp=ONCE, pp=np.array(2.0), stage_devices=np.array(stage)
            ).network_ms
        )
        for stage in (1.0, 4.0, 8.0)
    )
    assert eight / two == pytest.approx(300 / 64)
    assert sixteen > eight


def test_without_a_link_between_them_domains_of_a_host_use_the_nic() -> None:
    """As before the figure was known."""
    alone = replace(PAIRS, host_link_gb_s=0.0)
    assert (alone.linked_gpus, PAIRS.linked_gpus, gpu("GB200-NVL72").linked_gpus) == (2, 8, 72)
    slower = replace(alone, nic_gb_s=alone.nic_gb_s / 10)
    assert dispatch_ms(slower, 8) == pytest.approx(10 * dispatch_ms(alone, 8))
