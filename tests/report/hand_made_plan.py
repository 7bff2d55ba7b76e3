"""A hand-made plan: every rate in it follows, by arithmetic shown here, from shares and capacities."""

from collections.abc import Callable
from dataclasses import replace
from math import exp, log

from bucketed_plans import THREE, bucketed

from planner.domain import (
    PHASES,
    CostMode,
    CostSettings,
    DenseFfn,
    Experts,
    GpuSpec,
    InputHash,
    Inventory,
    InventoryItem,
    IslandClass,
    LayerGroup,
    Layout,
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
    SearchSettings,
    Trial,
)

WIDTH = 256
RANGES = 25
THROUGHPUT_RPS = 180.0
PREFILL_RPS = 180.0
DECODE_RPS = 225.0

LATENT = MlaAttention(heads=128, query_rank=1536, kv_rank=512, nope_dim=128, rope_dim=64, value_dim=128)
MODEL = ModelSpec(
    name="deepseek-ai/DeepSeek-V3",
    uri="hf://deepseek-ai/DeepSeek-V3",
    hidden_size=7168,
    groups=(
        LayerGroup(count=3, attention=LATENT, ffn=DenseFfn(size=18432)),
        LayerGroup(count=58, attention=LATENT, ffn=Experts(routed=256, active=8, shared=1, ffn_size=2048)),
    ),
    vocab_size=129280,
    max_context=163840,
)

# (type, GPUs, phase, tp, dp, batch, ranges from, to, weight): weight is the claim on the shares of a range
ISLANDS = (
    ("H200", 16, Phase.PREFILL, 2, 8, 4, 0, 25, 2.0),
    ("H200", 16, Phase.PREFILL, 2, 8, 4, 0, 25, 2.0),
    ("H200", 32, Phase.DECODE, 1, 32, 96, 8, 25, 1.0),
    ("H800", 32, Phase.PREFILL, 4, 8, 2, 8, 25, 6.0),
    ("H800", 8, Phase.PREFILL, 1, 8, 8, 0, 8, 1.0),
    ("H800", 8, Phase.PREFILL, 1, 8, 8, 0, 8, 1.0),
    ("H800", 14, Phase.PREFILL, 2, 7, 6, 4, 12, 1.5),
    ("H20", 64, Phase.DECODE, 1, 64, 64, 0, 14, 3.0),
    ("H20", 24, Phase.DECODE, 1, 24, 48, 0, 25, 1.0),
    ("H20", 24, Phase.DECODE, 1, 24, 48, 0, 25, 1.0),
    ("H20", 8, Phase.DECODE, 8, 1, 16, 18, 25, 0.5),
    ("H20", 6, None, 0, 0, 0, 0, 0, 0.0),
)
PRICES = {"H200": 4.0, "H800": 2.0, "H20": 1.0}
COUNTS = {"H200": 64, "H800": 64, "H20": 128}


def gpu_spec(name: str) -> GpuSpec:
    """A device with plausible figures; the report reads its name only."""
    return GpuSpec(
        name=name,
        vendor="NVIDIA",
        sms=132,
        sms_for_communication=20,
        fp16_tflops=989.0,
        fp8_tflops=1979.0,
        fp4_tflops=0.0,
        memory_gb=141.0,
        memory_gb_s=4800.0,
        reference_memory_gb_s=4800.0,
        nvlink_gb_s=450.0,
        nic_gb_s=50.0,
        gpus_per_nvlink_domain=8,
        gpus_per_host=8,
        idle_w=75.0,
        max_w=700.0,
    )


def probabilities(ranges: int = RANGES) -> list[float]:
    """A lognormal-like mass over the ranges."""
    weights = [exp(-((log(j + 0.7) - log(5.0)) ** 2)) for j in range(ranges)]
    return [w / sum(weights) for w in weights]


def make_inventory(counts: dict[str, int] = COUNTS, prices: dict[str, float] = PRICES) -> Inventory:
    """An inventory of the given types, in the dictionary's order."""
    return Inventory(
        items=tuple(
            InventoryItem(gpu=gpu_spec(n), count=c, price_usd_per_gpu_hour=prices.get(n, 1.0))
            for n, c in counts.items()
        )
    )


