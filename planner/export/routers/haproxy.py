"""HAProxy's configuration: a backend an interval of lengths, chosen by the size of the request's body; behind the
program that pairs an interval's servers, a frontend and a backend for each phase, so that every server is chosen here.

Servers are taken by fewest connections for their weight, which is their load in the plan (`speeds`); where a plan's
shares are meant as they are, in turn by weight. A request is tried again only where no connection came about, so that
nothing is generated twice. A server that fails its checks, or twice refuses a connection, is left out. A client that
goes away takes its request along. Connections to servers are not kept: an engine ends idle ones after seconds, and a
request that meets such an end is lost.

What a pairing program reaches is this very process. So that neither waits for the other to be ready, HAProxy is ready
once engines are, and its clients have connections set apart, which leave enough for the programs' behind it.

`req.body_size` is what content-length says, and for bodies in chunks what has arrived: `option http-buffer-request`
waits for the body's end or a full buffer, so that a buffer holds more than the highest cut point.

Source: HAProxy's configuration manual 2.6 (http-buffer-request, req.body_size, leastconn, redispatch, retry-on,
observe, track, server-template, resolvers, abortonclose, http-server-close, monitor fail), and `haproxy -c` over what
is written here.

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from planner.domain import PHASES, Phase, Plan
from planner.domain.serving.deploy import COUNTS_BYTES
from planner.export.objects.names import pods_service
from planner.export.objects.operating.autoscaling import NONE, copy_bounds
from planner.export.routers.intervals_served import (
    ServedInterval,
    answer_timeout_s,
    held_requests,
    island_requests,
    server_weights,
)
from planner.export.seams import NAMESPACE, Deployment, Endpoint, RouterProcess
from planner.export.summary import balanced
from planner.export.templating import configuration_of, file_of

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


CONFIG_FILE, LUA_FILE = "haproxy.cfg", "fewest-bytes.lua"
PORT = 8080
HEALTH = "/health"
CPUS, COPIES = 2, 2
FORWARD_S = 2 * 12e-6
"""Of a thread for a token of a paired answer, which passes twice (seconds): measured with HAProxy 2.6.12, streams of
200 clients, 150 bytes a token, without delay."""
_KIB, _MIB = 1024, 1024 * 1024
_LEAST_BUFFER, _HEADERS = 16 * _KIB, 4 * _KIB
_MOST_CONNECTIONS = 20_000
_BUFFERING = 500
"""Bodies that are being read at a time, for the memory that it needs."""
_FIRST_PHASE_PORT = 10_100
_PER_CLIENT = 5
"""Connections for each of a client's: its own, and of the programs of both copies one to each phase, since all of these
may come to one copy and be idle when the next is made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseServers:
    """A phase of a split interval, behind a port of its own: the islands whose servers take its requests, and the load
    of each (`speeds`)."""

    name: str
    port: int
    phase: Phase
    islands: tuple[tuple[Endpoint, float], ...]

    @property
    def weights(self) -> tuple[int, ...]:
        """Of a server of each island."""
        return server_weights([(load, endpoint.island.servers) for endpoint, load in self.islands])


