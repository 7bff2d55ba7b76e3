"""What operators may change in exported manifests, as one table; all else is a difference.

Comments, the order of keys and flags, quotes, the notation of JSON and of amounts, the file an object stands in, and
what an API server adds do not even reach the table: `changes` does not tell them. Objects of other names are judged in
`differences`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from planner.export.checking.changes import MISSING, Change, Flags, taken_apart
from planner.export.checking.items import Item
from planner.export.objects.documents import amount
from planner.export.objects.pods import ISLAND_LABEL
from planner.export.options import LEAST_SHARED_GIB, image_is_pinned
from planner.export.summary import PREFIX


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a change is judged by: the thing as planned and as written, and the number of copies between which an
    autoscaler of the plan may move it (None: no autoscaler does)."""

    planned: Item
    written: Item
    copies: tuple[int, int] | None = None


Allows = Callable[[Change, Surroundings], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Freedom:
    """`where`: the last parts of a path, `*` for any one; `what` may be done there, in words; `allows`: whether a
    change is that."""

    where: tuple[str, ...]
    what: str
    allows: Allows
    within: frozenset[str] = field(default=frozenset())
    """Keys of which one has to be somewhere on the way there; empty: any way."""

    def takes(self, change: Change, around: Surroundings) -> bool:
        """Whether this row allows the change."""
        path = change.path[-len(self.where) :]
        fits = len(path) == len(self.where) and all(
            part in ("*", step) for part, step in zip(self.where, path, strict=True)
        )
        on_the_way = not self.within or not self.within.isdisjoint(change.path)
        return fits and on_the_way and self.allows(change, around)


_DECIDING = (
    *("planner/", "app.kubernetes.io/", "kubernetes.io/", "k8s.io/", "nvidia.com/", "amd.com/", "aibrix.ai/"),
    *("llm-d.ai/", "kserve.io/", "x-k8s.io/", "karpenter.sh/", "prometheus.io/", "istio.io/", "keda.sh/"),
)
"""How the prefixes of labels and annotations end that controllers, routers and schedulers go by."""
_OF_OPERATORS = (
    *("NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "TZ", "LANG", "LC_ALL", "PYTHONUNBUFFERED", "HF_TOKEN", "HF_ENDPOINT"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "VLLM_LOGGING_LEVEL"),
    *("VLLM_NO_USAGE_STATS", "DO_NOT_TRACK"),
)
_OF_OPERATORS_BEGIN = ("OTEL_", "SENTRY_", "DD_")
_DEFAULTS = {"VLLM_NIXL_SIDE_CHANNEL_PORT": "5600"}
_FRONT_END = frozenset(
    {"--enable-metrics", "--enable-auto-tool-choice", "--tool-call-parser", "--reasoning-parser", "--chat-template"}
    | {"--enable-log-requests", "--disable-log-requests", "--log-requests", "--log-level", "--uvicorn-log-level"}
    | {"--disable-log-stats", "--otlp-traces-endpoint", "--enable-cache-report", "--log-level-http"}
)
"""Flags of vLLM and SGLang that change what is said and logged, not what is served how fast."""
_RENDEZVOUS = ("--data-parallel-rpc-port", "--master-port", "--dist-init-addr")
_PROBES = frozenset({"readinessProbe", "startupProbe", "livenessProbe"})
_ROUTES = frozenset({"/health", "/v1/models"})
_MORE = frozenset({"cpu", "memory", "ephemeral-storage"})
_OF_CACHES = frozenset({f"{PREFIX}host-cache-gb", f"{PREFIX}disk-cache-gb"})
_PORTS = range(1024, 65536)


def _added(allowed: Callable[[str, Any], bool] = lambda key, value: True) -> Allows:  # noqa: ARG005  # any key and value
    return lambda change, _: change.planned is MISSING and allowed(change.path[-1].strip("[]"), change.written)


def _of_theirs(key: str, value: object) -> bool:
    """Whether a label or an annotation is one that nothing of the export goes by."""
    prefix, slash, _ = key.partition("/")
    return isinstance(value, str) and bool(slash) and not f".{prefix}/".endswith(tuple(f".{end}" for end in _DECIDING))


def _labels_of_theirs(_: str, value: object) -> bool:
    return isinstance(value, Mapping) and all(_of_theirs(str(key), item) for key, item in value.items())


def _preferences(_: str, value: object) -> bool:
    """Rules that a scheduler may break."""
    kinds = value.values() if isinstance(value, Mapping) else [value]
    return all(isinstance(kind, Mapping) and all(str(key).startswith("preferred") for key in kind) for kind in kinds)


def _variable_of_theirs(name: str, value: object) -> bool:
    secret = not isinstance(value, Mapping) or name != "HF_TOKEN" or "valueFrom" in value  # no token in plain text
    return (name in _OF_OPERATORS or name.startswith(_OF_OPERATORS_BEGIN)) and secret


def _same_amount(change: Change, _: Surroundings) -> bool:
    planned, written = amount(change.planned), amount(change.written)
    return planned is not None and planned == written


def _at_least(change: Change, _: Surroundings) -> bool:
    """A whole number of seconds or tries that is not below the plan's."""
    return type(change.planned) is int and type(change.written) is int and change.written >= change.planned


def _more_resources(change: Change, _: Surroundings) -> bool:
    planned, written = amount(change.planned), amount(change.written)
    return change.path[-1] in _MORE and planned is not None and written is not None and written >= planned


def _less_shared_memory(change: Change, around: Surroundings) -> bool:
    """Not where engines keep caches in it, or in a volume like it."""
    if _OF_CACHES.intersection(_annotations(around.planned.body)):
        return False
    planned, written = amount(change.planned), amount(change.written)
    return planned is not None and written is not None and LEAST_SHARED_GIB * 2**30 <= written <= planned


def _annotations(body: Any) -> Iterator[str]:
    """Names of annotations, those of an object's parts among them."""
    metadata = body.get("metadata") if isinstance(body, Mapping) else None
    rows = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    for name, value in rows.items() if isinstance(rows, Mapping) else ():
        yield name
        part = taken_apart(name, value)
        yield from map(str, part) if isinstance(part, Mapping) else ()


def _said_once_more(change: Change, _: Surroundings) -> bool:
    """A flag that was added, or stands there again with the same value."""
    values = set(str(change.written).split(", "))
    return change.written is not MISSING and (change.planned is MISSING or values == {change.planned})


def _scaled(change: Change, around: Surroundings) -> bool:
    """An autoscaler sets the number of copies; where the file has none, the API server takes one."""
    if around.copies is None or change.path != ("spec", "replicas"):
        return False
    low, high = around.copies
    return change.written is MISSING or (type(change.written) is int and low <= change.written <= high)


def _same_image(change: Change, _: Surroundings) -> bool:
    """By its digest, with or without the tag beside it."""
    if not isinstance(change.planned, str) or not isinstance(change.written, str):
        return False
    name, written = change.planned.rpartition(":")[0], change.written.partition("@")[0]
    return written != change.written and image_is_pinned(change.written) and written in (name, change.planned)


def _another_route(change: Change, around: Surroundings) -> bool:
    engine = ISLAND_LABEL in around.planned.body.get("metadata", {}).get("labels", {})
    return engine and change.planned in _ROUTES and change.written in _ROUTES


def _default_left_out(change: Change, _: Surroundings) -> bool:
    if change.written is not MISSING or not isinstance(change.planned, Mapping):
        return False
    default = _DEFAULTS.get(str(change.planned.get("name")))
    return default is not None and change.planned.get("value") == default


def _all_alike(change: Change, around: Surroundings) -> bool:
    """The port of a rendezvous, the same in all pods of the object, and no other port there."""
    if not isinstance(change.planned, str) or not isinstance(change.written, str):
        return False
    host, port = _host_and_port(change.written)
    if host != _host_and_port(change.planned)[0] or not port.isdecimal() or len(port) > 5 or int(port) not in _PORTS:
        return False
    flag = change.path[-1]
    before, after = (list(_values_of(flag, item.body)) for item in (around.planned, around.written))
    return len(before) == len(after) and set(after) == {change.written} and port not in _ports(around.planned.body)


def _host_and_port(address: str) -> tuple[str, str]:
    host, _, port = address.rpartition(":")
    return host, port


def _values_of(flag: str, node: object, key: str = "") -> Iterator[str]:
    """Every value of a flag in all command lines."""
    node = taken_apart(key, node)
    if isinstance(node, Flags):
        yield from node.get(flag, ())
    elif isinstance(node, Mapping):
        for name, value in node.items():
            yield from _values_of(flag, value, str(name))
    elif isinstance(node, list):
        for value in node:
            yield from _values_of(flag, value)


def _ports(node: object, key: str = "") -> set[str]:
    """Whatever could be a port of the pods: numbers of fields, variables and flags."""
    node = taken_apart(key, node)
    if isinstance(node, Flags):
        return {value.rpartition(":")[2] for values in node.values() for value in values}
    if isinstance(node, Mapping):
        return set().union(*(_ports(value, str(name)) for name, value in node.items()))
    if isinstance(node, list):
        return set().union(*(_ports(value) for value in node))
    return {str(node)}


FREEDOMS: Sequence[Freedom] = (
    *(
        Freedom(where=("metadata", kind, "*"), what=f"{kind} of your own prefix added", allows=_added(_of_theirs))
        for kind in ("labels", "annotations")
    ),
    *(
        Freedom(where=("metadata", kind), what=f"{kind} of your own prefix added", allows=_added(_labels_of_theirs))
        for kind in ("labels", "annotations")
    ),
    Freedom(where=("metadata", "namespace"), what="a namespace, the same in all objects", allows=_added()),
    Freedom(where=("spec", "replicas"), what="copies within the bounds of the plan's autoscaler", allows=_scaled),
    *(
        Freedom(where=("resources", kind, "*"), what="more cores and memory", allows=_more_resources)
        for kind in ("limits", "requests")
    ),
    *(
        Freedom(where=("resources", kind, "*"), what="amounts in another notation", allows=_same_amount)
        for kind in ("limits", "requests")
    ),
    Freedom(where=("emptyDir", "sizeLimit"), what="less shared memory, 1 GiB or more", allows=_less_shared_memory),
    Freedom(where=("terminationGracePeriodSeconds",), what="a longer time at a pod's end", allows=_at_least),
    Freedom(where=("startupProbe", "failureThreshold"), what="a longer time to start", allows=_at_least),
    Freedom(where=("httpGet", "path"), what="probes of /v1/models", allows=_another_route, within=_PROBES),
    Freedom(where=("image",), what="the same image by its digest", allows=_same_image),
    Freedom(where=("affinity",), what="preferences of nodes and pods", allows=_added(_preferences)),
    Freedom(where=("imagePullSecrets",), what="secrets for images", allows=_added()),
    Freedom(where=("imagePullPolicy",), what="when images are fetched", allows=_added()),
    Freedom(where=("serviceAccountName",), what="a service account", allows=_added()),
    Freedom(where=("revisionHistoryLimit",), what="a length of history", allows=_added()),
    Freedom(where=("env", "*"), what="variables of logs, proxies and tokens", allows=_added(_variable_of_theirs)),
    Freedom(where=("env", "*"), what="a variable at the engine's default left out", allows=_default_left_out),
    *(
        Freedom(where=(flag,), what=f"{flag} added", allows=_said_once_more, within=frozenset({"args", "command"}))
        for flag in sorted(_FRONT_END)
    ),
    *(Freedom(where=(flag,), what=f"another port of {flag}, in all pods", allows=_all_alike) for flag in _RENDEZVOUS),
)
"""Labels and annotations, then whole objects, pods, and what engines are started with."""


def is_allowed(change: Change, around: Surroundings) -> bool:
    """Whether any row allows the change."""
    return any(freedom.takes(change, around) for freedom in FREEDOMS)
