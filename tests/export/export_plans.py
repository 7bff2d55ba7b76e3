"""Plans by hand, for the export's tests: round numbers, two GPU types, every figure made up but plausible."""

from dataclasses import replace

from planner.domain import (
    PHASES,
    CostSettings,
    DenseFfn,
    Experts,
    GpuSpec,
    GroupedAttention,
    Inventory,
    InventoryItem,
    LayerGroup,
    LengthProfile,
    MlaAttention,
    ModelSpec,
    ParallelConfig,
    Phase,
    Plan,
    PlannedIsland,
    Provenance,
    Route,
    Scenario,
    SearchRecord,
)

LATENT = MlaAttention(heads=128, query_rank=1536, kv_rank=512, nope_dim=128, rope_dim=64, value_dim=128)
MODEL = ModelSpec(
    name="deepseek-v3",
    uri="hf://deepseek-ai/DeepSeek-V3",
    hidden_size=7168,
    groups=(
        LayerGroup(count=3, attention=LATENT, ffn=DenseFfn(size=18432)),
        LayerGroup(count=58, attention=LATENT, ffn=Experts(routed=256, active=8, shared=1, ffn_size=2048)),
    ),
    vocab_size=129280,
    max_context=163840,
)

# no width that a number of GPUs could fail to divide, for what is about pods and exchanges
UNSHARED = replace(
    MODEL,
    name="deepseek-unshared",
    groups=(
        MODEL.groups[0],
        replace(MODEL.groups[1], ffn=Experts(routed=256, active=8, shared=0, ffn_size=2048)),
    ),
)


def dense_layers(attention: GroupedAttention, ffn_size: int = 28672) -> tuple[LayerGroup, ...]:
    """Eighty equal layers without experts."""
    return (LayerGroup(count=80, attention=attention, ffn=DenseFfn(size=ffn_size)),)


DENSE = replace(
    MODEL,
    name="dense-70b",
    uri="hf://example/dense-70b",
    groups=dense_layers(GroupedAttention(heads=64, kv_heads=8, head_dim=128)),
)


def gpu(name: str, **changes: object) -> GpuSpec:
    """A GPU type with its own node label."""
    spec = GpuSpec(
        name=name,
        vendor="NVIDIA",
        sms=132,
        sms_for_communication=20,
        fp16_tflops=900.0,
        fp8_tflops=1800.0,
        fp4_tflops=0.0,
        memory_gb=141.0,
        memory_gb_s=4000.0,
        reference_memory_gb_s=4000.0,
        nvlink_gb_s=400.0,
        nic_gb_s=50.0,
        gpus_per_nvlink_domain=8,
        gpus_per_host=8,
        idle_w=100.0,
        max_w=700.0,
        compute_capability=9.0,
        node_selector=(("nvidia.com/gpu.product", f"NVIDIA-{name}"),),
    )
    return replace(spec, **changes)  # type: ignore[arg-type]  # the keys are GpuSpec's own


def island(
    name: str,
    kind: str,
    phase: Phase | None,
    parallel: ParallelConfig | None,
    *,
    batch_size: int = 64,
    size: int | None = None,
) -> PlannedIsland:
    """An island that `parallel` fills."""
    assert parallel is not None or size is not None
    return PlannedIsland(
        id=name,
        gpu=kind,
        size=parallel.size if size is None and parallel is not None else size or 0,
        phase=phase,
        parallel=parallel,
        batch_size=batch_size,
        longest_prompt=4095,
        rate_rps=12.5,
        utilisation=0.75,
        price_usd_per_hour=10.0,
    )


def route(name: str, phase: Phase, start: int, share: float, width: int = 2048) -> Route:
    """One cell of the routing table."""
    return Route(
        phase=phase,
        range_start=start,
        range_end=start + width,
        probability=0.5,
        island=name,
        share=share,
        rate_rps=share * 5.0,
        assigned_rps=20.0,
        capacity_rps=20.0,
        batch_size=64,
        step_ms=30.0,
    )


def even_routes(islands: tuple[PlannedIsland, ...]) -> tuple[Route, ...]:
    """Two ranges, each shared evenly by the islands of a phase."""
    rows = []
    for phase in PHASES:
        serving = [i for i in islands if i.phase is phase]
        rows += [route(i.id, phase, start, 1 / len(serving)) for start in (0, 2048) for i in serving]
    return tuple(rows)


def plan_of(
    islands: tuple[PlannedIsland, ...],
    *,
    gpus: tuple[GpuSpec, ...] | None = None,
    name: str = "mixed-fleet",
    model: ModelSpec = MODEL,
    routing: tuple[Route, ...] | None = None,
    cost: CostSettings | None = None,
) -> Plan:
    """A plan with these islands and, unless given, an even routing table."""
    types = gpus or (gpu("H20"), gpu("H200"))
    counts = {g.name: sum(i.size for i in islands if i.gpu == g.name) for g in types}
    items = tuple(InventoryItem(gpu=g, count=counts[g.name], price_usd_per_gpu_hour=1.0) for g in types)
    workload = LengthProfile(
        name="chat",
        input_tokens=(1000, 3000),
        probabilities=(0.5, 0.5),
        output_tokens=(),
        mean_output_tokens=300.0,
        max_output_tokens=2000,
    )
    scenario = Scenario(
        name=name, model=model, workload=workload, inventory=Inventory(items=items), cost=cost or CostSettings()
    )
    return Plan(
        scenario=scenario,
        throughput_rps=10.0,
        prefill_rps=12.0,
        decode_rps=10.0,
        objective_rps=10.0,
        deviation_rps=0.0,
        optimal=True,
        islands=islands,
        routing=even_routes(islands) if routing is None else routing,
        search=SearchRecord(trials=(), best_trial=0),
        provenance=Provenance(
            planner_version="0",
            python_version="3",
            libraries=(),
            solver="",
            seed=0,
            cost_mode="default",
            input_hashes=(),
        ),
    )


PREFILL = island("H200-0", "H200", Phase.PREFILL, ParallelConfig(tp=4, dp=4, replicas=2), batch_size=2)
DECODE = island("H20-0", "H20", Phase.DECODE, ParallelConfig(tp=1, dp=32))
SMALL_DECODE = island("H20-1", "H20", Phase.DECODE, ParallelConfig(tp=8, dp=1), batch_size=16)
IDLE = island("H20-2", "H20", None, None, size=3)


def example_plan(name: str = "mixed-fleet") -> Plan:
    """Four islands: prefill in two groups of two pods, wide decode, small decode, and one idle."""
    return plan_of((PREFILL, DECODE, SMALL_DECODE, IDLE), name=name)
