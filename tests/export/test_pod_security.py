"""Every pod of every export is held to Kubernetes' Pod Security Standards and to a read-only root file system without a
token; what is open is on the one list of exemptions, and its file says why."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pod_security
import pytest
from contract_plans import PLANS, single_node_plan
from export_plans import gpu, plan_of
from pod_security import CONTROLS, FoundPod
from tools.judges import release_objects
from tools.locations import require

from planner.errors import ExportError
from planner.export import TARGETS, ExportOptions, render
from planner.export.objects.security.exemptions import (
    CAPABILITIES,
    EXEMPTIONS,
    HOST_PATH,
    ROOT,
    TOKEN,
    UNTOLD_IMAGE,
    WRITABLE,
    Exemption,
)
from planner.files import load_engine

OPTIONS = {
    "plain": ExportOptions(),
    "rdma": ExportOptions(rdma="rdma/ib"),
    "by node": ExportOptions(weights="node"),
    "by job": ExportOptions(model_volume="weights", monitoring=True),
}
CASES = [
    (target.name, engine, plan, "plain")
    for target in TARGETS.values()
    for engine in target.engines
    for plan in ("single nodes", "several nodes", "aggregated", "beside")
    if plan != "beside" or target.name == "kserve"
] + [
    (target.name, target.engines[0], "single nodes", options)
    for target in TARGETS.values()
    for options in OPTIONS
    if options != "plain"
]
# what a control of the standards, or of policy engines, is called on the list
FIELDS = {
    "runAsNonRoot": ROOT,
    "runAsUser": ROOT,
    "drop ALL": CAPABILITIES,
    "capabilities": CAPABILITIES,
    "hostPath": HOST_PATH,
    "volume types": HOST_PATH,
}


@cache
def exported(target: str, engine: str, plan: str, options: str) -> dict[str, str]:
    """The files, or none where the target refuses the plan or the options."""
    heeded = OPTIONS[options]
    if "monitoring" in TARGETS[target].unheeded:
        heeded = replace(heeded, monitoring=False)
    try:
        return render(PLANS[plan](), target=target, engine=engine, options=heeded)
    except ExportError:
        return {}


def opened(pod: FoundPod) -> set[str]:
    """What of the list's fields is open in a pod."""
    fields = {FIELDS.get(control, control) for _, control in pod_security.refused(pod, "restricted")}
    if pod_security.mounts_token(pod):
        fields.add(TOKEN)
    if any(pod_security.context(c).get("readOnlyRootFilesystem") is not True for c in pod.containers):
        fields.add(WRITABLE)
    return fields


def told(text: str) -> set[Exemption]:
    """The exemptions whose reasons a file gives."""
    return {row for row in EXEMPTIONS if f": {row.why}." in text}


def level(text: str) -> str:
    """The loosest level of Pod Security that a file names."""
    levels = re.findall(r"enforce=(restricted|baseline|privileged)", text)
    return max(levels, key=("restricted", "baseline", "privileged").index) if levels else "restricted"


def cases() -> Iterator[tuple[str, str, list[FoundPod]]]:
    """File, its text, and its pods, over all cases."""
    for case in CASES:
        files = exported(*case)
        pods = pod_security.pods_of(files)
        for name, text in files.items():
            if of_file := [pod for pod in pods if pod.file == name]:
                yield f"{', '.join(case)}: {name}", text, of_file


def test_what_is_open_is_on_the_list_and_its_file_says_why() -> None:
    count = 0
    for where, text, pods in cases():
        allowed = {field for row in told(text) for field in row.opens if row.ours}
        found = {field for pod in pods for field in opened(pod)}
        assert found == allowed, f"{where}: open {found}, told {allowed}"
        count += len(pods)
    assert count > 100


def test_a_namespace_that_enforces_the_level_of_a_file_takes_its_pods() -> None:
    for where, text, pods in cases():
        enforced = level(text)
        for pod in pods if enforced != "privileged" else ():
            assert not pod_security.refused(pod, enforced), f"{where}, {pod.path}"


