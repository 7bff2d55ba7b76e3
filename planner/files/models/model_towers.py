"""Weights of towers: what reads images and hands on prompt tokens, by the `vision_config` of a config.json.

| symbol | meaning | unit |
|---|---|---|
| h, i, n | width, width of the feed-forward blocks, layers | 1 |
| p, c | side of a patch, colours (times frames of a patch) | 1 |
| m | patches that become one prompt token | 1 |
| d | width of the language model | 1 |

tower = n (4 h^2 + k h i) + c p^2 h + positions h + projector, k = 2, with a gate 3. Biases and norms are left out.
Rules of each family: its `modeling_*.py` in transformers 5.23.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from planner.files.models.model_documents import ModelSection


def tower_parameters(config: ModelSection) -> int:
    """Weights of the tower (count); 0 without one, or where the config says nothing of it."""
    architecture = config.texts("architectures")[0]
    if config.is_empty("vision_config") or architecture not in _TOWERS:
        return 0
    return _TOWERS[architecture](config, config.inner("vision_config"))


_LAYERS, _WIDTHS = ("depth", "vt_num_hidden_layers", "num_hidden_layers"), ("hidden_size", "vt_hidden_size")
_SIDES = ("spatial_merge_size", "pooling_kernel_size")  # of the square of patches that become one prompt token
_USUAL_SIDE = 2


def tower_shape(config: ModelSection) -> tuple[int, int]:
    """Width of all layers of the tower together, and patches that become one prompt token; 0 and 0 where its weights
    are not known."""
    if not tower_parameters(config):
        return 0, 0
    tower = config.inner("vision_config")
    layers, width = (next(_size(tower, key) for key in keys if key in tower) for keys in (_LAYERS, _WIDTHS))
    side = next((_size(tower, key) for key in _SIDES if key in tower), _USUAL_SIDE)
    return layers * width, side * side


def _size(section: ModelSection, key: str) -> int:
    return section.integer(key, low=1)


def _blocks(tower: ModelSection, layers: str, width: str, ffn: str, matrices: int = 2) -> int:
    h = _size(tower, width)
    return _size(tower, layers) * (4 * h * h + matrices * h * _size(tower, ffn))


def _qwen3(_config: ModelSection, tower: ModelSection) -> int:
    """One merger at the end, and one for every layer whose output goes deeper into the language model."""
    h, merged = _size(tower, "hidden_size"), _size(tower, "spatial_merge_size") ** 2
    wide = h * merged
    key = "deepstack_visual_indexes"
    mergers = 1 + (0 if tower.is_empty(key) else len(tower.integers(key, low=0, high=10_000)))
    patch = _size(tower, "in_channels") * _size(tower, "temporal_patch_size") * _size(tower, "patch_size") ** 2 * h
    positions = _size(tower, "num_position_embeddings") * h
    merger = wide * (wide + _size(tower, "out_hidden_size"))
    return _blocks(tower, "depth", "hidden_size", "intermediate_size") + patch + positions + mergers * merger


_KIMI_MERGED = 4  # patches, 2 x 2, that MoonViT's projector joins
_COLOURS = 3


def _kimi(config: ModelSection, tower: ModelSection) -> int:
    h, d = _size(tower, "vt_hidden_size"), _size(config.inner("text_config"), "hidden_size")
    patch = _COLOURS * _size(tower, "patch_size") ** 2 * h
    positions = _size(tower, "init_pos_emb_height") * _size(tower, "init_pos_emb_width") * h
    projector = _KIMI_MERGED * h * (_KIMI_MERGED * h + d)
    blocks = _blocks(tower, "vt_num_hidden_layers", "vt_hidden_size", "vt_intermediate_size")
    return blocks + patch + positions + projector


def _kimi_k3(config: ModelSection, tower: ModelSection) -> int:
    """As `_kimi`, with attention of a width of its own."""
    h, wide = _size(tower, "vt_hidden_size"), _size(tower, "qkv_hidden_size")
    return _kimi(config, tower) + _size(tower, "vt_num_hidden_layers") * 4 * h * (wide - h)


def _gemma3(config: ModelSection, tower: ModelSection) -> int:
    h, d = _size(tower, "hidden_size"), _size(config.inner("text_config"), "hidden_size")
    patch = _size(tower, "patch_size")
    positions = (_size(tower, "image_size") // patch) ** 2 * h
    blocks = _blocks(tower, "num_hidden_layers", "hidden_size", "intermediate_size")
    return blocks + _COLOURS * patch**2 * h + positions + h * d


def _gemma4(config: ModelSection, tower: ModelSection) -> int:
    h, d = _size(tower, "hidden_size"), _size(config.inner("text_config"), "hidden_size")
    patch = _COLOURS * _size(tower, "patch_size") ** 2 * h
    positions = 2 * _size(tower, "position_embedding_size") * h
    return _blocks(tower, "num_hidden_layers", "hidden_size", "intermediate_size", 3) + patch + positions + h * d


def _llama4(config: ModelSection, tower: ModelSection) -> int:
    """Patches are joined, and go through two layers and the projector."""
    h, d = _size(tower, "hidden_size"), _size(config.inner("text_config"), "hidden_size")
    patch, joined = _size(tower, "patch_size"), _size(tower, "projector_input_dim")
    positions = ((_size(tower, "image_size") // patch) ** 2 + 1) * h
    adapter = joined * (_size(tower, "intermediate_size") + _size(tower, "projector_output_dim"))
    projector = d * _size(tower, "vision_output_dim")
    blocks = _blocks(tower, "num_hidden_layers", "hidden_size", "intermediate_size")
    return blocks + _COLOURS * patch**2 * h + positions + adapter + projector


def _minimax_m3(config: ModelSection, tower: ModelSection) -> int:
    """Two layers for each patch, two more for those that are joined; positions turn."""
    h, d = _size(tower, "hidden_size"), _size(config.inner("text_config"), "hidden_size")
    joining, wide = tower.inner("img_token_compression_config"), _size(config, "projector_hidden_size")
    frames, merged = _size(joining, "temporal_patch_size"), _size(joining, "spatial_merge_size") ** 2
    patch = _COLOURS * frames * _size(tower, "patch_size") ** 2 * h
    projector = h * wide + wide * d + merged * d * wide + wide * d
    return _blocks(tower, "num_hidden_layers", "hidden_size", "intermediate_size") + patch + projector


_TOWERS: Mapping[str, Callable[[ModelSection, ModelSection], int]] = MappingProxyType(
    {
        "Gemma3ForConditionalGeneration": _gemma3,
        "Gemma4ForConditionalGeneration": _gemma4,
        "KimiK25ForConditionalGeneration": _kimi,
        "KimiK3ForConditionalGeneration": _kimi_k3,
        "Llama4ForConditionalGeneration": _llama4,
        "MiniMaxM3SparseForConditionalGeneration": _minimax_m3,
        "Qwen3_5ForConditionalGeneration": _qwen3,
        "Qwen3_5MoeForConditionalGeneration": _qwen3,
        "Qwen3VLForConditionalGeneration": _qwen3,
        "Qwen3VLMoeForConditionalGeneration": _qwen3,
    }
)
