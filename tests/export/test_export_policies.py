"""Images by digest, the engines' key from a Secret, and the kustomization: written, read back, and refused in words."""

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from contract_plans import aggregated_plan, planned, single_node_plan
from pod_security import pods_of
from quick_yaml import load_documents
from routers_run.programs_run import program_words
from tools import locations

from planner import files
from planner.api.planning import plan_of
from planner.errors import ExportError, InputError
from planner.export import TARGETS, ExportOptions, find_faults, image_files, render
from planner.export.manifests import images_of
from planner.runs.deployments import render_plan
from planner.runs.exports import check_export
from planner.runs.replanning.kustomizing import WAVE

KEY = ExportOptions(api_key_secret="engines:key")
NO_IMAGES = ("kueue", "ray")  # objects of queues alone; applications on a cluster of one's own
PAIRS = [
    (target.name, engine) for target in TARGETS.values() for engine in target.engines if target.name not in NO_IMAGES
]


def digests(images: set[str]) -> tuple[tuple[str, str], ...]:
    """A digest for each image."""
    return tuple((image, f"sha256:{number:064x}") for number, image in enumerate(sorted(images)))


@pytest.mark.parametrize(("target", "engine"), PAIRS)
def test_every_image_is_by_its_digest_once_all_are_given(target: str, engine: str) -> None:
    plan = planned("single nodes", engine)
    by_tag = set(images_of(render(plan, target=target, engine=engine)))
    assert by_tag
    pins = digests(by_tag)
    texts = render(plan, target=target, engine=engine, options=ExportOptions(image_digests=pins))
    assert set(images_of(texts)) == {f"{image}@{digest}" for image, digest in pins}
    assert find_faults(texts, plan) == ()
    assert image_files(texts) == {}, "what has a digest is built already"
    assert all("@sha256:" in container["image"] for pod in pods_of(texts) for container in pod.containers)


def test_missing_digests_are_named_all_at_once_and_others_passed_over() -> None:
    images = set(images_of(render(single_node_plan())))
    assert len(images) > 2
    first, *others = digests(images | {"nobodys/image:1"})
    missing = [image for image, _ in others if image in images]
    with pytest.raises(InputError, match=r"deploy\.image_digests: must have the digest of every image") as told:
        render(single_node_plan(), options=ExportOptions(image_digests=(first,)))
    assert all(image in told.value.message for image in missing)
    assert render(single_node_plan(), options=ExportOptions(image_digests=(first, *others)))


@pytest.mark.parametrize(
    ("image", "digest"),
    [("a:1", "sha256:12"), ("a:1", "md5:" + "0" * 64), ("a:1@sha256:" + "0" * 64, "sha256:" + "0" * 64), ("A B", "x")],
)
def test_malformed_digests_are_refused(image: str, digest: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"deploy.image_digests[{image}]: must be an image's name and tag")):
        render(single_node_plan(), options=ExportOptions(image_digests=((image, digest),)))


def test_pins_go_through_the_api_and_are_read_back(tmp_path: Path) -> None:
    plan = single_node_plan()
    pins = dict(digests(set(images_of(render(plan)))))
    (tmp_path / "pins.yaml").write_text(yaml.safe_dump(pins))
    assert dict(files.load_digests(tmp_path / "pins.yaml")) == pins
    (tmp_path / "wrong.yaml").write_text("a:1: [1]\n")
    with pytest.raises(InputError, match="text"):
        files.load_digests(tmp_path / "wrong.yaml")
    folder = plan_of(plan).export(tmp_path / "out", pin=pins)
    assert check_export(folder, plan).compared.faults == ()
    router = folder / "router.yaml"
    router.write_text(router.read_text().replace("sha256:", "sha256:f", 1).replace("0\n", "\n", 1))
    assert check_export(folder, plan).compared.faults