def make_scenario(inventory: Inventory) -> Scenario:
    """A scenario whose mean prompt is the probability-weighted midpoint of the ranges."""
    mass = probabilities()
    profile = LengthProfile(
        name="azure-code",
        input_tokens=tuple(WIDTH * j + WIDTH // 2 for j in range(RANGES)),
        probabilities=tuple(mass),
        output_tokens=(),
        mean_output_tokens=28.0,
        max_output_tokens=1899,
        requests=8819,
    )
    search = SearchSettings(iterations=8, batch_size=6, seed=7)
    return Scenario(
        name="mixed-a",
        model=MODEL,
        workload=profile,
        inventory=inventory,
        search=search,
        inputs=(InputHash(name="scenario.yaml", sha256="ab" * 32),),
    )


def route_islands(rows, ranges: int = RANGES) -> tuple[tuple[Route, ...], dict[int, float], dict[int, float]]:
    """Routes, rates (requests/s) and utilisations; a share is a weight over the weights of all who serve."""
    routes, rates, busy = [], dict.fromkeys(range(len(rows)), 0.0), dict.fromkeys(range(len(rows)), 0.0)
    for phase in PHASES:
        for j, p in enumerate(probabilities(ranges)):
            serving = [i for i, r in enumerate(rows) if r[2] is phase and r[6] <= j < r[7]]
            total = sum(rows[i][8] for i in serving)
            for i in serving:
                share = rows[i][8] / total
                rate = THROUGHPUT_RPS * p * share
                capacity = 4.0 * rows[i][1] / (1 + j / 10)
                rates[i] += rate
                busy[i] += rate / capacity
                routes.append(
                    Route(
                        phase=phase,
                        range_start=WIDTH * j,
                        range_end=WIDTH * (j + 1),
                        probability=p,
                        island=f"i{i:02d}",
                        share=share,
                        rate_rps=rate,
                        assigned_rps=1.25 * rate,
                        capacity_rps=capacity,
                        batch_size=rows[i][5],
                        step_ms=40.0,
                    )
                )
    return tuple(routes), rates, busy


def make_islands(rows, rates, busy, prices: dict[str, float] = PRICES) -> tuple[PlannedIsland, ...]:
    """The islands that `route_islands` loaded."""
    return tuple(
        PlannedIsland(
            id=f"i{i:02d}",
            gpu=gpu,
            size=size,
            phase=phase,
            parallel=ParallelConfig(tp=tp, dp=dp) if phase else None,
            batch_size=batch,
            longest_prompt=WIDTH * last - 1 if phase else 0,
            rate_rps=rates[i],
            utilisation=min(1.0, busy[i]),
            price_usd_per_hour=size * prices.get(gpu, 1.0),
            note="" if phase else "671 GB of weights do not fit into 6 GPUs",
        )
        for i, (gpu, size, phase, tp, dp, batch, _, last, _) in enumerate(rows)
    )


def make_trials(iterations: int = 8, batch: int = 6) -> tuple[Trial, ...]:
    """Rounds that rise towards the plan's rate; two trials fail, the last of the best round is the plan."""
    trials = []
    for index in range(iterations * batch):
        iteration, place = divmod(index, batch)
        rate = THROUGHPUT_RPS * (0.55 + 0.4 * (1 - exp(-iteration / 2))) * (1 - 0.06 * ((place * 7) % batch))
        failed = index in (3, 20)
        if index == batch * (iterations - 2) + 5:
            rate = THROUGHPUT_RPS
        trials.append(
            Trial(
                index=index,
                iteration=iteration,
                parameters=(("islands_H200", float(2 + place)), ("skew_H200", 0.5 * place - 1)),
                layout=Layout.of([IslandClass(gpu="H200", size=16)] * 4),
                throughput_rps=0.0 if failed else rate,
                generator="Sobol" if iteration < 2 else "BoTorch",
                error="no island serves 5888-6143 in decode" if failed else "",
            )
        )
    return tuple(trials)


def make_provenance() -> Provenance:
    """Versions of no particular day."""
    return Provenance(
        planner_version="0.1.0",
        python_version="3.11.9",
        libraries=(("ax-platform", "1.1.0"), ("pulp", "3.0.2")),
        solver="HiGHS 1.11",
        seed=7,
        cost_mode="default",
        input_hashes=(("scenario.yaml", "ab" * 32),),
    )


def build_plan(**changes) -> Plan:
    """3 types, 12 islands (one idle), 4 GPUs in none, 25 ranges, 48 trials; decode has 25 % headroom."""
    routes, rates, busy = route_islands(ISLANDS)
    plan = Plan(
        scenario=make_scenario(make_inventory()),
        throughput_rps=THROUGHPUT_RPS,
        prefill_rps=PREFILL_RPS,
        decode_rps=DECODE_RPS,
        objective_rps=THROUGHPUT_RPS,
        deviation_rps=0.0,
        optimal=True,
        islands=make_islands(ISLANDS, rates, busy),
        routing=routes,
        search=SearchRecord(trials=make_trials(), best_trial=41),
        provenance=make_provenance(),
    )
    return replace(plan, **changes)


def build_crowded_plan() -> Plan:
    """3 types × 60 islands of 20 sizes, 30 ranges, most islands serving most of them."""
    rows = []
    for gpu in PRICES:
        for n in range(60):
            phase = Phase.PREFILL if n % 3 else Phase.DECODE
            size = 2 + 2 * (n // 3)
            rows.append((gpu, size, phase, 2, size // 2, 8, n % 5, 30 - n % 4, 1.0 + n % 7))
    rows.append(("H200", 64, Phase.PREFILL, 2, 32, 8, 0, 30, 3.0))
    rows.append(("H200", 64, Phase.DECODE, 2, 32, 8, 0, 30, 3.0))
    routes, rates, busy = route_islands(rows, 30)
    counts = {gpu: sum(r[1] for r in rows if r[0] == gpu) for gpu in PRICES}
    return build_plan(
        scenario=make_scenario(make_inventory(counts)),
        islands=make_islands(rows, rates, busy),
        routing=routes,
    )


def build_long_names_plan() -> Plan:
    """Ten types with long names that hold mathematics, reference mode: the widest legends and titles."""
    names = [f"NVIDIA $x_{n}$ GB{n}00-NVL72-{n}92GB special edition" for n in range(10)]
    rows = [
        (name, 8, phase, 1, 8, 8, 0, RANGES, 1.0 + n)
        for n, name in enumerate(names)
        for phase in (*PHASES, Phase.DECODE)
    ]
    routes, rates, busy = route_islands(rows)
    scenario = make_scenario(make_inventory(dict.fromkeys(names, 24)))
    scenario = replace(
        scenario, name="a scenario with a $very$ long name, " * 4, cost=CostSettings(mode=CostMode.REFERENCE)
    )
    return build_plan(scenario=scenario, islands=make_islands(rows, rates, busy), routing=routes)


def build_lopsided_plan() -> Plan:
    """2 000 GPUs of one type in two islands, 16 of another in eight: very short bars, many labels."""
    rows = [
        ("H20", 1000, Phase.DECODE, 1, 1000, 8, 0, RANGES, 1.0),
        ("H20", 1000, Phase.PREFILL, 1, 1000, 8, 0, RANGES, 1.0),
        *(("H200", n, Phase.PREFILL, 1, n, 8, 0, RANGES, 1.0) for n in (1, 2, 3, 4)),
        *(("H200", n, Phase.DECODE, 1, n, 8, 0, RANGES, 1.0) for n in (1, 2)),
    ]
    routes, rates, busy = route_islands(rows)
    scenario = make_scenario(make_inventory({"H20": 2000, "H200": 16}))
    return build_plan(scenario=scenario, islands=make_islands(rows, rates, busy), routing=routes)


def build_ranges_plan(ranges: int) -> Plan:
    """The plan with another number of ranges, every island serving all of them."""
    rows = [(*row[:6], 0, ranges if row[2] else 0, row[8]) for row in ISLANDS]
    routes, rates, busy = route_islands(rows, ranges)
    return build_plan(islands=make_islands(rows, rates, busy), routing=routes)


def build_empty_plan() -> Plan:
    """Nothing served, nothing searched, every island idle."""
    idle = tuple(replace(i, phase=None, parallel=None, utilisation=0.0, rate_rps=0.0) for i in build_plan().islands)
    return build_plan(throughput_rps=0.0, routing=(), islands=idle, search=SearchRecord(trials=(), best_trial=0))


VARIANTS: dict[str, Callable[[], Plan]] = {
    "usual": build_plan,
    "crowded": build_crowded_plan,
    "long-names": build_long_names_plan,
    "lopsided": build_lopsided_plan,
    "one-range": lambda: build_ranges_plan(1),
    "many-ranges": lambda: build_ranges_plan(130),
    "one-trial": lambda: build_plan(search=SearchRecord(trials=make_trials(1, 1), best_trial=0)),
    "all-failed": lambda: build_plan(search=SearchRecord(trials=make_trials(2, 4)[3:4], best_trial=3)),
    "empty": build_empty_plan,
    "two-buckets": lambda: bucketed(build_plan()),
    "narrow-buckets": lambda: bucketed(build_plan(), THREE, levels=False),
}
