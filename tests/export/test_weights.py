"""Who fetches the weights: one Job, each node or every pod; the token by reference alone; and mistakes in them.

The script that fetches is run here against a stand-in for huggingface_hub, and the wait of an init container by sh.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from contract_plans import single_node_plan
from export_plans import MODEL, plan_of
from quick_yaml import load_documents

from planner.domain import Plan
from planner.errors import ExportError, InputError
from planner.export import ExportOptions, find_faults, render

TARGETS = ["lws", "kubernetes", "disaggregatedset", "llm-d", "dynamo"]
JOB = ExportOptions(model_volume="weights", hf_secret="hub:token")
NODE = ExportOptions(weights="node", hf_secret="hub:token")
HUB = ExportOptions(hf_secret="hub:token")
SECRET = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}
MARK = "/models/.planner-ready/deepseek-ai--DeepSeek-V3"


def parts(value: Any, key: str) -> Iterator[Any]:
    """What every key of this name holds, however deep."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == key:
                yield inner
            yield from parts(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from parts(inner, key)


def bodies(files: dict[str, str]) -> list[dict[str, Any]]:
    """All objects of the YAML files."""
    return [body for name, text in files.items() if name.endswith(".yaml") for body in load_documents(text) if body]


def engines(files: dict[str, str]) -> list[dict[str, Any]]:
    """Containers that ask for GPUs."""
    found = [container for group in parts(bodies(files), "containers") for container in group]
    return [c for c in found if "nvidia.com/gpu" in c.get("resources", {}).get("limits", {})]


def variables(container: dict[str, Any]) -> dict[str, Any]:
    """Name -> row."""
    return {row["name"]: row for row in container.get("env", [])}


@pytest.mark.parametrize("target", TARGETS)
def test_a_job_fills_the_claim_and_engines_wait_and_only_read(target: str) -> None:
    plan = single_node_plan()
    files = render(plan, target=target, options=JOB, router="none")
    (job,) = [body for body in bodies(files) if body.get("kind") == "Job"]
    kubernetes_validate.validate(job, kubernetes_validate.latest_version(), strict=True)
    (fetch,) = job["spec"]["template"]["spec"]["containers"]
    assert fetch["volumeMounts"] == [{"name": "model", "mountPath": "/models"}]
    assert SECRET in fetch["env"]
    assert fetch["command"][-2:] == ["deepseek-ai/DeepSeek-V3", MARK]
    for container in engines(files):
        assert {"name": "model", "mountPath": "/models", "readOnly": True} in container["volumeMounts"]
        assert variables(container)["HF_HUB_OFFLINE"]["value"] == "1"
        assert "HF_TOKEN" not in variables(container), "nobody else fetches"
    waits = [container for group in parts(bodies(files), "initContainers") for container in group]
    assert len(waits) >= len(engines(files))
    assert all(wait["command"][-1] == MARK for wait in waits)
    assert find_faults(files, plan) == () == find_faults(files)


@pytest.mark.parametrize("target", TARGETS)
def test_a_node_fetches_once_and_has_the_token(target: str) -> None:
    plan = single_node_plan()
    files = render(plan, target=target, options=NODE, router="none")
    assert "Job" not in {body.get("kind") for body in bodies(files)}
    fetches = [container for group in parts(bodies(files), "initContainers") for container in group]
    assert len(fetches) >= len(engines(files))
    assert all(SECRET in fetch["env"] and fetch["command"][-1] == "node" for fetch in fetches)
    assert all("HF_TOKEN" not in variables(container) for container in engines(files))
    assert {v["hostPath"]["path"] for group in parts(bodies(files), "volumes") for v in group if "hostPath" in v} == {
        "/var/lib/planner-models"
    }
    assert "pod-security.kubernetes.io/enforce=privileged" in "".join(files.values())
    assert find_faults(files, plan) == ()


@pytest.mark.parametrize("target", TARGETS)
def test_from_the_hub_every_engine_has_the_token(target: str) -> None:
    files = render(single_node_plan(), target=target, options=HUB, router="none")
    assert engines(files)
    assert all(SECRET in container["env"] for container in engines(files))
    assert not list(parts(bodies(files), "initContainers"))


@pytest.mark.parametrize("target", TARGETS)
def test_no_secret_is_named_unless_somebody_says_which(target: str) -> None:
    for options in (ExportOptions(), ExportOptions(model_volume="weights"), ExportOptions(weights="node")):
        assert not list(
            parts(bodies(render(single_node_plan(), target=target, options=options, router="none")), "secretKeyRef")
        )


def test_a_model_at_a_path_is_fetched_by_nobody() -> None:
    plan = at_path()
    files = render(plan, target="kubernetes", options=ExportOptions(model_volume="weights"))
    assert "weights-job.yaml" not in files
    mounts = [mount for container in engines(files) for mount in container["volumeMounts"] if mount["name"] == "model"]
    assert {mount["mountPath"] for mount in mounts} == {"/srv/deepseek"}
    assert not any("readOnly" in mount for mount in mounts), "its owner fills it"
    assert find_faults(files, plan) == ()


def at_path() -> Plan:
    """The single nodes' plan with a model at a path."""
    plan = single_node_plan()
    return plan_of(plan.islands, name="path", model=replace(MODEL, uri="/srv/deepseek"))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (ExportOptions(weights="torrent"), "weights: must be one of job, node, hub, got 'torrent'"),
        (ExportOptions(weights="job"), "weights: must not be job without a model_volume"),
        (ExportOptions(weights="node", model_volume="w"), "weights: must not be node beside a model_volume"),
        (ExportOptions(hf_secret="$(id)"), "hf_secret: must be NAME or NAME:KEY of a Secret"),
        (ExportOptions(hf_secret="hub:"), "hf_secret: must be NAME or NAME:KEY of a Secret"),
        (ExportOptions(hf_secret="hub:a b"), "hf_secret: must be NAME or NAME:KEY of a Secret"),
        (ExportOptions(load_gb_per_s=0.0), "load_gb_per_s: must be 0.01 to 1000 GB/s"),
        (ExportOptions(load_gb_per_s=float("nan")), "load_gb_per_s: must be 0.01 to 1000 GB/s"),
    ],
)
def test_options_that_nobody_can_carry_out_are_refused(options: ExportOptions, told: str) -> None:
    with pytest.raises(InputError, match=re.escape(told)):
        render(single_node_plan(), target="kubernetes", options=options)


