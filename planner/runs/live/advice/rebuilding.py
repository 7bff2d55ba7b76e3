"""A plan of what runs: a scenario that says how it is served, and pools that are the servers as they stand.

Each deployment is a pool of one bucket, that of all prompts. What its command line leaves to the engine is as the
engine has it:

| engine | GPU memory | sequences | tokens of a step | source |
|---|---|---|---|---|
| vLLM | from 70 GiB, but for A100 | 1,024 | 8,192 | vllm/engine/arg_utils.py, usage of an API server |
| vLLM | less | 256 | 2,048 | the same |
| SGLang | below 35, 60, 160 GB, more | what the cache holds | 2,048, 4,096, 8,192, 16,384 | server_args.py |
| TensorRT-LLM | any | 2,048 | 8,192 | tensorrt_llm/commands/serve.py |

A server that would let in more sequences than memory holds, or than the levels stand, is priced with as many as they
do: what it serves at rates up to the promise is the same, and what it does beyond is told.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from planner import files
from planner.cost.serving import BATCHES
from planner.domain import BucketPool, Calibration, EngineProfile, GpuSpec, Phase, Plan, Question, Scenario
from planner.domain.advice import RunningDeployment
from planner.domain.serving.observed import MeteredWorkload
from planner.domain.serving.programs import version_numbers
from planner.domain.serving.server import ServerConfig
from planner.errors import InfeasibleError, InputError
from planner.evaluation.buckets.judging import named_pools
from planner.evaluation.buckets.service import BucketService
from planner.evaluation.evaluator import open_evaluator
from planner.files.tables.workloads import workload_document
from planner.plans.finishing import finished_plan
from planner.proposing.buckets.proposals import running_pools
from planner.proposing.feasibility import posed
from planner.runs.live.advice.finding import Hints, RunningService
from planner.units import GB, MIB
from planner.workload import summarize

Document = dict[str, object]
_MOST_SEQUENCES = BATCHES[-1]
_LARGE_GPU_GB = 70 * 1024 * MIB / GB
_DEFAULTS: Mapping[str, tuple[tuple[float, int, int], ...]] = MappingProxyType({
    "vllm": ((0.0, 256, 2048), (_LARGE_GPU_GB, 1024, 8192)),
    "sglang": (
        (0.0, _MOST_SEQUENCES, 2048),
        (35.0, _MOST_SEQUENCES, 4096),
        (60.0, _MOST_SEQUENCES, 8192),
        (160.0, _MOST_SEQUENCES, 16384),
    ),
    "trtllm": ((0.0, 2048, 8192),),
})  # fmt: skip
"""From so many GB of GPU memory on: sequences, tokens of a step."""
_SMALLER_DEFAULTS = frozenset({("vllm", "A100")})
"""As GPUs below 70 GiB, whatever memory they have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the user says, and what is looked up for it. Of all services (an empty name), or of one by its name:
    workload, levels, rate (requests/s). `hints`: on deployments. `inventory`: all GPUs at hand (empty: what runs, and
    free nodes); `free`: those that nothing has, by type. `metered`: workloads that metrics tell, of services that none
    is given for. `prices`: USD per GPU and hour; `policy`: of the router today. `headroom`: share of the rate that must
    be promised beyond it; `least_servers`: copies that a model keeps, where it has so many. `window`: of metrics."""

    hints: Hints = field(default_factory=Hints)
    workloads: Mapping[str, object] = field(default_factory=dict)
    metered: Mapping[str, MeteredWorkload] = field(default_factory=dict)
    levels: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
    inventory: Mapping[str, int] = field(default_factory=dict)
    prices: Mapping[str, float] = field(default_factory=dict)
    free: Mapping[str, int] = field(default_factory=dict)
    policy: str = "random"
    headroom: float = 0.2
    least_servers: int = 2
    window: str = "1h"

    def workload(self, name: str) -> object:
        """The service's own, else that of all. InputError where there is none."""
        workload = self.workloads.get(name) or self.workloads.get("")
        if not workload and name in self.metered:
            return workload_document(self.metered[name].profile)
        if not workload:
            raise InputError(
                f"service {name}: its workload must be known: no metrics tell it, and none is given.",
                hint="Give --workload NAME or --workload FILE (`planner workload from-metrics` makes one).",
            )
        return workload

    def has_workload(self, name: str) -> bool:
        """Whether a service's workload is known."""
        return bool(self.workloads.get(name) or self.workloads.get("") or name in self.metered)

    def rate_rps(self, name: str) -> float:
        """Of the service, else of all; 0: not given."""
        return self.rates.get(name, self.rates.get("", 0.0))

    def level(self, name: str) -> Mapping[str, float]:
        """The service's own levels, else those of all; empty: none."""
        return self.levels.get(name) or self.levels.get("", {})

    def needed_rps(self, rate_rps: float) -> float:
        """What must be promised for a rate."""
        return rate_rps * (1 + self.headroom)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What metrics add to the scenario of a service: its rate (requests/s; 0: not known), the share of prompt tokens
    that prefix caches had, and the calibration that its paces ask for."""

    rate_rps: float = 0.0
    cached: float = 0.0
    calibration: Calibration | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuiltService:
    """A service as a plan. `document`: its scenario; `islands`: of which deployment each is; `notes`: what it was taken
    to be where nothing tells; `excess`: deployments that let in more sequences (first) than are priced (second)."""

    service: RunningService
    document: Mapping[str, object]
    plan: Plan
    islands: Mapping[str, RunningDeployment]
    notes: tuple[str, ...] = ()
    excess: tuple[tuple[RunningDeployment, int, int], ...] = ()
    measured: Measured = field(default_factory=Measured)

    @property
    def rent_usd_per_hour(self) -> float:
        """Of all GPUs that its pods claim, whether or not they use them."""
        inventory = self.plan.scenario.inventory
        return sum(inventory.item(d.gpu).price_usd_per_gpu_hour * d.claimed_gpus for d in self.service.deployments)


def rebuilt(service: RunningService, terms: Terms, measured: Measured | None = None) -> RebuiltService:
    """The plan of a service's servers; paths of the terms are relative to the current folder.

    Raises InputError where its scenario cannot be read, InfeasibleError where the servers hold the levels at no load.
    """
    measured = measured or Measured(rate_rps=terms.rate_rps(service.name))
    profile, notes = _profile(service)
    model = _weights_of(service, notes)
    document = _document(service, terms, measured, profile, model)
    scenario = scenario_of(document, measured)
    question = posed(scenario)
    deployments = sorted(service.deployments, key=lambda d: d.label)
    pools, excess = [], []
    for deployment in deployments:
        pool, flag = _pool(deployment, question, service)
        pools.append(pool)
        if flag > pool.server.batch_size:
            excess.append((deployment, flag, pool.server.batch_size))
        notes += [f"{deployment.label}: {note}" for note in deployment.start.notes]
    _require_halves(service, pools)
    pools = list(named_pools(pools))
    with open_evaluator(question) as evaluator:
        plan = finished_plan(evaluator, running_pools(evaluator, pools))
    islands = {pool.island: deployment for pool, deployment in zip(pools, deployments, strict=True)}
    return RebuiltService(
        service=service,
        document=document,
        plan=plan,
        islands=islands,
        notes=tuple(dict.fromkeys(notes)),
        excess=tuple(excess),
        measured=measured,
    )


def scenario_of(document: Mapping[str, object], measured: Measured) -> Scenario:
    """The scenario of a document, with the calibration."""
    scenario = files.scenario_from_document(
        document, origin=f"service {document['name']}", base=Path.cwd(), summarize=summarize
    )
    return replace(scenario, cost=replace(scenario.cost, calibration=measured.calibration))


def replanned_pools(scenario: Scenario, pools: Sequence[BucketPool]) -> Plan:
    """The plan of these servers, whatever other ones there could be. Raises InfeasibleError as `rebuilt`."""
    with open_evaluator(posed(scenario)) as evaluator:
        return finished_plan(evaluator, running_pools(evaluator, pools))


def _document(
    service: RunningService, terms: Terms, measured: Measured, profile: EngineProfile, model: str
) -> Document:
    gpus: dict[str, int] = {}
    for deployment in service.deployments:
        gpus[deployment.gpu] = gpus.get(deployment.gpu, 0) + deployment.used_gpus
    mixed = all(deployment.start.phase is Phase.MIXED for deployment in service.deployments)
    apart = all(deployment.start.phase is not Phase.MIXED for deployment in service.deployments)
    caches = {_cache_format(deployment) for deployment in service.deployments}
    cost: Document = {"kv_cache_rate": round(measured.cached, 4)} if measured.cached >= _FELT else {}
    if caches == {"fp8"}:
        cost["kv_cache_dtype"] = "fp8"
    objective: Document = {"kind": "rate"}
    if measured.rate_rps:
        objective["demand_rps"] = measured.rate_rps
    prices = {gpu: usd for gpu, usd in terms.prices.items() if gpu in gpus or gpu in terms.free}
    levels = terms.level(service.name)
    return {
        "name": service.name,
        "model": model,
        "workload": terms.workload(service.name),
        "inventory": {gpu: gpus.get(gpu, 0) + terms.free.get(gpu, 0) for gpu in sorted({*gpus, *terms.free})},
        **({"prices_usd_per_gpu_hour": prices} if prices else {}),
        **({"slo": dict(levels)} if levels else {}),
        "engine": {"name": profile.name, "version": profile.version},
        "serving": "aggregated" if mixed else "split" if apart else "auto",
        "routing": {"most": 1, "policy": terms.policy},
        **({"cost": cost} if cost else {}),
        "objective": objective,
    }


_FELT = 0.01  # of prompt tokens: a smaller share of hits is no cache that counts


def _cache_format(deployment: RunningDeployment) -> str:
    return "fp8" if deployment.start.cache_format.startswith("fp8") else ""


def _profile(service: RunningService) -> tuple[EngineProfile, list[str]]:
    """The engine's version, or the newest before it that has a profile, else the oldest."""
    profiles = [profile for profile in files.engine_profiles() if profile.name == service.engine]
    ordered = sorted(profiles, key=lambda profile: version_numbers(profile.version))
    if not service.version:
        profile = files.load_engine(service.engine)
        return profile, [f"No image tells the version of {service.engine}: taken to be {profile.version}"]
    numbers = version_numbers(service.version)
    place = bisect_right([version_numbers(profile.version) for profile in ordered], numbers)
    profile = ordered[max(0, place - 1)]
    if version_numbers(profile.version) == numbers:
        return profile, []
    return profile, [
        f"Version {service.version} of {service.engine} has no profile: rules and kernels are those of {profile}"
    ]


