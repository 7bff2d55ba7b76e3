"""The ten kinds of clusters of the study, each drawn anew with every seed, and the scenario that is planned on one.

They are ours: of 8 to 24 nodes, so that a search takes seconds, and unlike in GPU types, in how many GPUs pods hold,
in how those came to their nodes (`best`: packed, `random`: scattered), in switches, NUMA nodes and alignment.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from planner import files
from planner.domain import Cluster, Qos, Scenario
from planner.placement import Fit, NodeType, synthesize
from planner.workload import summarize


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterKind:
    """Clusters alike. `shares`: of GPU types, in nodes; `load`: share of the GPUs that pods hold; `per_switch`: fewest
    and most nodes under a switch; `numas`: NUMA nodes of a socket."""

    name: str
    nodes: int
    shares: tuple[tuple[str, float], ...]
    load: float
    fit: Fit
    per_switch: tuple[int, int]
    model: str
    workload: str = "azure-conv-2023"
    numas: int = 1
    qos: Qos = Qos.GUARANTEED

    def cluster(self, seed: int) -> Cluster:
        """One of them."""
        specs = ((files.load_gpu_spec(gpu), share) for gpu, share in self.shares)
        types = tuple(
            NodeType(
                gpu=spec.name,
                share=share,
                labels=spec.node_selector,
                gpus=spec.gpus_per_host,
                numa_per_socket=self.numas,
            )
            for spec, share in specs
        )
        return synthesize(
            self.nodes, seed, self.load, types=types, nodes_per_asw=self.per_switch, fit=self.fit, name=self.name
        )

    def scenario(self, seed: int) -> Scenario:
        """All idle GPUs of one of them are planned for."""
        document: Mapping[str, object] = {
            "name": self.name,
            "model": self.model,
            "workload": self.workload,
            "inventory": "cluster",
            "cluster": files.cluster_document(self.cluster(seed)),
            "slo": {"ttft_ms": TTFT_MS, "tpot_ms": TPOT_MS},
            "placement": {"qos": self.qos.value, "cpus_per_gpu": CPUS_PER_GPU},
            "search": {"seed": seed, "timings": False},
        }
        return files.scenario_from_document(document, origin="study placed", base=Path.cwd(), summarize=summarize)


TTFT_MS, TPOT_MS = 4000, 60
"""Those of the shipped mixed fleet."""
CPUS_PER_GPU = 4
"""Half of the default: made-up pods hold 8 CPUs a GPU and more."""

KINDS = (
    ClusterKind(
        name="h200-h20-scattered",
        nodes=12,
        shares=(("H200", 1), ("H20", 1)),
        load=0.3,
        fit=Fit.RANDOM,
        per_switch=(1, 2),
        model="deepseek-v3",
    ),
    ClusterKind(
        name="h200-h20-half-full",
        nodes=16,
        shares=(("H200", 1), ("H20", 2)),
        load=0.5,
        fit=Fit.RANDOM,
        per_switch=(2, 4),
        model="deepseek-v3",
    ),
    ClusterKind(
        name="h100-a100-packed",
        nodes=16,
        shares=(("H100", 1), ("A100", 1)),
        load=0.4,
        fit=Fit.BEST,
        per_switch=(2, 4),
        model="llama-3.1-70b",
    ),
    ClusterKind(
        name="three-types",
        nodes=12,
        shares=(("H200", 1), ("H800", 1), ("H20", 1)),
        load=0.5,
        fit=Fit.RANDOM,
        per_switch=(2, 3),
        model="qwen3-235b-a22b-fp8",
    ),
    ClusterKind(
        name="h100-l40s-busy",
        nodes=20,
        shares=(("H100", 1), ("L40S", 1)),
        load=0.6,
        fit=Fit.RANDOM,
        per_switch=(2, 4),
        model="qwen3-30b-a3b",
        workload="azure-code-2023",
    ),
    ClusterKind(
        name="h20-packed",
        nodes=24,
        shares=(("H20", 1),),
        load=0.2,
        fit=Fit.BEST,
        per_switch=(2, 2),
        model="deepseek-v3",
    ),
    ClusterKind(
        name="h800-h20-busy",
        nodes=20,
        shares=(("H800", 1), ("H20", 1)),
        load=0.6,
        fit=Fit.BEST,
        per_switch=(4, 8),
        model="deepseek-v3",
        numas=2,
    ),
    ClusterKind(
        name="h100-h20-numa",
        nodes=24,
        shares=(("H100", 1), ("H20", 1)),
        load=0.4,
        fit=Fit.RANDOM,
        per_switch=(4, 6),
        model="llama-3.1-70b-fp8",
        workload="azure-code-2023",
        numas=2,
    ),
    ClusterKind(
        name="mi300x-mi325x",
        nodes=8,
        shares=(("MI300X", 1), ("MI325X", 1)),
        load=0.3,
        fit=Fit.BEST,
        per_switch=(2, 4),
        model="qwen3-235b-a22b-fp8",
    ),
    ClusterKind(
        name="nearly-full",
        nodes=16,
        shares=(("H200", 1), ("A100", 1), ("L40S", 1)),
        load=0.75,
        fit=Fit.RANDOM,
        per_switch=(2, 4),
        model="qwen3-30b-a3b",
        qos=Qos.BEST_EFFORT,
    ),
)
