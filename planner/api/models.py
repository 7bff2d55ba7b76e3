"""One model at hand: what it is made of, what it weighs and caches, which GPUs hold it."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from planner import files
from planner.cost import model_fits
from planner.domain import ModelSpec
from planner.files.models.models import load_model, told_model
from planner.files.sections import top_level
from planner.report.kit.markdown import page_text
from planner.report.kit.tables import tabled
from planner.report.models import cache_table, fits_table, layers_table, model_page, model_verdict, weights_table

if TYPE_CHECKING:
    import pandas as pd

    from planner.report.kit.tree import DataTable


class ModelAtHand:
    """A model at hand. `record`: its layers and sizes."""

    def __init__(self, record: ModelSpec) -> None:
        self.record = record

    @property
    def name(self) -> str:
        """Its name."""
        return self.record.name

    @property
    def document(self) -> dict[str, object]:
        """What stands under `model` in a scenario: every size spelt out."""
        return files.model_document(self.record)

    @property
    def layers(self) -> "pd.DataFrame":
        """A row a kind of layer: how many, attention, feed-forward block."""
        return _frame(layers_table(self.record))

    @property
    def weights(self) -> "pd.DataFrame":
        """A row a part: parameters (10^9), bytes each, GB; then all of them, and what a token meets."""
        return _frame(weights_table(self.record))

    @property
    def cache(self) -> "pd.DataFrame":
        """A row a length of a sequence: its cache and state (MB), bytes a token."""
        return _frame(cache_table(self.record))

    def cached_gb(self, tokens: int) -> float:
        """Cache and state of a sequence of so many tokens (GB)."""
        return self.record.cached_bytes(tokens) / 1e9

    def fits(self, engine: str = "vllm") -> "pd.DataFrame":
        """A row a GPU type: the fewest GPUs that hold a copy and a sequence of 32K tokens, at which degrees by the
        engine's rules, and how many such sequences."""
        profile = files.load_engine(engine)
        return _frame(fits_table(model_fits(self.record, files.load_gpu_specs().values(), profile)))

    def summary(self) -> str:
        """All of it but for GPUs, in Markdown."""
        return page_text(model_page(self.record))

    def __repr__(self) -> str:
        return f"<model {model_verdict(self.record)}>"

    def _repr_markdown_(self) -> str:
        return self.summary()


def _frame(table: "DataTable") -> "pd.DataFrame":
    return tabled(list(table.rows), list(table.columns))


def model(source: "ModelAtHand | str | Path | Mapping[str, object]") -> ModelAtHand:
    """A model at hand, to look at and to plan for: by a shipped name or its id on Hugging Face, a config.json or its
    folder, or a mapping as a scenario has it.

    >>> planner.model("Qwen/Qwen3.5-397B-A17B").cache
    >>> planner.plan(model=planner.model({"config": "m/config.json", "like": "Qwen3MoeForCausalLM"}), ...)

    Raises InputError for what is not there or not known.
    """
    if isinstance(source, ModelAtHand):
        return source
    if isinstance(source, Mapping):
        record, _ = told_model(top_level(dict(source), "planner.model(...)"), Path.cwd())
        return ModelAtHand(record)
    return ModelAtHand(load_model(str(source)))
