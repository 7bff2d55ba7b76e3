"""Random models, GPUs and configurations for property tests, and the least time that physics leaves a step."""

from dataclasses import dataclass, replace

from cost_figures import GPU_NAMES, gpu
from hypothesis import strategies as st

from planner.domain import (
    PHASES,
    CostSettings,
    DenseFfn,
    Experts,
    GpuSpec,
    GroupedAttention,
    MlaAttention,
    ModelSpec,
    Phase,
)
from planner.files.models.model_architectures import grouped_layers


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
    first_dense = draw(st.integers(0, layers - 1)) if experts else layers
    dense = DenseFfn(size=draw(st.sampled_from([8192, 28672])))
    windowed = draw(st.sampled_from([0, layers // 2])) if isinstance(attention, GroupedAttention) else 0
    kinds = (
        (replace(attention, window=128) if layer < windowed else attention, dense if layer < first_dense else experts)
        for layer in range(layers)
    )
    return ModelSpec(
        name="random",
        uri="",
        hidden_size=draw(st.sampled_from([2048, 4096, 7168])),
        groups=grouped_layers(kinds),
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


def full_attention(m: ModelSpec) -> tuple[MlaAttention | GroupedAttention, int]:
    """The attention of layers that see all tokens, and how many there are."""
    layers = [(kind, count) for kind, count in m.attentions if not getattr(kind, "window", 0)]
    return layers[0][0], sum(count for _, count in layers)


def least_compute_ms(case: Case) -> float:
    """Every multiplication of a pass at the data sheet's rate, shared evenly by the GPUs of a group."""
    m, n = case.shape, case.tokens
    split = sum(
        group.count * (group.attention.parameters(m.hidden_size) + getattr(group.ffn, "size", 0) * 3 * m.hidden_size)
        for group in m.groups
    )
    a, full_layers = full_attention(m)
    if isinstance(a, MlaAttention) and case.phase is Phase.DECODE:
        width = 2 * a.kv_rank + a.rope_dim  # absorbed: keys and values are expanded on the query and the result
    elif isinstance(a, MlaAttention):
        width = a.nope_dim + a.rope_dim + a.value_dim
    else:
        width = 2 * a.head_dim
    seen = case.length - (n / case.batch - 1) / 2 if case.phase is Phase.PREFILL else case.length
    scores = full_layers * a.heads * width * n * seen
    visited = m.experts.active + m.experts.shared if m.experts else 0
    experts = m.moe_layers * visited * m.expert_parameters
    work = split * n / peak(case.spec, m.weight_bytes) + experts * n / peak(case.spec, m.expert_bytes)
    return 2 * (work + scores / peak(case.spec, 2)) / case.tp


def least_memory_ms(case: Case) -> float:
    """Weights that a pass needs, read once at the data sheet's rate, and in decode the cache."""
    m, devices = case.shape, case.tp * case.dp
    a, full_layers = full_attention(m)
    size = m.layers * a.parameters(m.hidden_size) / case.tp * m.weight_bytes
    if m.experts:
        visited = 1 - (1 - m.experts.active / m.experts.routed) ** (case.tokens * case.dp)
        held = m.experts.routed / devices * visited + m.experts.shared
        size += m.moe_layers * held * m.expert_parameters * m.expert_bytes
    if case.phase is Phase.DECODE and isinstance(a, MlaAttention):
        size += case.batch / case.pp * case.length * full_layers * a.kv_width * m.kv_bytes
    return size / (case.spec.memory_gb_s * 1e6)
