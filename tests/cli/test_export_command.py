"""`planner export`: options, refusals, and the check of folders, edited by hand or not."""

import re
from pathlib import Path

import pytest
import yaml
from command_line import Command

from planner.export import TARGETS


@pytest.fixture
def made(planner: Command, run: Path) -> Path:
    """Manifests of the run, target lws."""
    assert planner("export", run, "--out", "made").status == 0
    return Path("made")


def test_untouched_manifests_pass_and_those_of_a_run_folder_know_their_run(
    planner: Command, run: Path, made: Path
) -> None:
    for arguments, against in (((made, run), run), ((run / "manifests",), run.absolute())):
        answer = planner("export", "--check", *arguments)
        assert (answer.status, answer.err) == (0, "")
        assert f"what the plan {against} exports (target lws" in " ".join(answer.out.split())
        assert "Not checked: the operators' CEL rules, admission webhooks" in " ".join(answer.out.split())
    assert planner("export", "--check", made, run, "--json").json["faults"] == []


def test_every_fault_of_an_edited_folder_is_told_and_ends_in_2(planner: Command, run: Path, made: Path) -> None:
    looked_at = [*made.glob("*.yaml"), *made.glob("vllm-router/*")]
    file = sorted(made.glob("0*.yaml"))[0]
    text = file.read_text()
    file.write_text(text.replace("startupPolicy: LeaderCreated", "startupPolicy: Whenever"))
    routing = made / "routing.yaml"
    routing.write_text(routing.read_text().replace("kind: ConfigMap", "kind: ConfigMop"))
    answer = planner("export", "--check", made, run)
    assert answer.status == 2
    lines = answer.out.splitlines()
    assert f"{file.name}, LeaderWorkerSet" in lines[0]
    assert "spec.startupPolicy: must be 'LeaderCreated' as planned, got 'Whenever'" in lines[0]
    assert lines[1].startswith("routing.yaml, ConfigMap ")
    assert "kind: must be 'ConfigMap' as planned, got 'ConfigMop'" in lines[1]
    assert f"made: 2 differences in {len(looked_at)} files" in answer.err
    assert len(planner("export", "--check", made, run, "--json").out) > 0


def test_another_plans_gpus_are_noticed(planner: Command, run: Path, made: Path) -> None:
    file = sorted(made.glob("0*.yaml"))[0]
    first = next(iter(yaml.safe_load_all(file.read_text())))
    copies = first["spec"]["replicas"]
    file.write_text(file.read_text().replace(f"  replicas: {copies}\n", f"  replicas: {copies + 1}\n"))
    answer = planner("export", "--check", made, run)
    assert answer.status == 2
    assert f"spec.replicas: must be {copies} as planned, got {copies + 1}" in answer.out


