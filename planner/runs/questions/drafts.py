"""A commented scenario to begin with: every common key with what it means, alternatives commented out."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from planner import files
from planner.runs.questions.documents import Document, seen_from

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
        ("engine: {name: vllm, version: 0.18.0}", "engine: {name: sglang, version: 0.5.18}"),
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