@pytest.mark.parametrize("options", [ExportOptions(weights="node"), HUB])
def test_a_model_at_a_path_refuses_to_be_fetched(options: ExportOptions) -> None:
    with pytest.raises(InputError, match="must be left out, and hf_secret, for a model at a path"):
        render(at_path(), target="kubernetes", options=options)


@pytest.mark.parametrize("target", ["kserve", "script", "kueue"])
def test_targets_that_cannot_carry_them_say_so(target: str) -> None:
    with pytest.raises(ExportError, match="nothing in its files can carry weights"):
        render(single_node_plan(), target=target, options=replace(NODE, hf_secret=""))


_HUB_STAND_IN = """\
import os, pathlib
def snapshot_download(repository, ignore_patterns=()):
    home = pathlib.Path(os.environ["HF_HOME"])
    with open(home / "calls", "a") as calls:
        print(repository, file=calls)
    if (home / "broken").exists():
        raise OSError("half of it")
"""


def fetched(files: dict[str, str], folder: Path) -> list[list[str]]:
    """The commands that fetch, with the mark in `folder`, where a stand-in for the hub lies, too."""
    (folder / "huggingface_hub.py").write_text(_HUB_STAND_IN)
    found = [c for key in ("containers", "initContainers") for group in parts(bodies(files), key) for c in group]
    commands = [c["command"] for c in found if c["name"] == "fetch-weights"]
    return [[sys.executable, *(word.replace("/models", str(folder)) for word in row[1:])] for row in commands]


@pytest.mark.parametrize("options", [JOB, NODE])
def test_the_script_leaves_its_mark_once_all_is_there(options: ExportOptions, tmp_path: Path) -> None:
    command = fetched(render(single_node_plan(), target="kubernetes", options=options), tmp_path)[0]
    environment = {**os.environ, "HF_HOME": str(tmp_path), "PYTHONPATH": str(tmp_path)}
    mark = tmp_path / ".planner-ready" / "deepseek-ai--DeepSeek-V3"
    (tmp_path / "broken").touch()
    assert subprocess.run(command, env=environment, capture_output=True, check=False, timeout=60).returncode != 0
    assert not mark.exists()
    (tmp_path / "broken").unlink()
    for _ in range(2):
        subprocess.run(command, env=environment, check=True, timeout=60)
        assert mark.exists()
    assert (tmp_path / "calls").read_text().splitlines() == ["deepseek-ai/DeepSeek-V3"] * 2, "the third has no need"


def test_a_pod_waits_for_the_mark_and_no_longer(tmp_path: Path) -> None:
    files = render(single_node_plan(), target="kubernetes", options=JOB)
    wait = next(container for group in parts(bodies(files), "initContainers") for container in group)
    command = [word.replace("/models", str(tmp_path)).replace("sleep 10", "sleep 0.05") for word in wait["command"]]
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(command, capture_output=True, check=False, timeout=0.4)
    (tmp_path / ".planner-ready").mkdir()
    (tmp_path / ".planner-ready" / "deepseek-ai--DeepSeek-V3").touch()
    assert subprocess.run(command, capture_output=True, check=True, timeout=5).stdout == b""


def test_jobs_and_budgets_of_others_are_theirs() -> None:
    plan = single_node_plan()
    files = render(plan, target="kubernetes", options=JOB)
    theirs = (
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: load-test, annotations: {a: b}}\n"
        "spec: {completions: 3, template: {spec: {restartPolicy: Never, containers: [{name: c, image: c}]}}}\n"
        "---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: proxy}\n"
        "spec: {minAvailable: 1, selector: {matchLabels: {app: proxy}}}\n"
    )
    assert find_faults(files | {"theirs.yaml": theirs}, plan) == ()
