"""Many models on one pool of machines: who loads which model, and when."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from planner.studies.front import StudyAtHand
from planner.studies.serving.llms import llm_pool, llm_rows


def serving_study(
    *,
    machines: int | Sequence[Mapping[str, Any]] = 20,
    models: Sequence[Mapping[str, Any]] = (),
    policies: Sequence[str] = (),
    seeds: Sequence[int] = (2,),
    minutes: int = 7,
    scale: float = 0.23,
    constants: Mapping[str, float] | None = None,
) -> StudyAtHand:
    """The thesis' nine models on `machines` alike, two models on each at most; or LLMs on GPUs, by our cost model.

    `machines`: how many; for LLMs the types, as {"name": "H100 x2", "machines": 3, "gpu": "H100", "gpus": 2,
    "load_mbit_s": 50000}. `models`: LLMs, as {"name": "chat", "model": "qwen3-30b-a3b", "sla_s": 15, "requests": 1200}.

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
    from planner.studies.serving.warsaw import TOTALS, dnn_models
    from planner.studies.serving.warsaw import machines as machines_alike

    settings: dict[str, Any] = dict(constants or {})
    if isinstance(machines, int) and not models:
        pool = ServingPool(types=machines_alike(machines), models=dnn_models())
        law = ArrivalLaw(totals=TOTALS)
    else:
        pool, law = llm_pool(machines, models)
    question = ServingStudy(
        pool=pool,
        policies=tuple(policies) or tuple(POLICIES),
        seeds=tuple(seeds),
        law=replace(law, minutes=minutes, scale=scale, spike_minutes=(minutes // 2, minutes // 2 + 1)),
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
    return StudyAtHand(
        "serving",
        rows,
        records={"runs": runs, "pool": question.pool},
        draw={row.number: partial(serving_figure, row.number, runs, question.pool) for row in numbers_of(runs)},
        summary=partial(serving_page, ServingPage(runs=runs, pool=question.pool, settings=question.settings)),
        tables={"findings": findings, "models": llm_rows(pool) if models else _thesis_models()},
    )


def _thesis_models() -> list[dict[str, Any]]:
    from planner.studies.serving.warsaw import DNNS

    columns = ("model", "size_mb", "inference_s", "requests_in_30_min")
    return [dict(zip(columns, row, strict=True)) for row in DNNS]
