"""What images take of the tower that turns them into prompt tokens, on one GPU of a group.

| symbol | meaning | unit |
|---|---|---|
| P, W | parameters of the tower, width of all its layers together | 1 |
| x, m | prompt tokens of an image, patches that become one: `tokens_per_image`, `tower_patches` | tokens, 1 |
| i | images of a prompt of s tokens: `images_per_request`, at most s / x | 1 |

FLOPs of an image = 2 P m x + 4 W (m x)^2, as every patch sees all of its image; over tp GPUs, as engines split towers.
An image is read with the prompt it stands in, one after the other; what the prefix cache holds of a prompt, images in
it are part of. Products run at the rate of GEMMs over m x rows at 16 bits, the rest at that of attention. Towers whose
layers see windows of an image (Qwen2.5-VL), and the memory that an encoder's cache takes, are not told apart.
"""

import numpy as np

from planner.cost.arrays import Array, as_array
from planner.cost.device import Device
from planner.cost.efficiency import saturation
from planner.cost.parts import Part
from planner.domain import CostSettings, ModelSpec
from planner.domain.model.spec import EMBEDDING_BYTES


def image_parts(
    dev: Device, model: ModelSpec, settings: CostSettings, *, prompts: Array, length: Array, tp: Array, passes: Array
) -> tuple[Part, ...]:
    """Of `prompts` prompts of `length` tokens (a part of a prompt counts as a part) in so many passes; none where no
    images come."""
    if not settings.images_per_request:
        return ()
    images = prompts * np.minimum(settings.images_per_request, length / settings.tokens_per_image)
    patches, eff = as_array(settings.tokens_per_image * model.tower_patches), dev.efficiency
    products = images * 2 * model.tower_parameters * patches / tp
    scores = images * 4 * model.tower_width * patches**2 / tp
    moved = np.minimum(passes, images) * model.tower_parameters * EMBEDDING_BYTES / tp
    reached = dev.fp16 * eff.gemm * saturation(patches, eff.gemm_half)
    return (
        Part(
            name="images",
            compute_ms=products / reached + scores / (dev.fp16 * eff.attention_prefill),
            memory_ms=moved / dev.memory,
            flops=products + scores,
            bytes=moved,
        ),
    )
