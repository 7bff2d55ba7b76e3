"""The scenario that a question about money stands for, as a document and as the text of a file."""

import os
from collections.abc import Mapping
from pathlib import Path

from planner import files
from planner.domain import RoutingSettings, Scenario
from planner.domain.frontier import GpuOffer
from planner.runs.questions.records import Demand, MoneyAnswer, MoneyQuestion
from planner.workload import summarize

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
    """A path that stands for the same file from another folder; names stay."""
    if folder is None or not isinstance(value, str) or not ("/" in value or value.lower().endswith(_PATHS)):
        return value
    return value if Path(value).is_absolute() else os.path.relpath(Path.cwd() / value, folder.absolute())
