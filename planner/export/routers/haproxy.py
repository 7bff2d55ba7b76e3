"""HAProxy's configuration: a backend an interval of lengths, chosen by the size of the request's body.

Servers are taken by fewest connections for their weight, which is the share that the plan gives them; where a plan's
shares are meant as they are, in turn by weight. A request is tried again only where no connection came about, so that
nothing is generated twice. A server that fails its checks, or twice refuses a connection, is left out.

`req.body_size` is what content-length says, and for bodies in chunks what has arrived: `option http-buffer-request`
waits for the body's end or a full buffer, so that a buffer holds more than the highest cut point.

Source: HAProxy's configuration manual 2.6 (http-buffer-request, req.body_size, leastconn, redispatch, retry-on,
observe, track, server-template, resolvers), and `haproxy -c` over what is written here.

Prompt lengths as a proxy sees them: in bytes of the request's body.

symbol     meaning                                             unit         source
b          bytes of a prompt's text for each of its tokens     bytes/token  deploy.bytes_per_token; about 4 in
                                                                            English and code with tokenizers of 100 000
                                                                            words and more
e          the JSON around the prompt                          bytes        counted: a chat request of the model's
size(n)    e + ceil(b n), the body of a prompt of n tokens     bytes
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from planner.domain import Plan
from planner.export.objects.names import one_line, pods_service
from planner.export.routers.gateways import READY
from planner.export.routers.intervals_served import ServedInterval, answer_timeout_s, held_requests, server_weights
from planner.export.seams import NAMESPACE, Deployment, Endpoint, RouterProcess
from planner.export.summary import balanced

_FUZZ = 1e-9
REFUSED_FROM = 2
"""Bodies are refused from so many times the context on: fewer bytes may well be a prompt that an engine takes."""


def envelope_bytes(plan: Plan) -> int:
    """The JSON around the prompt of a chat request with the keys that most have."""
    request = {
        "model": plan.scenario.model.uri.removeprefix("hf://"),
        "messages": [{"role": "user", "content": ""}],
        "max_tokens": plan.scenario.workload.max_output_tokens,
        "temperature": 0.0,
        "stream": True,
    }
    return len(json.dumps(request).encode())


def body_bytes(tokens: int, bytes_per_token: float, envelope: int) -> int:
    """The body of a prompt of so many tokens; 0 of a prompt of none, as a body may be smaller than any envelope."""
    return envelope + math.ceil(bytes_per_token * tokens - _FUZZ) if tokens else 0


CONFIG_FILE = "haproxy.cfg"
PORT = 8080
HEALTH = "/health"
BYTES_PER_TOKEN, ENVELOPE = "BYTES_PER_TOKEN", "ENVELOPE_BYTES"
"""Variables of the configuration that say how its sizes were made of tokens."""
DOMAIN = f".${{{NAMESPACE}}}.svc.cluster.local"
"""HAProxy's resolver knows no search list, so that names in a cluster are whole."""
BACKEND, CHECKED = "interval-", "gateways"
CPUS = 2
_KIB, _MIB = 1024, 1024 * 1024
_LEAST_BUFFER, _HEADERS = 16 * _KIB, 4 * _KIB
_MOST_CONNECTIONS = 20_000
_BUFFERING = 500
"""Bodies that are being read at a time, for the memory that it needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """An interval with whom its requests go to: programs with the share that they take together, and islands that
    HAProxy reaches itself."""

    interval: ServedInterval
    programs: tuple[tuple[RouterProcess, float, int], ...]
    direct: tuple[tuple[Endpoint, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sizes:
    """What sizes are made of: see `body_sizes`."""

    bytes_per_token: float
    envelope: int

    def of(self, tokens: int) -> int:
        return body_bytes(tokens, self.bytes_per_token, self.envelope)


def haproxy_process(deployment: Deployment, backends: Sequence[Backend], name: str) -> RouterProcess:
    """The program `haproxy` with its configuration."""
    images = {key.upper(): image for key, image in deployment.options.images}
    direct = {endpoint.service: endpoint for backend in backends for endpoint, _ in backend.direct}
    buffers = 2 * _BUFFERING * _buffer_bytes(backends, _sizes(deployment))
    return RouterProcess(
        name=name,
        image=images.get("HAPROXY", "haproxy:2.6.12"),
        command=("haproxy", "-db", "-f", f"{{config}}/{CONFIG_FILE}"),
        port=PORT,
        health_path=HEALTH,
        config=((CONFIG_FILE, config_text(deployment, backends)),),
        replicas=2,
        resolves=tuple(endpoint for endpoint in direct.values() if not endpoint.leaders),
        cpus=CPUS,
        memory_mib=512 + math.ceil(buffers / _MIB),
        grace_s=answer_timeout_s(deployment.plan),
        notes=("Requests come in here: a backend for each interval of prompt lengths, by the size of the body.",),
    )


def config_text(deployment: Deployment, backends: Sequence[Backend]) -> str:
    """The text of haproxy.cfg."""
    sizes = _sizes(deployment)
    cluster = deployment.applied
    blocks = [
        _comments(deployment, sizes),
        _global(deployment, backends, sizes),
        _defaults(deployment, cluster=cluster),
        *([["resolvers cluster", "    parse-resolv-conf", "    hold valid 10s"]] if cluster else []),
        _frontend(backends, sizes),
        *_checked(backends, cluster=cluster),
        *(_backend(deployment, backend, cluster=cluster) for backend in backends),
    ]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _sizes(deployment: Deployment) -> _Sizes:
    return _Sizes(bytes_per_token=deployment.options.bytes_per_token, envelope=envelope_bytes(deployment.plan))


def _comments(deployment: Deployment, sizes: _Sizes) -> list[str]:
    return [
        f"# Plan {one_line(deployment.plan.scenario.name)}: prompts find their servers by the size of the request.",
        f"# Sizes count {sizes.bytes_per_token:g} bytes a token and {sizes.envelope} bytes of JSON around the prompt;",
        "# other texts and languages, images and tools in a request go astray. Export anew with --bytes-per-token.",
    ]


def _buffer_bytes(backends: Sequence[Backend], sizes: _Sizes) -> int:
    """Room for a body of the highest cut point, in whole KiB."""
    cut = sizes.of(backends[-1].interval.start)
    return max(_LEAST_BUFFER, _KIB * math.ceil((cut + _HEADERS) / _KIB))


def _global(deployment: Deployment, backends: Sequence[Backend], sizes: _Sizes) -> list[str]:
    total = sum(
        sum(most for _, _, most in b.programs) + sum(_island_requests(e) for e, _ in b.direct) for b in backends
    )
    return [
        "global",
        "    log stdout format raw local0 notice",
        f"    maxconn {min(_MOST_CONNECTIONS, 2 * total)}",
        f"    nbthread {CPUS}",
        f"    tune.bufsize {_buffer_bytes(backends, sizes)}",
        f"    hard-stop-after {answer_timeout_s(deployment.plan)}s",
        f"    setenv {BYTES_PER_TOKEN} {sizes.bytes_per_token!r}",
        f"    setenv {ENVELOPE} {sizes.envelope}",
    ]


def _island_requests(endpoint: Endpoint) -> int:
    return endpoint.island.grouping.groups * held_requests(endpoint.island)


def _defaults(deployment: Deployment, *, cluster: bool) -> list[str]:
    timeout = answer_timeout_s(deployment.plan)
    names = " resolvers cluster" if cluster else ""
    return [
        "defaults",
        "    mode http",
        "    log global",
        "    timeout connect 2s",
        "    timeout http-request 60s",
        f"    timeout client {timeout}s",
        f"    timeout server {timeout}s",
        f"    timeout queue {timeout}s",
        "    timeout check 2s",
        "    retries 3",
        "    retry-on conn-failure",
        "    option redispatch 1",
        "    default-server inter 2s fastinter 500ms downinter 2s fall 3 rise 1 observe layer4 error-limit 2 "
        f"on-error mark-down init-addr last,libc,none{names}",
    ]


def _frontend(backends: Sequence[Backend], sizes: _Sizes) -> list[str]:
    last = backends[-1].interval
    nobody = " ".join(f"{{ nbsrv({BACKEND}{backend.interval.number}) lt 1 }}" for backend in backends)
    return [
        "frontend requests",
        f"    bind :{PORT}",
        "    option http-buffer-request",
        f"    monitor-uri {HEALTH}",
        f"    monitor fail if {nobody}",
        f"    http-request deny deny_status 413 if {{ req.body_size gt {REFUSED_FROM * sizes.of(last.end)} }}",
        *(
            f"    use_backend {BACKEND}{backend.interval.number} "
            f"if {{ req.body_size lt {sizes.of(backend.interval.end)} }}"
            for backend in backends[:-1]
        ),
        f"    default_backend {BACKEND}{last.number}",
    ]


def _checked(backends: Sequence[Backend], *, cluster: bool) -> Iterator[list[str]]:
    """Programs beside engines, whose health has another path, are checked in a backend of their own."""
    programs = [program for b in backends if b.direct for program, _, _ in b.programs]
    if programs:
        yield [
            f"backend {CHECKED}",
            f"    option httpchk GET {READY}",
            *(f"    server {p.name} {_address(f'{p.name}:{p.port}', cluster=cluster)} check" for p in programs),
        ]


def _backend(deployment: Deployment, backend: Backend, *, cluster: bool) -> list[str]:
    interval = backend.interval
    shares = [(share, 1) for _, share, _ in backend.programs]
    shares += [(share, endpoint.island.grouping.groups) for endpoint, share in backend.direct]
    weights = iter(server_weights(shares))
    health = backend.direct[0][0].health_path if backend.direct else READY
    head = [
        f"# {interval.title}",
        f"backend {BACKEND}{interval.number}",
        f"    balance {'leastconn' if balanced(deployment.plan) else 'roundrobin'}",
        f"    option httpchk GET {health}",
    ]
    rows = [
        f"    server {program.name} {_address(f'{program.name}:{program.port}', cluster=cluster)} "
        f"weight {next(weights)} maxconn {most} "
        + (f"no-check track {CHECKED}/{program.name}" if backend.direct else "check")
        for program, _, most in backend.programs
    ]
    return [*head, *rows, *(row for e, _ in backend.direct for row in _servers(e, next(weights), cluster=cluster))]


def _servers(endpoint: Endpoint, weight: int, *, cluster: bool) -> Iterator[str]:
    island = endpoint.island
    settings = f"weight {weight} maxconn {held_requests(island)} check"
    if not endpoint.leaders:
        address = _address(f"{pods_service(endpoint.service)}:{endpoint.port}", cluster=cluster)
        yield f"    server-template {island.name}- {island.grouping.groups} {address} {settings}"
    for number, leader in enumerate(endpoint.leaders):
        yield f"    server {island.name}-{number} {_address(leader, cluster=cluster)} {settings}"


def _address(host_port: str, *, cluster: bool) -> str:
    host, _, port = host_port.rpartition(":")
    return f'"{host}{DOMAIN}:{port}"' if cluster else host_port
