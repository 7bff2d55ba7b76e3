"""A batch as Kubernetes objects: an indexed Job whose pods share the jobs, or a Dask cluster with a client.

Plain objects, no custom resources. Every pod sees one volume, at the same path: the jobs, the scenarios and the batch's
folder lie on it. Pods run as a user without rights, write nowhere else but on the volume and in a folder of their own
memory, have no token of the cluster, and speak to nobody, or with Dask to each other: by TLS, with the certificate of a
Secret that whoever applies the objects makes, since a manifest is no place for a key.
"""

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from planner.errors import EXIT_BAD_INPUT, EXIT_INFEASIBLE, InputError
from planner.export.objects.documents import yaml_text
from planner.export.objects.names import is_dns_label, is_dns_subdomain, is_label_value
from planner.export.objects.security.hardening import bounded, confined
from planner.export.templating import object_of

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
    words = [*_batch(batch), "--shard", f"{INDEX}/{batch.workers}"]
    notes = (
        "A pod that is started anew goes on where it was.",
        "An index that failed with exit status 3 has done its share: some of its jobs are infeasible.",
    )
    return {
        "10-network-policy.yaml": _policy(batch, speak=False),
        # one share's failure stops no other
        "20-shards.yaml": yaml_text(notes, [_job(batch, "shards", words, shards=batch.workers)]),
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
    service = object_of("batch-service", metadata=_metadata(batch, "scheduler"), port=DASK_PORT)
    return {
        "10-network-policy.yaml": _policy(batch, speak=True),
        "20-scheduler.yaml": yaml_text(
            _key_notes(batch), [service, _deployment(batch, "scheduler", scheduler, cpus=1, port=DASK_PORT)]
        ),
        "30-workers.yaml": yaml_text((), [_deployment(batch, "worker", worker, replicas=batch.workers)]),
        "40-client.yaml": yaml_text(
            (f"Apply when the others run: kubectl rollout status deployment/{batch.name}-worker",),
            [_job(batch, "client", client, certified=True, cpus=1)],
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


def _tables(batch: BatchObjects) -> str:
    words = [*_batch(batch), "--resume"]
    return yaml_text(("Apply when the Job before it is complete.",), [_job(batch, "tables", words)])


def _batch(batch: BatchObjects) -> list[str]:
    return ["planner", "batch", str(batch.jobs), "--out", str(batch.folder), "--processes", str(batch.cpus), "--quiet"]


def _job(
    batch: BatchObjects, part: str, words: list[str], *, shards: int = 0, certified: bool = False, cpus: int = 0
) -> Object:
    return object_of(
        "batch-job",
        metadata=_metadata(batch, part),
        part=part,
        shards=shards,
        final_codes=[EXIT_BAD_INPUT, EXIT_INFEASIBLE],
        pod=_pod(batch, part, words, certified=certified, cpus=cpus, once=True),
    )


def _deployment(
    batch: BatchObjects, part: str, words: list[str], *, replicas: int = 1, cpus: int = 0, port: int = 0
) -> Object:
    """Replaced at once, as two versions side by side would be refused."""
    pod = _pod(batch, part, words, certified=True, cpus=cpus, port=port)
    return object_of("batch-deployment", metadata=_metadata(batch, part), replicas=replicas, pod=pod)


def _pod(
    batch: BatchObjects,
    part: str,
    words: list[str],
    *,
    certified: bool,
    cpus: int,
    once: bool = False,
    port: int = 0,
) -> Object:
    """A pod's template: one container that runs `words`; `certified`: with the certificate where Dask looks for it."""
    return object_of(
        "batch-pod",
        labels=_labels(batch, part),
        part=part,
        image=batch.image,
        claim=batch.claim,
        mount=str(batch.mount),
        scratch=str(_SCRATCH),
        words=words,
        resources=bounded({"cpu": str(cpus or batch.cpus), "memory": f"{round(batch.memory_gb * 1000)}M"}),
        context=confined(user=USER, group=USER),
        user=USER,
        certified=certified,
        tls=str(TLS_FOLDER),
        secret=_secret(batch),
        readable=0o440,
        port=port,
        once=once,
    )


def _policy(batch: BatchObjects, *, speak: bool) -> str:
    """`speak`: pods of the batch to each other, and to the cluster's names, to find each other."""
    policy = object_of("batch-policy", metadata=_metadata(batch, "pods"), pods={_INSTANCE: batch.name}, speak=speak)
    return yaml_text((), [policy])


def _metadata(batch: BatchObjects, part: str) -> Object:
    return {"name": f"{batch.name}-{part}", "labels": _labels(batch, part)}


def _labels(batch: BatchObjects, part: str) -> dict[str, str]:
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


def _refused(option: str, rule: str, received: str, hint: str) -> InputError:
    return InputError(f"{option}: must be {rule}, got {received!r}.", hint=hint)
