"""Several services in one line: NAME=MODEL:WORKLOAD[:DEMAND], and the scenario of a fleet that they stand for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from planner import files
from planner.domain.fleets import FleetPlan, FleetScenario
from planner.domain.frontier import GpuOffer
from planner.errors import InfeasibleError, InputError
from planner.files.scenario.fleets import fleet_from_document
from planner.runs.questions.asking import RAISE, RAISES, ROUNDING, first_rent, grows
from planner.runs.questions.documents import Demand, Document, margin_of, seen_from
from planner.workload import summarize

EXAMPLE = "chat=qwen3-30b-a3b-fp8:azure-conv-2023:20"


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedService:
    """A service as a line says it; `demand_rps`: None for the workload's own rate."""

    name: str
    model: str
    workload: str
    demand_rps: float | None = None

    def document(self, folder: Path | None = None) -> Document:
        """As it stands in a scenario; paths are relative to `folder` (None: the current one)."""
        demand = {} if self.demand_rps is None else {"demand": self.demand_rps}
        return {
            "name": self.name,
            "model": seen_from(self.model, folder),
            "workload": seen_from(self.workload, folder),
            **demand,
        }


def typed_service(text: str) -> TypedService:
    """`chat=qwen3-30b-a3b-fp8:azure-conv-2023:20`. InputError for anything else."""
    name, _, rest = text.partition("=")
    parts = [part.strip() for part in rest.split(":")]
    if not (name.strip() and len(parts) in (2, 3) and all(parts)):
        raise InputError(
            f"--service: must be NAME=MODEL:WORKLOAD or NAME=MODEL:WORKLOAD:DEMAND, got {text!r}.",
            hint=f"Write such as --service {EXAMPLE}.",
        )
    demand_rps = _demand_rps(name, parts[2]) if len(parts) == 3 else None
    return TypedService(name=name.strip(), model=parts[0], workload=parts[1], demand_rps=demand_rps)


def _demand_rps(name: str, text: str) -> float:
    try:
        demand_rps = float(text)
    except ValueError:
        demand_rps = 0.0
    if not 0 < demand_rps < 1e9:
        raise InputError(
            f"--service: {name}: DEMAND must be requests/s above 0 and below 1e9, got {text!r}.",
            hint=f"Write such as --service {EXAMPLE}.",
        )
    return demand_rps


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetDraft:
    """A fleet as a line says it: `sections` (`slo`, `engine` ...) hold for all of its services."""

    name: str
    services: tuple[TypedService, ...]
    inventory: Mapping[str, int]
    prices: Mapping[str, float]
    sections: Mapping[str, object]
    aim: str = "multiple"

    def document(self, folder: Path | None = None) -> Document:
        """The scenario; paths are relative to `folder`, where its file is to lie (None: the current one)."""
        return {
            "name": self.name,
            "inventory": dict(self.inventory),
            **({"prices_usd_per_gpu_hour": dict(self.prices)} if self.prices else {}),
            "objective": {"kind": self.aim},
            **self.sections,
            "services": [service.document(folder) for service in self.services],
        }

    def fleet(self) -> FleetScenario:
        """Read as strictly as a file; paths are relative to the current folder."""
        origin = f"the fleet {self.name}"
        return fleet_from_document(self.document(), origin=origin, base=Path.cwd(), summarize=summarize)


Answer = tuple[FleetDraft, FleetPlan]
PlanFleet = Callable[[FleetScenario], FleetPlan]


def cheapest_of_offer(draft: FleetDraft, offer: GpuOffer, plan: PlanFleet) -> Answer:
    """The whole nodes of least rent that promise every demand, and the draft with the GPUs that they were chosen from.

    A fleet of rent S has no more GPUs of a type than S pays for. So the least rent of an offer is the least of all
    where it is no more than what the offer was made for; else the offer is made for it, and planned again.

    Raises InputError where a service has no demand, InfeasibleError where what may be rented is too little.
    """
    paid = _first_rent(draft, offer)
    for last in (False,) * (RAISES - 1) + (True,):
        offered = _offered(draft, offer, paid)
        try:
            planned = plan(offered.fleet())
        except InfeasibleError:
            if last or not grows(offer, paid):
                raise
            paid *= RAISE
            continue
        if last or planned.value <= paid * (1 + ROUNDING) or not grows(offer, paid):
            break
        paid = planned.value
    return offered, planned


