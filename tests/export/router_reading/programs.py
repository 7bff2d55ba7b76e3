"""What the programs of a router do together, read back: the intervals, the servers in each, and whose they are."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import yaml

from planner.domain import PHASES, DeployedRoute, Phase
from planner.export.found import Manifest
from planner.export.routers.gateways import SELECTORS
from planner.export.routers.haproxy import CONFIG_FILE
from planner.export.routers.intervals_served import MIXED
from router_reading.found_programs import FoundProgram, found_programs
from router_reading.haproxy import read_backends, read_doors
from router_reading.records import Addresses, ListedInterval, ListedServer

_SERVERS = {Phase.PREFILL: "context_servers", Phase.DECODE: "generation_servers"}
_NO_END = 1 << 40
"""Where a single gateway takes prompts of any length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """The programs of one router by name, by what names islands go, and address -> servers of each further door of a
    program that balances."""

    programs: Mapping[str, FoundProgram]
    addresses: Addresses
    doors: Mapping[str, Sequence[tuple[str, int | None]]] = field(default_factory=dict)

    def program_of(self, host_port: str) -> FoundProgram | None:
        return self.programs.get(host_port.rpartition(":")[0])

    def listed(self, servers: Sequence[tuple[str, int | None]], phase: Phase) -> Iterator[ListedServer]:
        """Servers of a backend, and behind each program among them its workers of a phase."""
        for host, weight in servers:
            program = self.program_of(host)
            if program is None:
                yield ListedServer(host=host, weight=weight)
                continue
            workers = tuple(self.workers(program, phase))
            names = sorted({name for worker in workers for name in self.islands(worker)})
            yield ListedServer(host=host, weight=weight, standing_for=tuple(names))
            yield from workers

    def workers(self, program: FoundProgram, phase: Phase) -> Iterator[ListedServer]:
        """The workers of a gateway; where it looks for labels, the islands that have them."""
        for role in (phase.value, MIXED):
            for words in program.values(SELECTORS[role]):
                names = self.addresses.selected(dict(_pair(word) for word in words))
                yield ListedServer(host="", standing_for=names)
        rows = [row[:1] for row in program.values(f"--{phase.value}")]
        rows += [_paired(program, phase)]
        for url in (url for row in (*rows, *program.values("--worker-urls")) for url in row):
            address = url.removeprefix("http://")
            if address in self.doors:
                yield from (ListedServer(host=h, weight=w, door=address) for h, w in self.doors[address])
            else:
                yield ListedServer(host=address)

    def islands(self, server: ListedServer) -> tuple[str, ...]:
        """The islands that a server is of."""
        return server.standing_for or tuple(filter(None, [self.addresses.hosts.get(server.host)]))


def _paired(program: FoundProgram, phase: Phase) -> tuple[str, ...]:
    """The addresses of a phase in the file of `trtllm-serve disaggregated`, which it reads as YAML."""
    for word in program.words if program.words[:2] == ("trtllm-serve", "disaggregated") else ():
        if text := program.config.get(word.rpartition("/")[2]):
            servers = yaml.safe_load(text)[_SERVERS[phase]]
            assert len(servers["urls"]) == servers["num_instances"]
            return tuple(servers["urls"])
    return ()


def _pair(word: str) -> tuple[str, str]:
    key, _, value = word.partition("=")
    return key, value


def listed_intervals(
    manifests: Sequence[Manifest], addresses: Addresses, router: str
) -> tuple[ListedInterval, ...] | None:
    """Every server in the configurations of `router`; None where there is none of its programs, nothing where they
    cannot be read."""
    programs = found_programs(manifests, router)
    if not programs:
        return None
    doors = {
        f"{program.name}:{port}": servers
        for program in programs.values()
        for port, servers in read_doors(program.config.get(CONFIG_FILE, "")).items()
    }
    reader = _Reader(programs=programs, addresses=addresses, doors=doors)
    texts = [program.config[CONFIG_FILE] for program in programs.values() if CONFIG_FILE in program.config]
    if texts:
        backends = read_backends(texts[0]) or ()
    else:
        backends = ((0, _NO_END, tuple((f"{name}:", None) for name in programs)),)
    return tuple(
        ListedInterval(phase=phase, start=start, end=end, servers=tuple(reader.listed(servers, phase)))
        for start, end, servers in backends
        for phase in PHASES
        if start < end
    )


def read_routes(manifests: Sequence[Manifest], addresses: Addresses, router: str) -> tuple[DeployedRoute, ...] | None:
    """Who serves which lengths."""
    intervals = listed_intervals(manifests, addresses, router)
    if intervals is None:
        return None
    routes: list[DeployedRoute] = []
    for interval in intervals:
        islands = [server.standing_for or (addresses.hosts.get(server.host, ""),) for server in interval.servers]
        names = sorted({name for group in islands for name in group if name})
        routes += [
            DeployedRoute(
                phase=interval.phase,
                range_start=interval.start,
                range_end=interval.end,
                island=name,
                share=1 / len(names),
            )
            for name in names
        ]
    return tuple(routes)
