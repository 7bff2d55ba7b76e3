"""What every target owes: each engine, each plan, the same promises. A target is in the suite by being registered."""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import kubernetes_validate
import kubernetes_validate.utils
import pytest
import yaml
from contract_plans import PLANS, planned, single_node_plan
from crd_schema import upstream_crds
from export_plans import plan_of
from quick_yaml import load_documents

from planner.domain import GpuSpec, Plan
from planner.errors import ExportError, InputError
from planner.export import ENGINES, TARGETS, CrdSchemas, ExportOptions, find_faults, render
from planner.export.checking import read_manifests
from planner.export.checking.structure import FoundManifests
from planner.export.found import FoundWorkload, Kind
from planner.export.objects.pods import GPU_RESOURCES

CORE = (
    *("v1", "apps/v1", "batch/v1", "networking.k8s.io/v1", "policy/v1", "scheduling.k8s.io/v1"),
    "rbac.authorization.k8s.io/v1",
)
KUBERNETES = kubernetes_validate.latest_version()
PAIRS = [(target.name, engine) for target in TARGETS.values() for engine in target.engines]
SERVING = [pair for pair in PAIRS if any(kind.workloads for kind in TARGETS[pair[0]].kinds)]


def rendered(target: str, engine: str, plan: str) -> dict[str, str]:
    """The files; a target may refuse any plan but the one of single nodes, in words, with the way out."""
    files = attempted(target, engine, plan)
    if isinstance(files, ExportError):
        assert plan != "single nodes"
        assert (bool(files.message), bool(files.hint), files.exit_status) == (True, True, 3)
        pytest.skip(f"{target} cannot express it: {files.message}")
    return files


@cache
def attempted(target: str, engine: str, plan: str) -> dict[str, str] | ExportError:
    """The files, rendered once for all tests, or why there are none."""
    try:
        return render(planned(plan, engine), target=target, engine=engine)
    except ExportError as error:
        return error


@cache
def found_in(target: str, engine: str, plan: str) -> FoundManifests:
    """The objects of the files, read once for all tests."""
    found = read_manifests(rendered(target, engine, plan))
    assert found.faults == ()
    return found


def workloads(target: str, engine: str, plan: str) -> list[FoundWorkload]:
    """Every workload of the files, in their order."""
    sound = found_in(target, engine, plan).sound
    return [w for m, kind in sound if kind and kind.workloads for w in kind.workloads(m)]


@pytest.fixture(scope="module", autouse=True)
def schemas_read_once() -> Iterator[None]:
    """`kubernetes_validate` reads a megabyte of schemas for every object; here it reads them once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kubernetes_validate.utils, "schema_contents", cache(kubernetes_validate.utils.schema_contents))
        yield


def check_by_kubernetes(body: dict[str, Any]) -> None:
    """What `kubernetes-validate --strict` does with an object; raises its ValidationError."""
    kubernetes_validate.validate(body, KUBERNETES, strict=True)


each_pair = pytest.mark.parametrize(("target", "engine"), PAIRS)

OF_EVERY_ENGINE = ("single nodes", "several nodes", "aggregated")
"""The other plans are written for a target's first engine alone."""


def each_case(pairs: Iterable[tuple[str, str]], plans: Iterable[str] = PLANS) -> pytest.MarkDecorator:
    """The plans of each target, for its engines."""
    names = list(plans)
    cases = [
        (target, engine, plan)
        for target, engine in pairs
        for plan in names
        if plan in OF_EVERY_ENGINE or engine == TARGETS[target].engines[0]
    ]
    return pytest.mark.parametrize(("target", "engine", "plan"), cases)


SMALLER = [plan for plan in PLANS if plan != "wide fleet"]
"""A wide fleet has sixty times the same objects."""


@each_case(PAIRS)
def test_manifests_pass_every_check_with_and_without_the_plan(target: str, engine: str, plan: str) -> None:
    files = rendered(target, engine, plan)
    assert find_faults(files, planned(plan, engine)) == ()
    assert find_faults(files) == ()


@each_case(PAIRS, SMALLER)
def test_the_same_plan_gives_the_same_bytes(target: str, engine: str, plan: str) -> None:
    one, two = rendered(target, engine, plan), render(planned(plan, engine), target=target, engine=engine)
    assert [(n, t.encode()) for n, t in one.items()] == [(n, t.encode()) for n, t in two.items()]


def limits_of(pod: dict[str, Any]) -> int:
    """GPUs in the limits of a PodSpec."""
    counts = [
        c.get("resources", {}).get("limits", {}).get(r, 0) for c in pod["containers"] for r in GPU_RESOURCES.values()
    ]
    return sum(int(count) for count in counts)


