"""Islands that hand KV caches to each other: what engines are told so that they understand each other, and which plans
no engine can run."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from contract_plans import PLANS
from export_plans import DENSE, MODEL, gpu, island, plan_of, route
from hypothesis import given
from hypothesis import strategies as st
from quick_yaml import load_documents

from planner.domain import (
    PHASES,
    DenseFfn,
    GpuSpec,
    GroupedAttention,
    LayerGroup,
    ModelSpec,
    ParallelConfig,
    Phase,
    Plan,
    PlannedIsland,
    Route,
)
from planner.errors import ExportError
from planner.export import TARGETS, ExportOptions, find_faults, render
from planner.export.partners import clusters, partners
from planner.files import load_gpu_spec, load_model

ENGINES = ("vllm", "sglang")
STARTED = [(one.name, engine) for one in TARGETS.values() for engine in one.engines if one.name != "kueue"]
WINDOWED = replace(
    DENSE,
    groups=tuple(
        LayerGroup(
            count=40,
            attention=GroupedAttention(heads=64, kv_heads=8, head_dim=64, window=window),
            ffn=DenseFfn(size=28672),
        )
        for window in (0, 128)
    ),
)
NODE = ParallelConfig(tp=8, dp=1)
Drawn = tuple[tuple[PlannedIsland, ...], Sequence[Route]]


def pair(
    prefill: str,
    decode: str,
    model: ModelSpec = DENSE,
    *,
    shapes: tuple[ParallelConfig, ParallelConfig] = (NODE, NODE),
    gpus: tuple[GpuSpec, ...] | None = None,
) -> Plan:
    """A prefill and a decode island on GPUs as they are shipped."""
    islands = (
        island(f"{prefill}-p", prefill, Phase.PREFILL, shapes[0], batch_size=2),
        island(f"{decode}-d", decode, Phase.DECODE, shapes[1], batch_size=64),
    )
    types = gpus or tuple(load_gpu_spec(name) for name in dict.fromkeys((prefill, decode)))
    return plan_of(islands, gpus=types, model=model, name="caches")


def containers(plan: Plan, engine: str, **options: Any) -> list[tuple[dict[str, str], dict[str, str], str]]:
    """Flags, fixed environment and comments of the first pod of each island."""
    found = []
    for name, text in render(plan, engine=engine, options=ExportOptions(**options)).items():
        if name[:2].isdigit():
            group = next(iter(load_documents(text)))["spec"]["leaderWorkerTemplate"]
            container = group.get("leaderTemplate", group["workerTemplate"])["spec"]["containers"][0]
            pairs = (a[2:].partition("=") for a in container["args"] if a.startswith("--"))
            environment = {e["name"]: e["value"] for e in container.get("env", ()) if "value" in e}
            comments = " ".join(line[2:] for line in text.splitlines() if line.startswith("# "))
            found.append(({flag: value for flag, _, value in pairs}, environment, comments))
    return found


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["A100", "Rubin-NVL144", "L40S", "RTX-PRO-6000"])
def test_deepep_is_for_the_architectures_that_its_kernels_are_built_for(kind: str, engine: str) -> None:
    """Hopper and Blackwell; of a GPU whose compute capability nobody tells, nothing is assumed."""
    model = replace(MODEL, kv_bytes=2)
    experts = ParallelConfig(tp=1, dp=8)
    for flags, environment, comments in containers(pair(kind, kind, model, shapes=(experts, experts)), engine):
        assert flags.get("all2all-backend", flags.get("moe-a2a-backend")) in ("allgather_reducescatter", "none")
        assert not {"enable-dbo", "deepep-mode"} & set(flags)
        assert "NVSHMEM_QP_DEPTH" not in environment
        assert f"DeepEP's kernels are for compute capability 9 and 10, that of {kind} is" in comments
    for flags, _, _ in containers(pair("H20", "DGX-B200", model, shapes=(experts, experts)), engine):
        assert "deepep" in flags.get("all2all-backend", flags.get("moe-a2a-backend", ""))


def test_the_queue_depth_is_deepeps_alone() -> None:
    experts, alone = ParallelConfig(tp=1, dp=8), ParallelConfig(tp=8, dp=1)
    for shape, kinds, deep in ((experts, "H20", True), (alone, "H20", False), (experts, "MI300X", False)):
        plan = pair(kinds, kinds, MODEL, shapes=(NODE, shape))
        decode = replace(plan.islands[1], batch_size=600)
        plan = replace(plan, islands=(plan.islands[0], decode))
        _, environment, _ = containers(plan, "vllm", images=(("AMD", "rocm/vllm:v0.33.0"),))[1]
        assert ("NVSHMEM_QP_DEPTH" in environment) is deep


@pytest.mark.parametrize(("model", "told"), [("gpt-oss-120b", True), ("llama-3.1-70b", False), ("deepseek-v3", False)])
def test_windows_need_the_hybrid_cache_manager_beside_a_connector(model: str, told: bool) -> None:
    shape = ParallelConfig(tp=8, dp=1)
    for flags, _, comments in containers(pair("H100", "H100", load_model(model), shapes=(shape, shape)), "vllm"):
        assert ("no-disable-hybrid-kv-cache-manager" in flags) is told
        assert ("hybrid cache manager" in comments) is told


@pytest.mark.parametrize(("target", "engine"), STARTED)
@pytest.mark.parametrize(("model", "told"), [("kimi-k2", True), ("deepseek-v3", False)])
def test_a_models_own_code_is_allowed_in_every_target(target: str, engine: str, model: str, told: bool) -> None:
    plan = pair("H200", "H200", load_model(model))
    files = render(plan, target=target, engine=engine)
    assert ("trust-remote-code" in "".join(files.values()).replace("_", "-")) is told
    assert find_faults(files, plan) == ()


# prefill GPU, decode GPU, model, 16-bit cache -> vLLM's backend on both; None: no flag, no warning; "": a warning
BACKENDS: list[tuple[str, str, ModelSpec, int, str | None]] = [
    ("H100", "H20", DENSE, 2, None),
    ("H100", "H200", MODEL, 1, None),
    ("DGX-B200", "GB200-NVL72", DENSE, 1, None),
    ("H100", "A100", DENSE, 2, "FLASH_ATTN"),
    ("DGX-B200", "H20", DENSE, 2, "FLASH_ATTN"),
    ("DGX-B200", "H20", DENSE, 1, "FLASHINFER"),
    ("H100", "A100", WINDOWED, 2, "TRITON_ATTN"),
    ("H100", "A100", WINDOWED, 1, ""),
    ("H100", "A100", MODEL, 2, "TRITON_MLA"),
    ("H100", "DGX-B200", MODEL, 1, ""),
    ("H100", "Rubin-NVL144", DENSE, 2, ""),
    ("H100", "MI300X", DENSE, 2, ""),
]


@pytest.mark.parametrize(("prefill", "decode", "model", "kv_bytes", "backend"), BACKENDS)
def test_generations_that_exchange_caches_share_a_backend_or_the_reader_is_warned(
    prefill: str, decode: str, model: ModelSpec, kv_bytes: int, backend: str | None
) -> None:
    plan = pair(prefill, decode, replace(model, kv_bytes=kv_bytes), shapes=(ParallelConfig(tp=4, dp=1),) * 2)
    images = {one: (("AMD", f"rocm/{one}:v0.33.0"),) for one in ENGINES}
    for flags, _, comments in containers(plan, "vllm", images=images["vllm"]):
        assert flags.get("attention-backend") == (backend or None)
        slow = bool(backend and backend.startswith("TRITON"))
        assert ("WARNING: KV caches go between" in comments) is (backend == "" or slow)
        assert ("refuses" in comments) is (backend is not None)
    pages = {flags.get("page-size") for flags, _, _ in containers(plan, "sglang", images=images["sglang"])}
    assert pages == ({None} if backend is None else {"64"})


def test_a_spec_that_does_not_tell_its_generation_is_asked_for_it() -> None:
    """Whether the backends differ is not known then, and no other cache format would help."""
    plan = pair("H200", "Mine", gpus=(gpu("H200"), gpu("Mine", compute_capability=0.0)))
    for flags, _, comments in containers(plan, "vllm"):
        assert "attention-backend" not in flags
        assert "Give compute_capability in the spec of Mine" in comments
        assert "kv_cache_dtype" not in comments


def test_only_what_hangs_together_by_shared_lengths_shares_a_backend() -> None:
    """A100s take short prompts among themselves, Hopper the long ones: nobody exchanges anything."""
    islands = tuple(
        island(f"{kind}-{phase.value}", kind, phase, NODE, batch_size=2)
        for kind in ("A100", "H100", "H20")
        for phase in PHASES
    )
    apart = [route(i.id, i.phase, 0 if i.gpu == "A100" else 2048, 1.0) for i in islands if i.phase and i.gpu != "H20"]
    types = tuple(load_gpu_spec(name) for name in ("A100", "H100", "H20"))
    cells = [route(f"H20-{phase.value}", phase, 4096, 1.0) for phase in PHASES]
    plan = plan_of(islands, gpus=types, model=replace(DENSE, kv_bytes=2), routing=(*apart, *cells))
    assert not any("attention-backend" in flags for flags, _, _ in containers(plan, "vllm"))
    unused = replace(plan, routing=(*plan.routing, route("H20-decode", Phase.DECODE, 0, 0.0)))
    assert not any("attention-backend" in flags for flags, _, _ in containers(unused, "vllm"))
    halved = [r for r in plan.routing if r.island != "A100-decode"]
    bridge = [route(name, Phase.DECODE, 0, 0.5) for name in ("A100-decode", "H20-decode")]
    joined = replace(plan, routing=(*halved, *bridge))
    told = [flags.get("attention-backend") for flags, _, _ in containers(joined, "vllm")]
    assert told == ["FLASH_ATTN"] * 2 + [None] * 2 + ["FLASH_ATTN"] * 2


@st.composite
def routed(draw: st.DrawFn) -> Drawn:
    """Up to four islands a phase that take any cells of a grid."""
    islands = tuple(
        island(f"{phase.value}-{n}", "H20", phase, NODE) for phase in PHASES for n in range(draw(st.integers(1, 4)))
    )
    rows = []
    for one in islands:
        assert one.phase is not None
        for cell in draw(st.sets(st.integers(0, 7))):
            rows.append(route(one.id, one.phase, 100 * cell, 1.0, width=draw(st.sampled_from([50, 100, 150]))))
    return islands, tuple(draw(st.permutations(rows)))


@given(drawn=routed())
def test_partners_are_who_shares_a_length_told_one_by_one(drawn: Drawn) -> None:
    islands, rows = drawn
    lengths = {
        one.id: {n for row in rows if row.island == one.id for n in range(row.range_start, row.range_end)}
        for one in islands
    }
    pairs = partners({one.id: one.phase for one in islands if one.phase is not None}, rows)
    for one in islands:
        expected = [o.id for o in islands if o.phase is not one.phase and lengths[o.id] & lengths[one.id]]
        assert list(pairs[one.id]) == expected
    reached = {one.id: {one.id, *pairs[one.id]} for one in islands}
    for _ in islands:
        reached = {one: {far for near in held for far in reached[near]} for one, held in reached.items()}
    assert clusters(pairs) == {one: frozenset(held) for one, held in reached.items()}


def test_sglangs_decode_stages_are_those_of_every_prefill_partner_or_one() -> None:
    for prefill, decode, refused in ((1, 2, True), (2, 2, False), (2, 1, False), (4, 2, True), (1, 1, False)):
        shapes = (ParallelConfig(tp=8, dp=1, pp=prefill), ParallelConfig(tp=8, dp=1, pp=decode))
        plan = pair("H100", "H100", shapes=shapes)
        if refused:
            with pytest.raises(ExportError, match=rf"H100-d, parallel.pp: must be 1, .* got {decode} beside {prefill}"):
                render(plan, engine="sglang")
        else:
            render(plan, engine="sglang")
        text = "".join(render(plan).values())
        assert ("issue 52913" in text) is (max(prefill, decode) > 1)
        assert ("export for sglang" in text) is (max(prefill, decode) > 1 and not refused)


@pytest.mark.parametrize("engine", ENGINES)
def test_no_kernel_of_an_a100_reads_a_latent_fp8_cache(engine: str) -> None:
    with pytest.raises(ExportError, match=r"A100-d, model.kv_bytes: must be 2 .* on A100, .* 8.0 .* got 1") as caught:
        render(pair("H100", "A100", MODEL), engine=engine)
    assert "cost.kv_cache_dtype: bf16" in str(caught.value.hint)
    render(pair("H100", "A100", replace(MODEL, kv_bytes=2)), engine=engine)
    render(pair("H100", "A100", replace(DENSE, kv_bytes=1)), engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_images_of_partners_must_hold_one_version(engine: str) -> None:
    plan = pair("H100", "MI300X", replace(DENSE, kv_bytes=2))
    for _, _, comments in containers(plan, engine, images=(("AMD", "rocm/own:1.0"),)):
        assert "WARNING: KV caches go between rocm/own:1.0 (AMD) and " in comments
        assert f"both must hold one version of {engine}." in comments


def test_sglang_hands_windows_over_between_equal_degrees_only() -> None:
    for decode, told in ((8, False), (4, True)):
        shapes = (NODE, ParallelConfig(tp=decode, dp=1))
        texts = [comments for _, _, comments in containers(pair("H100", "H100", WINDOWED, shapes=shapes), "sglang")]
        assert all(("layers with windows" in text) is told for text in texts)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("plan", PLANS)
def test_one_generation_of_one_vendor_is_told_nothing(plan: str, engine: str) -> None:
    for flags, _, comments in containers(PLANS[plan](), engine):
        assert not {"attention-backend", "page-size", "trust-remote-code"} & set(flags)
        assert "KV caches go between" not in comments
