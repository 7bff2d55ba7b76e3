"""What each engine calls its metrics, by version.

| what | vLLM | SGLang |
|---|---|---|
| requests | those that ended, by reason | those that ended |
| prompt tokens | of all, cached and handed over included | the same |
| TTFT, prefill server | from arrival there: queue and prefill | none |
| TTFT, decode server | from arrival there: the cache's way, a place, a step | the user's: both are asked at once |
| TPOT | of a request, mean over its answer | of a token; of a request from 0.5.23 on |

Sources: vllm/v1/metrics/loggers.py and stats.py of vLLM 0.18.0, 0.23.0 and 0.33.0; sglang/srt/observability/
metrics_collector.py and managers/tokenizer_manager.py of SGLang 0.5.14, 0.5.18 and 0.5.23.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from planner.domain import EngineProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineMetrics:
    """Names of counters, gauges and histograms (without `_bucket`). `computed` counts prompt tokens that no cache had,
    where `computed_label` says which; else `cached` those that one had. `ttft_at_decode`: where phases are split, the
    decode server tells the user's TTFT and the prefill server none."""

    requests: str
    prompt_tokens: str
    generated_tokens: str
    ttft: str
    tpot: str
    running: str
    waiting: str
    computed: str = ""
    computed_label: str = ""
    cached: str = ""
    ttft_at_decode: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """All of them, histograms by the name of their sum."""
        plain = (self.requests, self.prompt_tokens, self.generated_tokens, self.running, self.waiting)
        return (*plain, *filter(None, (self.computed, self.cached)), f"{self.ttft}_sum", f"{self.tpot}_sum")


_VLLM = EngineMetrics(
    requests="vllm:request_success_total",
    prompt_tokens="vllm:prompt_tokens_total",
    generated_tokens="vllm:generation_tokens_total",
    ttft="vllm:time_to_first_token_seconds",
    tpot="vllm:request_time_per_output_token_seconds",
    running="vllm:num_requests_running",
    waiting="vllm:num_requests_waiting",
    computed="vllm:prompt_tokens_by_source_total",
    computed_label='source="local_compute"',
)
_SGLANG = EngineMetrics(
    requests="sglang:num_requests_total",
    prompt_tokens="sglang:prompt_tokens_total",
    generated_tokens="sglang:generation_tokens_total",
    ttft="sglang:time_to_first_token_seconds",
    tpot="sglang:inter_token_latency_seconds",
    running="sglang:num_running_reqs",
    waiting="sglang:num_queue_reqs",
    cached="sglang:cached_tokens_total",
    ttft_at_decode=True,
)
_TPOT_OF_REQUESTS = (0, 5, 23)


def _vllm(version: str) -> EngineMetrics:  # noqa: ARG001  # the same in all versions of the profiles
    return _VLLM


def _sglang(version: str) -> EngineMetrics:
    numbers = tuple(int(number) for number in re.findall(r"\d+", version))
    if not numbers or numbers < _TPOT_OF_REQUESTS:
        return _SGLANG
    return replace(_SGLANG, tpot="sglang:request_time_per_output_token_seconds")


_BY_ENGINE: Mapping[str, Callable[[str], EngineMetrics]] = MappingProxyType({"vllm": _vllm, "sglang": _sglang})


def engine_metrics(profile: EngineProfile) -> EngineMetrics:
    """What the engine of that name and version calls its metrics."""
    return _BY_ENGINE[profile.name](profile.version)
