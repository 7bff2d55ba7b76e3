"""What engines without a plan tell: a replay of their servers on GPUs of some pace, under the labels that a Prometheus
operator's scrape gives."""

import math
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from observed_answers import MOMENT, on_other_gpus, series

from planner.domain import LengthProfile
from planner.domain.serving.observed import EDGE, ISLAND, PLAN, Quantity
from planner.export import island_labels
from planner.runs.live.advice.asking import label_of
from planner.runs.live.advice.finding import FoundEngines, Hints, find_engines, objects_of_folder
from planner.runs.live.advice.rebuilding import RebuiltService, Terms, rebuilt

FOLDER = Path(__file__).parent / "foreign_cluster"
LEVELS = {"ttft_ms": 3000.0, "tpot_ms": 60.0, "percentile": 90.0}
WORKLOAD = "azure-conv-2023"
CHAT = "llama-3-1-70b"
Rows = list[tuple[dict[str, str], float]]


@cache
def found() -> FoundEngines:
    return find_engines(objects_of_folder(FOLDER), Hints(), str(FOLDER))


def terms(**more: object) -> Terms:
    return Terms(workloads={"": WORKLOAD}, levels={"": LEVELS}, **more)  # type: ignore[arg-type]


@cache
def service_of(name: str) -> RebuiltService:
    """As it is predicted."""
    return rebuilt(next(service for service in found().services if service.name == name), terms())


@cache
def rows_of(name: str, pace: float, rate_rps: float) -> tuple[tuple[dict[str, str], float], ...]:
    """The answers to the service's queries, on GPUs of that pace."""
    return tuple(_rows(name, pace, rate_rps))


def _rows(name: str, pace: float, rate_rps: float) -> Iterator[tuple[dict[str, str], float]]:
    service = service_of(name)
    plan = on_other_gpus(service.plan, pace)
    labels = {
        label: label_of(service.service, service.islands[island]) for label, island in island_labels(plan).items()
    }
    for row, value in series(plan, plan.scenario.workload, rate_rps):
        yield {**row, PLAN: name, ISLAND: labels[row[ISLAND]]}, value


def exposed(rows: Rows, elapsed_s: float, pods: Sequence[str], labels: dict[str, str]) -> bytes:
    """The same as vLLM's own metrics: counters that have grown at these rates for so long, gauges that stand, each pod
    with its part. The busy share is that of scrapes which find somebody running."""
    profile = service_of(CHAT).plan.scenario.workload
    requests = next(value for row, value in rows if row["__name__"] == Quantity.REQUESTS.value)
    lines = [
        line
        for pod in pods
        for line in (
            *_metrics(rows, elapsed_s / len(pods), {**labels, "pod": pod}),
            *_lengths(profile, requests * elapsed_s / len(pods), {**labels, "pod": pod}),
        )
    ]
    return ("\n".join(lines) + "\n").encode()


EDGES = (1, 10, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000)


def _lengths(profile: LengthProfile, requests: float, labels: dict[str, str]) -> Iterator[str]:
    pairs = list(zip(profile.input_tokens, profile.probabilities, strict=True))
    prompts = {edge: sum(p for tokens, p in pairs if tokens <= edge) for edge in EDGES}
    answers = {edge: 1 - math.exp(-edge / profile.mean_output_tokens) for edge in EDGES}
    means = (profile.mean_input_tokens, profile.mean_output_tokens)
    for name, shares, mean in zip(("prompt", "generation"), (prompts, answers), means, strict=True):
        metric = f"vllm:request_{name}_tokens"
        for edge, share in (*shares.items(), ("+Inf", 1.0)):
            yield _line(f"{metric}_bucket", {**labels, EDGE: str(edge)}, requests * share)
        yield _line(f"{metric}_sum", labels, requests * mean)
        yield _line(f"{metric}_count", labels, requests)


def _metrics(rows: Rows, elapsed_s: float, labels: dict[str, str]) -> list[str]:
    names = {
        Quantity.REQUESTS: "vllm:request_success_total",
        Quantity.PROMPT_TOKENS: "vllm:prompt_tokens_total",
        Quantity.GENERATED: "vllm:generation_tokens_total",
        Quantity.TTFT: "vllm:time_to_first_token_seconds_bucket",
        Quantity.TTFT_SUM: "vllm:time_to_first_token_seconds_sum",
        Quantity.TPOT: "vllm:inter_token_latency_seconds_bucket",
        Quantity.TPOT_SUM: "vllm:inter_token_latency_seconds_sum",
    }
    lines = []
    for row, value in rows:
        quantity = Quantity(row["__name__"])
        edge = {EDGE: row[EDGE]} if EDGE in row else {}
        if quantity in names:
            lines.append(_line(names[quantity], {**labels, **edge}, value * elapsed_s))
            if row.get(EDGE) == "+Inf":
                lines.append(_line(names[quantity].replace("_bucket", "_count"), labels, value * elapsed_s))
        elif quantity in (Quantity.RUNNING, Quantity.WAITING):
            lines.append(_line(f"vllm:num_requests_{quantity.name.lower()}", labels, value))
    lines.append(_line("vllm:kv_cache_usage_perc", labels, 0.95))
    lines.append(_line("vllm:num_preemptions_total", labels, 0.1 * elapsed_s))
    return lines


def _line(name: str, labels: dict[str, str], value: float) -> str:
    pairs = ",".join(f'{key}="{text}"' for key, text in labels.items())
    return f"{name}{{{pairs}}} {value!r}"


__all__ = ["CHAT", "FOLDER", "LEVELS", "MOMENT", "WORKLOAD", "exposed", "found", "rows_of", "service_of", "terms"]
