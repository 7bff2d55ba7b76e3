"""No step beats its data sheet: over all shipped models and GPU types, and limits held against arithmetic by hand."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from cost_figures import GPU_NAMES, gpu, model

from planner.cost import CostContext
from planner.cost.limits import limit_ms, limits, lossless, step_limit
from planner.cost.memory import experts_on_device, usable_gb, weights_gb
from planner.cost.mixed import Passes, mixed_cost
from planner.cost.parallelism import replica_shapes
from planner.cost.parts import StepCost
from planner.cost.step import Steps, step_cost
from planner.domain import PHASES, Calibration, CostSettings, GpuSpec, ModelSpec, ParallelConfig, Phase
from planner.domain.efficiency import ANY_FAMILY, Factor, Origin
from planner.files import shipped_models

LEAST = 0.9  # of its limit that a step takes: data sheets round, and clocks rise above what they state
GPUS = [gpu(name) for name in GPU_NAMES]
MODELS = [model(name) for name in sorted(shipped_models())]
BATCHES, CONTEXTS, SIZES = (1, 16, 256), (128, 4096, 65536), tuple(2**k for k in range(9))
ATTENTION = ("projections", "attention", "attention of sequences")
CHUNK = 2048  # of a mixed pass


def held(context: CostContext, size: int) -> list[ParallelConfig]:
    """Configurations of so many GPUs that hold the weights."""
    configs = replica_shapes(context, size)
    if not configs:
        return []
    tp, stage, pp = np.array([(c.tp, c.stage_devices, c.pp) for c in configs], dtype=float).T
    experts = experts_on_device(context.model, context.settings, stage)
    fit = weights_gb(context.model, tp=tp, experts_on_device=experts, pp=pp) < usable_gb(context.gpu)
    return [config for config, fits in zip(configs, fit, strict=True) if fits]


def usual_degrees(context: CostContext) -> list[ParallelConfig]:
    """Configurations of the fewest GPUs that hold the weights, and of one host."""
    fewest = next((configs for size in SIZES if (configs := held(context, size))), [])
    return list(dict.fromkeys([*fewest, *held(context, context.gpu.gpus_per_host)]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What steps are looked at: (phase, steps, their limits) of each model and GPU, over contexts and batches."""

    contexts: Sequence[int] = CONTEXTS
    batches: Sequence[int] = BATCHES
    calibration: Calibration | None = None
    engine: str = ""

    def priced(
        self, context: CostContext, configs: Sequence[ParallelConfig]
    ) -> Iterator[tuple[Phase, StepCost, StepCost]]:
        """Every phase; the mixed pass has no stages."""
        tp, dp, pp = np.array([(c.tp, c.dp, c.pp) for c in configs], dtype=float).T[..., None, None]
        reached = sorted({min(length, context.model.max_context) for length in self.contexts})
        length, batch = np.array(reached, dtype=float)[None, :, None], np.array(self.batches, dtype=float)[None, None]
        for phase in PHASES:
            steps = Steps(phase=phase, tp=tp, dp=dp, pp=pp, length=length, batch=batch * pp)
            yield phase, step_cost(context, steps), step_limit(context, steps)
        passes = Passes(
            tp=tp, dp=dp, sequences=batch, cached=length, chunk=np.minimum(length, CHUNK), prompt=length, hit=0.0
        )
        yield Phase.MIXED, mixed_cost(context, passes), limits(context, mixed_cost(lossless(context), passes), tp, dp)

    def beaten(self, models: Iterable[ModelSpec], gpus: Sequence[GpuSpec]) -> tuple[list[str], int]:
        """Steps and parts that take less than `LEAST` of their limits, and how many pairs were looked at."""
        wrong, pairs = [], 0
        for shape in models:
            for spec in gpus:
                context = CostContext(
                    gpu=spec, model=shape, settings=CostSettings(calibration=self.calibration, engine=self.engine)
                )
                configs = usual_degrees(context)
                pairs += bool(configs)
                for phase, cost, least in self.priced(context, configs) if configs else ():
                    wrong += [f"{shape.name} on {spec.name}, {phase}, {said}" for said in undercut(cost, least)]
        return wrong, pairs


def undercut(cost: StepCost, least: StepCost) -> list[str]:
    """The step and its parts where they take less than `LEAST` of their limits, with their smallest share."""
    times = [("step", cost.total_ms, least.total_ms), *of_parts(cost, least)]
    return [
        f"{name}: {np.min(ms / np.where(bound > 0, bound, np.nan)):.3f}"
        for name, ms, bound in times
        if np.any(ms < LEAST * bound)
    ]


def of_parts(cost: StepCost, least: StepCost) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """(name, time, limit) of the parts; those of attention layers together, which some engines run as one kernel."""
    times: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for part, limit in zip(cost.parts, least.parts, strict=True):
        name = "attention" if part.name in ATTENTION else part.name
        ms, bound = times.get(name, (np.zeros(()), np.zeros(())))
        times[name] = ms + part.ms, bound + limit_ms(limit)
    return [(name, ms, bound) for name, (ms, bound) in times.items()]