def phase_servers(interval: int, phase: Phase, islands: Sequence[tuple[Endpoint, float]]) -> PhaseServers:
    """The servers of a phase of the interval of that number."""
    port = _FIRST_PHASE_PORT + len(PHASES) * interval + PHASES.index(phase)
    return PhaseServers(name=f"{phase.value}-{interval}", port=port, phase=phase, islands=tuple(islands))


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """An interval with whom its requests go to: programs with the share that they take together, and islands that
    HAProxy reaches itself. `phases`: whom the programs reach, where that is HAProxy again."""

    interval: ServedInterval
    programs: tuple[tuple[RouterProcess, float, int], ...]
    direct: tuple[tuple[Endpoint, float], ...]
    phases: tuple[PhaseServers, ...] = ()

    @property
    def weights(self) -> tuple[int, ...]:
        """Of its programs, then of a server of each island."""
        shares = [(share, 1) for _, share, _ in self.programs]
        return server_weights(shares + [(share, e.island.servers) for e, share in self.direct])

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Where HAProxy itself reaches islands."""
        return tuple(
            endpoint for islands in (self.direct, *(p.islands for p in self.phases)) for endpoint, _ in islands
        )


def haproxy_process(deployment: Deployment, backends: Sequence[Backend], name: str) -> RouterProcess:
    """The program `haproxy` with its configuration."""
    images = {key.upper(): image for key, image in deployment.options.images}
    reached = {endpoint.service: endpoint for backend in backends for endpoint in backend.endpoints}
    phases = [phase for backend in backends for phase in backend.phases]
    buffers = 2 * _BUFFERING * _buffer_bytes(deployment, backends)
    return RouterProcess(
        name=name,
        image=images.get("HAPROXY", "haproxy:2.6.12"),
        command=("haproxy", "-db", "-f", f"{{config}}/{CONFIG_FILE}"),
        port=PORT,
        health_path=HEALTH,
        more_ports=tuple((phase.name, phase.port) for phase in phases),
        config=(
            (CONFIG_FILE, config_text(deployment, backends)),
            *(((LUA_FILE, file_of(LUA_FILE)),) if _counting(deployment, phases) else ()),
        ),
        replicas=COPIES,
        resolves=tuple(endpoint for endpoint in reached.values() if not endpoint.addresses),
        cpus=_threads(deployment, phases),
        memory_mib=512 + math.ceil((2 if phases else 1) * buffers / _MIB),
        grace_s=answer_timeout_s(deployment.plan),
        notes=("Requests come in here: a backend for each interval of prompt lengths, by the size of the body.",),
    )


def _threads(deployment: Deployment, phases: Sequence[PhaseServers]) -> int:
    """A token of a paired answer passes HAProxy twice. One thread where Lua counts: with several, HAProxy 2.6.12 mixes
    up what its filters remember of their requests (haproxy/haproxy issue 2467), one in a few hundred under load; with
    one, none of 15,000 that were answered, refused, timed out or given up left a byte behind."""
    if _counting(deployment, phases):
        return 1
    return 2 * CPUS if phases else CPUS


def _counting(deployment: Deployment, phases: Sequence[PhaseServers]) -> tuple[str, ...]:
    """Of `phases`, those whose servers are chosen by the bytes of their prompts: of prefill, where the least loaded
    takes the next."""
    if deployment.options.router_counts != COUNTS_BYTES or not balanced(deployment.plan):
        return ()
    return tuple(phase.name for phase in phases if phase.phase is Phase.PREFILL)


def config_text(deployment: Deployment, backends: Sequence[Backend]) -> str:
    """The text of haproxy.cfg."""
    requests = sum(
        sum(most_requests for _, _, most_requests in backend.programs)
        + sum(island_requests(endpoint) for endpoint, _ in backend.direct)
        for backend in backends
    )
    phases = [phase for backend in backends for phase in backend.phases]
    clients = min(_MOST_CONNECTIONS, 2 * requests)
    return configuration_of(
        "haproxy",
        plan=deployment.plan.scenario.name,
        cluster=deployment.target.applied,
        backends=backends,
        bytes_per_token=deployment.options.bytes_per_token,
        envelope=envelope_bytes(deployment.plan),
        phases=phases,
        counting=_counting(deployment, phases),
        script=LUA_FILE,
        clients=clients,
        connections=_PER_CLIENT * clients if phases else clients,
        cpus=_threads(deployment, phases),
        buffer=_buffer_bytes(deployment, backends),
        timeout=answer_timeout_s(deployment.plan),
        port=PORT,
        health=HEALTH,
        ready=next((program.health_path for each in backends for program, _, _ in each.programs), HEALTH),
        balance="leastconn" if balanced(deployment.plan) else "roundrobin",
        refused_from=REFUSED_FROM,
        body_bytes=_sizes(deployment),
        held_requests=held_requests,
        pods_service=pods_service,
        slots=partial(_slots, deployment),
        address=address_in_cluster if deployment.target.applied else address,
    )


def _slots(deployment: Deployment, endpoint: Endpoint) -> int:
    """Places for pods that answer at a port and are found by one name: also for those that an autoscaler may add."""
    island, copies = endpoint.island, endpoint.island.grouping.groups
    if deployment.options.autoscaling != NONE:
        copies = copy_bounds(deployment.plan, island, pinned=deployment.options.pin_nodes).most
    return copies * (island.servers // island.grouping.groups) // len(endpoint.ports)


def _sizes(deployment: Deployment) -> Callable[[int], int]:
    """Tokens of a prompt -> bytes of its request."""
    envelope = envelope_bytes(deployment.plan)
    return partial(body_bytes, bytes_per_token=deployment.options.bytes_per_token, envelope=envelope)


def _buffer_bytes(deployment: Deployment, backends: Sequence[Backend]) -> int:
    """Room for a body of the highest cut point, in whole KiB."""
    cut = _sizes(deployment)(backends[-1].interval.start)
    return max(_LEAST_BUFFER, _KIB * math.ceil((cut + _HEADERS) / _KIB))


def address(host: str, port: str | int) -> str:
    """Where a name is known to the machine."""
    return f"{host}:{port}"


def address_in_cluster(host: str, port: str | int) -> str:
    """HAProxy's resolver knows no search list, so that names in a cluster are whole."""
    return f'"{host}.${{{NAMESPACE}}}.svc.cluster.local:{port}"'