WEAKER = (
    ("01-h200-0.yaml", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false"),
    ("01-h200-0.yaml", "runAsNonRoot: true", "runAsNonRoot: false"),
    ("01-h200-0.yaml", "automountServiceAccountToken: false", "automountServiceAccountToken: true"),
    ("01-h200-0.yaml", "- ALL\n", "- NET_RAW\n"),
    ("01-h200-0.yaml", "sizeLimit: 16Gi", "sizeLimit: 160Gi"),
    ("network-policies.yaml", "    - key: planner/island\n      operator: Exists\n", ""),
    ("network-policies.yaml", "cidr: 169.254.20.10/32", "cidr: 0.0.0.0/0"),
    ("kustomization.yaml", "- network-policies.yaml\n", ""),
    ("kustomization.yaml", "sync-wave: '1'", "sync-wave: '9'"),
)


@pytest.mark.parametrize(("name", "old", "new"), WEAKER)
def test_edits_that_weaken_are_differences(name: str, old: str, new: str, tmp_path: Path) -> None:
    files.write_folder(tmp_path / "out", render_plan(single_node_plan()).folder)
    path = tmp_path / "out" / name
    text = path.read_text()
    changed = text.replace(old, new, 1)
    assert changed != text
    path.write_text(changed)
    assert check_export(tmp_path / "out", single_node_plan()).compared.faults


@pytest.mark.parametrize(
    ("target", "engine", "variable"),
    [
        ("lws", "vllm", "VLLM_API_KEY"),
        ("lws", "sglang", "SGLANG_API_KEY"),
        ("kubernetes", "vllm", "VLLM_API_KEY"),
        ("disaggregatedset", "sglang", "SGLANG_API_KEY"),
        ("llm-d", "vllm", "VLLM_API_KEY"),
        ("kserve", "vllm", "VLLM_API_KEY"),
    ],
)
def test_engines_ask_for_the_key_of_the_secret(target: str, engine: str, variable: str) -> None:
    texts = render(single_node_plan(), target=target, engine=engine, options=KEY)
    assert find_faults(texts, single_node_plan()) == ()
    engines = [c for pod in pods_of(texts) for c in pod.containers if "nvidia.com/gpu" in c["resources"]["limits"]]
    assert engines
    for container in engines:
        rows = {row["name"]: row for row in container["env"]}
        assert rows[variable]["valueFrom"] == {"secretKeyRef": {"name": "engines", "key": "key"}}
        assert ("--api-key=$(SGLANG_API_KEY)" in container.get("args", ())) is (engine == "sglang")


def test_haproxy_asks_for_the_key_where_a_program_behind_it_gives_its_own() -> None:
    """Sent to them: vllm-router 0.1.17 gives a pair's requests the key of its own variable, whoever asks."""
    texts = render(single_node_plan(), options=KEY)
    programs = [pod.containers[0] for pod in pods_of({"router.yaml": texts["router.yaml"]})]
    secrets = [
        {row["name"] for row in container["env"] if "secretKeyRef" in row.get("valueFrom", {})}
        for container in programs
    ]
    assert sorted(map(sorted, secrets)) == [["API_KEY"], ["OPENAI_API_KEY"]]
    (rule,) = re.findall(r"http-request deny deny_status 401 .*", texts["router.yaml"])
    assert rule == 'http-request deny deny_status 401 unless { req.hdr(authorization) -m str "Bearer ${API_KEY}" }'
    assert "deny_status 401" not in render(single_node_plan())["router.yaml"]
    with pytest.raises(ExportError, match="HAProxy must stand in front"):
        render(single_node_plan(), options=KEY, router="vllm")
    assert render(aggregated_plan(), options=KEY, router="vllm"), "others bring the client's own key"


def test_haproxy_takes_the_rule(tmp_path: Path) -> None:
    (config,) = [
        body["data"]["haproxy.cfg"]
        for body in load_documents(render(aggregated_plan(), options=KEY)["router.yaml"])
        if body["kind"] == "ConfigMap"
    ]
    path = tmp_path / "haproxy.cfg"
    path.write_text(config)
    environment = os.environ | {"NAMESPACE": "default", "API_KEY": "a b'\"#"}
    words = [*program_words("haproxy"), "-c", "-f", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("target", "engine", "router", "words"),
    [
        ("lws", "vllm", "aibrix", "must bring the key of clients to engines"),
        ("lws", "sglang", "sglang", "must bring the key of clients to engines"),
        ("dynamo", "vllm", "", "api_key_secret"),
        ("script", "vllm", "", "api_key_secret"),
        ("kueue", "vllm", "", "api_key_secret"),
    ],
)
def test_who_cannot_bring_the_key_refuses_it(target: str, engine: str, router: str, words: str) -> None:
    with pytest.raises(ExportError, match=words):
        render(single_node_plan(), target=target, engine=engine, router=router, options=KEY)


@pytest.mark.parametrize("text", ["a b", "engines:", "$(id)", "UPPER:key"])
def test_what_no_secret_is_called_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"deploy\.api_key_secret: must be NAME or NAME:KEY of a Secret"):
        render(single_node_plan(), options=replace(KEY, api_key_secret=text))


def _documents(texts: Mapping[str, str]) -> list[object]:
    return [body for name, text in texts.items() if name.endswith(".yaml") for body in load_documents(text)]


@pytest.mark.parametrize("target", list(TARGETS))
def test_kustomize_puts_every_object_into_its_wave(target: str, tmp_path: Path) -> None:
    options = ExportOptions(monitoring="monitoring" not in TARGETS[target].unheeded)
    rendered = render_plan(single_node_plan(), target=target, options=options)
    if not any(isinstance(b, dict) and "apiVersion" in b for b in _documents(rendered.files)):
        assert not TARGETS[target].applied
        assert "kustomization.yaml" not in rendered.folder
        return
    locations.require("kubectl")
    for name, content in rendered.folder.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    words = [str(locations.program("kubectl")), "kustomize", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    built = list(load_documents(done.stdout))
    assert len(built) == sum(isinstance(b, dict) and "apiVersion" in b for b in _documents(rendered.files))
    waves = {(b["kind"], b["metadata"]["name"]): int(b["metadata"]["annotations"][WAVE]) for b in built}
    labels = {b["metadata"]["name"]: b["metadata"].get("labels", {}) for b in built}
    routers = {name for name, row in labels.items() if row.get("app.kubernetes.io/component") == "router"}
    for (kind, name), wave in waves.items():
        first = {"NetworkPolicy": 0, "ResourceFlavor": 0, "ClusterQueue": 0, "LocalQueue": 0}
        later = {"PodMonitor": 3, "PrometheusRule": 3, "PodDisruptionBudget": 2}
        engines = 2 if name in routers or name.endswith("-routing") else 1
        assert wave == first.get(kind, later.get(kind, engines)), (kind, name)
