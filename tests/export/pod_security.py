"""Kubernetes' Pod Security Standards as they are published, evaluated over every pod of exported files; and what
policy engines ask for beyond them.

The table below is the standards' own (kubernetes.io, Pod Security Standards, levels `baseline` and `restricted`): each
row is a control, with what its fields may hold. Values of a Helm chart hold a container's security context one level
deeper, and a role of them is a pod's template.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from quick_yaml import load_documents

Pod, Container = Mapping[str, Any], Mapping[str, Any]
BASELINE_CAPABILITIES = frozenset(
    {"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP"}
    | {"SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"}
)
SAFE_SYSCTLS = frozenset(
    {"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start"}
    | {"net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports"}
    | {"net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl"}
    | {"net.ipv4.tcp_keepalive_probes"}
)
VOLUMES = frozenset(
    {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
)
PROFILES = ("RuntimeDefault", "Localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """A row of the standards: the level that has it, its name, and whether a pod and one of its containers keep it."""

    level: str
    name: str
    kept: Callable[[Pod, Container], bool]


def context(container: Container) -> Mapping[str, Any]:
    """A container's security context, wherever a chart has it."""
    deeper = container.get("extraConfig", {}).get("securityContext", {})
    return dict(container.get("securityContext") or deeper)


def pod_context(pod: Pod) -> Mapping[str, Any]:
    """A pod's security context, wherever a chart has it."""
    return dict(pod.get("securityContext") or pod.get("extraConfig", {}).get("securityContext", {}))


def either(pod: Pod, container: Container, key: str) -> Any:
    """What holds for a container: its own field, or else the pod's."""
    return context(container).get(key, pod_context(pod).get(key))


def _capabilities(container: Container, key: str) -> set[str]:
    return set(context(container).get("capabilities", {}).get(key, ()))


CONTROLS = (
    Control(
        level="baseline",
        name="host namespaces",
        kept=lambda pod, _: not any(pod.get(key) for key in ("hostNetwork", "hostPID", "hostIPC")),
    ),
    Control(level="baseline", name="privileged", kept=lambda _, c: not context(c).get("privileged")),
    Control(
        level="baseline",
        name="capabilities",
        kept=lambda _, c: _capabilities(c, "add") <= BASELINE_CAPABILITIES,
    ),
    Control(
        level="baseline",
        name="hostPath",
        kept=lambda pod, _: not any("hostPath" in volume for volume in pod.get("volumes", ())),
    ),
    Control(
        level="baseline",
        name="host ports",
        kept=lambda _, c: not any(port.get("hostPort") for port in c.get("ports", ())),
    ),
    Control(
        level="baseline",
        name="seccomp unconfined",
        kept=lambda pod, c: (either(pod, c, "seccompProfile") or {}).get("type") != "Unconfined",
    ),
    Control(
        level="baseline",
        name="/proc mount",
        kept=lambda _, c: context(c).get("procMount", "Default") == "Default",
    ),
    Control(
        level="baseline",
        name="sysctls",
        kept=lambda pod, _: {row["name"] for row in pod_context(pod).get("sysctls", ())} <= SAFE_SYSCTLS,
    ),
    Control(
        level="restricted",
        name="volume types",
        kept=lambda pod, _: all(set(volume) - {"name"} <= VOLUMES for volume in pod.get("volumes", ())),
    ),
    Control(
        level="restricted",
        name="privilege escalation",
        kept=lambda _, c: context(c).get("allowPrivilegeEscalation") is False,
    ),
    Control(level="restricted", name="runAsNonRoot", kept=lambda pod, c: either(pod, c, "runAsNonRoot") is True),
    Control(level="restricted", name="runAsUser", kept=lambda pod, c: either(pod, c, "runAsUser") != 0),
    Control(
        level="restricted",
        name="seccomp",
        kept=lambda pod, c: (either(pod, c, "seccompProfile") or {}).get("type") in PROFILES,
    ),
    Control(
        level="restricted",
        name="drop ALL",
        kept=lambda _, c: "ALL" in _capabilities(c, "drop") and _capabilities(c, "add") <= {"NET_BIND_SERVICE"},
    ),
)
"""AppArmor, SELinux and Windows' host processes are left out: no export writes their fields, and the schemas of the
manifests have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPod:
    """A pod's template in a file, with its labels, and its containers, those that begin among them."""

    file: str
    path: str
    spec: Pod
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def containers(self) -> list[Container]:
        """All that run in it; one that only completes an operator's has no image."""
        rows = [*self.spec.get("initContainers", ()), *self.spec["containers"]]
        return [row for row in rows if "image" in row]


def pods_of(files: Mapping[str, str]) -> list[FoundPod]:
    """Every template of a pod in files, name -> text."""
    return [
        FoundPod(file=name, path=path, spec=spec, labels=labels)
        for name, text in files.items()
        if name.endswith((".yaml", ".yml"))
        for body in load_documents(text)
        for path, labels, spec in _templates(body, "", {})
    ]


def _templates(value: Any, path: str, labels: Mapping[str, str]) -> Iterator[tuple[str, Mapping[str, str], Pod]]:
    if isinstance(value, dict):
        if isinstance(value.get("containers"), list):
            yield path, labels, value
            return
        own_labels = (value.get("metadata") or {}).get("labels", labels)
        for key, inner in value.items():
            yield from _templates(inner, f"{path}.{key}" if path else str(key), own_labels)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _templates(inner, f"{path}.{number}", labels)


def refused(pod: FoundPod, level: str) -> set[tuple[str, str]]:
    """Container and control, of those that a namespace with that level enforced refuses."""
    levels = ("baseline",) if level == "baseline" else ("baseline", "restricted")
    return {
        (container["name"], control.name)
        for container in pod.containers
        for control in CONTROLS
        if control.level in levels and not control.kept(pod.spec, container)
    }


def mounts_token(pod: FoundPod) -> bool:
    """Whether it has a token of the API server."""
    told = pod.spec.get(
        "automountServiceAccountToken", pod.spec.get("extraConfig", {}).get("automountServiceAccountToken")
    )
    return told is not False


def counted(files: Mapping[str, str]) -> dict[str, int]:
    """How many pods and containers there are, and how many of them are open in which way."""
    pods = pods_of(files)
    containers = [(pod, container) for pod in pods for container in pod.containers]
    return {
        "containers": len(containers),
        "may run as root": sum(either(pod.spec, c, "runAsNonRoot") is not True for pod, c in containers),
        "writable root": sum(context(c).get("readOnlyRootFilesystem") is not True for _, c in containers),
        "keep capabilities": sum("ALL" not in _capabilities(c, "drop") for _, c in containers),
        "no requests": sum(
            set(c.get("resources", {}).get("requests", ())) < set(c.get("resources", {}).get("limits", ("cpu",)))
            for _, c in containers
        ),
        "images by tag": sum("@sha256:" not in c["image"] for _, c in containers),
        "pods": len(pods),
        "tokens": sum(map(mounts_token, pods)),
        "not restricted": sum(bool(refused(pod, "restricted")) for pod in pods),
        "not baseline": sum(bool(refused(pod, "baseline")) for pod in pods),
    }
