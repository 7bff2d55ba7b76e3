"""A batch as Kubernetes objects: an indexed Job whose pods share the jobs, or a Dask cluster with a client.

Plain objects, no custom resources. Every pod sees one volume, at the same path: the jobs, the scenarios and the batch's
folder lie on it. Pods run as a user without rights, write nowhere else but on the volume and in a folder of their own
memory, have no token of the cluster, and speak to nobody, or with Dask to each other: by TLS, with the certificate of a
Secret that whoever applies the objects makes, since a manifest is no place for a key.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from planner.errors import EXIT_BAD_INPUT, EXIT_INFEASIBLE, InputError
from planner.export.objects.documents import yaml_text
from planner.export.objects.names import is_dns_label, is_dns_subdomain, is_label_value

DASK_PORT = 8786
INDEX = "$(JOB_COMPLETION_INDEX)"
"""Kubernetes puts the number of an indexed Job's pod in its place."""
LONGEST_NAME = 40  # pods of a Job are called by it, with up to 23 characters more
USER = 1000
TLS_FOLDER = PurePosixPath("/etc/planner-tls")
_SCRATCH = PurePosixPath("/tmp")  # noqa: S108  (the pod's own folder)
_INSTANCE, _PART = "app.kubernetes.io/instance", "app.kubernetes.io/component"
_LEAST_MEMORY_GB = 1.0

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchObjects:
    """What a batch's objects say. `jobs` and `folder`: the jobs and where the batch is written, below `mount`, where
    the volume of `claim` lies in every pod. `workers`: pods side by side, each with `cpus` cores and `memory_gb` GB.

    Raises InputError where a name cannot be that of an object, or a path or an image cannot be written into one.
    """

    name: str
    image: str
    claim: str
    mount: PurePosixPath
    jobs: PurePosixPath
    folder: PurePosixPath
    workers: int
    cpus: int = 1
    memory_gb: float = 4.0

    def __post_init__(self) -> None:
        if not is_dns_label(self.name, LONGEST_NAME):
            raise _refused("--name", f"a DNS label of at most {LONGEST_NAME} characters", self.name, "Give nightly.")
        if not is_dns_subdomain(self.claim):
            raise _refused("--claim", "the name of a PersistentVolumeClaim", self.claim, "Give planner-files.")
        if not self.image or not self.image.isprintable() or set(self.image) & set(" $\"'\\"):
            raise _refused("--image", "the name of an image", self.image, "Give registry/planner:0.1.0.")
        _require_path("--mount", self.mount, None)
        if self.mount in (_SCRATCH, TLS_FOLDER):
            raise _refused("--mount", "a folder of the volume's own", str(self.mount), "Give /files.")
        for option, path in (("JOBS", self.jobs), ("--batch", self.folder)):
            _require_path(option, path, self.mount)
        if self.workers < 1 or self.cpus < 1 or not _LEAST_MEMORY_GB <= self.memory_gb < float("inf"):
            raise InputError(
                f"--workers, --cpus, --memory-gb: must be at least 1, got {self.workers}, {self.cpus}, "
                f"{self.memory_gb:g}.",
                hint="Give pods a core and 4 GB.",
            )


def indexed_job_files(batch: BatchObjects) -> dict[str, str]:
    """File name -> text: a Job of `workers` pods, each with its share of the jobs; the Job that makes the tables of
    all, to be applied when that is complete; and who may speak to their pods: nobody."""
    pods = _job(batch, "shards", [*_batch(batch), "--shard", f"{INDEX}/{batch.workers}"])
    pods["spec"] |= {
        "completionMode": "Indexed",
        "completions": batch.workers,
        "parallelism": batch.workers,
        "backoffLimitPerIndex": 3,
        "maxFailedIndexes": batch.workers,  # one share's failure stops no other
        "podFailurePolicy": _failures("shards", "FailIndex"),
    }
    del pods["spec"]["backoffLimit"]
    notes = (
        "A pod that is started anew goes on where it was.",
        "An index that failed with exit status 3 has done its share: some of its jobs are infeasible.",
    )
    return {
        "10-network-policy.yaml": yaml_text((), [_policy(batch, ingress=[], egress=[])]),
        "20-shards.yaml": yaml_text(notes, [pods]),
        "30-tables.yaml": _tables(batch),
    }


