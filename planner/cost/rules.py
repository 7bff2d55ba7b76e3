"""What distinguishes the default cost model from the published simulator: one named switch a defect.

`REFERENCE` switches every defect on, so that it agrees with Shallowsim digit by digit; `DEFAULT` switches all off.
Numbers in brackets are those of the list of defects in the facts on the cost model.
"""

from dataclasses import dataclass

from planner.domain import CostMode


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Switches; True is Shallowsim's behaviour, False the mended one.

        h20_by_substring          [1] any device with "H20" in its name follows the H20's expert efficiency
        dispatch_always_halved    [2] prefill dispatch is halved on every device, not only where FP4 travels
        batch_per_gpu             [3] decode: attention divides by tp a batch that experts and memory take as per GPU
        fp4_attention_for_free    [4] FP4 devices skip kernel efficiency and weight load in attention
        literal_memory_sizes      [5] memory from DeepSeek-V3's literals instead of the model's shape
        memory_unchecked          [6] prefill never asks whether the weights fit
        stepped_efficiency        [7] expert efficiency jumps at powers of two
        four_nodes_always         [8] prefill all-to-all over three other nodes, whatever the island's size
        cache_hit_on_kv_only      [9] a prefix hit saves the KV down-projection only
        full_square_attention    [10] prefill attention counts masked positions
        listed_memory_bandwidth  [11] memory bandwidth as Shallowsim lists it
        fp4_wherever_supported   [12] FP4 arithmetic and half the expert load on FP4 devices, whatever the weights are
        peak_prefill_experts     [13] prefill experts run at the full derated rate, without kernel efficiency
        memory_at_midpoint       [14] what fits is asked for a range's midpoint, not for its longest prompt

    Scenarios choose one of the two sets; a single switch is for comparing an old number with a new one. What belongs
    to no defect but to the paper's way of counting rates goes with the switch that is nearest to it.
    """

    h20_by_substring: bool
    dispatch_always_halved: bool
    batch_per_gpu: bool
    fp4_attention_for_free: bool
    literal_memory_sizes: bool
    memory_unchecked: bool
    stepped_efficiency: bool
    four_nodes_always: bool
    cache_hit_on_kv_only: bool
    full_square_attention: bool
    listed_memory_bandwidth: bool
    fp4_wherever_supported: bool
    peak_prefill_experts: bool
    memory_at_midpoint: bool


def _all(value: bool) -> Rules:
    return Rules(**dict.fromkeys(Rules.__dataclass_fields__, value))


REFERENCE = _all(True)
DEFAULT = _all(False)


def rules_of(mode: CostMode) -> Rules:
    """The switches of a scenario's cost mode."""
    return REFERENCE if mode is CostMode.REFERENCE else DEFAULT
