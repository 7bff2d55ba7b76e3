"""Many models on one pool of machines: who loads which model, and when."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from planner.api.studies.at_hand import StudyAtHand


def serving_study(
    *,
    machines: int = 20,
    policies: Sequence[str] = (),
    seeds: Sequence[int] = (2,),
    minutes: int = 7,
    scale: float = 0.23,
    constants: Mapping[str, float] | None = None,
) -> StudyAtHand:
    """The thesis' nine models on `machines` alike, two models on each at most.

    `policies`: all where none are named; `minutes` of arrivals, with spikes in the last third; `scale`: so many times
    the thesis' requests; `constants`: of the policies, as {"quantum_s": 5.0}.
    """
    from planner.studies.serving.arrivals import ArrivalLaw
    from planner.studies.serving.orderings import comparisons, means_of
    from planner.studies.serving.policies.named import POLICIES
    from planner.studies.serving.records import ServingPool, ServingSettings
    from planner.studies.serving.report.figures import numbers_of, serving_figure
    from planner.studies.serving.report.page import ROWS, ServingPage, serving_page
    from planner.studies.serving.study import ServingStudy, run_serving_study
    from planner.studies.serving.warsaw import DNNS, TOTALS, dnn_models
    from planner.studies.serving.warsaw import machines as machines_alike

    settings: dict[str, Any] = dict(constants or {})
    question = ServingStudy(
        pool=ServingPool(types=machines_alike(machines), models=dnn_models()),
        policies=tuple(policies) or tuple(POLICIES),
        seeds=tuple(seeds),
        law=ArrivalLaw(totals=TOTALS, minutes=minutes, scale=scale, spike_minutes=(minutes // 2, minutes // 2 + 1)),
        settings=ServingSettings(**settings),
    )
    runs = list(run_serving_study(question))
    means = means_of(runs)
    rows = [{"figure": words, **{policy: figures[name] for policy, figures in means.items()}} for name, words in ROWS]
    findings = [
        {
            "finding": row.finding.words,
            "published": row.finding.published,
            "here": f"{row.less:.3g} against {row.more:.3g}",
            "holds": row.holds,
        }
        for row in comparisons(means)
    ]
    models = [
        {"model": name, "size_mb": size_mb, "inference_s": step_s, "requests_in_30_min": requests}
        for name, size_mb, step_s, requests in DNNS
    ]
    return StudyAtHand(
        "serving",
        rows,
        records={"runs": runs, "pool": question.pool},
        draw={row.number: partial(serving_figure, row.number, runs, question.pool) for row in numbers_of(runs)},
        summary=partial(serving_page, ServingPage(runs=runs, pool=question.pool, settings=question.settings)),
        tables={"findings": findings, "models": models},
    )
