"""A Kubernetes API server for tests, over HTTP on the loopback: lists in pages, discovery, tokens, refusals.

It holds objects in a dictionary and does what the API's documents say of these requests; nothing schedules and nothing
runs. `apply`, `delete` change it from within; over the network only where it is `writable`.

    with ApiServer().serving() as server:
        server.apply(node)
        kubeconfig(folder / "config", server.url, token="secret")
"""

import json
import ssl
import threading
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How the API serves a kind of objects. `versions`: the one that is stored first; `built_in`: items of its lists
    leave out kind and apiVersion."""

    kind: str
    resource: str
    group: str = ""
    versions: tuple[str, ...] = ("v1",)
    namespaced: bool = True
    built_in: bool = True


KINDS = (
    Kind(kind="Node", resource="nodes", namespaced=False),
    Kind(kind="Pod", resource="pods"),
    Kind(kind="Service", resource="services"),
    Kind(kind="ConfigMap", resource="configmaps"),
    Kind(kind="Secret", resource="secrets"),
    Kind(kind="Deployment", resource="deployments", group="apps"),
    Kind(kind="ReplicaSet", resource="replicasets", group="apps"),
    Kind(kind="StatefulSet", resource="statefulsets", group="apps"),
    Kind(kind="HorizontalPodAutoscaler", resource="horizontalpodautoscalers", group="autoscaling", versions=("v2",)),
    Kind(kind="PodDisruptionBudget", resource="poddisruptionbudgets", group="policy"),
    Kind(kind="ResourceClaim", resource="resourceclaims", group="resource.k8s.io", versions=("v1", "v1beta1")),
    Kind(
        kind="ResourceSlice",
        resource="resourceslices",
        group="resource.k8s.io",
        versions=("v1", "v1beta1"),
        namespaced=False,
    ),
)
"""What every cluster of 1.34 serves of what tests use."""

CUSTOM_KINDS = (
    Kind(
        kind="NodeResourceTopology",
        resource="noderesourcetopologies",
        group="topology.node.k8s.io",
        versions=("v1alpha2",),
        namespaced=False,
        built_in=False,
    ),
    Kind(
        kind="FlexTopo",
        resource="flextopos",
        group="flextopo.baichuan-inc.com",
        versions=("v1alpha1",),
        namespaced=False,
        built_in=False,
    ),
    Kind(kind="LeaderWorkerSet", resource="leaderworkersets", group="leaderworkerset.x-k8s.io", built_in=False),
    Kind(
        kind="DynamoGraphDeployment",
        resource="dynamographdeployments",
        group="nvidia.com",
        versions=("v1alpha1",),
        built_in=False,
    ),
    Kind(
        kind="LLMInferenceService",
        resource="llminferenceservices",
        group="serving.kserve.io",
        versions=("v1alpha1",),
        built_in=False,
    ),
)
"""Served where their definitions are installed."""

OPERATOR = Kind(kind="ClusterPolicy", resource="clusterpolicies", group="nvidia.com", namespaced=False, built_in=False)
"""Of another operator in Dynamo's group, with a version that the group prefers."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that came: `resource` with its group ("": none was named), as authorisation has it."""

    verb: str
    path: str
    group: str = ""
    resource: str = ""
    query: str = ""


class RefusalError(Exception):
    """An answer that is no object."""

    def __init__(self, code: int, reason: str, message: str = "") -> None:
        super().__init__(message)
        self.code, self.reason = code, reason


