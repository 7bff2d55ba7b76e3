"""Exports before a policy linter of other people, Checkov: what it still refuses is listed here, each with its reason.

`make manifest-tools` brings it. It knows Deployments and Jobs and no LeaderWorkerSets, so that every pod's template is
put to it as a Pod; images are by digest, as `planner export --pin` writes them.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pod_security
import pytest
import yaml
from contract_plans import single_node_plan
from quick_yaml import load_documents
from tools import locations

from planner.export import ExportOptions, render
from planner.export.manifests import images_of

EVERYWHERE = {
    "CKV_K8S_8": "a router's health tells of its servers, which starting it anew would not mend; workers of groups "
    "answer no HTTP, and operators add probes of their own",
    "CKV_K8S_21": "manifests leave their namespace to whoever applies them",
    "CKV_K8S_40": "users are the images' own, 2000 and 1000: their folders belong to these",
}
ON_THE_LIST = {
    "CKV_K8S_22": "SGLang's image writes to itself",
    "CKV_K8S_23": "SGLang's image has root alone",
    "CKV_K8S_38": "routers that look for pods, and Dynamo, ask the API server",
}
KINDS = ("Deployment", "NetworkPolicy", "Role", "RoleBinding")
OPERATORS = {"CKV_K8S_9": "Dynamo's operator adds probes"}
EXPORTS = {
    ("lws", "vllm"): set(EVERYWHERE),
    ("kubernetes", "sglang"): {*EVERYWHERE, *ON_THE_LIST},
    ("dynamo", "vllm"): {"CKV_K8S_8", "CKV_K8S_21", "CKV_K8S_40", "CKV_K8S_38", *OPERATORS},
}
BARE = {"containers": [{"name": "c", "image": "c"}]}


def pinned(target: str, engine: str) -> dict[str, str]:
    """The export with every image by a digest."""
    plan = single_node_plan()
    images = sorted(set(images_of(render(plan, target=target, engine=engine))))
    digests = tuple((image, f"sha256:{number:064x}") for number, image in enumerate(images))
    return render(plan, target=target, engine=engine, options=ExportOptions(image_digests=digests))


def as_pods(files: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Every template as a Pod, and the other objects that the linter knows."""
    for number, pod in enumerate(pod_security.pods_of(files)):
        yield _pod(f"pod-{number}", pod.labels, pod.spec)
    for text in files.values():
        yield from (body for body in load_documents(text) if body.get("kind") in KINDS)


def _pod(name: str, labels: Mapping[str, str], spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": dict(spec),
    }


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """File -> checks that something in it does not pass, of one run over all exports."""
    locations.require("checkov")
    folder = tmp_path_factory.mktemp("lint")
    for target, engine in EXPORTS:
        bodies = list(as_pods(pinned(target, engine)))
        (folder / f"{target}-{engine}.yaml").write_text(yaml.safe_dump_all(bodies))
    (folder / "bare.yaml").write_text(yaml.safe_dump(_pod("bare", {}, BARE)))
    words = [sys.executable, "-m", "checkov.main", "--directory", str(folder), "--framework", "kubernetes"]
    words += ["--compact", "--quiet", "--skip-download", "--output", "json"]
    environment = {"PYTHONPATH": str(locations.folder("checkov")), "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=240, check=False)
    failed = json.loads(done.stdout)["results"]["failed_checks"]
    return {
        path.name: {row["check_id"] for row in failed if row["file_path"] == f"/{path.name}"}
        for path in folder.glob("*.yaml")
    }


def test_what_the_linter_refuses_has_a_reason(refused: dict[str, set[str]]) -> None:
    for (target, engine), expected in EXPORTS.items():
        assert refused[f"{target}-{engine}.yaml"] == expected, (target, engine)


def test_the_linter_can_say_no(refused: dict[str, set[str]]) -> None:
    assert {"CKV_K8S_20", "CKV_K8S_23", "CKV_K8S_22", "CKV_K8S_37", "CKV_K8S_43"} <= refused["bare.yaml"]
