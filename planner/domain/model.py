"""Model shapes: what the cost formulas need to know of a network, and nothing of how it is served."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MlaAttention:
    """Multi-head latent attention. `kv_rank` is the width of the compressed KV, `rope_dim` of its rotary part."""

    heads: int
    query_rank: int
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int

    def parameters(self, hidden_size: int) -> int:
        """Weights of one layer's attention (count), output projection included."""
        query = hidden_size * self.query_rank + self.query_rank * self.heads * (self.nope_dim + self.rope_dim)
        kv = hidden_size * (self.kv_rank + self.rope_dim) + self.kv_rank * self.heads * (self.nope_dim + self.value_dim)
        return query + kv + self.heads * self.value_dim * hidden_size

    @property
    def kv_width(self) -> int:
        """Cached elements per token and layer; all heads share them, so tensor parallelism does not divide them."""
        return self.kv_rank + self.rope_dim


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """The mixture-of-experts block of a layer: `active` of `routed` experts see a token, `shared` see every token."""

    routed: int
    active: int
    shared: int
    ffn_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A model's shape. The first `dense_layers` of `layers` carry a dense FFN, the others experts.

    `weight_bytes` and `kv_bytes` are bytes per element (1 = FP8, 2 = BF16); embeddings stay at 2 bytes.
    `uri` is where an engine loads the weights from.
    """

    name: str
    uri: str
    hidden_size: int
    layers: int
    dense_layers: int
    dense_ffn_size: int
    attention: MlaAttention
    experts: Experts
    vocab_size: int
    max_context: int
    weight_bytes: float = 1.0
    kv_bytes: float = 1.0
    source: str = ""

    @property
    def moe_layers(self) -> int:
        """Layers with experts (count)."""
        return self.layers - self.dense_layers

    @property
    def expert_parameters(self) -> int:
        """Weights of one expert (count): gate, up and down projection."""
        return 3 * self.hidden_size * self.experts.ffn_size

    @property
    def dense_ffn_parameters(self) -> int:
        """Weights of one dense FFN (count)."""
        return 3 * self.hidden_size * self.dense_ffn_size

    @property
    def embedding_parameters(self) -> int:
        """Input embedding and output head (count)."""
        return 2 * self.vocab_size * self.hidden_size

    @property
    def parameters(self) -> int:
        """All weights (count) except norms and the router, below 0.1 % of the whole."""
        attention = self.layers * self.attention.parameters(self.hidden_size)
        experts = self.moe_layers * (self.experts.routed + self.experts.shared) * self.expert_parameters
        return attention + experts + self.dense_layers * self.dense_ffn_parameters + self.embedding_parameters

    @property
    def weights_gb(self) -> float:
        """Size of the weights (GB, 10^9 bytes)."""
        body = (self.parameters - self.embedding_parameters) * self.weight_bytes
        return (body + 2 * self.embedding_parameters) / 1e9

    @property
    def kv_bytes_per_token(self) -> float:
        """KV cache of one token over all layers (bytes)."""
        return self.layers * self.attention.kv_width * self.kv_bytes