def test_no_step_of_any_model_on_any_gpu_beats_its_data_sheet() -> None:
    wrong, pairs = Sweep().beaten(MODELS, GPUS)
    assert wrong == []
    assert pairs > 0.9 * len(MODELS) * len(GPUS)  # the largest models are too large for the smallest GPUs


# one of each kind of attention and of experts
SOME = ("deepseek-v3", "deepseek-v3.2-nvfp4", "glm-5.1-nvfp4", "gpt-oss-120b", "llama-3.1-70b-fp8", "minimax-m3")
SOME_GPUS = ("A100", "H200", "GB200-NVL72", "L40S", "RTX-PRO-6000")


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
@pytest.mark.parametrize(
    ("models", "gpus"),
    [
        ((*SOME, "qwen3-30b-a3b", "qwen3.5-27b"), SOME_GPUS),
        pytest.param([shape.name for shape in MODELS], GPU_NAMES, marks=pytest.mark.study),
    ],
    ids=["some", "all"],
)
def test_measured_kernels_let_no_step_beat_the_data_sheet(
    models: Sequence[str], gpus: Sequence[str], engine: str
) -> None:
    """Parts may: shapes that others stand in for, and what lay in a large cache as it was measured."""
    wrong, _ = Sweep(engine=engine).beaten(map(model, models), [gpu(name) for name in gpus])
    assert [said for said in wrong if ", step: " in said] == []


@pytest.mark.study
def test_no_step_beats_its_data_sheet_over_more_contexts_and_batches() -> None:
    contexts = (1, 100, 1000, 2049, 10_000, 16_385, 131_072, 1_000_000)
    assert Sweep(contexts=contexts, batches=(1, 2, 8, 31, 100, 512, 4096)).beaten(MODELS, GPUS)[0] == []


@pytest.mark.parametrize(
    ("name", "value", "part"),
    [
        ("memory", 1.2, "dense"),
        ("cache", 1.2, "attention"),
        ("gemm", 1.2, "dense"),
        ("nvlink", 2.5, "all-reduce"),
    ],
)
def test_what_beats_the_data_sheet_is_told(name: str, value: float, part: str) -> None:
    """Factors that no GPU can have: the sweep would pass everything if it saw nothing wrong with them."""
    changed = {name: value, "kernels_prefill": 1.0, "kernels_decode": 1.0, "all_reduce_us": 0.0, "gemm_half": 0.0}
    impossible = Calibration(
        name="impossible",
        factors=tuple(
            Factor(name=key, family=family, value=of, unit="1", origin=Origin.USER, source="none")
            for key, of in changed.items()
            for family in (ANY_FAMILY, "hopper")
        ),
    )
    wrong, _ = Sweep(calibration=impossible).beaten([model("llama-3.1-70b")], [gpu("H200")])
    assert any(f", {part}: " in said for said in wrong)


H200 = {"memory": 4800e6, "fp16": 989e9, "fp8": 1979e9, "nvlink": 450e6}  # B/ms, FLOP/ms

# by hand, ms: what a part must read, multiply or send, over the data sheet's rate
BY_HAND = {
    ("llama-3.1-70b", Phase.DECODE, 8, 1, 64): {
        "projections": 80 / 8 * 2 * (2 * 8192 * 8192 + 2 * 8192 * 1024) / H200["memory"],
        "attention": 64 * 4096 * 80 * 2 * 128 * 2 / H200["memory"],  # of eight KV heads one a GPU, keys and values
        "dense": 80 / 8 * 2 * 3 * 8192 * 28672 / H200["memory"],
        "head": 2 * 128256 * 8192 / 8 / H200["memory"],
        "all-reduce": 2 * 80 * 64 * 8192 * 2 / H200["nvlink"],
        "small kernels": 0.0,
        "scheduling": 0.0,
    },
    ("llama-3.1-70b", Phase.PREFILL, 8, 1, 1): {
        "projections": 80 / 8 * 2 * 4096 * (2 * 8192 * 8192 + 2 * 8192 * 1024) / H200["fp16"],
        "attention": 80 * 2 * (4096 * 4097 / 2) * 64 / 8 * 2 * 128 / H200["fp16"],
        "dense": 80 / 8 * 2 * 4096 * 3 * 8192 * 28672 / H200["fp16"],
        "all-reduce": 2 * 80 * 4096 * 8192 * 2 / H200["nvlink"],
    },
    ("deepseek-v3", Phase.DECODE, 1, 8, 16): {
        "projections": 61
        * (7168 * 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 * 128 * 256 + 128 * 128 * 7168)
        / H200["memory"],
        "attention": 2 * 61 * 16 * 4096 * 128 * (2 * 512 + 64) / H200["fp8"],  # absorbed
        "dense": 3 * 3 * 7168 * 18432 / H200["memory"],
        "shared experts": 58 * 3 * 7168 * 2048 / H200["memory"],
        # 128 tokens visit 8 of 256 experts each, 32 of which a GPU holds; popular ones count like half as many tokens
        "routed experts": 58 * 32 * (1 - (248 / 256) ** 64) * 3 * 7168 * 2048 / H200["memory"],
        # a token goes once to each of the other GPUs that one of its experts lies on
        "dispatch": 58 * 16 * 7168 * 7 * (1 - (7 / 8) ** 8) / H200["nvlink"],
        "combine": 2 * 58 * 16 * 7168 * 7 * (1 - (7 / 8) ** 8) / H200["nvlink"],
        "small kernels": 0.0,
    },
    ("deepseek-v3", Phase.DECODE, 8, 1, 16): {
        "shared experts": 58 * 3 * 7168 * 2048 / 8 / H200["memory"],  # one group, and each GPU has an eighth of them
        "routed experts": 58 * 32 * (1 - (248 / 256) ** 8) * 3 * 7168 * 2048 / H200["memory"],
        "dispatch": 0.0,
        "combine": 0.0,
        "all-reduce": 2 * 61 * 16 * 7168 * 2 / H200["nvlink"],
    },
    ("gpt-oss-120b", Phase.DECODE, 1, 1, 64): {
        "projections": 36 * 2 * (2 * 2880 * 4096 + 2 * 2880 * 512) / H200["memory"],
        "attention": 64 * 18 * (4096 + 128) * 2 * 8 * 64 * 2 / H200["memory"],  # half of the layers see 128 tokens
        "routed experts": 36 * 128 * (1 - (124 / 128) ** 32) * 3 * 2880 * 2880 * 4.25 / 8 / H200["memory"],
        "head": 2 * 201088 * 2880 / H200["memory"],
        "all-reduce": 0.0,
    },
    ("gpt-oss-120b", Phase.DECODE, 1, 1, 1): {
        "routed experts": 36 * 4 * 3 * 2880 * 2880 * 4.25 / 8 / H200["memory"],
    },
    ("gpt-oss-120b", Phase.PREFILL, 1, 1, 1): {
        "attention": 2 * 18 * (4096 * 4097 / 2 + 128 * 129 / 2 + 3968 * 128) * 64 * 2 * 64 / H200["fp16"],
        "routed experts": 2 * 36 * 4096 * 4 * 3 * 2880 * 2880 / H200["fp16"],  # MXFP4, unpacked to 16 bits
    },
}


