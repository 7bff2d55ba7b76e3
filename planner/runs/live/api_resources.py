"""What the planner lists of a Kubernetes API, for which command, and the role that lets it do no more.

| group | resources | source of the names |
|---|---|---|
| (core), apps, autoscaling, policy, resource.k8s.io | as below | Kubernetes' API reference, 1.34 |
| topology.node.k8s.io | noderesourcetopologies | k8stopologyawareschedwg/noderesourcetopology-api |
| flextopo.baichuan-inc.com | flextopos | agiping/flextopo, the reporter of its agent |
| leaderworkerset.x-k8s.io | leaderworkersets | kubernetes-sigs/lws |
| nvidia.com | dynamographdeployments | ai-dynamo/dynamo, deploy/operator |
| serving.kserve.io | llminferenceservices | kserve/kserve |

Secrets are not among them.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from planner.errors import InputError
from planner.export.objects.documents import yaml_text
from planner.files.cluster.flextopo_files import API_GROUP
from planner.files.kubernetes.kubernetes_objects import items_below
from planner.files.sections import Section

IMPORT, WATCH, ADVISE = "cluster import", "watch", "advise"
"""Commands that read a cluster."""

GROUPS_PATH = "/apis"
"""Which groups the server has, and their preferred versions; read where a resource is of a group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiResource:
    """A kind of objects. `commands` that list it; `needed`: they cannot do without."""

    kind: str
    name: str
    group: str = ""
    commands: tuple[str, ...]
    needed: bool = False

    def path(self, version: str) -> str:
        """Of the list over all namespaces."""
        return f"/apis/{self.group}/{version}/{self.name}" if self.group else f"/api/{version}/{self.name}"


RESOURCES = (
    ApiResource(kind="Node", name="nodes", commands=(IMPORT, WATCH, ADVISE), needed=True),
    ApiResource(kind="Pod", name="pods", commands=(IMPORT, ADVISE), needed=True),
    ApiResource(kind="PodDisruptionBudget", name="poddisruptionbudgets", group="policy", commands=(IMPORT,)),
    ApiResource(kind="ResourceClaim", name="resourceclaims", group="resource.k8s.io", commands=(IMPORT,)),
    ApiResource(kind="ResourceSlice", name="resourceslices", group="resource.k8s.io", commands=(IMPORT, WATCH)),
    ApiResource(
        kind="NodeResourceTopology",
        name="noderesourcetopologies",
        group="topology.node.k8s.io",
        commands=(IMPORT,),
    ),
    ApiResource(kind="FlexTopo", name="flextopos", group=API_GROUP, commands=(IMPORT,)),
    ApiResource(kind="Deployment", name="deployments", group="apps", commands=(ADVISE,)),
    ApiResource(kind="ReplicaSet", name="replicasets", group="apps", commands=(ADVISE,)),
    ApiResource(kind="StatefulSet", name="statefulsets", group="apps", commands=(ADVISE,)),
    ApiResource(
        kind="HorizontalPodAutoscaler", name="horizontalpodautoscalers", group="autoscaling", commands=(ADVISE,)
    ),
    ApiResource(kind="LeaderWorkerSet", name="leaderworkersets", group="leaderworkerset.x-k8s.io", commands=(ADVISE,)),
    ApiResource(kind="DynamoGraphDeployment", name="dynamographdeployments", group="nvidia.com", commands=(ADVISE,)),
    ApiResource(kind="LLMInferenceService", name="llminferenceservices", group="serving.kserve.io", commands=(ADVISE,)),
    ApiResource(kind="Service", name="services", commands=(ADVISE,)),
    ApiResource(kind="ConfigMap", name="configmaps", commands=(ADVISE,)),
)


def resources_of(command: str) -> tuple[ApiResource, ...]:
    """What a command lists, in the order in which it does."""
    return tuple(resource for resource in RESOURCES if command in resource.commands)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLists:
    """`lists`: pages by kind, as kubectl prints them; kinds that the server does not have, or may not be listed, are
    missing. `notes`: about what, and the note. `answered_at`: when the last page came, by the server's clock (None: it
    did not say)."""

    lists: Mapping[str, tuple[Section, ...]]
    notes: tuple[tuple[str, str], ...] = ()
    answered_at: datetime | None = None

    def of_kinds(self, *kinds: str) -> tuple[Section, ...]:
        """Pages of these kinds, one kind after the other."""
        return tuple(page for kind in kinds for page in self.lists.get(kind, ()))

    def documents(self) -> list[dict[str, Any]]:
        """The objects of all pages, each with its kind and apiVersion, which lists leave out."""
        return [
            {"apiVersion": page.text("apiVersion", default=""), "kind": kind, **item.plain()}
            for kind, pages in self.lists.items()
            for page in pages
            for item in items_below(page, "items")
        ]


NAME = "planner-reader"
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def rbac_text(commands: Iterable[str] = (), namespace: str = "default") -> str:
    """A service account, and the cluster role that lets it list what these commands do (none: all of them), as YAML.

    Raises InputError for what is no such command, or no name of a namespace.
    """
    if not _NAMESPACE.fullmatch(namespace):
        raise InputError(
            f"rbac: --namespace: must be of at most 63 small letters, digits and '-', got {namespace!r}.",
            hint="Name one of `kubectl get namespaces`.",
        )
    chosen = tuple(commands) or (IMPORT, WATCH, ADVISE)
    for command in chosen:
        if command not in (IMPORT, WATCH, ADVISE):
            raise InputError(
                f"rbac: --for: must be {IMPORT!r}, {WATCH!r} or {ADVISE!r}, got {command!r}.",
                hint="Leave it out for all of them.",
            )
    labels = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/part-of": "llm-fleet-planner"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME}
    documents: list[dict[str, Any]] = [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": NAME, "namespace": namespace, "labels": labels},
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": NAME, "labels": labels},
            "rules": _rules(chosen),
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": NAME, "labels": labels},
            "roleRef": role,
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}],
        },
    ]
    comments = (
        *(f"What `planner {command}` lists of a cluster." for command in chosen),
        "Nothing is written, and no secret is read.",
        "Apply it, then take a token:",
        f"kubectl create token {NAME} -n {namespace}",
    )
    return yaml_text(comments, documents)


def _rules(commands: tuple[str, ...]) -> list[dict[str, Any]]:
    """One a group, and one for the list of groups."""
    by_group: dict[str, list[str]] = {}
    for resource in RESOURCES:
        if set(commands) & set(resource.commands):
            by_group.setdefault(resource.group, []).append(resource.name)
    rules: list[dict[str, Any]] = [
        {"apiGroups": [group], "resources": sorted(names), "verbs": ["list"]} for group, names in by_group.items()
    ]
    return [*rules, {"nonResourceURLs": [GROUPS_PATH], "verbs": ["get"]}] if any(by_group) else rules
