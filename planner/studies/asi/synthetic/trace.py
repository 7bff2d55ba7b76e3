"""The tables of a made-up trace: jobs placed by the simulation of spot capacity, written an hour a row and pod.

Who lies where, who is lent what and who is evicted is up to that simulation (policy `spotgpu`); use and traffic of a
pod are drawn once for it and follow the hour where the paper says so.
"""

import gzip
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import cos, exp, floor, pi

import numpy as np

from planner.report.kit.quantities import measured
from planner.studies.asi.page import NOTE
from planner.studies.asi.records import MARK, Table
from planner.studies.asi.synthetic.jobs import TraceJob, by_name, draw_trace_jobs, with_nights
from planner.studies.asi.synthetic.marginals import (
    CLASSICAL,
    CPU_DOMINANT,
    FIRST_DAY,
    FLEET,
    PARTS,
    SPREAD,
    USE,
    WARM_UP_DAYS,
    ServerKind,
    Use,
)
from planner.studies.spot.records import JobClass, SpotAction, SpotEvent, SpotNode
from planner.studies.spot.simulation.policies import SPOTGPU
from planner.studies.spot.simulation.runs import simulate_spot

S_PER_H, HOURS_A_DAY = 3600.0, 24
SERVERS_A_SWITCH = 32
"""The paper: 32 to 64 servers, of one GPU type."""

