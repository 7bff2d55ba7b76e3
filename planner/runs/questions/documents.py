"""A question about money, its answer, and the scenario that it stands for: as a document, as text, as a draft."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from planner import files
from planner.domain import Plan, RoutingSettings, Scenario
from planner.domain.frontier import GpuOffer, RivalFleet
from planner.workload import summarize


class MoneyQuestion(StrEnum):
    """`cheapest`: least rent for a promised rate. `buy`: most requests/s for a rent. `max`: most of an owned fleet."""

    CHEAPEST = "cheapest"
    BUY = "buy"
    MAX = "max"


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What is to be served and how: a model and a workload (names, paths or documents), and further sections of a
    scenario (`slo`, `engine`, `serving`, `survive`, `routing`, `search` ...). `name`: the plan's, else the question's.
    """

    model: object
    workload: object
    sections: Mapping[str, object]
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneyAnswer:
    """The plan that answers, and the scenario that the question stands for.

    `document`: the scenario's; `offered`: what could be rented, in words; `rent_usd_per_hour`: of the fleet, by whole
    nodes where those are rented, `gpus` its GPUs. `bound`, `gap`: no fleet of the offer costs less (serves more), and
    how far the answer is from that, relative; None: not known. `amount`: requests/s to promise, or USD/hour.
    """

    question: MoneyQuestion
    amount: float
    document: Mapping[str, object]
    scenario: Scenario
    plan: Plan
    rivals: tuple[RivalFleet, ...]
    offered: str = ""
    gpus: tuple[tuple[str, int], ...]
    rent_usd_per_hour: float
    bound: float | None
    gap: float | None
    whole_nodes: bool = False

    @property
    def promise_rps(self) -> float:
        """Requests/s that the fleet promises."""
        return self.plan.outlook.promise_rps

    @property
    def price_usd_per_million_tokens(self) -> float:
        """The rent over input and output tokens at capacity (USD per 10^6 tokens)."""
        return self.rent_usd_per_hour / (self.plan.tokens_per_s * 3600.0) * 1e6


Document = dict[str, object]
_PATHS = (".yaml", ".yml", ".csv", ".csv.gz", ".jsonl", ".jsonl.gz", ".json", ".parquet")
ONE_BUCKET: Mapping[str, object] = {"routing": {"most": 1}}
"""Where a loss must be survived: of every type at once, more buckets take minutes to be proven and change little."""

HEADS = {
    MoneyQuestion.CHEAPEST: "The cheapest fleet that promises {amount:g} requests/s, out of this offer.",
    MoneyQuestion.BUY: "The most requests/s for {amount:g} USD/hour, out of this offer.",
    MoneyQuestion.MAX: "The most requests/s of these GPUs.",
}
NODES = HEADS | {
    MoneyQuestion.CHEAPEST: "The most of the cheapest whole nodes that were found to promise {amount:g} requests/s.",
    MoneyQuestion.BUY: "The most of the best whole nodes that were found for {amount:g} USD/hour.",
}


def margin_of(demand: Demand) -> float:
    """The share of the capacity that plans promise."""
    routing = demand.sections.get("routing")
    margin = routing.get("margin") if isinstance(routing, Mapping) else None
    return float(margin) if isinstance(margin, int | float) and margin > 0 else RoutingSettings().margin


def document_of(demand: Demand, name: str, inventory: Mapping[str, int], rent: Mapping[str, float]) -> Document:
    """The scenario but for its objective."""
    prices = {"prices_usd_per_gpu_hour": dict(rent)} if rent else {}
    return {
        "name": demand.name or name,
        "model": demand.model,
        "workload": demand.workload,
        "inventory": dict(inventory),
        **prices,
        **(ONE_BUCKET if demand.sections.get("survive") else {}),
        **demand.sections,
    }


def rented_document(demand: Demand, name: str, offer: GpuOffer, rent_usd_per_hour: float) -> Document:
    """As many GPUs of each type as the rent pays for where all of it goes to that type, or as many as there are."""
    counts = {row.gpu: row.count_for(rent_usd_per_hour) for row in offer.gpus}
    return document_of(demand, name, counts, {row.gpu: row.usd_per_hour for row in offer.gpus})


def scenario_of(document: Document) -> Scenario:
    """The document, read as strictly as a file; paths are relative to the current folder."""
    origin = f"the question {document['name']}"
    return files.scenario_from_document(document, origin=origin, base=Path.cwd(), summarize=summarize)


def text_of(answer: MoneyAnswer, folder: Path | None = None) -> str:
    """The file: paths are relative to `folder`, where it is to lie (None: the current one)."""
    document = {key: seen_from(value, folder) if key in ("model", "workload") else value
                for key, value in answer.document.items()}  # fmt: skip
    notes = {}
    objective = answer.document["objective"]
    kind = objective["kind"] if isinstance(objective, Mapping) else ""
    if kind == "target":
        margin = answer.scenario.routing.margin
        notes["objective"] = f"target: the capacity, of which {margin:g} is promised"
    heads = NODES if answer.whole_nodes and kind == "rate" else HEADS
    return files.scenario_text(document, heads[answer.question].format(amount=answer.amount), notes)


