"""README.md of an export: every file is applied or started, once, in an order that works; shells can read it."""

import re
import shutil
import subprocess
from contextlib import suppress
from functools import cache
from itertools import product

import pytest
from contract_plans import PLANS

from planner.errors import ExportError, InputError
from planner.export import TARGETS, ExportOptions, chosen_router, read_manifests, render
from planner.runs.runbook import FILE, STAGES, runbook

BASH = shutil.which("bash")
BLOCKS = re.compile(r"```sh\n(.*?)```", re.S)


@cache
def exported(target: str) -> dict[str, str]:
    unheeded = TARGETS[target].unheeded
    options = {"model_volume": "weights", "priority_class": "serving"}
    every = ExportOptions(**{key: value for key, value in options.items() if key not in unheeded})  # type: ignore[arg-type]
    for chosen, plan in product((every, ExportOptions()), PLANS.values()):
        with suppress(ExportError, InputError):
            engine = TARGETS[target].engines[0]
            files = render(plan(), target=target, engine=engine, options=chosen)
            router = chosen_router(TARGETS[target])
            return {**files, FILE: runbook(plan(), files, target=target, engine=engine, router=router)}
    raise AssertionError(f"{target} exports none of the plans")


def blocks(target: str) -> list[str]:
    return BLOCKS.findall(exported(target)[FILE])


@pytest.mark.parametrize("target", TARGETS)
def test_a_shell_reads_every_command(target: str) -> None:
    assert BASH
    for block in blocks(target):
        done = subprocess.run([BASH, "-n"], input=block, text=True, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("target", TARGETS)
def test_every_file_of_objects_is_applied_once_and_taken_back_once(target: str) -> None:
    files = exported(target)
    of_objects = {m.file for m, _ in read_manifests({**files, FILE: ""}).sound if m.api_version}
    lines = [line for block in blocks(target) for line in block.splitlines()]
    applied = [line.rpartition(" -f ")[2] for line in lines if line.startswith("kubectl apply --namespace")]
    undone = [line.rpartition(" -f ")[2] for line in lines if line.startswith("kubectl delete --namespace")]
    assert sorted(applied) == sorted(undone) == sorted(of_objects)
    others = set(files) - of_objects - {FILE, "routing.json"}
    page = files[FILE]
    releases = {name for name in others if name.endswith(".values.yaml")}  # which the helmfile names
    assert all(name in page for name in others - releases)
    assert all(name in files["releases.yaml"] for name in releases)


@pytest.mark.parametrize("target", [name for name, target in TARGETS.items() if target.applied])
def test_stages_come_in_their_order_and_go_back_in_reverse(target: str) -> None:
    page = exported(target)[FILE]
    titles = re.findall(r"^## \d+\. (.*)$", page, re.M)
    stages = [stage.title for stage in STAGES]
    there = [stages.index(title) for title in titles if title in stages]
    assert there == sorted(there)
    assert (titles[-1] == "A first request") == (target != "kueue")
    if {"priority-class.yaml", "model-volume.yaml"} <= set(exported(target)):
        back = page.partition("## Going back")[2]
        assert back.index("model-volume.yaml") < back.index("priority-class.yaml")
        assert page.index("-f priority-class.yaml") < page.index("apply --namespace NAMESPACE -f model-volume.yaml")
    assert "A claim that is deleted takes the weights along" in page or "model-volume.yaml" not in exported(target)


@pytest.mark.parametrize("image", ["", "registry.example/vllm-router:7"])
def test_a_routers_image_is_built_before_anything_is_applied(image: str) -> None:
    """And pushed where its name says to which registry; else the page tells how to name it."""
    options = ExportOptions(images=(("vllm-router", image),)) if image else ExportOptions()
    plan = PLANS["single nodes"]()
    files = render(plan, target="lws", router="vllm", engine="vllm", options=options)
    page = runbook(plan, files, target="lws", engine="vllm", router="vllm")
    name = image or "vllm-router:0.1.17"
    push = f"docker push {image}\n" if image else ""
    build = f"```sh\ndocker build --tag {name} vllm-router\n{push}```"
    assert page.index(build) < page.index("kubectl apply --namespace")
    assert "`vllm-router/Dockerfile` and `vllm-router/requirements.txt`" in page
    assert ("`--image VLLM-ROUTER=NAME`" in page) == (not image)