def test_given_schemas_are_held_against_every_object(planner: Command, run: Path, made: Path) -> None:
    Path("crds").mkdir()
    schema = {
        "type": "object",
        "required": ["spec"],
        "properties": {"spec": {"type": "object", "properties": {"replicas": {"type": "integer", "maximum": 0}}}},
    }
    definition = {
        "kind": "CustomResourceDefinition",
        "spec": {
            "group": "leaderworkerset.x-k8s.io",
            "names": {"kind": "LeaderWorkerSet"},
            "versions": [{"name": "v1", "served": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    Path("crds/lws.yaml").write_text(yaml.safe_dump(definition))
    answer = planner("export", "--check", made, run, "--schemas", "crds")
    assert answer.status == 2
    assert "spec.replicas: must follow the given schema" in answer.out
    assert "spec: must follow the given schema, got Additional properties are not allowed" in answer.out
    refused = planner("export", run, "--out", "other", "--schemas", "crds")
    assert refused.status != 0
    assert not Path("other").exists()
    Path("crds/lws.yaml").write_text("kind: ConfigMap\n")
    assert (
        "must hold a CustomResourceDefinition or a JSON schema"
        in planner("export", "--check", made, run, "--schemas", "crds").err
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--target", "helm"), "must be one of lws"),
        (("--engine", "trt"), "must be one of vllm, sglang"),
        (("--image", "AMD"), "--image: must be VENDOR=IMAGE"),
        (("--image", "NVIDIA=vllm:latest"), "must name a fixed tag"),
        (("--topology", "asw"), "--topology: must be LEVEL=LABEL"),
        (("--topology", "rack=example.com/rack"), "must be of asw, aggregation"),
        (("--pod-resource", "rdma/ib=many"), "--pod-resource: must be RESOURCE=COUNT"),
        (("--cpus-per-gpu", "0"), "cpus_per_gpu: must be at least 1"),
        (("--pin-nodes",), "must have nodes for island"),
        (("--priority-class", "$(HOME)"), "priority_class: must be a DNS label"),
        (("--queue", "a: b"), "queue: must be a DNS label"),
        (("--name", "!!!"), "must hold a letter or a digit"),
        (("--check", "gone"), "--out: must be left out with --check"),
    ],
)
def test_bad_options_end_in_2_and_write_nothing(
    planner: Command, run: Path, arguments: tuple[str, ...], told: str
) -> None:
    answer = planner("export", run, "--out", "manifests", *arguments)
    assert (answer.status, answer.out) == (2, "")
    assert told in answer.err
    assert not Path("manifests").exists()


def test_an_unknown_target_lists_every_target(planner: Command, run: Path) -> None:
    told = planner("export", run, "--out", "manifests", "--target", "helm").err
    assert all(name in told for name in TARGETS)


def test_run_and_out_are_needed_to_write(planner: Command, run: Path) -> None:
    for arguments, missing in (((), "RUN"), ((run,), "--out")):
        answer = planner("export", *arguments)
        assert (answer.status, answer.out) == (2, "")
        assert f"Invalid value for {missing}: must be given to write manifests" in answer.err
    assert planner("export", "--check", "nowhere").status == 2


def test_a_target_that_cannot_express_the_plan_ends_in_3(planner: Command, run: Path) -> None:
    answer = planner("export", run, "--out", "manifests", "--target", "kubernetes")
    assert (answer.status, answer.out) == (3, "")
    assert "a copy of the model must fit one pod, got" in " ".join(answer.err.split())
    assert not Path("manifests").exists()


def test_options_reach_the_manifests(planner: Command, run: Path) -> None:
    flags = (
        ("--name", "prod"),
        ("--cpus-per-gpu", 4),
        ("--memory-gib-per-gpu", 96),
        ("--pod-resource", "rdma/ib=8"),
        ("--priority-class", "serving"),
        ("--queue", "team-a"),
        ("--topology", "asw=example.com/rack"),
        ("--model-volume", "weights"),
    )
    answer = planner("export", run, "--out", "manifests", *(part for pair in flags for part in pair))
    assert answer.status == 0, answer.err
    first = next(iter(yaml.safe_load_all(sorted(Path("manifests").glob("0*.yaml"))[0].read_text())))
    assert first["metadata"]["name"].startswith("prod-")
    assert first["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team-a"
    pod = first["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
    limits = pod["containers"][0]["resources"]["limits"]
    gpus = limits["nvidia.com/gpu"]
    assert (limits["cpu"], limits["memory"], limits["rdma/ib"]) == (4 * gpus, f"{96 * gpus}Gi", 8)
    assert pod["priorityClassName"] == "serving"
    assert {"priority-class.yaml", "model-volume.yaml"} <= {path.name for path in Path("manifests").iterdir()}
    assert planner("export", "--check", "manifests", run).status == 0


def test_the_help_names_every_target(planner: Command) -> None:
    answer = planner("export", "--help")
    assert answer.status == 0
    assert all(re.search(rf"\b{name}\b", answer.out) for name in TARGETS)


def test_images_are_pinned_by_a_file_that_has_all_of_them(planner: Command, run: Path) -> None:
    pins = Path("pins.yaml")
    pins.write_text("nobodys/image:1: sha256:" + "0" * 64 + "\n")
    missing = planner("export", run, "--out", "pinned", "--pin", pins)
    assert (missing.status, Path("pinned").exists()) == (2, False)
    images = re.search(r"got none of (.*?)\. ", " ".join(missing.err.split()) + " ")
    assert images is not None
    pins.write_text("".join(f"{image}: sha256:{number:064x}\n" for number, image in enumerate(images[1].split(", "))))
    assert planner("export", run, "--out", "pinned", "--pin", pins).status == 0
    assert planner("export", "--check", "pinned", run).status == 0
    text = "".join(path.read_text() for path in Path("pinned").glob("*.yaml"))
    assert len(re.findall(r"image: .*@sha256:", text)) == len(re.findall(r"image: ", text))
