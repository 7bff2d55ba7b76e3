"""A cluster in one process: nodes, pods and what controllers make of workloads, in an API server; and engines that
serve like a replay of the servers that run, at some pace of the cost model, in the words of their own metrics."""

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml
from api_server import ApiServer
from observed_answers import on_other_gpus, series

from planner.domain import BucketPool, LengthProfile, Plan
from planner.domain.serving.observed import EDGE, ISLAND, Quantity
from planner.evaluation.buckets.service import BucketService
from planner.evaluation.pool_assembly import pool_islands, pool_routes
from planner.export import island_labels
from planner.workload import question_of

GPU = "nvidia.com/gpu"
NAMESPACE = "serving"
Object = dict[str, Any]


@dataclass
class Nodes:
    """Nodes and the pods on them, as the API server shows both."""

    server: ApiServer
    gpus: dict[str, int] = field(default_factory=dict)
    products: dict[str, str] = field(default_factory=dict)
    dead: set[str] = field(default_factory=set)
    pods: dict[str, tuple[str, str, int]] = field(default_factory=dict)

    def add(self, stem: str, product: str, count: int, gpus: int) -> None:
        for number in range(count):
            name = f"{stem}-{number:02}"
            self.gpus[name], self.products[name] = gpus, product
            self._show(name, ready=True)

    def die(self, name: str) -> None:
        """The kubelet has not been heard of for ten minutes, and the pods are evicted."""
        self.dead.add(name)
        self._show(name, ready=False)
        for pod in [pod for pod, (node, _, _) in self.pods.items() if node == name]:
            self._remove(pod)

    def _show(self, name: str, *, ready: bool) -> None:
        amounts = {"cpu": "192", "memory": "2000Gi", "pods": "110", GPU: str(self.gpus[name])}
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 600))
        condition = {"type": "Ready", "status": "True" if ready else "Unknown", "lastTransitionTime": since}
        self.server.apply(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {f"{GPU}.product": self.products[name]}},
                "spec": {},
                "status": {"capacity": amounts, "allocatable": amounts, "conditions": [condition]},
            }
        )

    def scale(self, workload: str, template: Object, product: str, copies: int, gpus: int) -> list[str]:
        """Pods of a workload, at most so many as find room; their names."""
        names = [f"{workload}-{number}" for number in range(copies)]
        for pod in [pod for pod, (_, owner, _) in self.pods.items() if owner == workload and pod not in names]:
            self._remove(pod)
        for pod in names:
            node = self._room(product, gpus) if pod not in self.pods else None
            if node is not None:
                self.pods[pod] = (node, workload, gpus)
                spec = {**deepcopy(template["spec"]), "nodeName": node}
                owner = {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": workload,
                    "uid": "0",
                    "controller": True,
                }
                metadata = {"name": pod, "namespace": NAMESPACE, "labels": template["metadata"]["labels"],
                            "ownerReferences": [owner]}  # fmt: skip
                status = {"phase": "Running"}
                self.server.apply(
                    {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}
                )
        return [pod for pod in names if pod in self.pods]

    def _room(self, product: str, gpus: int) -> str | None:
        used = Counter[str]()
        for node, _, count in self.pods.values():
            used[node] += count
        fits = (n for n, total in self.gpus.items() if total - used[n] >= gpus and self.products[n] == product)
        return next((name for name in fits if name not in self.dead), None)

    def _remove(self, pod: str) -> None:
        del self.pods[pod]
        self.server.delete("Pod", pod, NAMESPACE)


@dataclass
class Engines:
    """The servers of one service, at a load, as counters that never begin anew. `labels`: of every series."""

    labels: Mapping[str, str]
    pace: float
    rate_rps: float = 0.0
    running: Counter[str] = field(default_factory=Counter)
    _rows: dict[str, list[tuple[dict[str, str], float]]] = field(default_factory=dict)
    _pods: dict[str, list[str]] = field(default_factory=dict)
    _labels: dict[str, dict[str, str]] = field(default_factory=dict)
    _base: Counter[str] = field(default_factory=Counter)
    _since_s: float = field(default_factory=time.monotonic)

    def become(self, plan: Plan, pods: Mapping[str, Sequence[str]], labels: Mapping[str, Mapping[str, str]]) -> None:
        """From now on the islands of `plan` serve; `pods`: names by island, `labels` beside the service's own."""
        self._keep()
        slowed = on_other_gpus(plan, self.pace)
        self._profile = slowed.scenario.workload
        of_label = island_labels(plan)
        self._rows = {island: [] for island in pods}
        for row, value in series(slowed, slowed.scenario.workload, self.rate_rps, requests=2000):
            self._rows[of_label[row[ISLAND]]].append((row, value))
        self._pods = {island: list(names) for island, names in pods.items()}
        self._labels = {island: {**self.labels, **labels.get(island, {})} for island in pods}

    def stop(self) -> None:
        self._keep()
        self._rows, self._pods = {}, {}

    def _keep(self) -> None:
        self._base = Counter({line: value for line, value, grows in self._lines() if grows})
        self._since_s = time.monotonic()

    def lines(self) -> list[str]:
        return [f"{line} {value!r}" for line, value, _ in self._lines()]

    def _lines(self) -> list[tuple[str, float, bool]]:
        """Name with labels, value, and whether it is a counter, which grows at the replay's rates; each server has its
        part."""
        elapsed_s, rows = time.monotonic() - self._since_s, list[tuple[str, float, bool]]()
        for island, pods in self._pods.items():
            for pod in pods if self._rows[island] else ():
                labels = {**self._labels[island], "pod": pod}
                for name, more, value, grows in _metrics(self._rows[island], self._profile):
                    line = _line(name, {**labels, **more})
                    part = value * elapsed_s / len(pods) + self._base[line] if grows else value
                    rows.append((line, part, grows))
        return rows