def _first_rent(draft: FleetDraft, offer: GpuOffer) -> float:
    """What is above the cost of divisible servers of each service by itself."""
    rent_usd = 0.0
    for service in draft.services:
        if service.demand_rps is None:
            raise InputError(
                f"--service: {service.name}: must have a demand, got none.",
                hint=f"Write NAME=MODEL:WORKLOAD:DEMAND, such as {EXAMPLE}.",
            )
        demand = Demand(model=service.model, workload=service.workload, sections=draft.sections)
        rent_usd += first_rent(demand, service.demand_rps / margin_of(demand), offer)
    return rent_usd


def _offered(draft: FleetDraft, offer: GpuOffer, rent_usd: float) -> FleetDraft:
    """The draft with as many whole nodes of each type as the rent pays for."""
    nodes = {row.gpu: row.count_for(rent_usd) // row.gpus_per_node * row.gpus_per_node for row in offer.gpus}
    counts = {gpu: count for gpu, count in nodes.items() if count}
    prices = {row.gpu: row.usd_per_hour for row in offer.gpus if row.gpu in counts}
    return replace(draft, inventory=counts, prices=prices)


_HEAD = """\
Several services on one inventory. `planner check FILE` reads it, `planner plan FILE` divides the GPUs and plans each
service on its part. Any other key of a scenario may stand in a service, or here at the top for all of them.
"""
_MEANINGS: Mapping[str, tuple[str, Sequence[str]]] = {
    "name": ("The fleet's name: letters, digits, . _ -", ()),
    "inventory": ("GPUs by type (planner gpus): all there are.", ("inventory: {H200: 64, H20: 128}",)),
    "prices_usd_per_gpu_hour": (
        "USD per GPU and hour; a type that is left out has the list price of gpu_specs/prices.yaml.",
        ("prices_usd_per_gpu_hour: {H200: 3.5}",),
    ),
    "objective": (
        "What the division is best at.",
        (
            "objective: {kind: multiple}   # the largest common multiple of all demands",
            "objective: {kind: target}     # the least rent that promises all demands",
            "objective: {kind: weighted, floor: 0.5}   # the most requests, each by its service's weight",
            "objective: {kind: priority}   # first the services of priority 1, then those of 2",
        ),
    ),
    "slo": (
        "Bounds on the time to the first token and for each further one; a service may have its own.",
        ("slo: {ttft_ms: 4000, tpot_ms: 60, percentile: 99}",),
    ),
    "engine": ("Whose rules servers keep (planner engines).", ("engine: {name: vllm, version: 0.33.0}",)),
    "serving": (
        "Prefill and decode on GPUs of their own (split), both on the same (aggregated), or the better by pool (auto).",
        ("serving: auto",),
    ),
    "survive": (
        "What must be left of a service's rate after the loss of any so many nodes.",
        ("survive: {nodes: 1, share: 0.5}",),
    ),
    "share_nodes": ("Whether servers of several services may lie on one node.", ("share_nodes: false",)),
}
_SERVICES = """\
The services. demand: requests/s to be promised; without it the workload's own rate.
  - {name: chat, model: gpt-oss-20b, workload: azure-conv-2023, demand: 20, slo: {ttft_ms: 1000, tpot_ms: 30}}
  - {name: agents, model: gpt-oss-20b, workload: azure-code-2023, demand: 5, shares: chat}   # may use chat's pools
  - {name: nightly, model: gpt-oss-20b, workload: azure-code-2023, batch: {tokens_a_day: 1000000000}}   # what is left
"""


def fleet_draft_text(draft: FleetDraft, folder: Path | None = None) -> str:
    """The file, every common key with a line on what it means."""
    document = draft.document(folder)
    services = document.pop("services")
    assert isinstance(services, list), "services are a list"
    unknown = [key for key in document if key not in _MEANINGS]
    parts = [_comments(_HEAD), *(_section(key, document) for key in (*_MEANINGS, *unknown))]
    rows = "".join(f"  - {_flow(service)}\n" for service in services)
    return "".join(parts) + f"\n{_comments(_SERVICES)}services:\n{rows}"


def _flow(service: Document) -> str:
    """A service on one line."""
    line = files.scenario_text({"service": service}).strip().removeprefix("service:").strip()
    if not line.startswith("{"):  # too long for a line
        pairs = (files.scenario_text({key: value}).strip() for key, value in service.items())
        return "{" + ", ".join(pairs) + "}"
    return line


def _comments(text: str) -> str:
    return "".join(f"# {line}\n" for line in text.splitlines())


def _section(key: str, document: Document) -> str:
    meaning, others = _MEANINGS.get(key, ("", ()))
    line = files.scenario_text({key: document[key]}) if key in document else ""
    rest = [row for row in others if row.partition("   #")[0].strip() != line.strip()]
    return "\n" + _comments(meaning) + line + "".join(f"# {row}\n" for row in rest)