def test_no_row_of_the_list_is_idle() -> None:
    used = {row.name for _, text, _ in cases() for row in told(text)}
    plan = single_node_plan()
    old = replace(plan, scenario=replace(plan.scenario, engine=load_engine("vllm", "0.18.0")))
    amd = plan_of(plan.islands, gpus=(gpu("H200", vendor="AMD"), gpu("H20", vendor="AMD")), name="amd")
    for other in (old, amd):
        used |= {row.name for text in render(other, target="kubernetes").values() for row in told(text)}
    assert used | {UNTOLD_IMAGE.name} == {row.name for row in EXEMPTIONS}


SOUND: dict[str, Any] = {
    "securityContext": {"fsGroup": 1},
    "automountServiceAccountToken": False,
    "volumes": [{"name": "tmp", "emptyDir": {}}],
    "containers": [
        {
            "name": "c",
            "image": "i",
            "ports": [{"containerPort": 1}],
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "runAsNonRoot": True,
                "capabilities": {"drop": ["ALL"]},
                "seccompProfile": {"type": "RuntimeDefault"},
            },
        }
    ],
}
WORSE: Mapping[str, tuple[str, Any]] = {
    "host namespaces": ("hostPID", True),
    "privileged": ("privileged", True),
    "capabilities": ("capabilities", {"drop": ["ALL"], "add": ["SYS_ADMIN"]}),
    "hostPath": ("volumes", [{"name": "v", "hostPath": {"path": "/"}}]),
    "host ports": ("ports", [{"containerPort": 1, "hostPort": 1}]),
    "seccomp unconfined": ("seccompProfile", {"type": "Unconfined"}),
    "/proc mount": ("procMount", "Unmasked"),
    "sysctls": ("securityContext", {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}),
    "volume types": ("volumes", [{"name": "v", "nfs": {"server": "s", "path": "/"}}]),
    "privilege escalation": ("allowPrivilegeEscalation", True),
    "runAsNonRoot": ("runAsNonRoot", False),
    "runAsUser": ("runAsUser", 0),
    "seccomp": ("seccompProfile", {}),
    "drop ALL": ("capabilities", {"drop": ["NET_RAW"]}),
}


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.name)
def test_every_control_can_say_no(control: pod_security.Control) -> None:
    assert not pod_security.refused(FoundPod(file="f", path="p", spec=SOUND), "restricted")
    key, value = WORSE[control.name]
    container = dict(SOUND["containers"][0])
    spec = {**SOUND, "containers": [container]}
    if key == "ports":
        container[key] = value
    elif key in ("hostPID", "volumes", "securityContext"):
        spec[key] = value
    else:
        container["securityContext"] = {**container["securityContext"], key: value}
    assert ("c", control.name) in pod_security.refused(FoundPod(file="f", path="p", spec=spec), control.level)


def test_the_standards_are_told_to_go_by_the_pods_own_context_where_a_container_has_none() -> None:
    spec = {**SOUND, "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}}
    bare = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    spec["containers"] = [{"name": "c", "image": "i", "securityContext": bare}]
    assert not pod_security.refused(FoundPod(file="f", path="p", spec=spec), "restricted")


def test_what_helm_makes_of_releases_adds_what_the_list_says_and_no_more() -> None:
    require("kubectl")
    files = exported("llm-d", "vllm", "single nodes", "plain")
    pods = [
        pod
        for name, text in files.items()
        if name.endswith(".values.yaml")
        for pod in pod_security.pods_of({"built.yaml": release_objects(text)})
    ]
    assert len(pods) == len(PLANS["single nodes"]().islands)
    assert {row for pod in pods for row in pod_security.refused(pod, "restricted")} == {("routing-proxy", "drop ALL")}
    assert not any(map(pod_security.mounts_token, pods))


def test_the_guide_has_the_list() -> None:
    guide = (Path(__file__).parents[2] / "planner/cli/docs/guides/manifests.md").read_text()
    rows = {f"| {row.who} | {', '.join(f'`{name}`' for name in sorted(row.opens))} | {row.why} |" for row in EXEMPTIONS}
    assert rows <= set(guide.splitlines())
