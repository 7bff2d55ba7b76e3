"""A cluster at hand: its nodes, who holds their GPUs, why idle ones cannot serve, and a cluster file of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.api.cards import Cell, card, rows_of
from planner.domain import Cluster, InputHash, require_sound
from planner.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from planner.domain.diagnosis import ClusterDiagnosis
    from planner.report.cluster.cluster_state import ClusterSummary


class ClusterAtHand:
    """A cluster at hand: `record` is the frozen cluster, `document` what a scenario may hold as its `cluster`.

    >>> cluster.idle_gpus, cluster.frame                  # idle GPUs by type; a row a node
    >>> cluster.diagnose()                                # why idle GPUs cannot serve a request
    >>> planner.plan(inventory="cluster", cluster=cluster, workload="azure-conv-2023")
    """

    def __init__(self, record: Cluster, inputs: tuple[InputHash, ...] = ()) -> None:
        self.record = record
        self.inputs = inputs

    @property
    def idle_gpus(self) -> dict[str, int]:
        """GPUs that no pod holds, by type."""
        return dict(self.record.idle_gpus)

    @property
    def document(self) -> dict[str, Any]:
        """The cluster as a cluster file holds it."""
        from planner import files

        return files.cluster_document(self.record)

    @cached_property
    def _state(self) -> "ClusterSummary":
        from planner.report.cluster.cluster_state import summarize_cluster

        return summarize_cluster(self.record)

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """One row a node: its GPU type, GPUs, those that pods hold and those that are idle, switches, pods."""
        from planner import report

        return report.cluster_frame(self.record)

    def summary(self) -> str:
        """The cluster in Markdown: who holds its GPUs, and what fits into those that are idle."""
        from planner import report

        return report.page_text(report.cluster_page(self.record))

    def figure(self) -> "Figure":
        """A picture of nodes under their switches and of who holds their GPUs."""
        from planner import report

        return report.cluster_figure(self.record)

    def diagnose(
        self,
        requests: Sequence[str] = (),
        jobs: Sequence[int] | None = None,
        *,
        qos: str = "best_effort",
        guaranteed_only: bool = False,
        moves: bool = False,
    ) -> "DiagnosisAtHand":
        """Why idle GPUs cannot serve a request, by cause, and which single change would open most.

        `requests`: such as 2G24C256GB (GPUs, CPUs, memory), published ones where none are named; `jobs`: GPUs of jobs
        of many nodes (128 and 256); `qos`: how firmly a request's GPUs align on NUMA nodes: none, best_effort,
        guaranteed or single_numa; `guaranteed_only`: preemptible pods count as gone; `moves`: also count what moving
        pods would open. Raises InputError.
        """
        from planner.domain.diagnosis import PUBLISHED_JOBS, PUBLISHED_REQUESTS, GpuRequest
        from planner.placement.diagnosis import diagnose
        from planner.runs.defragmenting import with_moves

        diagnosis = diagnose(
            self.record,
            requests=tuple(map(GpuRequest.parse, requests)) or PUBLISHED_REQUESTS,
            jobs=PUBLISHED_JOBS if jobs is None else tuple(jobs),
            qos=_qos(qos),
            guaranteed_only=guaranteed_only,
        )
        return DiagnosisAtHand(with_moves(diagnosis, self.record) if moves else diagnosis)

    def repairs(self, plan: Any, limit: int = 1000) -> "pd.DataFrame":
        """One row an island of an unplaced `plan` that topology costs something on this cluster, with the single move,
        eviction, exchange or other layout that wins most back (`limit` of each kind are tried; none is carried out).

        Raises InputError where the plan has no pools, or lost servers when it was placed.
        """
        from planner import pipeline, report
        from planner.runs.publication import scenario_on

        saved = getattr(plan, "record", plan)
        scenario = scenario_on(saved, self.record, replace(saved.scenario.placement, exchange=""), self.inputs)
        numbers = {"repaired_rps": float, "lost_gpu_hours": float}
        return report.repairs_table(pipeline.repairs(saved, scenario, limit)).frame(numbers)

    @cached_property
    def fragments(self) -> "pd.DataFrame":
        """One row a kind of pod that runs here: how many idle GPUs another one could use, and why not the others."""
        from planner import report
        from planner.placement.fragmentation import fragments_now

        return report.fragments_frame(fragments_now(self.record))

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write a cluster file, .yaml or .json; refuses to replace one unless `force`."""
        from planner import files

        files.write_cluster(self.record, Path(path), force)
        return Path(path)

    def __repr__(self) -> str:
        idle = ", ".join(f"{count} {gpu}" for gpu, count in self.idle_gpus.items())
        return f"<cluster {self.record.name}: {len(self.record.nodes)} nodes, idle: {idle or 'no GPU'}>"

    def _repr_html_(self) -> str:
        rows: Iterator[dict[str, Cell]] = (
            {
                "GPU type": kind.gpu,
                "nodes": kind.nodes,
                "GPUs": kind.gpus,
                "held": kind.held,
                "idle": kind.idle,
                "empty nodes": kind.empty_nodes,
                "access switches": len(kind.switches),
            }
            for kind in self._state.types
        )
        nodes, pods = len(self.record.nodes), len(self.record.pods)
        return card(f"Cluster {self.record.name}: {nodes:,} nodes, {pods:,} pods", rows=rows, rows_at="cluster.frame")