@each_case(SERVING)
def test_gpus_sum_to_the_plans_by_type_and_no_pod_outgrows_its_host(target: str, engine: str, plan: str) -> None:
    made = planned(plan, engine)
    types: dict[str, GpuSpec] = {item.gpu.name: item.gpu for item in made.scenario.inventory.items}
    found: Counter[str] = Counter()
    for workload in workloads(target, engine, plan):
        kind = workload.labels["planner/gpu"]
        for pod in workload.pods:
            assert limits_of(dict(pod.spec)) <= types[kind].gpus_per_host
            found[kind] += workload.replicas * pod.count * limits_of(dict(pod.spec))
    assert found == Counter(i.gpu for i in made.islands if i.phase is not None for _ in range(i.size))


@each_case(SERVING)
def test_comments_say_which_island_and_why(target: str, engine: str, plan: str) -> None:
    text = "\n".join(rendered(target, engine, plan).values())
    for island in planned(plan, engine).islands:
        if island.phase is not None:
            assert f"Island {island.id} of plan" in text
    assert "requests/s" in text


@each_case(PAIRS, SMALLER)
def test_core_objects_pass_the_kubernetes_schemas(target: str, engine: str, plan: str) -> None:
    for manifest, kind in found_in(target, engine, plan).sound:
        if manifest.api_version in CORE:
            check_by_kubernetes(dict(manifest.body))
        for workload in kind.workloads(manifest) if kind and kind.workloads and manifest.api_version else ():
            for pod in workload.pods:
                spec = dict(pod.spec)
                check_by_kubernetes({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})


def test_the_objects_that_options_ask_for_pass_the_kubernetes_schemas() -> None:
    options = ExportOptions(priority_class="serving", model_volume="weights")
    found = read_manifests(render(single_node_plan(), target="kubernetes", router="vllm", options=options)).sound
    kinds = {manifest.kind for manifest, _ in found}
    shared = {"Service", "ConfigMap", "PriorityClass", "PersistentVolumeClaim", "Job", "PodDisruptionBudget"}
    rights = {"ServiceAccount", "Role", "RoleBinding"}
    assert kinds == {"Deployment", "NetworkPolicy", *shared, *rights}
    for manifest, _ in found:
        check_by_kubernetes(dict(manifest.body))
        with pytest.raises(kubernetes_validate.ValidationError):
            check_by_kubernetes({**manifest.body, "specification": {}})


@pytest.fixture(scope="module")
def upstream() -> CrdSchemas:
    return upstream_crds()


@each_case(PAIRS, SMALLER)
def test_objects_follow_the_upstream_schemas(target: str, engine: str, plan: str, upstream: CrdSchemas) -> None:
    assert read_manifests(rendered(target, engine, plan), upstream).faults == ()
    sound = found_in(target, engine, plan).sound
    custom = [m for m, _ in sound if m.api_version and m.api_version not in CORE]
    assert all(upstream.knows(m.api_version, m.kind) for m in custom)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("target", TARGETS)
def test_an_engine_that_a_target_cannot_start_is_refused(target: str, engine: str) -> None:
    if engine in TARGETS[target].engines:
        assert render(planned("single nodes", engine), target=target, engine=engine)
        return
    with pytest.raises(ExportError, match=f"Target {target}, engine: must be"):
        render(planned("single nodes", engine), target=target, engine=engine)


def test_unknown_targets_and_engines_list_all_known_ones() -> None:
    with pytest.raises(InputError) as refused:
        render(single_node_plan(), target="helm")
    assert all(name in refused.value.message for name in TARGETS)
    with pytest.raises(InputError) as refused:
        render(single_node_plan(), engine="trt")
    assert all(name in refused.value.message for name in ENGINES)


def _damages(text: str, kind: Kind) -> list[str]:
    """The text with a stray field in the first object of the kind."""
    documents = list(load_documents(text))
    for document in documents:
        if document.get("kind") == kind.kind:
            document["strayField"] = 1
            return [yaml.safe_dump_all(documents)]
    return []


@each_pair
def test_every_kind_of_a_target_refuses_a_field_that_it_does_not_know(target: str, engine: str) -> None:
    files = render(planned("single nodes", engine), target=target, engine=engine)
    tried = 0
    for kind in TARGETS[target].kinds:
        for name, text in files.items():
            for damaged in _damages(text, kind) if not kind.files else []:
                tried += 1
                faults = find_faults({**files, name: damaged}, planned("single nodes", engine))
                assert any(f"{name}, {kind.kind}" in fault.where and "strayField" in fault.got for fault in faults)
    assert tried or all(kind.files for kind in TARGETS[target].kinds)


@each_pair
def test_nothing_to_serve_is_refused_or_all_inventory(target: str, engine: str) -> None:
    plan: Plan = plan_of(())
    if any(kind.workloads for kind in TARGETS[target].kinds):
        with pytest.raises(ExportError):
            render(plan, target=target, engine=engine)
