"""Scale-ups on a full cluster: who goes, and whether the newcomer's GPUs share a socket."""

from collections.abc import Sequence
from functools import partial

from planner.studies.front import StudyAtHand


def preemption_study(
    *,
    cycles: int = 5,
    seeds: Sequence[int] = (0, 1),
    initials: Sequence[str] = ("spread", "saturated"),
    methods: Sequence[str] = ("standard", "masks"),
    sequential: bool = False,
    alpha: float = 0.5,
    aligned: bool = True,
    youngest_first: bool = False,
    best_of_all_nodes: bool = False,
    nodes: Sequence[int] = (100,),
    repetitions: int = 0,
) -> StudyAtHand:
    """25 pods of workload B and 25 of C come to clusters of `nodes` nodes in every cycle (the paper: 100 cycles).

    `initials`: how clusters were filled; `methods`: who picks victims; `sequential`: also one scale-up after the
    other; `alpha`: weight of priorities against topology; `aligned`: GPUs of a newcomer must share a socket where they
    can, else only the score counts; `youngest_first`, `best_of_all_nodes`: of standard preemption; `repetitions`:
    searches of each kind that are timed (0: none).
    """
    from planner.domain import Qos, VictimMethod, VictimSettings
    from planner.domain.preemption import one_of
    from planner.report.kit.tables import Column, fields, table_of
    from planner.studies.preemption.page import PAPER_HITS, latency_frame, preemption_frame, preemption_page
    from planner.studies.preemption.plots import hit_rates_figure, latency_figure
    from planner.studies.preemption.records import (
        TABLE_3,
        InitialPlacement,
        NodePolicy,
        ScaleUpMode,
        ScaleUpSettings,
        ScaleUpWorkload,
        VictimTie,
        instances,
    )
    from planner.studies.preemption.study import PreemptionStudy, hit_counts, latencies

    settings = ScaleUpSettings(
        counts=(("B", 25), ("C", 25)),
        methods=tuple(one_of(VictimMethod, word, "study preemption: methods") for word in methods),
        modes=tuple(ScaleUpMode) if sequential else (ScaleUpMode.INDEPENDENT,),
        qos=Qos.GUARANTEED if aligned else Qos.BEST_EFFORT,
        victims=VictimSettings(alpha=alpha),
        tie=VictimTie.START if youngest_first else VictimTie.KEY,
        node_policy=NodePolicy.BEST if best_of_all_nodes else NodePolicy.RANDOM,
    )
    question = PreemptionStudy(
        sizes=tuple(nodes),
        initials=tuple(one_of(InitialPlacement, word, "study preemption: initials") for word in initials),
        seeds=tuple(seeds),
        cycles=cycles,
        settings=settings,
        repetitions=repetitions,
    )
    counts = list(hit_counts(question))
    times = list(latencies(question)) if repetitions else []
    per_hundred = instances(100)
    paper = [
        {"what": case, "scale_ups": scale_ups, "hits": hits, "hit_percent": 100 * hits / scale_ups}
        for case, (scale_ups, hits) in PAPER_HITS.items()
    ]
    pods: Column[ScaleUpWorkload] = Column("pods_of_100_nodes", lambda row: per_hundred[row.name])
    kinds = (*fields("workload=name", "priority", "gpus"), pods, *fields("may_be_preempted=preemptible"))
    study = StudyAtHand(
        "preemption",
        (),
        records={"counts": counts, "times": times},
        draw={
            "hit rates": partial(hit_rates_figure, counts),
            **({"latency": partial(latency_figure, times)} if times else {}),
        },
        summary=partial(preemption_page, counts, times, settings),
        tables={"paper": paper, "workloads": table_of(kinds, TABLE_3).records()},
    )
    study.frame = preemption_frame(counts)
    if times:
        study.tables["latency"] = latency_frame(times)
    return study
