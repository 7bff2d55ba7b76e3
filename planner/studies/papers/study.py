"""Every document's claims, read from the raw results of the studies that belong to it."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from planner.errors import InputError
from planner.studies.papers.records import Claim, Claims, Paper, Verdict
from planner.studies.papers.results import ResultsFolder

PAPERS = (
    Paper(
        title="Scheduling of Distributed LLM Serving on Heterogeneous GPUs",
        reference="N. Rignall, 2025, chapter 5 (`planner study chapter5`)",
        studies=("chapter5",),
    ),
    Paper(
        title="Power- and Fragmentation-aware Online Scheduling for GPU Datacenters",
        reference="F. Lettich et al., PWR (`planner study pwr`)",
        studies=("policies",),
    ),
    Paper(
        title="Topology-aware Preemptive Scheduling for Co-located LLM Workloads",
        reference="P. Zhang et al., Baichuan, FlexTopo (`planner simulate preemption`)",
        studies=("preemption",),
    ),
    Paper(
        title="Heterogeneity at Hyperscale",
        reference="S. Li et al., Alibaba ASI, OSDI 2026, spot, moves (`planner simulate spot`, `... defragmentation`)",
        studies=("spot", "defragmentation"),
    ),
    Paper(
        title="Heterogeneity at Hyperscale, on a made-up trace",
        reference="The same. Synthetic: what was put in is no test; what follows is (`planner study asi --synthetic`)",
        studies=("asi",),
    ),
    Paper(
        title="Measuring and improving resource utilization in a Kubernetes cluster serving AI inference tasks",
        reference="P. Blinowski, S. Mrozicki, S. Potrzebowski, K. Wąsowski, 2024 (`planner study warsaw`). Constants "
        "that it leaves open were searched so that what is marked `calibrated` comes out; what is marked `held out` "
        "played no part. `literal`: its text at its word, constants of our own",
        studies=("serving",),
    ),
)
RESULTS = "results"
FOLDER = Path(__file__).parents[1]
"""Where a clone has the raw results; a wheel leaves them out."""


def all_claims(folder: Path) -> dict[Paper, tuple[Claim, ...]]:
    """Of each document its claims, from `folder`/STUDY/results. InputError where one is not there."""
    return {paper: tuple(_claims(paper, folder)) for paper in PAPERS}


def _claims(paper: Paper, folder: Path) -> Iterator[Claim]:
    for study in paper.studies:
        results = folder / study / RESULTS
        if not results.is_dir():
            raise InputError(
                f"{results}: must hold raw results of {study}, is not there.",
                hint="Give --results a clone's planner/studies.",
            )
        module: Claims = import_module(f"planner.studies.{study}.claims")
        for claim in module.claims(ResultsFolder(results)):
            if (claim.verdict is Verdict.HOLDS) < (not claim.reason):
                raise ValueError(f"{study}: {claim.place}, {claim.words!r}: {claim.verdict} without a reason")
            yield claim