def _weights_of(service: RunningService, notes: list[str]) -> str:
    """The model, or its twin of the catalog in the format that the command line asks for. InputError where there is
    none."""
    asked_for = {deployment.start.quantization for deployment in service.deployments} - {"", "none"}
    if not asked_for or service.spec.quantization:
        return service.model
    twin = f"{service.spec.name}-{sorted(asked_for)[0]}"
    try:
        files.load_model(twin)
    except InputError:
        raise InputError(
            f"service {service.name}: --quantization {', '.join(sorted(asked_for))} must be priced with weights in "
            f"that format, {service.model} has others, and there is no model {twin}.",
            hint=f"Name a file that has them: --model {service.deployments[0].name}=FILE.",
        ) from None
    notes.append(f"Weights are quantised when they are loaded ({sorted(asked_for)[0]}): priced as {twin}")
    return twin


def _pool(deployment: RunningDeployment, question: Question, service: RunningService) -> tuple[BucketPool, int]:
    """The deployment's servers, and how many sequences their flags let in."""
    scenario, start = question.scenario, deployment.start
    gpu = scenario.inventory.item(deployment.gpu).gpu
    sequences, budget = _defaults(service.engine, gpu)
    flag = start.sequences or sequences
    parallel, count = start.parallel, deployment.servers
    if scenario.model.experts is None and parallel.dp > 1:  # groups of a dense model are servers by themselves
        parallel, count = replace(parallel, dp=1), count * parallel.dp
    pool = BucketPool(
        gpu=deployment.gpu,
        phase=start.phase,
        server=ServerConfig(
            parallel=parallel,
            tokens_per_step=0 if start.phase is Phase.DECODE else start.tokens_per_step or budget,
            batch_size=BATCHES[0],
            overlapped=start.overlapped,
        ),
        count=count,
        start=0,
        end=question.workload.ranges[-1].end,
        capacity_rps=0.0,
        full_rps=0.0,
        late_share=scenario.slo.late_share if scenario.slo.ttft_ms is not None else None,
        context=_context(deployment, scenario, question.workload.ranges[-1].end),
    )
    limit = min(flag, _MOST_SEQUENCES, scenario.engine.greatest_batch or _MOST_SEQUENCES)
    return replace(pool, server=replace(pool.server, batch_size=_admitted(pool, limit, question))), min(flag, limit)