class DiagnosisAtHand:
    """Idle GPUs and why they cannot serve: `record` is the frozen diagnosis."""

    def __init__(self, record: "ClusterDiagnosis") -> None:
        self.record = record

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """One row a GPU type (empty: all types) and request: idle GPUs, fits, the best changes, GPUs by cause."""
        from planner import report

        return report.diagnosis_frame(self.record)

    def summary(self) -> str:
        """The diagnosis in Markdown."""
        from planner import report

        return report.page_text(report.diagnosis_page(self.record))

    def figure(self) -> "Figure":
        """A picture: idle GPUs by request and cause, figures 13 and 14 of Alibaba's ASI paper."""
        from planner import report

        return report.diagnosis_figure(self.record)

    def __repr__(self) -> str:
        return f"<diagnosis of {self.record.cluster}: {len(self.record.requests)} requests and types>"

    def _repr_html_(self) -> str:
        rows = rows_of(self.frame[self.frame["gpu"] == ""].drop(columns="gpu"))
        return card(f"Idle GPUs of {self.record.cluster}, all types", rows=rows, rows_at="diagnosis.frame")


def cluster(
    *paths: str | Path,
    name: str = "",
    synthetic: int | None = None,
    load: float = 0.6,
    seed: int = 0,
    gpus: Sequence[str] | Mapping[str, float] = (),
    nodes_per_switch: tuple[int, int] = (32, 64),
    scattered: bool = False,
    gpu_types: Mapping[str, str] | None = None,
    kubernetes: str = "",
    kubeconfig: str | Path | None = None,
) -> ClusterAtHand:
    """A cluster from its file, from what `kubectl get nodes,pods -A -o json` prints, as it runs, or made up.

    >>> cluster = planner.cluster("cluster.yaml")                     # as `planner cluster import` writes it
    >>> cluster = planner.cluster("nodes.json", "pods.json")          # lists of kubectl, in any number of files
    >>> cluster = planner.cluster(kubernetes="current")               # asks a running one: the kubeconfig's context
    >>> cluster = planner.cluster(synthetic=24, load=0.6, seed=1)     # 24 nodes, 60 % of their GPUs held

    `name`: what it is called; `gpu_types`: type of a GPU product that no GPU spec names, for kubectl's lists and a
    running cluster; `kubeconfig`: its file (None: KUBECONFIG, or ~/.kube/config). Made up:
    `synthetic` nodes, whose pods hold the share `load` of the GPUs; `gpus`: types, evenly or by share (H200, H800 and
    H20 where there are none); `nodes_per_switch`: fewest and most under one access switch; `scattered`: pods took
    whatever node had room, not the best.

    Raises InputError for files that are no cluster, naming the object and the field, and for values out of range.
    """
    sources_named = (bool(paths), bool(kubernetes), synthetic is not None)
    if sum(sources_named) != 1:
        raise InputError(
            "planner.cluster(...): must have one of files, kubernetes=CONTEXT and synthetic=NODES, got "
            f"{sum(sources_named) or 'none'}.",
            hint="As planner.cluster('cluster.yaml') or planner.cluster(synthetic=24).",
        )
    if synthetic is not None:
        return ClusterAtHand(_made_up(synthetic, load, seed, gpus, nodes_per_switch, scattered, name))
    if kubernetes:
        from planner.runs.live.kubernetes import kubernetes_at

        server = kubernetes_at(kubernetes, kubeconfig)
        return ClusterAtHand(_imported(name, gpu_types or {}, kubernetes=server))
    sources = [Path(path) for path in paths]
    if len(sources) == 1 and not _is_list(sources[0]):
        return ClusterAtHand(*_from_file(sources[0]))
    return ClusterAtHand(_imported(name, gpu_types or {}, kubectl=tuple(sources)))


def nodes_of(cluster: "ClusterAtHand | Cluster | str | Path") -> tuple[Cluster, tuple[InputHash, ...]]:
    """The record of a cluster in any form, and the files that it was read from. InputError where it is not sound."""
    if isinstance(cluster, ClusterAtHand):
        return cluster.record, cluster.inputs
    if isinstance(cluster, Cluster):
        require_sound(cluster, f"cluster {cluster.name}")
        return cluster, ()
    return _from_file(Path(cluster))


def _from_file(path: Path) -> tuple[Cluster, tuple[InputHash, ...]]:
    from planner import files

    return files.load_cluster(path), (files.input_hash(path),)


def _is_list(path: Path) -> bool:
    """Whether a JSON file holds a list of kubectl, and no cluster."""
    from planner.files.disk.documents import read_json
    from planner.files.disk.opening import MOST_OF_A_LIST

    return path.suffix.lower() == ".json" and "items" in read_json(path, most_bytes=MOST_OF_A_LIST)


def _imported(name: str, gpu_types: Mapping[str, str], **sources: Any) -> Cluster:
    from planner.runs.cluster_import import import_cluster
    from planner.runs.cluster_sources import ClusterSources

    return import_cluster(ClusterSources(name=name or "imported", gpu_types=tuple(gpu_types.items()), **sources))


def _made_up(
    nodes: int,
    load: float,
    seed: int,
    gpus: Sequence[str] | Mapping[str, float],
    nodes_per_switch: tuple[int, int],
    scattered: bool,
    name: str,
) -> Cluster:
    from planner.placement import DEFAULT_TYPES, Fit, NodeType, synthesize

    shares = gpus if isinstance(gpus, Mapping) else dict.fromkeys(gpus, 1.0)
    return synthesize(
        nodes,
        seed,
        load,
        types=[NodeType(gpu=gpu, share=share) for gpu, share in shares.items()] or DEFAULT_TYPES,
        nodes_per_asw=nodes_per_switch,
        fit=Fit.RANDOM if scattered else Fit.BEST,
        name=name,
    )


def _qos(word: str) -> Any:
    from planner.domain import Qos

    if word not in list(Qos):
        raise InputError(f"qos: must be one of {', '.join(Qos)}, got {word!r}.", hint="Write best_effort.")
    return Qos(word)
