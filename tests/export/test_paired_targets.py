"""Random plans for the targets that pair or join islands: exported exactly, or refused in words."""

from collections import Counter

import pytest
from export_plans import gpu, island, plan_of
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.domain import PHASES, ParallelConfig, Plan
from planner.errors import ExportError
from planner.export import find_faults, render
from planner.export.checking import read_manifests

REFUSALS = (
    "SGLang cannot load",
    "must be one stage within a pod",
    "takes pipeline stages or data-parallel ranks",
    "pods of whole ranks or ranks of whole pods",
    "must be 1, or that of every prefill island",
)
PARALLEL = st.builds(
    ParallelConfig,
    tp=st.sampled_from([1, 2, 4, 8, 16]),
    dp=st.integers(1, 20),
    replicas=st.integers(1, 4),
    pp=st.sampled_from([1, 1, 1, 2]),
)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Up to six serving islands of three types, in both phases, and an idle one; hosts of 4 to 16 GPUs."""
    kinds = ("H20", "H200", "H800")
    islands = [
        island(
            f"{phase}-{n}", draw(st.sampled_from(kinds)), phase, draw(PARALLEL), batch_size=draw(st.integers(0, 900))
        )
        for phase in PHASES
        for n in range(draw(st.integers(1, 3)))
    ]
    islands.append(island("idle", "H20", None, None, size=draw(st.integers(1, 9))))
    types = tuple(gpu(kind, gpus_per_host=draw(st.sampled_from([4, 8, 16]))) for kind in kinds)
    return plan_of(tuple(islands), gpus=types)


def limits(workload_pod: dict[str, object]) -> int:
    """GPUs in the limits of a pod's first container."""
    containers = workload_pod["containers"]
    assert isinstance(containers, list)
    return int(containers[0]["resources"]["limits"]["nvidia.com/gpu"])


@pytest.mark.parametrize(
    ("target", "engine"),
    [
        ("disaggregatedset", "vllm"),
        ("disaggregatedset", "sglang"),
        ("llm-d", "vllm"),
        ("llm-d", "sglang"),
        ("kserve", "vllm"),
    ],
)
@given(plan=plans())
@settings(max_examples=10, deadline=None)
def test_random_plans_export_exactly_or_are_refused(target: str, engine: str, plan: Plan) -> None:
    try:
        files = render(plan, target=target, engine=engine)
    except ExportError as error:
        assert any(told in error.message for told in REFUSALS)  # noqa: PT017  # the other plans are looked at below
        return
    assert find_faults(files) == ()
    found: Counter[str] = Counter()
    for manifest, kind in read_manifests(files).sound:
        for workload in kind.workloads(manifest) if kind and kind.workloads else ():
            for pod in workload.pods:
                found[workload.annotations["planner/gpu-type"]] += (
                    workload.replicas * pod.count * limits(dict(pod.spec))
                )
    assert found == Counter(i.gpu for i in plan.islands if i.phase is not None for _ in range(i.size))


@given(plan=plans())
@settings(max_examples=10, deadline=None)
def test_random_fleets_are_quotas_to_the_last_gpu(plan: Plan) -> None:
    files = render(plan, target="kueue")
    found = {
        flavor["name"].removeprefix("mixed-fleet-").upper(): flavor["resources"][0]["nominalQuota"]
        for manifest, _ in read_manifests(files).sound
        if manifest.kind == "ClusterQueue"
        for flavor in manifest.body["spec"]["resourceGroups"][0]["flavors"]
    }
    assert found == {gpu: count for gpu, count in plan.fleet.items() if count}