def dask_files(batch: BatchObjects) -> dict[str, str]:
    """File name -> text: a Dask scheduler with its Service, `workers` workers, the Job of the client, the Job that
    makes the tables of all, and who may speak to their pods: they themselves, with a certificate."""
    address = f"tls://{batch.name}-scheduler:{DASK_PORT}"
    pages = ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]  # pages ask for no certificate
    scheduler = ["dask", "scheduler", "--protocol", "tls", "--port", str(DASK_PORT), *pages]
    worker = ["dask", "worker", address, "--no-nanny", "--nthreads", str(batch.cpus), *pages]
    worker += ["--local-directory", str(_SCRATCH), "--death-timeout", "60"]
    client = [*_batch(batch), "--shard", "0/1", "--executor", "dask", "--scheduler", address]
    workers = _deployment(batch, "worker", worker, batch.workers)
    return {
        "10-network-policy.yaml": yaml_text((), [_policy(batch, **_among_themselves(batch))]),
        "20-scheduler.yaml": yaml_text(
            _key_notes(batch), [_service(batch), _certified(batch, "scheduler", _scheduler(batch, scheduler))]
        ),
        "30-workers.yaml": yaml_text((), [_certified(batch, "worker", workers)]),
        "40-client.yaml": yaml_text(
            (f"Apply when the others run: kubectl rollout status deployment/{batch.name}-worker",),
            [_certified(batch, "client", _job(batch, "client", client, cpus=1))],
        ),
        "50-tables.yaml": _tables(batch),
    }


def _key_notes(batch: BatchObjects) -> tuple[str, ...]:
    secret = _secret(batch)
    return (
        "Dask hands functions to its workers as they are: whoever it lets in runs code in the pods. Scheduler, workers",
        f"and client let in those alone that have a certificate of the Secret {secret}. Make it before you apply:",
        f"openssl req -x509 -newkey rsa:3072 -nodes -days 365 -subj /CN={batch.name} "
        "-addext keyUsage=critical,keyCertSign,digitalSignature -keyout tls.key -out tls.crt",
        f"kubectl create secret generic {secret} --from-file=ca.crt=tls.crt --from-file=tls.crt --from-file=tls.key",
        "rm tls.key",
        "A Secret of cert-manager with these keys does as well, if its CA signs for this batch alone.",
    )


def _secret(batch: BatchObjects) -> str:
    return f"{batch.name}-tls"


def _certified(batch: BatchObjects, role: str, thing: Object) -> Object:
    """The Deployment or Job with the certificate in its pods, where Dask looks for that of a `role`."""
    spec = thing["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    own = f"TLS__{role.upper()}"
    files = {"TLS__CA_FILE": "ca.crt", f"{own}__CERT": "tls.crt", f"{own}__KEY": "tls.key"}
    values = {"REQUIRE_ENCRYPTION": "True"} | {name: str(TLS_FOLDER / file) for name, file in files.items()}
    container["env"] += [{"name": f"DASK_DISTRIBUTED__COMM__{name}", "value": value} for name, value in values.items()]
    container["volumeMounts"].append({"name": "tls", "mountPath": str(TLS_FOLDER), "readOnly": True})
    spec["volumes"].append({"name": "tls", "secret": {"secretName": _secret(batch), "defaultMode": 0o440}})
    return thing


def _tables(batch: BatchObjects) -> str:
    words = [*_batch(batch), "--resume"]
    return yaml_text(("Apply when the Job before it is complete.",), [_job(batch, "tables", words)])


def _batch(batch: BatchObjects) -> list[str]:
    return ["planner", "batch", str(batch.jobs), "--out", str(batch.folder), "--processes", str(batch.cpus), "--quiet"]


def _job(batch: BatchObjects, part: str, words: list[str], *, cpus: int | None = None) -> Object:
    pod = _pod(batch, part, words, cpus=cpus)
    pod["spec"]["restartPolicy"] = "Never"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(batch, part),
        "spec": {"backoffLimit": 3, "podFailurePolicy": _failures(part, "FailJob"), "template": pod},
    }