@pytest.mark.parametrize("case", BY_HAND, ids=lambda case: f"{case[0]}-{case[1]}")
def test_limits_are_those_worked_out_by_hand(case: tuple[str, Phase, int, int, int]) -> None:
    name, phase, tp, dp, batch = case
    context = CostContext(gpu=gpu("H200"), model=model(name), settings=CostSettings())
    limit = step_limit(context, Steps.at(phase, tp, dp, 1, length=4096, batch=batch))
    part_limits_ms = {part.name: float(limit_ms(part)) for part in limit.parts}
    assert {part: part_limits_ms[part] for part in BY_HAND[case]} == pytest.approx(BY_HAND[case], rel=1e-9)


@pytest.mark.parametrize(("stages", "slowest"), [(1, 1.0), (3, 81 / 80)])  # 27 of 80 layers, and two others
def test_the_limit_of_a_step_is_its_busiest_resource(stages: int, slowest: float) -> None:
    """A decode step of Llama 70B reads for 5.8 ms, and multiplies and sends in less, at the same time."""
    context = CostContext(gpu=gpu("H200"), model=model("llama-3.1-70b"), settings=CostSettings())
    limit = step_limit(context, Steps.at(Phase.DECODE, 8, 1, stages, length=4096, batch=64 * stages))
    hand = BY_HAND["llama-3.1-70b", Phase.DECODE, 8, 1, 64]
    read = sum(hand[part] for part in ("projections", "attention", "dense", "head"))
    assert float(limit.total_ms) == pytest.approx(read * slowest, rel=1e-9)


def test_every_chunk_of_a_long_prompt_reads_all_experts() -> None:
    context = CostContext(gpu=gpu("H200"), model=model("gpt-oss-120b"), settings=CostSettings())
    limit = step_limit(context, Steps.at(Phase.PREFILL, 1, 1, 1, length=3 * 16384, batch=1))
    every = 36 * 128 * 3 * 2880 * 2880 * 4.25 / 8
    assert float(limit.part("routed experts").memory_ms) == pytest.approx(3 * every / H200["memory"], rel=1e-9)


def test_limits_are_of_the_data_sheet_alone() -> None:
    """Neither what was measured of a GPU nor how its work overlaps changes them."""
    steps = Steps.at(Phase.PREFILL, 1, 32, 1, length=[100, 4096, 40_000], batch=2)
    settings = CostSettings(two_micro_batches=False, balanced_experts=True)
    slow = Calibration(
        name="slow",
        factors=(
            Factor(name="gemm", family=ANY_FAMILY, value=0.1, unit="1", origin=Origin.USER, source="none"),
            Factor(name="imbalance", family=ANY_FAMILY, value=3.0, unit="1", origin=Origin.USER, source="none"),
        ),
    )
    plain, other = (
        step_limit(CostContext(gpu=gpu("H800"), model=model(), settings=of), steps).total_ms
        for of in (settings, CostSettings(calibration=slow))
    )
    assert plain.tolist() == other.tolist()
