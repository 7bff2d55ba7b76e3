"""Random models, GPUs and configurations for property tests, and the least time that physics leaves a step."""

from dataclasses import dataclass

from cost_figures import GPU_NAMES, gpu
from hypothesis import strategies as st

from planner.domain import (
    PHASES,
    CostSettings,
    Experts,
    GpuSpec,
    GroupedAttention,
    MlaAttention,
    ModelSpec,
    Phase,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One step of one model on one GPU type."""

    spec: GpuSpec
    shape: ModelSpec
    settings: CostSettings
    phase: Phase
    tp: int
    dp: int
    pp: int
    length: int
    batch: int
    cached: float

    @property
    def tokens(self) -> float:
        """New tokens of an attention group in one pass."""
        if self.phase is Phase.PREFILL:
            return self.length * (1 - self.cached) * self.batch
        return self.batch / self.pp * (1 + self.settings.mtp_tokens)

    @property
    def gained(self) -> float:
        """Tokens that a pass yields a sequence."""
        drafted = range(self.settings.mtp_tokens + 1) if self.phase is Phase.DECODE else range(1)
        return sum(self.settings.mtp_acceptance**k for k in drafted)


@st.composite
def random_models(draw: st.DrawFn) -> ModelSpec:
    """Latent or grouped attention, with and without windows, experts, dense layers; any precision."""
    layers = draw(st.integers(2, 96))
    heads = draw(st.sampled_from([16, 32, 64, 128]))
    if draw(st.booleans()):
        attention: MlaAttention | GroupedAttention = MlaAttention(
            heads=heads,
            query_rank=draw(st.sampled_from([0, 1536])),
            kv_rank=draw(st.sampled_from([256, 512])),
            nope_dim=128,
            rope_dim=64,
            value_dim=128,
        )
    else:
        attention = GroupedAttention(
            heads=heads,
            kv_heads=draw(st.sampled_from([4, 8, 16])),
            head_dim=draw(st.sampled_from([64, 128])),
            window=128,
            windowed_layers=draw(st.sampled_from([0, layers // 2])),
        )
    routed = draw(st.sampled_from([0, 8, 64, 256, 384]))
    experts = None
    if routed:
        experts = Experts(
            routed=routed,
            active=draw(st.integers(1, 8)),
            shared=draw(st.integers(0, 2)),
            ffn_size=draw(st.sampled_from([768, 2048, 14336])),
            node_limit=draw(st.sampled_from([0, 4])),
        )
    first_dense = draw(st.integers(0, layers - 1))
    return ModelSpec(
        name="random",
        uri="",
        hidden_size=draw(st.sampled_from([2048, 4096, 7168])),
        layers=layers,
        moe_layer_indices=tuple(range(first_dense, layers)) if experts else (),
        dense_ffn_size=draw(st.sampled_from([8192, 28672])),
        attention=attention,
        experts=experts,
        vocab_size=128_000,
        max_context=131_072,
        weight_bytes=draw(st.sampled_from([0.53125, 1.0, 2.0])),
        expert_bytes=draw(st.sampled_from([0.53125, 1.0, 2.0])),
        kv_bytes=draw(st.sampled_from([1.0, 2.0])),
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A step with every condition drawn; dense models in one group."""
    shape, phase = draw(random_models()), draw(st.sampled_from(PHASES))
    tp = draw(st.sampled_from([1, 2, 4]))
    most = shape.experts.routed // tp if shape.experts else 1
    pp = draw(st.sampled_from([1, 2]))
    settings = CostSettings(
        max_tokens_per_step=draw(st.sampled_from([2048, 16384])),
        two_micro_batches=draw(st.booleans()),
        balanced_experts=draw(st.booleans()),
        redundant_experts=draw(st.sampled_from([0, 32])) if shape.experts else 0,
        mtp_tokens=draw(st.integers(0, 2)),
        gpus_per_switch=draw(st.sampled_from([16, 256])),
    )
    return Case(
        spec=gpu(draw(st.sampled_from(GPU_NAMES))),
        shape=shape,
        settings=settings,
        phase=phase,
        tp=tp,
        dp=min(most, draw(st.integers(1, 40))),
        pp=pp,
        length=draw(st.integers(1, 60_000)),
        batch=pp * draw(st.integers(1, 512 if phase is Phase.DECODE else 16)),
        cached=draw(st.sampled_from([0.0, 0.5, 0.9])) if phase is Phase.PREFILL else 0.0,
    )


def peak(spec: GpuSpec, stored: float) -> float:
    """Data-sheet FLOP/ms for weights of so many bytes."""
    native = spec.fp4_tflops if stored < 0.6 else spec.fp8_tflops if stored <= 1 else spec.fp16_tflops
    return (native or spec.fp16_tflops) * 1e9


def least_compute_ms(case: Case) -> float:
    """Every multiplication of a pass at the data sheet's rate, shared evenly by the GPUs of a group."""
    m, n = case.shape, case.tokens
    split = (
        m.layers * m.attention.parameters(m.hidden_size)
        + (m.layers - m.moe_layers) * 3 * m.hidden_size * m.dense_ffn_size
    )
    if isinstance(m.attention, MlaAttention) and case.phase is Phase.DECODE:
        a = m.attention  # absorbed: the expansion of keys and values is applied to the query and the result
        width, full_layers = 2 * a.kv_rank + a.rope_dim, m.layers
    elif isinstance(m.attention, MlaAttention):
        width, full_layers = m.attention.nope_dim + m.attention.rope_dim + m.attention.value_dim, m.layers
    else:
        width, full_layers = 2 * m.attention.head_dim, m.layers - m.attention.windowed_layers
    seen = case.length - (n / case.batch - 1) / 2 if case.phase is Phase.PREFILL else case.length
    scores = full_layers * m.attention.heads * width * n * seen
    visited = m.experts.active + m.experts.shared if m.experts else 0
    experts = m.moe_layers * visited * m.expert_parameters
    work = split * n / peak(case.spec, m.weight_bytes) + experts * n / peak(case.spec, m.expert_bytes)
    return 2 * (work + scores / peak(case.spec, 2)) / case.tp


def least_memory_ms(case: Case) -> float:
    """Weights that a pass needs, read once at the data sheet's rate, and in decode the cache."""
    m, devices = case.shape, case.tp * case.dp
    size = m.layers * m.attention.parameters(m.hidden_size) / case.tp * m.weight_bytes
    if m.experts:
        visited = 1 - (1 - m.experts.active / m.experts.routed) ** (case.tokens * case.dp)
        held = m.experts.routed / devices * visited + m.experts.shared
        size += m.moe_layers * held * m.expert_parameters * m.expert_bytes
    if case.phase is Phase.DECODE and isinstance(m.attention, MlaAttention):
        size += case.batch / case.pp * case.length * m.layers * m.attention.kv_width * m.kv_bytes
    return size / (case.spec.memory_gb_s * 1e6)