def _failures(container: str, action: str) -> Object:
    """What trying again does not mend is not tried again; a pod that had to leave its node is, uncounted."""
    codes = {"containerName": container, "operator": "In", "values": [EXIT_BAD_INPUT, EXIT_INFEASIBLE]}
    disrupted = [{"type": "DisruptionTarget", "status": "True"}]
    return {"rules": [{"action": action, "onExitCodes": codes}, {"action": "Ignore", "onPodConditions": disrupted}]}


def _deployment(batch: BatchObjects, part: str, words: list[str], replicas: int, *, cpus: int | None = None) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(batch, part),
        "spec": {
            "replicas": replicas,
            "strategy": {"type": "Recreate"},  # two versions side by side would be refused
            "selector": {"matchLabels": _labels(batch, part)},
            "template": _pod(batch, part, words, cpus=cpus),
        },
    }


def _scheduler(batch: BatchObjects, words: list[str]) -> Object:
    deployment = _deployment(batch, "scheduler", words, 1, cpus=1)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    container["ports"] = [{"name": "dask", "containerPort": DASK_PORT}]
    container["readinessProbe"] = {"tcpSocket": {"port": "dask"}, "periodSeconds": 5}
    return deployment


def _service(batch: BatchObjects) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(batch, "scheduler"),
        "spec": {
            "selector": _labels(batch, "scheduler"),
            "ports": [{"name": "dask", "port": DASK_PORT, "targetPort": "dask"}],
        },
    }


def _pod(batch: BatchObjects, part: str, words: list[str], *, cpus: int | None) -> Object:
    """A pod's template: one container that runs `words`."""
    resources = {"cpu": str(cpus or batch.cpus), "memory": f"{round(batch.memory_gb * 1000)}M"}
    scratch = str(_SCRATCH)
    environment = {"HOME": scratch, "MPLCONFIGDIR": scratch, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return {
        "metadata": {"labels": _labels(batch, part)},
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER,
                "runAsGroup": USER,
                "fsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": part,
                    "image": batch.image,
                    "command": words,
                    "workingDir": str(batch.mount),
                    "env": [{"name": name, "value": value} for name, value in environment.items()],
                    "resources": {"requests": resources, "limits": {"memory": resources["memory"]}},
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "volumeMounts": [
                        {"name": "files", "mountPath": str(batch.mount)},
                        {"name": "scratch", "mountPath": scratch},
                    ],
                }
            ],
            "volumes": [
                {"name": "files", "persistentVolumeClaim": {"claimName": batch.claim}},
                {"name": "scratch", "emptyDir": {}},
            ],
        },
    }


def _policy(batch: BatchObjects, *, ingress: list[Object], egress: list[Object]) -> Object:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(batch, "pods"),
        "spec": {
            "podSelector": {"matchLabels": {_INSTANCE: batch.name}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": egress,
        },
    }


def _among_themselves(batch: BatchObjects) -> Mapping[str, list[Object]]:
    """Pods of the batch, and the cluster's names to find each other by."""
    pods = [{"podSelector": {"matchLabels": {_INSTANCE: batch.name}}}]
    names = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}
    ports = [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]
    return {"ingress": [{"from": pods}], "egress": [{"to": pods}, {"to": [names], "ports": ports}]}


def _metadata(batch: BatchObjects, part: str) -> Object:
    return {"name": f"{batch.name}-{part}", "labels": _labels(batch, part)}


def _labels(batch: BatchObjects, part: str) -> Mapping[str, str]:
    labels = {_INSTANCE: batch.name, _PART: part}
    assert all(map(is_label_value, labels.values())), "a name of an object is a label's value"
    return labels


def _require_path(option: str, path: PurePosixPath, above: PurePosixPath | None) -> None:
    """An absolute path below `above` that stands for itself: Kubernetes puts values in the place of `$(NAME)`."""
    text = str(path)
    below = above is None or (path != above and path.is_relative_to(above))
    if not path.is_absolute() or ".." in path.parts or path == PurePosixPath("/") or not below:
        where = f"a path below {above}" if above else "an absolute path of a folder"
        raise _refused(option, where, text, "Give it as it is in the pods, without `..`.")
    if not text.isprintable() or "$" in text or ":" in text:
        raise _refused(option, "a path of printable characters, without $ and :", text, "Rename it on the volume.")


def _refused(option: str, rule: str, came: str, hint: str) -> InputError:
    return InputError(f"{option}: must be {rule}, got {came!r}.", hint=hint)
