"""Who may speak to whom: NetworkPolicies, which a cluster's network heeds or passes over.

They are written unless somebody says otherwise, as what nobody refuses is open to every pod of the cluster: engines
take any request, and hand KV caches to whoever asks. All engines of a plan are one group, whatever hands over to what,
so that a step of a roll-out changes no policy under requests that are under way.

who                    is reached by                                       at
engines                the plan's engines (rendezvous, collectives,        every port: NCCL, Gloo and UCX choose theirs
                       KV caches)
                       the plan's routers; where these are others',        where requests are taken
                       the namespace and clients
                       Prometheus                                          where requests are taken: metrics, too
routers                clients                                             the port of the first program
                       the plan's routers                                  every port
the Job of weights     nobody

and reaches: engines each other, the hub where they fetch from it, and a store of caches that they share; routers
engines and each other, and the API server where they look for pods; all of them the cluster's DNS. Where an operator
tells pods what to reach (`NetworkFacts.egress`), what they reach is left alone. A node's own traffic, as the kubelet's
probes, is never cut.

Sources: networking.k8s.io/v1; Kubernetes, Network Policies, NodeLocal DNSCache (169.254.20.10); labels of the
Prometheus operator's pods.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from planner.export.objects.documents import yaml_text
from planner.export.objects.names import plan_labels
from planner.export.objects.pods import PART_OF_LABEL
from planner.export.objects.router_objects import COMPONENT, COMPONENT_LABEL
from planner.export.objects.weights import Source, weights_source
from planner.export.seams import Deployment, Endpoint, NetworkFacts, RouterProcess, SelectPods

FILE = "network-policies.yaml"
_NAMESPACE = "kubernetes.io/metadata.name"
_API_PORTS, _WEB_PORTS = (443, 6443), (443,)
_JOB = "batch.kubernetes.io/job-name"

Rule = dict[str, Any]


def policy_files(
    deployment: Deployment,
    facts: NetworkFacts,
    select: SelectPods,
    endpoints: Sequence[Endpoint],
    processes: Sequence[RouterProcess],
    *,
    namespace: str = "",
) -> dict[str, str]:
    """`network-policies.yaml`; `processes`: of the plan's own router, `select`: the pods of an island."""
    if not deployment.options.network_policies:
        return {}
    name = deployment.name
    metadata = {"labels": plan_labels(name)} | ({"namespace": namespace} if namespace else {})
    engines = {"matchLabels": {PART_OF_LABEL: name}} if facts.together else _engines(deployment, select)
    policies = [
        _policy(f"{name}-engines", metadata, engines, _engine_rules(deployment, facts, engines, endpoints, processes))
    ]
    if processes:
        policies.append(
            _policy(
                f"{name}-routers", metadata, _routers(name), _router_rules(deployment, engines, endpoints, processes)
            )
        )
    if weights_source(deployment.islands[0].weights, deployment.options) is Source.JOB:
        fetching = {"matchLabels": {_JOB: f"{name}-weights"}}
        policies.append(_policy(f"{name}-weights", metadata, fetching, {"ingress": [], "egress": [_dns(), _web()]}))
    return {FILE: yaml_text(_comments(deployment, facts, processes), policies)}


def front_policy(name: str, part_of: str, port: int, client_namespaces: Iterable[str]) -> Rule:
    """Of a fleet's front, which reaches what its deployments answer at, in its own namespace."""
    rules = {"ingress": [_at([port], _clients(client_namespaces))], "egress": [_dns(), {"to": [{"podSelector": {}}]}]}
    return _policy(name, {"labels": plan_labels(part_of)}, _routers(part_of), rules)


def _comments(deployment: Deployment, facts: NetworkFacts, processes: Sequence[RouterProcess]) -> Iterator[str]:
    clients = ", ".join(deployment.options.client_namespaces)
    entry = "routers" if processes else "engines, as their router is not of this export"
    yield f"Who may speak to whom, in clusters whose network heeds it. Requests come to the {entry}:"
    yield f"from {clients or 'anywhere, unless client namespaces are named (--client-namespace)'}."
    scraping = prometheus_namespace(deployment.options.prometheus)
    yield (
        f"Prometheus reads metrics from namespace {scraping}, by the address that deploy.prometheus has."
        if scraping
        else "Prometheus is outside of the cluster's Services (deploy.prometheus): add where it reads metrics from."
    )
    if facts.egress:
        yield "DNS is that of kube-system; proxies, mirrors and collectors of traces that pods need are to be added."


def prometheus_namespace(address: str) -> str:
    """The namespace of a Service's address, as http://NAME.NAMESPACE.svc:9090; empty where it is none."""
    labels = (urlsplit(address).hostname or "").split(".")
    return labels[1] if len(labels) > 2 and labels[2] == "svc" else ""


