"""How step times are judged: the `cost:` section of a scenario."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated

from planner.domain.efficiency import Calibration, Measurement
from planner.domain.keys import FILE, INTERNAL, Bounds, Key
from planner.domain.layout import Phase, Reach
from planner.domain.model import CacheFormat
from planner.domain.serving.speculation import MOST_DRAFTED, Speculation
from planner.domain.workload import CachedPrefixes, KvCacheRate


class CostMode(StrEnum):
    """`default`: physical rates, memory checked, defects mended. `reference`: Shallowsim and the paper."""

    DEFAULT = "default"
    REFERENCE = "reference"


class CostSource(StrEnum):
    """Where step times come from: the formulas, or a user's profile."""

    ANALYTIC = "analytic"
    TABULATED = "tabulated"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPace:
    """How many times as fast servers of a GPU type and phase are as is predicted."""

    gpu: str
    phase: Phase
    pace: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSettings:
    """How step times are judged. Reference mode heeds `mode` and `kv_cache_rate` alone, and takes a number of that.

    `kv_cache_rate`: `cost.prefix_hits` makes hit shares of it; `prefixes` is what its `auto` draws on. `kv_cache_dtype`
    is in the scenario's model by the time that a scenario is read.
    `engine`: whose measured kernels count (empty: formulas alone).
    `max_pipeline_stages`: None lets dense models take up to 8, models with experts none. `reach`: where a placed
    replica lies (None: as compactly as NVLink domains and switches allow). `speculation` stands for the `mtp_` keys.
    `engine`: whose servers these are (empty: any engine's). `paces`: where servers are not as fast as predicted, for
    what-ifs under doubt.
    """

    mode: Annotated[CostMode, Key("the planner's own cost model, or the paper's")] = CostMode.DEFAULT
    kv_cache_rate: Annotated[
        KvCacheRate, Bounds(low=0, below=1), Key("share of a prompt in the prefix cache, or rows by length, or auto")
    ] = 0.0
    kv_cache_dtype: Annotated[
        CacheFormat, Key("of the KV cache: fp8, bf16, or auto, as the model says", sparse=True)
    ] = CacheFormat.AUTO
    max_tokens_per_step: Annotated[
        int, Bounds(low=1, high=10_000_000), Key("a rank's prefill budget; longer prompts go in chunks", unit="tokens")
    ] = 16384
    two_micro_batches: Annotated[bool, Key("computation hides communication, where that is faster")] = True
    balanced_experts: Annotated[bool, Key("no expert is more popular than another")] = False
    redundant_experts: Annotated[int, Bounds(low=0, high=4096), Key("further copies of experts in every layer")] = 0
    mtp_tokens: Annotated[int, Bounds(low=0, high=MOST_DRAFTED), Key("that MTP drafts a step", unit="tokens")] = 0
    mtp_acceptance: Annotated[
        float, Bounds(above=0, high=1), Key("chance of a drafted token, if those before it were accepted")
    ] = 0.8
    images_per_request: Annotated[float, Bounds(low=0, high=1000), Key("mean; their tokens are in the prompts")] = 0.0
    tokens_per_image: Annotated[int, Bounds(low=1, high=1_000_000), Key("of a prompt", unit="tokens")] = 1024
    max_pipeline_stages: Annotated[int | None, Bounds(low=1, high=64), Key("else by the model's kind")] = None
    gpus_per_switch: Annotated[int, Bounds(low=1, high=1_000_000), Key("under one access switch", unit="GPUs")] = 256
    cross_switch_bandwidth: Annotated[
        float, Bounds(above=0, high=1), Key("share of the NIC rate that is left between switches")
    ] = 1 / 1.27
    source: Annotated[CostSource, Key("where step times come from: formulas, or `profile`")] = CostSource.ANALYTIC
    calibration: Annotated[Calibration | None, FILE, Key("factors over the built-in ones", sparse=True)] = None
    profile: Annotated[tuple[Measurement, ...], FILE, Key("step times to look up: a CSV", sparse=True)] = ()
    speculation: Annotated[
        Speculation | None, Key("how tokens are drafted: auto, none, or a method with its tokens", sparse=True)
    ] = None
    reach: Annotated[Reach | None, INTERNAL] = None
    paces: Annotated[tuple[ServerPace, ...], INTERNAL] = ()
    engine: Annotated[str, INTERNAL] = ""
    prefixes: Annotated[CachedPrefixes | None, INTERNAL] = None

    @property
    def drafting(self) -> Speculation:
        """What drafts; `mtp_tokens` with `mtp_acceptance` is short for one chance at every position."""
        return self.speculation or Speculation(tokens=self.mtp_tokens, acceptance=(self.mtp_acceptance,))

    def with_drafted(self, tokens: int | None) -> "CostSettings":
        """The settings of a pool that drafts so many (None: as all do)."""
        return self if tokens is None else replace(self, speculation=replace(self.drafting, tokens=tokens))