_COUNTERS = {
    Quantity.REQUESTS: "vllm:request_success_total",
    Quantity.PROMPT_TOKENS: "vllm:prompt_tokens_total",
    Quantity.COMPUTED: "vllm:prompt_tokens_by_source_total",
    Quantity.GENERATED: "vllm:generation_tokens_total",
    Quantity.TTFT: "vllm:time_to_first_token_seconds_bucket",
    Quantity.TTFT_SUM: "vllm:time_to_first_token_seconds_sum",
    Quantity.TPOT: "vllm:request_time_per_output_token_seconds_bucket",
    Quantity.TPOT_SUM: "vllm:request_time_per_output_token_seconds_sum",
}
_GAUGES = {Quantity.RUNNING: "vllm:num_requests_running", Quantity.WAITING: "vllm:num_requests_waiting"}
_EDGES = (1, 10, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000)

Metric = tuple[str, dict[str, str], float, bool]


def _metrics(rows: Sequence[tuple[dict[str, str], float]], profile: LengthProfile) -> Iterator[Metric]:
    """Name, labels, rate or value, whether it grows."""
    for row, value in rows:
        quantity = Quantity(row["__name__"])
        edge = {EDGE: row[EDGE]} if EDGE in row else {}
        if quantity is Quantity.COMPUTED:
            edge = {"source": "local_compute"}
        if quantity in _COUNTERS:
            yield _COUNTERS[quantity], edge, value, True
            if row.get(EDGE) == "+Inf":
                yield _COUNTERS[quantity].replace("_bucket", "_count"), {}, value, True
        elif quantity in _GAUGES:
            yield _GAUGES[quantity], {}, value, False
        if quantity is Quantity.REQUESTS:
            yield from _lengths(profile, value)
    yield "vllm:kv_cache_usage_perc", {}, 0.5, False
    yield "vllm:num_preemptions_total", {}, 0.0, True


def _lengths(profile: LengthProfile, rate: float) -> Iterator[Metric]:
    pairs = list(zip(profile.input_tokens, profile.probabilities, strict=True))
    prompts = {edge: sum(share for tokens, share in pairs if tokens <= edge) for edge in _EDGES}
    answers = {edge: 1 - math.exp(-edge / profile.mean_output_tokens) for edge in _EDGES}
    means = (profile.mean_input_tokens, profile.mean_output_tokens)
    for name, shares, mean in zip(("prompt", "generation"), (prompts, answers), means, strict=True):
        metric = f"vllm:request_{name}_tokens"
        for edge, share in (*shares.items(), ("+Inf", 1.0)):
            yield f"{metric}_bucket", {EDGE: str(edge)}, rate * share, True
        yield f"{metric}_sum", {}, rate * mean, True
        yield f"{metric}_count", {}, rate, True


def _line(name: str, labels: Mapping[str, str]) -> str:
    return name + "{" + ",".join(f'{key}="{text}"' for key, text in labels.items()) + "}"


def of_counts(plan: Plan, pools: Sequence[BucketPool], counts: Mapping[str, int]) -> Plan | None:
    """A plan of so many servers of each pool; None where a phase has none."""
    question = question_of(plan.scenario)
    some = [replace(pool, count=counts[pool.island]) for pool in pools if counts.get(pool.island)]
    if not some:
        return None
    priced = BucketService(question).priced(some)
    if not priced.rate_rps:
        return None
    routes = pool_routes(question, priced.pools, priced.rate_rps)
    assert plan.buckets is not None
    return replace(
        plan,
        throughput_rps=priced.rate_rps,
        islands=tuple(pool_islands(plan.scenario, priced.pools, routes, {}, {}, {})),
        routing=routes,
        buckets=replace(plan.buckets, promise_rps=priced.rate_rps, pools=priced.pools, losses=()),
        placement=None,
    )


def applied(folder: Path) -> Iterator[Object]:
    """The objects of a kustomization, in the order of its files."""
    for name in yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]:
        yield from (body for body in yaml.safe_load_all((folder / name).read_text()) if body)


def gpus_of(template: Object) -> int:
    """GPUs of a pod."""
    return sum(int(part.get("resources", {}).get("limits", {}).get(GPU, 0)) for part in template["spec"]["containers"])


def quantile(rows: Sequence[tuple[float, float]], share: float) -> float:
    """Of cumulative classes, the upper edge of the one that it lies in."""
    total = rows[-1][1] if rows else 0.0
    return next((edge for edge, count in rows if count >= share * total), math.inf) if total else math.nan