@dataclass(slots=True)
class ApiServer:
    """`token`: that must be shown ("": anyone is let in); `rules`: of a ClusterRole (None: all is allowed);
    `forbidden`: resources that are not; `page`: most objects of one; `expire`: so many continue tokens are too old;
    `now`: the time that it tells (None: it is now)."""

    kinds: tuple[Kind, ...] = KINDS
    token: str = ""
    rules: list[dict[str, list[str]]] | None = None
    forbidden: set[str] = field(default_factory=set)
    page: int = 500
    expire: int = 0
    now: datetime | None = None
    writable: bool = False
    objects: dict[tuple[str, str, str], Object] = field(default_factory=dict)
    requests: list[Asked] = field(default_factory=list)
    url: str = ""
    _version: int = 1
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def apply(self, *objects: Object) -> None:
        """Store objects as they are; a list's items one by one."""
        with self._lock:
            for item in objects:
                if item["kind"].endswith("List"):
                    self.apply(*item["items"])
                    continue
                self._version += 1
                metadata = item["metadata"]
                named = item | {"metadata": metadata | {"resourceVersion": str(self._version)}}
                if self._of(item["kind"]).namespaced:
                    named["metadata"].setdefault("namespace", "default")
                self.objects[_key(named)] = named

    def delete(self, kind: str, name: str, namespace: str = "") -> None:
        """Take an object away; KeyError where it is not there."""
        with self._lock:
            if self._of(kind).namespaced:
                namespace = namespace or "default"
            del self.objects[kind, namespace, name]
            self._version += 1

    def _of(self, kind: str) -> Kind:
        return next(row for row in self.kinds if row.kind == kind)

    @contextmanager
    def serving(self, tls: ssl.SSLContext | None = None) -> "Iterator[ApiServer]":
        """Answers on a port of the loopback until the block ends."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer._answer(self, "GET")

            def do_POST(self) -> None:
                outer._answer(self, "POST")

            def do_PUT(self) -> None:
                outer._answer(self, "PUT")

            def do_PATCH(self) -> None:
                outer._answer(self, "PATCH")

            def do_DELETE(self) -> None:
                outer._answer(self, "DELETE")

            def log_message(self, *_args: object) -> None:
                """Nothing is printed."""

            def date_time_string(self, timestamp: float | None = None) -> str:
                if outer.now is not None:
                    return format_datetime(outer.now, usegmt=True)
                return super().date_time_string(timestamp)

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_args: object) -> None:
                """A client that turns away is no error."""

        with Server(("127.0.0.1", 0), Handler) as server:
            if tls is not None:
                server.socket = tls.wrap_socket(server.socket, server_side=True)
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
            thread.start()
            scheme = "http" if tls is None else "https"
            self.url = f"{scheme}://127.0.0.1:{server.server_address[1]}"
            try:
                yield self
            finally:
                server.shutdown()
                thread.join()

    def _answer(self, handler: BaseHTTPRequestHandler, method: str) -> None:
        length = int(handler.headers.get("Content-Length") or 0)
        body = handler.rfile.read(length)
        try:
            if self.token and handler.headers.get("Authorization") != f"Bearer {self.token}":
                raise RefusalError(401, "Unauthorized", "Unauthorized")
            with self._lock:
                code, document = 200, self._respond(method, handler, body)
        except RefusalError as refusal:
            code = refusal.code
            document = {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": str(refusal),
                "reason": refusal.reason,
                "code": code,
            }
        text = json.dumps(document).encode()
        handler.send_response(code)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)

    def _respond(self, method: str, handler: BaseHTTPRequestHandler, body: bytes) -> Object:
        parts = urlsplit(handler.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        words = parts.path.strip("/").split("/")
        discovered = self._discovery(words) if method == "GET" else None
        if discovered is not None:
            self._allow(Asked("get", parts.path))
            return discovered
        kind, version, namespace, name = self._place(words)
        verbs = {"GET": "get" if name else "list", "POST": "create", "PUT": "update", "DELETE": "delete"}
        self._allow(Asked(verbs.get(method, "patch"), parts.path, kind.group, kind.resource, parts.query))
        if version not in kind.versions:
            raise RefusalError(404, "NotFound", "404 page not found")
        if method == "GET":
            return self._read(kind, version, namespace, name) if name else self._list(kind, version, namespace, query)
        if not self.writable:
            raise RefusalError(405, "MethodNotAllowed", f"{method} is not allowed here")
        return self._write(method, kind, namespace, name, body)

    def _allow(self, asked: Asked) -> None:
        self.requests.append(asked)
        by_rule = self.rules is None or any(permits(rule, asked) for rule in self.rules)
        if not by_rule or (asked.resource or asked.path) in self.forbidden:
            raise RefusalError(403, "Forbidden", f"{asked.resource or asked.path} is forbidden: cannot {asked.verb} it")

    def _discovery(self, words: list[str]) -> Object | None:
        """Which groups, versions and resources there are."""
        groups: dict[str, list[str]] = {}
        for kind in self.kinds:
            versions = groups.setdefault(kind.group, [])
            versions += [version for version in kind.versions if version not in versions]
        match words:
            case ["api"]:
                return {"kind": "APIVersions", "versions": ["v1"]}
            case ["apis"]:
                rows = [_group(name, versions) for name, versions in groups.items() if name]
                return {"kind": "APIGroupList", "apiVersion": "v1", "groups": rows}
            case ["api", version]:
                return self._resources("", version, version)
            case ["apis", group, version] if group in groups:
                return self._resources(group, version, f"{group}/{version}")
        return None

    def _resources(self, group: str, version: str, name: str) -> Object:
        rows = [
            {
                "name": kind.resource,
                "singularName": kind.kind.lower(),
                "namespaced": kind.namespaced,
                "kind": kind.kind,
                "verbs": ["create", "delete", "get", "list", "patch", "update"],
                "shortNames": ["pdb"] if kind.kind == "PodDisruptionBudget" else [],
            }
            for kind in self.kinds
            if kind.group == group and version in kind.versions
        ]
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": rows}

    def _place(self, words: list[str]) -> tuple[Kind, str, str, str]:
        """Kind, version, namespace and name of a path."""
        group, words = ("", words[1:]) if words[0] == "api" else (words[1] if len(words) > 1 else "", words[2:])
        version, words = (words[0], words[1:]) if words else ("", [])
        namespace = ""
        if words[:1] == ["namespaces"] and len(words) > 2:
            namespace, words = words[1], words[2:]
        for kind in self.kinds:
            if words and (kind.group, kind.resource) == (group, words[0]):
                return kind, version, namespace, words[1] if len(words) > 1 else ""
        raise RefusalError(404, "NotFound", "404 page not found")

    def _read(self, kind: Kind, version: str, namespace: str, name: str) -> Object:
        try:
            return self.objects[kind.kind, namespace, name] | {"apiVersion": _api_version(kind, version)}
        except KeyError:
            raise RefusalError(404, "NotFound", f'{kind.resource} "{name}" not found') from None

    def _list(self, kind: Kind, version: str, namespace: str, query: Mapping[str, str]) -> Object:
        items = [
            item
            for (of_kind, of_namespace, _), item in sorted(self.objects.items())
            if of_kind == kind.kind and namespace in ("", of_namespace)
        ]
        start = 0
        if token := query.get("continue"):
            start = int(b64decode(token))
            if self.expire:
                self.expire -= 1
                raise RefusalError(410, "Expired", "The provided continue parameter is too old")
        end = start + min(self.page, int(query.get("limit") or self.page))
        shown = [_within_list(item, kind, version) for item in items[start:end]]
        metadata: Object = {"resourceVersion": str(self._version)}
        if end < len(items):
            metadata |= {"continue": b64encode(str(end).encode()).decode(), "remainingItemCount": len(items) - end}
        return {
            "kind": f"{kind.kind}List",
            "apiVersion": _api_version(kind, version),
            "metadata": metadata,
            "items": shown,
        }

    def _write(self, method: str, kind: Kind, namespace: str, name: str, body: bytes) -> Object:
        document = yaml.safe_load(body) if body else {}
        name = name or document["metadata"]["name"]
        key = (kind.kind, namespace, name)
        before = self.objects.get(key)
        if method == "DELETE":
            if before is None:
                raise RefusalError(404, "NotFound", f'{kind.resource} "{name}" not found')
            self.delete(kind.kind, name, namespace)
            return {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        if method == "POST" and before is not None:
            raise RefusalError(409, "AlreadyExists", f'{kind.resource} "{name}" already exists')
        if method == "PATCH" and before is not None:
            document = merged(before, document)
        metadata = document.get("metadata", {}) | {"name": name} | ({"namespace": namespace} if namespace else {})
        generation = metadata.get("generation", 0)
        changed = before is None or before.get("spec") != document.get("spec")
        metadata["generation"] = generation + 1 if changed else generation
        self.apply(document | {"kind": kind.kind, "metadata": metadata})
        return self._read(kind, kind.versions[0], namespace, name)


def permits(rule: Mapping[str, list[str]], asked: Asked) -> bool:
    """Whether a rule of a role allows a request."""
    if not asked.resource:
        return asked.verb in rule["verbs"] and asked.path in rule.get("nonResourceURLs", [])
    return (
        asked.verb in rule["verbs"]
        and asked.group in rule.get("apiGroups", [])
        and asked.resource in rule.get("resources", [])
    )


def merged(before: Object, patch: Object) -> Object:
    """A merge patch: mappings are joined, lists replaced, nulls take away."""
    result = dict(before)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = value
    return result


def _key(item: Object) -> tuple[str, str, str]:
    return item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]


def _api_version(kind: Kind, version: str) -> str:
    return f"{kind.group}/{version}" if kind.group else version


def _within_list(item: Object, kind: Kind, version: str) -> Object:
    bare = {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}
    return bare if kind.built_in else {"apiVersion": _api_version(kind, version), "kind": kind.kind, **bare}


def _group(name: str, versions: list[str]) -> Object:
    rows = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": rows, "preferredVersion": rows[0]}


def kubeconfig(
    path: Path,
    url: str,
    *,
    token: str = "",
    context: str = "test",
    cluster: Mapping[str, Any] | None = None,
    user: Mapping[str, Any] | None = None,
    current: str | None = None,
) -> Path:
    """Write a kubeconfig with one context; `token` into a file of its own beside it, as tokens are kept."""
    user = dict(user or {})
    if token:
        path.with_suffix(".token").write_text(f"{token}\n")
        user["tokenFile"] = path.with_suffix(".token").name
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context if current is None else current,
        "clusters": [{"name": f"{context}-cluster", "cluster": {"server": url, **(cluster or {})}}],
        "contexts": [{"name": context, "context": {"cluster": f"{context}-cluster", "user": f"{context}-user"}}],
        "users": [{"name": f"{context}-user", "user": user}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


def certificate(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """What a server on the loopback shows, signed by itself, and the file that a client trusts it by."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kube-apiserver")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    authority, pair = folder / "ca.crt", folder / "server.pem"
    authority.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    unencrypted = serialization.NoEncryption()
    pair.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, unencrypted)
        + authority.read_bytes()
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair)
    return context, authority
