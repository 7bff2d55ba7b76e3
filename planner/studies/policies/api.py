"""Online policies: pods arrive one by one, and each is placed at once or fails; a small trace where none is given."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from planner.domain import TraceNode, TracePod
from planner.errors import InputError
from planner.studies.front import StudyAtHand

if TYPE_CHECKING:
    from planner.studies.policies.records import OnlineRun

POLICIES = (
    *("fgd", "pwr", "pwr:0.05+fgd:0.95", "pwr:0.1+fgd:0.9", "pwr:0.2+fgd:0.8"),
    *("bestfit", "dotprod", "gpupacking", "gpuclustering", "random"),
)


def policy_study(
    *,
    nodes: str | Path | None = None,
    pods: str | Path | None = None,
    policies: Sequence[str] = POLICIES,
    seeds: Sequence[int] = (42, 43, 44),
    exact: bool = False,
) -> StudyAtHand:
    """Each seed shuffles the trace and draws further pods, until they ask for 1.3 times the cluster's GPUs.

    `nodes`, `pods`: CSV files in openb's form; without them a small trace like openb's is made up. `exact`: scores by
    the papers' formulas, where the simulators round them. The first policy is the baseline.
    """
    from planner.domain import Semantics
    from planner.placement.fragmentation import target_workload
    from planner.studies.policies.inputs import read_trace_nodes, read_trace_pods
    from planner.studies.policies.online.policies import parse_policy
    from planner.studies.policies.page import metrics_frame, policies_page
    from planner.studies.policies.plots import kinds_of, policy_figure
    from planner.studies.policies.study import PolicyStudy, run_study

    if (nodes is None) is not (pods is None):
        raise InputError("study policies: nodes and pods must come together, got one.", hint="Name both files.")
    if nodes is None or pods is None:
        hosts, trace_pods = made_up_trace()
    else:
        hosts = read_trace_nodes(Path(nodes))
        trace_pods = read_trace_pods(Path(pods), [node.gpu_model for node in hosts])
    mixes = tuple(map(parse_policy, policies))
    semantics = Semantics.EXACT if exact else Semantics.REFERENCE
    question = PolicyStudy(nodes=hosts, pods=trace_pods, policies=mixes, seeds=tuple(seeds), semantics=semantics)
    runs: dict[str, list[OnlineRun]] = {}
    for seed_run in run_study(question):
        runs.setdefault(seed_run.policy, []).append(seed_run.run)
    baseline = next(iter(runs))
    target = [
        {
            "cpu_milli": kind.cpu_milli,
            "gpus": kind.gpus,
            "gpu_milli": kind.gpu_milli,
            "gpu_spec": kind.gpu_spec,
            "popularity": kind.popularity,
        }
        for kind in target_workload(trace_pods)
    ]
    study = StudyAtHand(
        "policies",
        (),
        records={"runs": runs, "nodes": hosts, "pods": trace_pods},
        draw={kind: partial(policy_figure, kind, {"": runs}, baseline) for kind in kinds_of(runs)},
        summary=partial(policies_page, runs, baseline),
        tables={"target": target},
    )
    study.frame = metrics_frame(runs, tuple(seeds))
    return study


def made_up_trace(
    nodes: int = 48, pods: int = 420, seed: int = 0
) -> tuple[tuple[TraceNode, ...], tuple[TracePod, ...]]:
    """Kinds of nodes of openb, and pods of whole GPUs, parts of one, or none."""
    draw = np.random.default_rng(seed)
    hosts = [
        TraceNode(name=f"node-{k:02}", cpu_milli=1000 * cpus, memory_mib=4096 * cpus, gpus=gpus, gpu_model=model)
        for k, (model, gpus, cpus) in enumerate(_KINDS[k % len(_KINDS)] for k in range(nodes))
    ]
    shapes = [_ASKS[k] for k in draw.choice(len(_ASKS), size=pods, p=_CHANCES)]
    trace_pods = [
        TracePod(
            name=f"pod-{k:03}",
            cpu_milli=int(draw.choice([4000, 8000, 11000])) * max(1, gpus),
            memory_mib=8192,
            gpus=gpus,
            gpu_milli=milli,
        )
        for k, (gpus, milli) in enumerate(shapes)
    ]
    return tuple(hosts), tuple(trace_pods)


_KINDS = (
    *[("G2", 8, 96)] * 3,
    ("T4", 2, 104),
    ("P100", 2, 64),
    ("V100M32", 8, 96),
    ("G3", 8, 128),
)
"""GPU model, GPUs and CPUs of nodes, as frequent as in openb."""

_ASKS = ((0, 0), (1, 1000), (1, 500), (1, 250), (1, 470), (1, 810), (2, 1000), (4, 1000), (8, 1000))
_CHANCES = (0.13, 0.20, 0.15, 0.12, 0.16, 0.20, 0.02, 0.01, 0.01)
"""GPUs and thousandths of each that pods ask for, and how many do, as in openb's default trace."""
