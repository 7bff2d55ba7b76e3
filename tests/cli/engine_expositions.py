"""What an engine's /metrics shows, as its own logger would write it for requests of given lengths.

Sources of the classes: vllm/v1/metrics/buckets.py of vLLM 0.33.0 (1, 2, 5 times powers of ten up to the context),
sglang/srt/observability/metrics_collector.py of SGLang 0.5.23.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

CONTEXT = 131_072
VLLM_EDGES = tuple(
    mantissa * 10**power for power in range(6) for mantissa in (1, 2, 5) if mantissa * 10**power <= CONTEXT
)
SGLANG_EDGES = (
    *(100, 300, 500, 700, 1000, 1500, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 10_000, 12_500, 15_000, 17_500),
    *(20_000, 22_500, 25_000, 27_500, 30_000, 35_000, 40_000, 60_000, 80_000, 100_000, 200_000, 300_000, 400_000),
    *(600_000, 800_000, 1_000_000, 1_100_000),
)  # fmt: skip
EDGES = {"vllm": VLLM_EDGES, "sglang": SGLANG_EDGES}


@dataclass(kw_only=True)
class Engine:
    """One server: counters grow by `add`."""

    labels: Mapping[str, str]
    kind: str = "vllm"
    edges: Sequence[float] = ()
    prompts: list[int] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    cached: float = 0.0
    running: float = 0.0
    waiting: float = 0.0

    def add(self, prompts: Sequence[int], answers: Sequence[int], cached: float = 0.0) -> None:
        """Requests that end; `cached`: share of their prompts' tokens."""
        self.prompts += prompts
        self.answers += answers
        self.cached += cached * sum(prompts)

    def restart(self) -> None:
        """All counters begin at 0 again."""
        self.prompts, self.answers, self.cached = [], [], 0.0

    def lines(self) -> list[str]:
        """As Prometheus reads them."""
        edges = self.edges or EDGES[self.kind]
        rows = [
            *self._histogram("request_prompt_tokens", "prompt_tokens_histogram", self.prompts, edges),
            *self._histogram("request_generation_tokens", "generation_tokens_histogram", self.answers, edges),
            ("prompt_tokens_total", {}, sum(self.prompts)),
            ("num_requests_running" if self.kind == "vllm" else "num_running_reqs", {}, self.running),
            ("num_requests_waiting" if self.kind == "vllm" else "num_queue_reqs", {}, self.waiting),
        ]
        if self.kind == "vllm":
            rows.append(("request_success_total", {"finished_reason": "stop"}, len(self.prompts)))
            rows.append(("prompt_tokens_by_source_total", {"source": "local_compute"}, sum(self.prompts) - self.cached))
        else:
            rows.append(("num_requests_total", {"is_streaming": "true"}, len(self.prompts)))
            rows.append(("cached_tokens_total", {"cache_source": "device"}, self.cached))
        return [self._line(name, {**self.labels, **more}, value) for name, more, value in rows]

    def _histogram(
        self, vllm: str, sglang: str, lengths: Sequence[int], edges: Sequence[float]
    ) -> list[tuple[str, dict[str, str], float]]:
        name, values = vllm if self.kind == "vllm" else sglang, np.array(lengths)
        classes = [(f"{edge:.1f}", float((values <= edge).sum())) for edge in edges]
        return [
            *((f"{name}_bucket", {"le": edge}, count) for edge, count in [*classes, ("+Inf", float(len(values)))]),
            (f"{name}_sum", {}, float(values.sum())),
            (f"{name}_count", {}, float(len(values))),
        ]

    def _line(self, name: str, labels: Mapping[str, str], value: float) -> str:
        pairs = ",".join(f'{key}="{text}"' for key, text in labels.items())
        return f"{self.kind}:{name}{{{pairs}}} {value!r}"


def exposition(engines: Sequence[Engine]) -> bytes:
    """Of all engines, as one exporter."""
    return ("\n".join(line for engine in engines for line in engine.lines()) + "\n").encode()