def seen_from(value: object, folder: Path | None) -> object:
    """A path that stands for the same file from another folder; names stay, ORG/NAME of a model among them. Of a model
    that somebody tells of it is the config's."""
    if isinstance(value, Mapping) and "config" in value:
        return {**value, "config": seen_from(value["config"], folder)}
    if folder is None or not isinstance(value, str) or not ("/" in value or value.lower().endswith(_PATHS)):
        return value
    may_be_id = value.count("/") == 1 and not value.lower().endswith(_PATHS) and not value.startswith(".")
    stays = Path(value).is_absolute() or (may_be_id and not files.is_there(Path.cwd() / value))
    return value if stays else os.path.relpath(Path.cwd() / value, folder.absolute())


_HEAD = """\
Written by `planner init`. `planner check FILE` reads it, `planner plan FILE` plans it; every key there is stands in
`planner docs --out DIR`, on the page Keys.
"""
# key -> what it means, and lines that could stand there instead
_SECTIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "name": ("The plan's name, which folders and manifests take over: letters, digits, . _ -", ()),
    "model": ("A shipped name (planner models), or the path of a config.json.", ("model: path/to/config.json",)),
    "workload": (
        "Prompts and answers: a shipped name (planner workloads), a workload file, or a trace of yours.",
        ("workload: trace.csv",),
    ),
    "inventory": (
        "GPUs by type (planner gpus): all there are; of objectives that rent, what is offered.",
        ("inventory: {H200: 64, H20: 128}", "inventory: cluster   # the idle GPUs of `cluster: cluster.yaml`"),
    ),
    "prices_usd_per_gpu_hour": (
        "USD per GPU and hour; a type that is left out has the list price of gpu_specs/prices.yaml.",
        ("prices_usd_per_gpu_hour: {H200: 3.5}",),
    ),
    "slo": (
        "Bounds on the time to the first token and for each further one, and of how many requests they hold.",
        (
            "slo: {ttft_ms: 4000, tpot_ms: 60, percentile: 99}",
            "slo: {ttft_ms: 1000, ttft_ms_per_1k_tokens: 500}   # the bound grows with the prompt",
        ),
    ),
    "objective": (
        "What the plan is best at; demand_rps: the rate that latencies are told at.",
        (
            "objective: {kind: rate, demand_rps: 50}",
            "objective: {kind: budget, budget_usd_per_hour: 300}   # the most requests/s for that rent",
            "objective: {kind: target, target_rps: 55}   # the cheapest fleet of that capacity; 0.9 of it is promised",
            "objective: {kind: per_dollar}   # the most requests per USD",
        ),
    ),
    "engine": (
        "Whose rules servers keep (planner engines).",
        ("engine: {name: vllm, version: 0.33.0}", "engine: {name: sglang, version: 0.5.23}"),
    ),
    "serving": (
        "Prefill and decode on GPUs of their own (split), both on the same (aggregated), or the better by pool (auto).",
        ("serving: auto",),
    ),
    "survive": (
        "What must be left of the rate after the loss of any so many nodes.",
        ("survive: {nodes: 1, share: 0.5}",),
    ),
    "routing": (
        "Buckets of prompt length: at most so many of a phase, and the share of the capacity that is promised.",
        ("routing: {form: buckets, most: 2, margin: 0.9}",),
    ),
    "search": ("How long and how closely plans are solved for.", ("search: {gap: 0.01, work_limit: 120, seed: 0}",)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What is known of a scenario. `demand_rps`, `budget_usd_per_hour`: 0 where not given."""

    name: str
    model: str
    workload: str
    inventory: Mapping[str, int]
    prices: Mapping[str, float]
    slo: Mapping[str, float]
    demand_rps: float = 0.0
    budget_usd_per_hour: float = 0.0
    sections: Mapping[str, object]

    def document(self, folder: Path | None = None) -> Document:
        """The scenario; paths are relative to `folder`, where its file is to lie (None: the current one)."""
        demand = {"demand_rps": self.demand_rps} if self.demand_rps else {}
        objective: Document = {"kind": "rate", **demand}
        if self.budget_usd_per_hour:
            objective = {"kind": "budget", "budget_usd_per_hour": self.budget_usd_per_hour, **demand}
        return {
            "name": self.name,
            "model": seen_from(self.model, folder),
            "workload": seen_from(self.workload, folder),
            "inventory": dict(self.inventory),
            **({"prices_usd_per_gpu_hour": dict(self.prices)} if self.prices else {}),
            **({"slo": dict(self.slo)} if self.slo else {}),
            "objective": objective,
            **self.sections,
        }


def draft_text(draft: Draft, folder: Path | None = None) -> str:
    """The file, every common key with a line on what it means."""
    document = draft.document(folder)
    head = "".join(f"# {line}\n" for line in _HEAD.splitlines())
    return head + "".join(_section(key, document) for key in _SECTIONS)


def _section(key: str, document: Document) -> str:
    meaning, alternatives = _SECTIONS[key]
    line = files.scenario_text({key: document[key]}) if key in document else ""
    others = "".join(f"# {row}\n" for row in alternatives if row.partition("   #")[0] != line.strip())
    return f"\n# {meaning}\n{line}{others}"
