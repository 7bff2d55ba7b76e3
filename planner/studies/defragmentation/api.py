"""A churned cluster with and without defragmentation, and beside the exact optimum."""

from collections.abc import Sequence
from functools import partial

from planner.studies.front import StudyAtHand


def defragmentation_study(
    *,
    nodes: int = 60,
    days: float = 4,
    load: float = 0.87,
    every_hours: Sequence[float | None] = (None, 24.0, 6.0),
    seeds: Sequence[int] = (0, 1),
    exact: int = 0,
) -> StudyAtHand:
    """Tasks come and go on `nodes` nodes of 8 GPUs; `every_hours` pods are moved together (None: never). `exact`:
    clusters of 25 nodes that are held against the fewest nodes in use there can be."""
    from planner.report.cluster.rhythms import rhythm_name
    from planner.studies.defragmentation.page import churn_page, churn_pictures
    from planner.studies.defragmentation.study import FIGURE_NAMES, by_rhythm, mean_of, run_churn, run_exact
    from planner.studies.defragmentation.workload import ChurnWorkload, DefragmentationStudy

    question = DefragmentationStudy(
        workload=ChurnWorkload(nodes=nodes, days=days, load=load),
        every_hours=tuple(every_hours),
        seeds=tuple(seeds),
        exact_seeds=tuple(range(exact)),
    )
    runs = list(run_churn(question))
    optima = list(run_exact(question)) if exact else []
    groups = {rhythm_name(hours): group for hours, group in by_rhythm(runs).items()}
    rows = [{"figure": name, **{word: mean_of(group, name) for word, group in groups.items()}} for name in FIGURE_NAMES]
    beside = [
        {
            "in_use": row.in_use,
            "after_ipc": row.ipc_in_use,
            "optimum": row.exact_in_use,
            "moves": row.ipc_moves,
            "fewest_moves": row.exact_moves,
        }
        for row in optima
    ]
    return StudyAtHand(
        "defragmentation",
        rows,
        records={"runs": runs, "exact": optima},
        draw=churn_pictures(runs),
        summary=partial(churn_page, question, runs, optima),
        tables={"exact": beside} if optima else {},
    )