def _context(deployment: RunningDeployment, scenario: Scenario, end: int) -> int:
    """What the engines run with beyond what the workload needs."""
    needed = min(end - 1 + scenario.workload.max_output_tokens, scenario.model.max_context)
    context = min(deployment.start.context or scenario.model.max_context, scenario.model.max_context)
    return context if context > needed else 0


def _admitted(pool: BucketPool, limit: int, question: Question) -> int:
    """The largest batch up to `limit` that memory holds and that keeps the levels, as servers of one phase alone are
    asked by themselves. InfeasibleError where none does."""
    batches = [batch for batch in BATCHES if batch <= limit]
    if pool.phase is Phase.PREFILL:
        return int(batches[-1])
    service = BucketService(question)

    def breaks(batch: int) -> bool:
        alone = replace(pool, server=replace(pool.server, batch_size=batch))
        return not any(priced.full_rps for priced in service.unbroken([alone]).pools)

    # the larger a batch, the later its tokens and the fuller its memory: what keeps both comes first
    low, high = 0, len(batches)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if breaks(batches[middle]) else (middle + 1, high)
    if not low:
        raise InfeasibleError(
            f"service {question.scenario.name}: {pool.server.parallel.devices} {pool.gpu} a copy must hold the model "
            "and keep the bounds for one sequence at least, and do not.",
            hint="Loosen the levels (--slo), or plan other servers (planner plan).",
        )
    return int(batches[low - 1])


def _defaults(engine: str, gpu: GpuSpec) -> tuple[int, int]:
    small = (engine, gpu.name) in _SMALLER_DEFAULTS
    rows = [row for row in _DEFAULTS[engine] if row[0] <= (0.0 if small else gpu.device_gb)]
    return rows[-1][1], rows[-1][2]


def _require_halves(service: RunningService, pools: Sequence[BucketPool]) -> None:
    phases = {pool.phase for pool in pools}
    if Phase.MIXED not in phases and len(phases) == 1:
        missing = (Phase.DECODE if Phase.PREFILL in phases else Phase.PREFILL).value
        raise InputError(
            f"service {service.name}: must have servers of both phases, has none of {missing}.",
            hint="Give the objects of both.",
        )