def _policy(name: str, metadata: Mapping[str, Any], selector: Rule, rules: Mapping[str, list[Rule]]) -> Rule:
    types = [key.capitalize() for key in rules]
    spec = {"podSelector": selector, "policyTypes": types, **rules}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def _engines(deployment: Deployment, select: SelectPods) -> Rule:
    """All pods that run islands: by the plan's name where they have it, else by the values that tell them apart."""
    rows = [select(island, deployment) for island in deployment.islands]
    shared = {key: value for key, value in rows[0].items() if all(row[key] == value for row in rows)}
    expressions: list[Rule] = []
    for key in rows[0]:
        if key not in shared and PART_OF_LABEL in shared:
            expressions.append({"key": key, "operator": "Exists"})
        elif key not in shared:
            expressions.append({"key": key, "operator": "In", "values": sorted({row[key] for row in rows})})
    if PART_OF_LABEL in shared:  # an only island would be named, and the next plan have another policy
        expressions = [{"key": key, "operator": "Exists"} for key in rows[0] if key != PART_OF_LABEL]
        shared = {PART_OF_LABEL: shared[PART_OF_LABEL]}
    return ({"matchLabels": shared} if shared else {}) | ({"matchExpressions": expressions} if expressions else {})


def _routers(name: str) -> Rule:
    return {"matchLabels": {PART_OF_LABEL: name, COMPONENT_LABEL: COMPONENT}}


def _engine_rules(
    deployment: Deployment,
    facts: NetworkFacts,
    engines: Rule,
    endpoints: Sequence[Endpoint],
    processes: Sequence[RouterProcess],
) -> dict[str, list[Rule]]:
    ports, options = _request_ports(endpoints), deployment.options
    if processes:
        requests = [_at(ports, [{"podSelector": _routers(deployment.name)}])]
    else:
        clients = _clients(options.client_namespaces)
        requests = [
            _at([facts.entry_port] if facts.entry_port else ports, [*clients, {"podSelector": {}}] if clients else [])
        ]
    scraping = prometheus_namespace(options.prometheus)
    scrapes = [_at(ports, [_prometheus(scraping)])] if scraping else []
    rules = {"ingress": [{"from": [{"podSelector": engines}]}, *requests, *scrapes]}
    if not facts.egress:
        return rules
    fetching = weights_source(deployment.islands[0].weights, options) in (Source.HUB, Source.NODE)
    store = [_store(options.kv_store)] if options.kv_store else []
    egress = [_dns(), {"to": [{"podSelector": engines}]}, *([_web()] if fetching else []), *store]
    return rules | {"egress": egress}


def _router_rules(
    deployment: Deployment, engines: Rule, endpoints: Sequence[Endpoint], processes: Sequence[RouterProcess]
) -> dict[str, list[Rule]]:
    routers = [{"podSelector": _routers(deployment.name)}]
    watching = any(process.watches_pods for process in processes)
    return {
        "ingress": [
            _at([processes[0].port], _clients(deployment.options.client_namespaces)),
            {"from": routers},
        ],
        "egress": [
            _dns(),
            _to(_request_ports(endpoints), [{"podSelector": engines}]),
            {"to": routers},
            *([_to(_API_PORTS, [])] if watching else []),
        ],
    }


def _request_ports(endpoints: Sequence[Endpoint]) -> list[int]:
    return sorted({port for endpoint in endpoints for port in endpoint.ports})


def _clients(namespaces: Iterable[str]) -> list[Rule]:
    """Whom requests come from, a fleet's front among them; empty: anybody."""
    names = sorted(namespaces)
    if not names:
        return []
    expression = {"key": _NAMESPACE, "operator": "In", "values": names}
    return [
        {"namespaceSelector": {"matchExpressions": [expression]}},
        {"podSelector": {"matchLabels": {COMPONENT_LABEL: COMPONENT}}},
    ]


def _prometheus(namespace: str) -> Rule:
    return {
        "namespaceSelector": {"matchLabels": {_NAMESPACE: namespace}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}},
    }


def _at(ports: Sequence[int], peers: Sequence[Rule]) -> Rule:
    return ({"from": list(peers)} if peers else {}) | {"ports": _tcp(ports)}


def _to(ports: Sequence[int], peers: Sequence[Rule]) -> Rule:
    return ({"to": list(peers)} if peers else {}) | {"ports": _tcp(ports)}


def _tcp(ports: Sequence[int]) -> list[Rule]:
    return [{"protocol": "TCP", "port": port} for port in ports]


def _web() -> Rule:
    """The hub, and where its files lie: names that change, so that the port alone can be said."""
    return _to(_WEB_PORTS, [])


def _store(address: str) -> Rule:
    """Where caches lie that servers share: a name that says nothing of pods, and Mooncake's choose their ports."""
    return {} if "mooncake" in address else _to([urlsplit(address).port or 0], [])


def _dns() -> Rule:
    return {
        "to": [
            {"namespaceSelector": {"matchLabels": {_NAMESPACE: "kube-system"}}},
            {"ipBlock": {"cidr": "169.254.20.10/32"}},
        ],
        "ports": [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")],
    }
