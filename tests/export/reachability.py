"""What NetworkPolicies allow, as Kubernetes reads them; and which connections finished manifests take.

A pod that no policy selects in a direction is open in it; one that some select is open to what any of them lists. A
connection takes the way out of its source and the way into its destination. Selectors of an empty peer list are all
(kubernetes.io, Network Policies).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from quick_yaml import load_documents

from planner.export.checking import read_manifests
from planner.export.checking.services import container_ports
from planner.export.objects.router_objects import is_program

Body = Mapping[str, Any]
OWN, ANY_PORT = "serving", 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One end of a connection: its labels, and its namespace's. `address`: of an end that is no pod of the cluster."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    namespace: str = OWN
    address: str = ""
    ports: tuple[int, ...] = ()

    @property
    def namespace_labels(self) -> dict[str, str]:
        """As Kubernetes labels namespaces by itself."""
        return {"kubernetes.io/metadata.name": self.namespace}


def policies(files: Mapping[str, str]) -> list[Body]:
    """The NetworkPolicies of files."""
    bodies = (body for name, text in files.items() if name.endswith(".yaml") for body in load_documents(text))
    return [body for body in bodies if isinstance(body, dict) and body.get("kind") == "NetworkPolicy"]


def selects(selector: Body, labels: Mapping[str, str]) -> bool:
    """Whether a label selector takes these labels; an empty one takes all."""
    if not selector.get("matchLabels", {}).items() <= labels.items():
        return False
    return all(_expression(row, labels) for row in selector.get("matchExpressions", ()))


def _expression(row: Body, labels: Mapping[str, str]) -> bool:
    value = labels.get(row["key"])
    return {
        "In": value in row.get("values", ()),
        "NotIn": value not in row.get("values", ()),
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[row["operator"]]


def _is_peer(peer: Body, pod: Pod) -> bool:
    if "ipBlock" in peer:
        return bool(pod.address) and pod.address == peer["ipBlock"]["cidr"].partition("/")[0]
    if pod.address:
        return False
    if "namespaceSelector" in peer:
        return selects(peer["namespaceSelector"], pod.namespace_labels) and selects(
            peer.get("podSelector", {}), pod.labels
        )
    return pod.namespace == OWN and selects(peer["podSelector"], pod.labels)


def _direction(rules: Iterable[Body], key: str, other: Pod, port: int, protocol: str) -> bool:
    for rule in rules:
        peers, ports = rule.get(key, ()), rule.get("ports", ())
        if peers and not any(_is_peer(peer, other) for peer in peers):
            continue
        if not ports or any(row["port"] == port and row.get("protocol", "TCP") == protocol for row in ports):
            return True
    return False


def _open(all_policies: Iterable[Body], pod: Pod, other: Pod, port: int, protocol: str, kind: str) -> bool:
    if pod.namespace != OWN or pod.address:
        return True
    spec = [policy["spec"] for policy in all_policies if kind in policy["spec"]["policyTypes"]]
    chosen = [one for one in spec if selects(one["podSelector"], pod.labels)]
    words = {"Ingress": ("ingress", "from"), "Egress": ("egress", "to")}[kind]
    return not chosen or any(_direction(one.get(words[0], ()), words[1], other, port, protocol) for one in chosen)


def allowed(all_policies: list[Body], source: Pod, destination: Pod, port: int, protocol: str = "TCP") -> bool:
    """Whether `source` may connect to a port of `destination`."""
    return _open(all_policies, source, destination, port, protocol, "Egress") and _open(
        all_policies, destination, source, port, protocol, "Ingress"
    )


def engine_pods(files: Mapping[str, str]) -> list[tuple[str, Pod]]:
    """Island and pod, for each template of a workload, with the labels that its controller adds."""
    rows = []
    for manifest, kind in read_manifests(files).sound:
        for workload in kind.workloads(manifest) if kind and kind.workloads else ():
            for number, pod in enumerate(workload.pods):
                labels = {**_release_labels(manifest.body), **pod.labels}
                listed = container_ports(pod).values()
                ports = tuple(dict.fromkeys((*([pod.answers_at] if pod.answers_at in listed else []), *listed)))
                island = workload.labels.get("planner/island", "")
                rows.append((island, Pod(name=f"{island}-{number}", labels=labels, ports=ports)))
    return rows


def _release_labels(body: Body) -> dict[str, str]:
    """What the chart puts on all pods of a release."""
    return dict(body.get("modelArtifacts", {}).get("labels", {}))


def router_pods(files: Mapping[str, str]) -> dict[str, Pod]:
    """Program -> its pod."""
    pods = {}
    for manifest, _ in read_manifests(files).sound:
        if is_program(manifest):
            template = manifest.body["spec"]["template"]
            ports = [row["containerPort"] for row in template["spec"]["containers"][0]["ports"]]
            labels = template["metadata"]["labels"]
            pods[manifest.name] = Pod(name=manifest.name, labels=labels, ports=tuple(ports))
    return pods


_URL = re.compile(r"https?://([a-z0-9.-]+):(\d+)")
_SERVER = re.compile(
    r'server(?:-template)? \S+ (?:[\d-]+ )?"([a-z0-9.-]+)\.\$\{NAMESPACE\}\.svc\.cluster\.local:(\d+)"'
)


def connections(files: Mapping[str, str]) -> Iterator[tuple[Pod, Pod, int]]:
    """Every connection that the routers' command lines and configurations name: source, destination, port."""
    routers, engines = router_pods(files), engine_pods(files)
    services = {m.name: m.body["spec"] for m, _ in read_manifests(files).sound if m.kind == "Service"}
    configs = {
        m.name: "\n".join(m.body["data"].values()) for m, _ in read_manifests(files).sound if m.kind == "ConfigMap"
    }
    for manifest, _ in read_manifests(files).sound:
        if not is_program(manifest):
            continue
        words = " ".join(map(str, manifest.body["spec"]["template"]["spec"]["containers"][0]["args"]))
        hosts = {*_URL.findall(words), *_SERVER.findall(configs.get(manifest.name, ""))}
        for host, port in hosts:
            for pod in _answering(host, services, routers, engines):
                yield routers[manifest.name], pod, _target(services.get(host), port=int(port))
        for pod, port in _watched(manifest.body["spec"]["template"]["spec"]["containers"][0]["args"], engines):
            yield routers[manifest.name], pod, port


