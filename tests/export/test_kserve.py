"""Target `kserve`: objects as KServe's presets, controller and webhook read them."""

import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from contract_plans import placed_plan, single_node_plan
from crd_schema import upstream_crds
from export_plans import DECODE, DENSE, MODEL, PREFILL, example_plan, gpu, island, plan_of
from quick_yaml import load_documents

from planner.domain import ParallelConfig, Phase, Plan
from planner.errors import ExportError, InputError
from planner.export import ExportOptions, find_faults, render
from planner.export.targets.inference_services import ARGUMENTS_VARIABLE, PRESET_FLAGS


def kserve(plan: Plan, options: ExportOptions | None = None) -> dict[str, str]:
    return render(plan, target="kserve", options=options)


def services(files: dict[str, str]) -> list[dict[str, Any]]:
    """Every LLMInferenceService."""
    found = [d for text in files.values() for d in load_documents(text)]
    return [d for d in found if d["kind"] == "LLMInferenceService"]


def roles(service: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The object's two workloads by phase."""
    return {"prefill": service["spec"]["prefill"], "decode": service["spec"]}


def variable(pod: dict[str, Any]) -> str:
    """The further flags of a pod's main container."""
    (value,) = [row["value"] for row in pod["containers"][0]["env"] if row["name"] == ARGUMENTS_VARIABLE]
    return str(value)


def controllers_size(parallelism: dict[str, Any]) -> int:
    """Pods of a group as KServe's ParallelismSpec.GetSize has it."""
    return max(int(parallelism.get("data", 1)) // int(parallelism.get("dataLocal", 1)), 1)


@pytest.mark.parametrize("plan", [example_plan, single_node_plan])
def test_gpus_by_the_controllers_arithmetic_are_the_plans(plan: Callable[[], Plan]) -> None:
    found: Counter[str] = Counter()
    for service in services(kserve(plan())):
        for role in roles(service).values():
            if "template" not in role:
                assert role == {"replicas": 0} or role["replicas"] == 0
                continue
            size = controllers_size(role["parallelism"]) if "worker" in role else 1
            limits = role["template"]["containers"][0]["resources"]["limits"]
            found[role["template"]["nodeSelector"]["nvidia.com/gpu.product"]] += (
                role["replicas"] * size * limits["nvidia.com/gpu"]
            )
    made = plan()
    assert found == Counter(f"NVIDIA-{i.gpu}" for i in made.islands if i.phase is not None for _ in range(i.size))


def test_objects_follow_the_upstream_schema_unpaired_ones_too() -> None:
    crds = upstream_crds("kserve_*")
    islands = (PREFILL, replace(PREFILL, id="H200-1"), DECODE)
    plans = (example_plan(), plan_of(islands), plan_of((DECODE, PREFILL), model=MODEL))
    for plan in plans:
        files = kserve(plan)
        assert find_faults(files, plan, crds) == ()
    damaged = {**files, "01.yaml": files["01.yaml"].replace("dataLocal: 8", "dataLocl: 8")}
    assert any("dataLocl" in fault.got for fault in find_faults(damaged, plan, crds))


def test_an_object_holds_a_pair_and_the_rest_stand_alone() -> None:
    islands = (PREFILL, replace(PREFILL, id="H200-1"), DECODE)
    first, second = services(kserve(plan_of(islands)))
    assert [roles(first)[phase]["labels"]["planner/island"] for phase in ("prefill", "decode")] == ["h200-0", "h20-0"]
    assert roles(second)["prefill"]["labels"]["planner/island"] == "h200-1"
    # decode of nobody: no pods, and none of the preset's fields but the number
    assert (second["spec"]["replicas"], "template" in second["spec"]) == (0, False)
    assert services(kserve(example_plan()))[1]["spec"]["prefill"] == {"replicas": 0}


def shells_words(value: str) -> list[str]:
    """What the preset's `eval` makes of the variable."""
    run = subprocess.run(
        ["sh", "-c", "eval \"printf '%s\\\\0' ${FLAGS}\""],
        env={"FLAGS": value, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=True,
        timeout=20,
    )
    return run.stdout.decode().split("\0")[:-1]


def test_the_shell_reads_the_engines_flags_and_no_others() -> None:
    lws = next(iter(load_documents(render(example_plan())["03-h20-1.yaml"])))
    arguments = lws["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["args"]
    decode = services(kserve(example_plan()))[1]["spec"]
    assert shells_words(variable(decode["template"])) == [
        a
        for a in arguments[1:]
        if not a.startswith(("--port=", "--shutdown-timeout="))  # KServe's presets have both
    ]


DRAIN = "shutdown-timeout"  # the preset's own, from what is left of the grace period


def test_a_group_leaves_the_degrees_to_the_preset() -> None:
    lws = next(iter(load_documents(render(example_plan(), router="none")["02-h20-0.yaml"])))
    arguments = lws["spec"]["leaderWorkerTemplate"]["leaderTemplate"]["spec"]["containers"][0]["args"]
    decode = services(kserve(example_plan()))[0]["spec"]
    assert decode["parallelism"] == {"tensor": 1, "data": 32, "dataLocal": 8, "expert": True}
    for key in ("template", "worker"):
        words = shells_words(variable(decode[key]))
        names = {word[2:].partition("=")[0] for word in words}
        assert not names & PRESET_FLAGS
        assert words == [a for a in arguments[1:] if a[2:].partition("=")[0] not in PRESET_FLAGS | {"port", DRAIN}]


def test_a_single_pod_takes_all_degrees_as_flags() -> None:
    decode = roles(services(kserve(single_node_plan()))[0])["decode"]
    assert decode["parallelism"] == {"tensor": 4, "data": 2, "dataLocal": 2, "expert": True}
    words = shells_words(variable(decode["template"]))
    assert {"--tensor-parallel-size=4", "--data-parallel-size=2", "--enable-expert-parallel"} <= set(words)
    assert "worker" not in decode


def test_a_dense_model_tells_no_experts_and_stages_stay_in_a_pod() -> None:
    islands = (
        island("a", "H200", Phase.PREFILL, ParallelConfig(tp=4, dp=1, pp=2)),
        island("b", "H20", Phase.DECODE, ParallelConfig(tp=8, dp=1)),
    )
    (service,) = services(kserve(plan_of(islands, model=DENSE)))
    assert roles(service)["prefill"]["parallelism"] == {"tensor": 4, "pipeline": 2}
    assert roles(service)["decode"]["parallelism"] == {"tensor": 8}


def test_only_pods_that_answer_are_selected() -> None:
    files = kserve(example_plan())
    selectors = [d["spec"]["selector"] for d in load_documents(files["services.yaml"])]
    assert selectors[:2] == [
        {
            "app.kubernetes.io/name": "mixed-fleet-01",
            "kserve.io/component": "workload",
            "llm-d.ai/role": role,
        }
        for role in ("prefill", "decode")
    ]


def test_pods_override_the_preset_only_where_the_plan_says_so() -> None:
    (service,) = services(kserve(placed_plan(), ExportOptions(pin_nodes=True, priority_class="llm", queue="serving")))
    assert service["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "serving"
    for phase, role in roles(service).items():
        for key in ("template", "worker"):
            pod = role[key]
            assert [container["name"] for container in pod["containers"]] == ["main"]
            assert "command" not in pod["containers"][0]
            assert pod["priorityClassName"] == "llm"
            assert "nodeAffinity" in pod["affinity"]
            assert "initContainers" not in pod, f"{phase}: one pair keeps the preset's sidecar"


def test_packing_is_asked_of_kueue_or_missed_in_words() -> None:
    levels = (("asw", "example.com/rack"),)
    files = kserve(placed_plan(), ExportOptions(topology_labels=levels))
    assert "WARNING: not asked for below: KServe has no field for it" in files["01.yaml"]
    queued = kserve(placed_plan(), ExportOptions(topology_labels=levels, queue="serving"))
    assert "WARNING" not in queued["01.yaml"]
    annotations = services(queued)[0]["spec"]["prefill"]["annotations"]
    assert annotations["kueue.x-k8s.io/podset-required-topology"] == "example.com/rack"


def test_the_sidecar_may_fetch_from_other_objects_and_says_so() -> None:
    files = kserve(example_plan())
    command = services(files)[0]["spec"]["template"]["initContainers"][0]["command"]
    assert not any("ssrf" in word for word in command)
    assert "# WARNING: the decode sidecar takes any prefill pod" in files["01.yaml"]


def test_one_pair_keeps_the_presets_check_of_the_pool() -> None:
    files = kserve(plan_of((PREFILL, DECODE)))
    assert "initContainers" not in services(files)[0]["spec"]["template"]
    assert "decode sidecar" not in files["01.yaml"]


@pytest.mark.parametrize(
    "name", ['a"; rm -rf "$HOME', "$(id)", "a b", "`id`", "", "-flag", "a\nb", "modèle", "a'b", "x;y", "a&b"]
)
def test_model_names_that_the_presets_shell_would_read_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="Model, name: must be letters"):
        kserve(plan_of((PREFILL, DECODE), model=replace(MODEL, name=name)))


def test_names_that_kserve_would_expand_are_refused() -> None:
    for name in ("{{ .GlobalConfig }}", "plan {{"):
        with pytest.raises(InputError, match=r"Scenario, name: must not hold \{\{"):
            kserve(plan_of((PREFILL, DECODE), name=name))


@pytest.mark.parametrize(
    ("parallel", "told"),
    [
        (ParallelConfig(tp=16, dp=1), "a rank of tp 16 x pp 1 GPUs must be one stage within a pod of 8"),
        (ParallelConfig(tp=8, dp=1, pp=2), "a rank of tp 8 x pp 2 GPUs must be one stage within a pod of 8"),
        (ParallelConfig(tp=2, dp=2, pp=2), "takes pipeline stages or data-parallel ranks, got pp 2 and dp 2"),
    ],
)
def test_degrees_that_kserve_has_no_words_for_are_refused(parallel: ParallelConfig, told: str) -> None:
    with pytest.raises(ExportError, match=told) as refused:
        kserve(plan_of((PREFILL, island("H20-9", "H20", Phase.DECODE, parallel))))
    assert (refused.value.exit_status, "H20-9" in refused.value.message) == (3, True)


def test_models_and_vendors_that_kserve_cannot_serve_are_refused() -> None:
    with pytest.raises(ExportError, match="fetches it from a Hugging Face repository, got '/models/v3'"):
        kserve(plan_of((PREFILL, DECODE), model=replace(MODEL, uri="/models/v3")))
    with pytest.raises(ExportError, match="fetches it from a Hugging Face repository, got 'weights'"):
        kserve(example_plan(), ExportOptions(model_volume="weights"))
    with pytest.raises(ExportError, match="Target kserve, engine: must be vllm"):
        render(example_plan(), target="kserve", engine="sglang")
    types = (gpu("H20", vendor="AMD"), gpu("H200"))
    with pytest.raises(ExportError, match="no image is known for AMD GPUs"):
        kserve(plan_of((PREFILL, DECODE), gpus=types), ExportOptions(images=(("NVIDIA", "example/vllm:1"),)))


def test_names_leave_room_for_what_the_controller_appends() -> None:
    plan = plan_of((PREFILL, DECODE), name="a rather long name of a plan for a fleet of many kinds")
    for service in services(kserve(plan)):
        assert len(f"{service['metadata']['name']}-kserve-mn-prefill") <= 45


ONE, TWO = "01.yaml", "02.yaml"
