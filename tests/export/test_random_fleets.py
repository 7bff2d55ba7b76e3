"""Random fleets for every target and engine, the way the command goes: sound manifests that sum to the plan, or an
ExportError that says what cannot be expressed, and no other exception."""

from collections import Counter
from dataclasses import replace

import pytest
from export_plans import DENSE, MODEL, gpu, island, plan_of, route
from hypothesis import event, given, settings
from hypothesis import strategies as st

from planner.domain import PHASES, ParallelConfig, Phase, Plan, PlannedIsland, Route
from planner.errors import ExportError
from planner.export import TARGETS, ExportOptions, find_faults, read_manifests, render
from planner.export.checking.faults import copy_gpus
from planner.runs.deployments import render_plan

PAIRS = [(target.name, engine) for target in TARGETS.values() for engine in target.engines]
TYPES = ("H20", "H200", "H800", "L40S", "B200", "A100")
OPTIONS = st.builds(
    ExportOptions,
    name=st.sampled_from(["", "prod", "A plan of a long name, longer than any label may be: sixty-three letters"]),
    priority_class=st.sampled_from(["", "serving"]),
    cpus_per_gpu=st.sampled_from([None, 1, 7]),
    pod_resources=st.sampled_from([(), (("rdma/ib", 2),)]),
)


@st.composite
def fleets(draw: st.DrawFn) -> Plan:
    """Two to twelve islands that serve both phases, some idle, of one to six GPU types; hosts of 4 to 72 GPUs; a model
    with experts or without; two to four ranges with uneven shares."""
    model = draw(st.sampled_from([MODEL, MODEL, DENSE]))
    kinds = TYPES[: draw(st.integers(1, len(TYPES)))]
    parallel = st.builds(
        ParallelConfig,
        tp=st.sampled_from([1, 2, 2, 4, 4, 8, 8, 8, 16]),
        dp=st.integers(1, 20) if model.experts else st.just(1),
        pp=st.sampled_from([*[1] * 20, 2, 3]),
        replicas=st.integers(1, 4),
    )
    count = draw(st.integers(2, 12))
    phases = [Phase.PREFILL, Phase.DECODE, *(draw(st.sampled_from([*PHASES, None])) for _ in range(count - 2))]
    islands = tuple(
        island(
            f"{kind}-{n}", kind, phase, draw(parallel) if phase else None, size=None if phase else 3, batch_size=batch
        )
        for n, phase in enumerate(phases)
        for kind, batch in [(draw(st.sampled_from(kinds)), draw(st.integers(0, 2000)))]
    )
    types = tuple(gpu(kind, gpus_per_host=draw(st.sampled_from([4, 8, 16, 72]))) for kind in kinds)
    rows = tuple(draw(tables(islands)))
    ends = {one.id: max((row.range_end - 1 for row in rows if row.island == one.id), default=0) for one in islands}
    planned = tuple(replace(one, longest_prompt=ends[one.id]) for one in islands)
    return plan_of(planned, gpus=types, model=model, routing=rows, name="random fleet")


@st.composite
def tables(draw: st.DrawFn, islands: tuple[PlannedIsland, ...]) -> list[Route]:
    """Every range of each phase, shared at random among islands that serve it; the first always takes part."""
    rows: list[Route] = []
    for start in range(0, 2048 * draw(st.integers(2, 4)), 2048):
        for phase in PHASES:
            serving = [i.id for i in islands if i.phase is phase]
            weights = [1, *(draw(st.integers(0, 20)) for _ in serving[1:])]
            rows += [
                route(name, phase, start, weight / sum(weights))
                for name, weight in zip(serving, weights, strict=True)
                if weight
            ]
    return rows


def gpus_of(files: dict[str, str]) -> Counter[str]:
    """GPUs by type, over all workloads."""
    found: Counter[str] = Counter()
    for manifest, kind in read_manifests(files).sound:
        for workload in kind.workloads(manifest) if kind and kind.workloads else ():
            found[workload.annotations["planner/gpu-type"]] += workload.replicas * copy_gpus(workload)
    return found


@pytest.mark.parametrize(("target", "engine"), PAIRS)
@settings(max_examples=4, deadline=None)
@given(plan=fleets(), options=OPTIONS)
def test_a_random_fleet_is_exported_consistently_or_refused(
    target: str, engine: str, plan: Plan, options: ExportOptions
) -> None:
    chosen = ExportOptions(name=options.name) if target == "script" else options  # the others are Kubernetes'
    try:
        files = render(plan, target=target, engine=engine, options=chosen)
    except ExportError as error:
        event(error.message[:40])
        assert (error.exit_status, bool(error.message)) == (3, True)  # noqa: PT017  # other plans are looked at below
        return
    assert find_faults(files, plan) == find_faults(files) == ()
    if target != "kueue":
        assert gpus_of(files) == Counter(i.gpu for i in plan.islands if i.phase is not None for _ in range(i.size))


@settings(max_examples=10, deadline=None)
@given(plan=fleets())
def test_a_random_fleet_on_a_grid_is_exported_consistently_or_refused(plan: Plan) -> None:
    try:
        made = render_plan(plan, target="dynamo")
    except ExportError as error:
        event(error.message[:40])
        return
    assert find_faults(made.files, made.plan) == ()