WEEKEND, WEEKEND_USE = (5, 6), 0.5
README, SUFFIX = "README.md", ".csv.gz"
FILES = (README, *(f"{table.value}{SUFFIX}" for table in (Table.PODS, Table.SERVERS, Table.NETWORK, Table.RUNS)))
BEGINS = {SpotAction.START: "Running", SpotAction.RESUME: "Running", SpotAction.STANDBY: "Standby"}
ENDS = (SpotAction.EVICT, SpotAction.RECLAIM, SpotAction.FINISH)
POD_HEADER = (
    *("pod_id", "workload_id", "server_id", "cluster_id", "state_public", "gpu_spec_public"),
    *("server_gpu_count", "server_cpu_capacity_cores", "priority_class", "job_type_public", "model_type_public"),
    *("is_genai_request", "gpu_request", "gpu_mem_request", "cpu_request_cores", "used_gpu_hours", "avg_gpu_sm_util"),
    *("avg_gpu_mem_gib", "avg_cpu_request_util", "avg_memory_util", "ready_status", "day", "hour"),
)
SERVER_HEADER = (
    *("server_id", "cluster_id", "asw_id", "gpu_spec_public", "gpu_count", "cpu_capacity_cores"),
    *("day", "hour"),
)
NETWORK_HEADER = ("server_id", "rx_gibps_avg", "tx_gibps_avg", "day", "hour")
RUN_HEADER = (
    *("pod_id", "workload_id", "server_id", "gpu_spec_public", "priority_class", "job_type_public"),
    *("model_type_public", "is_genai_request", "gpu_request", "duration_hours"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """A pod on a server from one time to another, hours since the first day; `lent`: on standby."""

    pod: str
    drawn: TraceJob
    place: int
    begin_h: float
    end_h: float
    lent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server and the access switch above it."""

    name: str
    switch: str
    kind: ServerKind


def servers_of_fleet() -> tuple[Server, ...]:
    """All servers, those of a GPU type together under their switches."""
    return tuple(
        Server(name=f"{kind.gpu}-{number}", switch=f"{kind.gpu}-switch-{number // SERVERS_A_SWITCH}", kind=kind)
        for kind in FLEET
        for number in range(kind.servers)
    )


def synthetic_trace(days: int, seed: int) -> dict[str, bytes]:
    """Tables by file name, the same for the same days and seed."""
    servers = servers_of_fleet()
    jobs = draw_trace_jobs(days, seed)
    stays = _placed(servers, jobs, days, seed)
    draws = np.random.default_rng([seed, 1])
    uses = {
        pod: _drawn_use(pod, drawn, draws) for pod, drawn in sorted({stay.pod: stay.drawn for stay in stays}.items())
    }
    cpu_only = _cpu_only(servers, draws)
    hours: list[list[Stay]] = [[] for _ in range(HOURS_A_DAY * days)]
    for stay in stays:
        for hour in range(max(0, floor(stay.begin_h)), min(len(hours), floor(stay.end_h) + 1)):
            hours[hour].append(stay)
    pods, network = list[str](), list[str]()
    for hour, listed in enumerate(hours):
        at = f"{FIRST_DAY + hour // HOURS_A_DAY},{hour % HOURS_A_DAY}"
        pods.extend(f"{row},{at}" for row in _pod_rows(listed, hour, servers, uses))
        pods.extend(f"{row},{at}" for row in _cpu_rows(listed, servers, cpu_only))
        network.extend(f"{row},{at}" for row in _network_rows(listed, servers, uses))
    ats = [f"{FIRST_DAY + day},{hour}" for day in range(days) for hour in range(HOURS_A_DAY)]
    of_servers = [f"{row},{at}" for at in ats for row in map(_server_row, servers)]
    tables = (
        (Table.PODS, POD_HEADER, pods),
        (Table.SERVERS, SERVER_HEADER, of_servers),
        (Table.NETWORK, NETWORK_HEADER, network),
        (Table.RUNS, RUN_HEADER, list(_runs(stays, servers))),
    )
    readme = f"# A made-up trace\n\n{NOTE}. Days: {measured(days, 'day')}; seed: {seed}.\n"
    return {README: readme.encode()} | {f"{name.value}{SUFFIX}": _packed(header, rows) for name, header, rows in tables}


def _packed(header: Sequence[str], rows: Sequence[str]) -> bytes:
    text = "\n".join([f"{MARK},{','.join(header)}", *(f"made-up,{row}" for row in rows), ""])
    return gzip.compress(text.encode(), mtime=0)


def _placed(servers: Sequence[Server], jobs: tuple[TraceJob, ...], days: int, seed: int) -> list[Stay]:
    """Every pod's stays by begin, the days of warm-up before hour 0."""
    drawn_of = by_name(jobs)
    opened: dict[tuple[str, int], tuple[float, int, bool]] = {}
    stays: list[Stay] = []

    def hear(event: SpotEvent) -> None:
        at_h = event.time_s / S_PER_H - HOURS_A_DAY * WARM_UP_DAYS
        for number, place in enumerate(event.nodes):
            key = event.job.name, number
            if key in opened and (event.action in BEGINS or event.action in ENDS):
                begin_h, where, lent = opened.pop(key)
                pod = f"{event.job.name}.{number}"
                drawn = drawn_of[event.job.name]
                stays.append(Stay(pod=pod, drawn=drawn, place=where, begin_h=begin_h, end_h=at_h, lent=lent))
            if event.action in BEGINS:
                opened[key] = at_h, place, event.action is SpotAction.STANDBY

    nodes = [SpotNode(name=s.name, gpus=s.kind.gpus, cpus=s.kind.cpus, gpu_model=s.kind.gpu) for s in servers]
    total = days + WARM_UP_DAYS
    policy = replace(SPOTGPU, window=len(jobs))  # jobs pin GPU types: those of one must not be in another's way
    guaranteed = [drawn.job for drawn in jobs if drawn.job.kind is JobClass.HP]
    starts_s: dict[str, float] = {}  # which spot jobs do not change by more than evictions take

    def note(event: SpotEvent) -> None:
        if event.action is SpotAction.START:
            starts_s[event.job.name] = event.time_s

    simulate_spot(nodes, guaranteed, policy, days=total, seed=seed, check=False, watch=note)
    lending = with_nights(jobs, starts_s, seed)
    simulate_spot(nodes, lending, policy, days=total, seed=seed, check=False, watch=hear)
    for (name, number), (begin_h, place, lent) in opened.items():
        pod, drawn = f"{name}.{number}", drawn_of[name]
        stays.append(Stay(pod=pod, drawn=drawn, place=place, begin_h=begin_h, end_h=HOURS_A_DAY * days, lent=lent))
    return sorted(stays, key=lambda stay: (stay.begin_h, stay.pod))


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUse:
    """What a pod uses, shares of its request; `parts`: it is two pods of half a GPU."""

    use: Use
    parts: bool


def _drawn_use(_pod: str, drawn: TraceJob, draws: np.random.Generator) -> PodUse:
    middle = USE[drawn.job_type, drawn.genai]
    sms, gpu_memory, cpus, memory, gib_s = np.exp(SPREAD * draws.standard_normal(5)).tolist()
    use = Use(
        sms=min(1.0, middle.sms * sms),
        gpu_memory=min(0.98, middle.gpu_memory * (1 + 0.1 * (gpu_memory - 1))),
        cpus=min(1.0, middle.cpus * cpus),
        memory=min(1.0, middle.memory * memory),
        gib_s=middle.gib_s * gib_s,
    )
    single = drawn.job.gpus == 1 and drawn.model in CLASSICAL and drawn.job.kind is JobClass.HP
    return PodUse(use=use, parts=single and draws.random() < PARTS)


def _cpu_only(servers: Sequence[Server], draws: np.random.Generator) -> tuple[float, ...]:
    """By server, cores of its CPU-only job over those of its GPU jobs: above 1 on CPU_DOMINANT of them."""
    return tuple(
        float(draws.uniform(1.05, 1.8) if draws.random() < CPU_DOMINANT else draws.uniform(0.1, 0.9)) for _ in servers
    )


def _spent_h(stay: Stay, hour: int) -> float:
    return max(0.0, min(stay.end_h, hour + 1) - max(stay.begin_h, hour))


def _pod_rows(stays: Sequence[Stay], hour: int, servers: Sequence[Server], uses: dict[str, PodUse]) -> Iterator[str]:
    for stay in stays:
        hours = _spent_h(stay, hour)
        if hours <= 0:
            continue
        drawn, kind, use = stay.drawn, servers[stay.place].kind, uses[stay.pod].use
        busy = 0.0 if stay.lent else _by_hour(drawn.job_type, hour)
        for part in ("a", "b") if uses[stay.pod].parts else ("",):
            gpus = drawn.job.gpus / (2 if part else 1)
            cells = (
                *(f"{stay.pod}{part}", drawn.job.name, servers[stay.place].name, "made-up"),
                *("Standby" if stay.lent else "Running", kind.gpu, kind.gpus, kind.cpus),
                *("HP" if drawn.job.kind is JobClass.HP else "LP", drawn.job_type, drawn.model),
                *(str(drawn.genai).lower(), f"{gpus:g}", f"{gpus * kind.memory_gib:g}", drawn.job.cpus),
                *(f"{gpus * hours:.4g}", f"{100 * gpus * min(1.0, use.sms * busy):.4g}"),
                *(f"{gpus * use.gpu_memory * kind.memory_gib:.4g}", f"{min(1.0, use.cpus * busy):.3g}"),
                *(f"{use.memory:.3g}", "true"),
            )
            yield ",".join(map(str, cells))


def _by_hour(job_type: str, hour: int) -> float:
    """Online use follows the day, offline use the week, training neither (figure 5)."""
    if job_type == "online_inference":
        return 1 + 0.5 * cos(2 * pi * (hour % HOURS_A_DAY - 15) / HOURS_A_DAY)
    if job_type == "offline_inference" and hour // HOURS_A_DAY % 7 in WEEKEND:
        return WEEKEND_USE
    return 1.0


def _cpu_rows(stays: Sequence[Stay], servers: Sequence[Server], ratios: Sequence[float]) -> Iterator[str]:
    """A CPU-only job a server, of no more cores than are left."""
    cores: dict[int, float] = defaultdict(float)
    for stay in stays:
        if not stay.lent:
            cores[stay.place] += stay.drawn.job.cpus
    for place, server in enumerate(servers):
        kind = server.kind
        cpus_of_job = min(ratios[place] * max(cores[place], 8.0), kind.cpus - cores[place])
        if cpus_of_job >= 1:
            yield (
                f"cpu-{server.name},cpu-{server.name},{server.name},made-up,Running,{kind.gpu},{kind.gpus},{kind.cpus},"
                f"HP,other,unknown,false,0,0,{int(cpus_of_job)},,,,0.4,0.4,true"
            )


def _server_row(server: Server) -> str:
    kind = server.kind
    return f"{server.name},made-up,{server.switch},{kind.gpu},{kind.gpus},{kind.cpus}"


def _network_rows(stays: Sequence[Stay], servers: Sequence[Server], uses: dict[str, PodUse]) -> Iterator[str]:
    traffic: dict[int, float] = defaultdict(float)
    for stay in stays:
        traffic[stay.place] += 0.0 if stay.lent else stay.drawn.job.gpus * uses[stay.pod].use.gib_s
    for place, server in enumerate(servers):
        yield f"{server.name},{traffic[place]:.4g},{0.9 * traffic[place]:.4g}"


def _runs(stays: Sequence[Stay], servers: Sequence[Server]) -> Iterator[str]:
    """A row a pod that ran: what its stays add up to."""
    hours: dict[str, float] = defaultdict(float)
    last = {stay.pod: stay for stay in stays}
    for stay in stays:
        hours[stay.pod] += stay.end_h - stay.begin_h
    for pod, stay in last.items():
        drawn, server = stay.drawn, servers[stay.place]
        priority = "HP" if drawn.job.kind is JobClass.HP else "LP"
        yield (
            f"{pod},{drawn.job.name},{server.name},{server.kind.gpu},{priority},{drawn.job_type},{drawn.model},"
            f"{str(drawn.genai).lower()},{drawn.job.gpus},{max(hours[pod], exp(-8)):.4g}"
        )
