"""What pods may not do: one mechanism for all containers that are exported; `exemptions` lists what stays open and why.

An engine's image writes to two places: /tmp, and below HOME, where the caches of Hugging Face, vLLM, torch, Triton,
FlashInfer and CUDA are unless somebody says otherwise. Both are folders of the pod's own with a limit, so that the root
file system stays as the image has it. A user that the image does not list needs its name in USER, which torch asks for.

symbol     meaning                                               unit   source
GROUP      group of all volumes of a plan's pods                 -      the Job that fetches weights writes what engines
                                                                        read; a pod's own users differ
HOME_GIB   caches of compiled kernels, of all ranks of a pod     GiB    an assumption, several times what vLLM leaves
TMP_GIB    sockets between processes, torch's own cache          GiB    an assumption

Sources: vllm-project/vllm, docker/Dockerfile and docs/deployment/docker.md (user 2000 of group 0; every cache follows
HOME); Kubernetes, Pod Security Standards, emptyDir and fsGroupChangePolicy.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from planner.domain import ModelSpec
from planner.export.objects.security.exemptions import CAPABILITIES, HOST_PATH, ROOT, WRITABLE, Exemption

GROUP = 2000
HOME_PATH, TMP_PATH = "/home/engine", "/tmp"  # noqa: S108  # a mount point of the pod's own
HOME_GIB, TMP_GIB = 32, 16
_DOWNLOADED = 1.2  # partial files of a download, as in a volume for the model
_HOME, _TMP = "home", "tmp"


def confined(
    exemptions: Sequence[Exemption] = (),
    *,
    user: int | None = GROUP,
    group: int = GROUP,
    adds: Sequence[str] = (),
) -> dict[str, Any]:
    """The security context of a container that `user` of `group` runs (None: the image's own, which is not root).
    `adds`: capabilities; they and what an exemption opens are all that is not taken away."""
    opened = frozenset().union(*(row.opens for row in exemptions)) if exemptions else frozenset()
    context: dict[str, Any] = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": WRITABLE not in opened}
    if ROOT not in opened:
        context["runAsNonRoot"] = True
        context |= {} if user is None else {"runAsUser": user, "runAsGroup": group}
    elif opened & {CAPABILITIES, HOST_PATH}:
        context["runAsUser"] = 0  # the image may have another user, whom that would not help
    added = {"add": list(adds)} if adds else {}
    return context | {"capabilities": {"drop": ["ALL"], **added}, "seccompProfile": {"type": "RuntimeDefault"}}


def confined_pod(*, token: bool = False) -> dict[str, Any]:
    """Fields of a pod beside its containers: whose group its volumes are, and whether it has a `token`."""
    return {
        # what has the group already is left alone: a volume of weights has many files
        "securityContext": {
            "fsGroup": GROUP,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "automountServiceAccountToken": token,
    }


def scratch_environment(name: str) -> list[dict[str, str]]:
    """Where a container that cannot write elsewhere has its caches, and the `name` of its user."""
    return [{"name": "HOME", "value": HOME_PATH}, {"name": "USER", "value": name}]


def scratch_mounts() -> list[dict[str, str]]:
    """Where it sees its folders."""
    return [{"name": _HOME, "mountPath": HOME_PATH}, {"name": _TMP, "mountPath": TMP_PATH}]


def scratch_volumes(downloads: ModelSpec | None = None) -> list[dict[str, Any]]:
    """The folders; `downloads`: the model that the pod keeps in its home, where no volume does."""
    weights_gib = _DOWNLOADED * downloads.weights_gb * 1e9 / 2**30 if downloads else 0
    sizes = {_HOME: HOME_GIB + round(weights_gib), _TMP: TMP_GIB}
    return [{"name": name, "emptyDir": {"sizeLimit": f"{size}Gi"}} for name, size in sizes.items()]


def bounded(limits: Mapping[str, Any]) -> dict[str, Any]:
    """Requests like the limits, said: class Guaranteed where no controller adds containers."""
    return {"limits": dict(limits), "requests": dict(limits)}
