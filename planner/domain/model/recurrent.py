"""Layers that keep a state of constant size in place of keys and values: linear attention, Mamba2.

| symbol | meaning | unit |
|---|---|---|
| d | width of the model | 1 |
| K, V | heads of keys, of values | 1 |
| k, v | width of a key head, of a value head | 1 |
| c | tokens that the short convolution sees | tokens |

state = V k v elements (of linear attention), heads head_dim state (of Mamba2), and (c - 1) rows of what is convolved.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from planner.domain.keys import Bounds
from planner.domain.model.sizes import Size, SizeOrNone

CONVOLUTION_BYTES = 2
_StateBytes = Annotated[float, Bounds(above=0, high=8)]


class _Recurrent:
    """What layers with a state have in common."""

    __slots__ = ()

    if TYPE_CHECKING:  # what each kind has of its own

        @property
        def heads(self) -> int:
            """Over what a tensor-parallel group splits it."""

        @property
        def held_bytes(self) -> float:
            """State of a sequence and layer (bytes)."""

        def matrices(self, hidden_size: int) -> dict[str, int]:
            """Weights of one layer (count) by the names that checkpoints have for them."""

    def parameters(self, hidden_size: int) -> int:
        """Weights of one layer (count)."""
        return sum(self.matrices(hidden_size).values())

    @property
    def chooses(self) -> bool:
        """Whether an indexer of its own chooses what its queries see."""
        return False

    @property
    def divisible_kv_heads(self) -> int:
        """Over how many GPUs of a tensor-parallel group the state can be spread."""
        return self.heads

    def cached_bytes_per_token(self, kv_bytes: float) -> float:  # noqa: ARG002 - the seam's
        """None: the state is of constant size."""
        return 0.0

    def cached_bytes(self, tokens: float, kv_bytes: float) -> float:  # noqa: ARG002 - the seam's
        """State of a sequence and layer (bytes), however long it is."""
        return self.held_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearAttention(_Recurrent):
    """Linear attention by the gated delta rule, with a short convolution. `state_bytes`: of an element of the state.

    `channels`: each channel of a key has a decay of its own (Kimi delta attention), not each head. `decay_rank`,
    `gate_rank`: width by which those decays and the output's gate are projected (0: directly).
    """

    key_heads: Size
    value_heads: Size
    key_dim: Size
    value_dim: Size
    convolution: Size
    state_bytes: _StateBytes = 4.0
    channels: bool = False
    decay_rank: SizeOrNone = 0
    gate_rank: SizeOrNone = 0

    @property
    def heads(self) -> int:
        """Over what a tensor-parallel group splits it."""
        return self.key_heads

    @property
    def convolved(self) -> int:
        """Elements of a token that are convolved: queries, keys and values."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim

    @property
    def output(self) -> int:
        """Elements of a token before the output projection."""
        return self.value_heads * self.value_dim

    def matrices(self, hidden_size: int) -> dict[str, int]:
        """Weights of one layer (count) by the names that checkpoints have for them."""
        if self.channels:
            return self._by_channels(hidden_size)
        return {
            "in_proj_qkv": hidden_size * self.convolved,
            "in_proj_z": hidden_size * self.output,  # the output's gate
            "in_proj_b": hidden_size * self.value_heads,  # learning rates
            "in_proj_a": hidden_size * self.value_heads,  # decays
            "conv1d": self.convolved * self.convolution,
            "out_proj": self.output * hidden_size,
        }

    def _by_channels(self, hidden_size: int) -> dict[str, int]:
        keys = self.key_heads * self.key_dim
        return {
            "q_proj": hidden_size * keys,
            "k_proj": hidden_size * keys,
            "v_proj": hidden_size * self.output,
            "b_proj": hidden_size * self.value_heads,  # learning rates
            **_projected("f", hidden_size, self.decay_rank, keys),
            **_projected("g", hidden_size, self.gate_rank, self.output),
            "conv1d": self.convolved * self.convolution,
            "o_proj": self.output * hidden_size,
        }

    @property
    def measured(self) -> bool:
        """Whether runs of models with such layers are among the measurements that rates are fitted to."""
        return not self.channels

    @property
    def words(self) -> str:
        """What it is called in tables."""
        rule = "Kimi delta" if self.channels else "gated delta"
        return f"{rule}, {self.value_heads} heads, state {self.key_dim} x {self.value_dim}"

    @property
    def held_bytes(self) -> float:
        """State of a sequence and layer (bytes)."""
        state = self.value_heads * self.key_dim * self.value_dim * self.state_bytes
        return state + (self.convolution - 1) * self.convolved * CONVOLUTION_BYTES


def _projected(name: str, hidden_size: int, rank: int, width: int) -> dict[str, int]:
    """Weights of a projection, or of the two that go by a smaller width."""
    if not rank:
        return {f"{name}_proj": hidden_size * width}
    return {f"{name}_a_proj": hidden_size * rank, f"{name}_b_proj": rank * width}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba2(_Recurrent):
    """A state-space layer. `groups` of heads share what reads and writes the state; `state`: its width a channel."""

    heads: Size
    head_dim: Size
    state: Size
    groups: Size
    convolution: Size
    state_bytes: _StateBytes = 4.0

    @property
    def inner(self) -> int:
        """Channels."""
        return self.heads * self.head_dim

    @property
    def convolved(self) -> int:
        """Elements of a token that are convolved."""
        return self.inner + 2 * self.groups * self.state

    def matrices(self, hidden_size: int) -> dict[str, int]:
        """Weights of one layer (count) by the names that checkpoints have for them."""
        return {
            "in_proj": hidden_size * (self.inner + self.convolved + self.heads),
            "conv1d": self.convolved * self.convolution,
            "out_proj": self.inner * hidden_size,
        }

    @property
    def measured(self) -> bool:
        """Whether runs of models with such layers are among the measurements that rates are fitted to."""
        return False

    @property
    def words(self) -> str:
        """What it is called in tables."""
        return f"Mamba2, {self.heads} heads, state {self.head_dim} x {self.state}"

    @property
    def held_bytes(self) -> float:
        """State of a sequence and layer (bytes)."""
        state = self.inner * self.state * self.state_bytes
        return state + (self.convolution - 1) * self.convolved * CONVOLUTION_BYTES
