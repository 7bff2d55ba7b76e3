"""A batch as Kubernetes objects, held against Kubernetes' own schemas and against what a batch needs."""

from pathlib import PurePosixPath
from typing import Any

import kubernetes_validate
import pytest
import yaml

from planner.errors import InputError
from planner.export.batch_objects import TLS_FOLDER, BatchObjects, dask_files, indexed_job_files

SOUND: dict[str, Any] = {
    "name": "nightly",
    "image": "registry/planner:0.1.0",
    "claim": "planner-files",
    "mount": PurePosixPath("/files"),
    "jobs": PurePosixPath("/files/jobs.yaml"),
    "folder": PurePosixPath("/files/out/nightly"),
    "workers": 16,
    "cpus": 2,
}


def documents(files: dict[str, str]) -> list[dict[str, Any]]:
    return [document for text in files.values() for document in yaml.safe_load_all(text)]


@pytest.fixture(params=[indexed_job_files, dask_files], ids=["indexed", "dask"])
def objects(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return documents(request.param(BatchObjects(**SOUND)))


def templates(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [thing["spec"]["template"] for thing in objects if "template" in thing["spec"]]


def test_kubernetes_accepts_them(objects: list[dict[str, Any]]) -> None:
    version = kubernetes_validate.latest_version()
    for thing in objects:
        kubernetes_validate.validate(thing, version, strict=True)
    assert len({(thing["kind"], thing["metadata"]["name"]) for thing in objects}) == len(objects)


def test_pods_have_no_rights_no_token_and_a_size(objects: list[dict[str, Any]]) -> None:
    assert len(templates(objects)) >= 2
    for template in templates(objects):
        spec, (container,) = template["spec"], template["spec"]["containers"]
        assert spec["automountServiceAccountToken"] is False
        context = container["securityContext"]
        assert (context["runAsNonRoot"], context["runAsUser"], spec["securityContext"]["fsGroup"]) == (True, 1000, 1000)
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
        assert not any("valueFrom" in variable for variable in container["env"])
        places = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
        assert places == {"/files", "/tmp"}


def test_selectors_select_the_pods(objects: list[dict[str, Any]]) -> None:
    """Services, Deployments and policies: by labels that some template has."""
    labels = [template["metadata"]["labels"] for template in templates(objects)]
    for thing in objects:
        spec = thing["spec"]
        selector = spec.get("podSelector", spec.get("selector"))
        if selector is not None:
            wanted = selector.get("matchLabels", selector)
            assert any(wanted.items() <= template.items() for template in labels)
    (policy,) = [thing for thing in objects if thing["kind"] == "NetworkPolicy"]
    assert all(policy["spec"]["podSelector"]["matchLabels"].items() <= template.items() for template in labels)
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]


def test_the_pods_of_the_job_are_the_shards() -> None:
    _, shards, tables = documents(indexed_job_files(BatchObjects(**SOUND)))
    assert (shards["spec"]["completionMode"], shards["spec"]["completions"]) == ("Indexed", 16)
    (container,) = shards["spec"]["template"]["spec"]["containers"]
    (rule, _) = shards["spec"]["podFailurePolicy"]["rules"]
    assert (rule["action"], rule["onExitCodes"]["containerName"]) == ("FailIndex", container["name"])
    assert rule["onExitCodes"]["values"] == [2, 3]  # what the planner says of bad input, and where nothing serves
    assert container["command"][:3] == ["planner", "batch", "/files/jobs.yaml"]
    assert container["command"][-2:] == ["--shard", "$(JOB_COMPLETION_INDEX)/16"]
    assert tables["spec"]["template"]["spec"]["containers"][0]["command"][-1] == "--resume"


def test_the_client_and_the_workers_know_the_scheduler_by_its_service() -> None:
    objects = documents(dask_files(BatchObjects(**SOUND)))
    (service,) = [thing for thing in objects if thing["kind"] == "Service"]
    address = f"tls://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
    commands = [template["spec"]["containers"][0]["command"] for template in templates(objects)]
    assert [address in command for command in commands] == [False, True, True, False]
    assert [command[:2] for command in commands] == [
        ["dask", "scheduler"],
        ["dask", "worker"],
        ["planner", "batch"],
        ["planner", "batch"],
    ]


def test_all_that_speak_by_dask_have_the_certificate_and_no_manifest_has_the_key() -> None:
    """Each where Dask looks for that of its role; the tables' pod speaks to nobody, and has none."""
    files = dask_files(BatchObjects(**SOUND))
    assert not any(
        "PRIVATE KEY" in text or thing["kind"] == "Secret" for text in files.values() for thing in documents({"": text})
    )
    *certified, tables = templates(documents(files))
    for role, template in zip(("SCHEDULER", "WORKER", "CLIENT"), certified, strict=True):
        (container,) = template["spec"]["containers"]
        environment = {variable["name"]: variable["value"] for variable in container["env"]}
        assert environment["DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"] == "True"
        assert environment[f"DASK_DISTRIBUTED__COMM__TLS__{role}__KEY"] == f"{TLS_FOLDER}/tls.key"
        (mount,) = [mount for mount in container["volumeMounts"] if mount["mountPath"] == str(TLS_FOLDER)]
        (volume,) = [volume for volume in template["spec"]["volumes"] if volume["name"] == mount["name"]]
        assert volume["secret"]["secretName"] == "nightly-tls"
        assert f"kubectl create secret generic {volume['secret']['secretName']} " in files["20-scheduler.yaml"]
        assert not any(word.startswith("tcp:") for word in container["command"])
    assert "tls" not in str(tables)


@pytest.mark.parametrize(
    ("change", "option"),
    [
        ({"name": "Nightly"}, "--name"),
        ({"name": "a" * 41}, "--name"),
        ({"name": "a\nb"}, "--name"),
        ({"claim": "planner_files"}, "--claim"),
        ({"image": "planner:1 --privileged"}, "--image"),
        ({"image": ""}, "--image"),
        ({"image": "$(KEY)"}, "--image"),
        ({"mount": PurePosixPath("/")}, "--mount"),
        ({"mount": PurePosixPath("/files:ro")}, "--mount"),
        (
            {"mount": PurePosixPath("/tmp"), "jobs": PurePosixPath("/tmp/jobs"), "folder": PurePosixPath("/tmp/b")},
            "--mount",
        ),
        ({"jobs": PurePosixPath("jobs.yaml")}, "JOBS"),
        ({"jobs": PurePosixPath("/files/../etc/passwd")}, "JOBS"),
        ({"jobs": PurePosixPath("/elsewhere/jobs.yaml")}, "JOBS"),
        ({"folder": PurePosixPath("/files")}, "--batch"),
        ({"folder": PurePosixPath("/files/$(HOME)")}, "--batch"),
        ({"folder": PurePosixPath("/files/a\nb")}, "--batch"),
        ({"workers": 0}, "--workers"),
        ({"memory_gb": float("nan")}, "--memory-gb"),
    ],
)
def test_what_cannot_be_written_is_refused(change: dict[str, Any], option: str) -> None:
    with pytest.raises(InputError, match=f"{option}.* must be"):
        BatchObjects(**{**SOUND, **change})
