"""Any plan exports to manifests that add up to it, for both engines, or is refused."""

from collections import Counter
from dataclasses import replace

from export_plans import MODEL, UNSHARED, gpu, island, plan_of, route
from hypothesis import assume, given
from hypothesis import strategies as st
from quick_yaml import load_documents

from planner.domain import PHASES, ModelSpec, ParallelConfig, Plan, PlannedIsland, Route
from planner.errors import ExportError
from planner.export import render

# as many experts as GPUs, and none shared: no width that SGLang could not split
assert UNSHARED.experts is not None
SPLITTABLE = replace(
    UNSHARED,
    groups=(UNSHARED.groups[0], replace(UNSHARED.groups[1], ffn=replace(UNSHARED.experts, routed=2048))),
)
HOSTS = st.sampled_from([4, 8, 16, 72])
PARALLEL = st.builds(
    ParallelConfig,
    tp=st.sampled_from([1, 2, 4, 8, 16, 32]),
    dp=st.integers(1, 40),
    replicas=st.integers(1, 5),
    pp=st.sampled_from([1, 1, 2, 4]),
)


@st.composite
def plans(draw: st.DrawFn, model: ModelSpec = MODEL) -> Plan:
    """Two to five serving islands of two types, one idle, random shares over three ranges."""
    islands: list[PlannedIsland] = []
    stages = draw(st.sampled_from([None, 1, 2, 4]))  # the same everywhere, or of each island's own
    for phase in PHASES:
        for index in range(draw(st.integers(1, 3))):
            kind = draw(st.sampled_from(["H20", "H200"]))
            batch = draw(st.integers(0, 3000))
            parallel = draw(PARALLEL)
            parallel = replace(parallel, pp=stages or parallel.pp)
            islands.append(island(f"{phase}-{index}", kind, phase, parallel, batch_size=batch))
    types = tuple(gpu(name, gpus_per_host=draw(HOSTS)) for name in ("H20", "H200"))
    idle = island("idle", "H20", None, None, size=draw(st.integers(1, 9)))
    return plan_of((*islands, idle), gpus=types, model=model, routing=draw(routings(islands)))


@st.composite
def routings(draw: st.DrawFn, islands: list[PlannedIsland]) -> tuple[Route, ...]:
    """Each phase's requests of each range, split at random."""
    rows: list[Route] = []
    for phase in PHASES:
        serving = [i.id for i in islands if i.phase is phase]
        for start in (0, 256, 512):
            weights = [draw(st.integers(0, 100)) for _ in serving]
            weights[0] += 1
            rows += [
                route(name, phase, start, weight / sum(weights), width=256)
                for name, weight in zip(serving, weights, strict=True)
            ]
    return tuple(rows)


def rendered(plan: Plan, engine: str) -> dict[str, str]:
    """The manifests; vLLM may refuse ranks that pods cannot hold evenly, SGLang stages that differ."""
    try:
        return render(plan, engine=engine)
    except ExportError as error:
        refusal = {"vllm": "pods of whole ranks", "sglang": "parallel.pp: must be 1, or that of every prefill island"}
        assume(refusal[engine] not in error.message)
        raise


@given(plans(SPLITTABLE), st.sampled_from(["vllm", "sglang"]))
def test_random_plans_export_exactly(plan: Plan, engine: str) -> None:
    found: Counter[str] = Counter()
    for text in rendered(plan, engine).values():
        for thing in load_documents(text):
            if thing["kind"] == "LeaderWorkerSet":
                group = thing["spec"]["leaderWorkerTemplate"]
                pod = group["workerTemplate"]["spec"]
                gpus = pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]
                kind = pod["nodeSelector"]["nvidia.com/gpu.product"].removeprefix("NVIDIA-")
                assert gpus <= plan.scenario.inventory.item(kind).gpu.gpus_per_host
                found[kind] += thing["spec"]["replicas"] * group["size"] * gpus
    planned: Counter[str] = Counter()
    for one in plan.islands:
        if one.phase is not None:
            planned[one.gpu] += one.size
    assert found == planned