def _answering(
    host: str, services: Mapping[str, Body], routers: Mapping[str, Pod], engines: list[tuple[str, Pod]]
) -> list[Pod]:
    """Whom a host name leads to: a Service's pods, or the pods of a group by a name of their own."""
    every = [*routers.values(), *(pod for _, pod in engines)]
    if host in services:
        return [pod for pod in every if services[host]["selector"].items() <= pod.labels.items()]
    group = host.rpartition(".")[2]
    return [pod for pod in every if pod.labels.get("leaderworkerset.sigs.k8s.io/name") == group]


def _watched(words: Sequence[str], engines: list[tuple[str, Pod]]) -> Iterator[tuple[Pod, int]]:
    """Pods that a program finds by the labels of its selectors, at the port that it looks at."""
    for place, word in enumerate(words):
        if word.endswith("selector"):
            labels = dict(pair.split("=") for pair in takewhile(lambda each: "=" in each, words[place + 1 :]))
            port = int(words[words.index("--service-discovery-port") + 1])
            yield from ((pod, port) for _, pod in engines if labels.items() <= pod.labels.items())


def _target(service: Body | None, port: int) -> int:
    """The pod's port behind a Service's."""
    if service is None:
        return port
    row = next(row for row in service["ports"] if row["port"] == port)
    target = row.get("targetPort", port)
    return target if isinstance(target, int) else port
