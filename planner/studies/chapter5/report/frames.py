"""A study's numbers as data frames: one row a trial and round, a fleet and trace, an island and range, a length."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict

from planner.report.kit.tables import Frame
from planner.studies.chapter5.records import CaseOutcome, ExperimentOutcome, Study

TABLE = "table5.1"
INNER_SHARES = ("5.2", "5.3")
INNER_LENGTHS = "5.4"
DIVISIONS, BENCHMARKS, TOKENS = "4.8", "5.1", "5.13"


def study_frame(study: Study, figure: str) -> Frame:
    """The numbers behind one figure, or behind table 5.1.

    Of searches: `experiment`, `value`, `seed`, `iteration` (from 0), `best_rps` (best so far), and the round's
    CPU-seconds of choosing its layouts and of judging them.
    """
    import pandas as pd  # half a second to load: only who asks for a table pays

    plain = {TABLE: _levels, DIVISIONS: _divisions, BENCHMARKS: _benchmarks, TOKENS: _tokens}
    if figure in plain:
        rows = plain[figure](study)
    elif figure in INNER_SHARES:
        rows = _shares(study)
    elif figure == INNER_LENGTHS:
        rows = _lengths(study)
    else:
        rows = _rounds(study.all_of(figure))
    return pd.DataFrame(list(rows))


def rounds_frame(study: Study) -> Frame:
    """Every round of every search, whatever figure shows it, as `study_frame` has them."""
    import pandas as pd

    return pd.DataFrame(list(_rounds(study.experiments)))


def findings_frame(study: Study) -> Frame:
    """The paper's statements: `figure`, `claim`, `holds` (empty where the numbers do not decide it), `numbers`."""
    import pandas as pd

    return pd.DataFrame([asdict(finding) for finding in study.findings])


def _rounds(outcomes: Iterable[ExperimentOutcome]) -> Iterator[dict[str, object]]:
    for outcome in outcomes:
        for case_outcome in outcome.cases:
            for trial in case_outcome.trials:
                columns = zip(trial.best_rps, trial.generation_cpu_s, trial.evaluation_cpu_s, strict=True)
                for iteration, (best, generation, evaluation) in enumerate(columns):
                    yield {
                        "experiment": outcome.experiment.name,
                        "value": case_outcome.case.value,
                        "seed": trial.seed,
                        "iteration": iteration,
                        "best_rps": best,
                        "generation_cpu_s": generation,
                        "evaluation_cpu_s": evaluation,
                        "optimum_rps": case_outcome.optimum.rate_rps if case_outcome.optimum else None,
                    }


def _levels(study: Study) -> Iterator[dict[str, object]]:
    for outcome in study.experiment(TABLE).cases:
        published = outcome.case.published
        yield {
            "fleet": outcome.case.label.split(", ")[0],
            **{f"gpus_{gpu}": dict(outcome.case.setup.gpus).get(gpu, 0) for gpu in _types(study)},
            "workload": outcome.case.setup.workload,
            "trials": len(outcome.trials),
            "mean_rps": outcome.final.mean,
            "standard_deviation_rps": outcome.final.deviation,
            "lowest_rps": outcome.final.low,
            "highest_rps": outcome.final.high,
            "deviation_of_best_rps": outcome.best.deviation_rps,
            "optimum_rps": outcome.optimum.rate_rps if outcome.optimum else None,
            "optimum_bound_rps": outcome.optimum.bound_rps if outcome.optimum else None,
            "paper_mean_rps": published.rate_rps if published else None,
            "paper_spread_rps": published.rate_spread_rps if published else None,
            "paper_deviation_rps": published.deviation_rps if published else None,
            "paper_deviation_spread_rps": published.deviation_spread_rps if published else None,
            "best_layout": outcome.best.layout,
        }


def _types(study: Study) -> list[str]:
    cases: tuple[CaseOutcome, ...] = study.experiment(TABLE).cases
    return list(dict.fromkeys(gpu for outcome in cases for gpu, _ in outcome.case.setup.gpus))


def _divisions(study: Study) -> Iterator[dict[str, object]]:
    for division in study.divisions:
        for index, size in enumerate(division.sizes, start=1):
            yield {
                "gpus": division.gpus,
                "least_island_size": division.least,
                "skew": division.skew,
                "island": index,
                "island_gpus": size,
            }


def _benchmarks(study: Study) -> Iterator[dict[str, object]]:
    for outcome in study.islands:
        for row in outcome.benchmarks:
            for (start, end, _), rate in zip(outcome.ranges, row.rates_rps, strict=True):
                yield {
                    "case": outcome.case.label,
                    "phase": row.phase.value,
                    "gpu": row.island.gpu,
                    "size": row.island.size,
                    "islands": row.count,
                    "range_start": start,
                    "range_end": end,
                    "rate_rps_of_each": rate,
                }


def _tokens(study: Study) -> Iterator[dict[str, object]]:
    for counts in study.tokens:
        for start, share in zip(counts.starts, counts.shares, strict=True):
            yield {
                "trace": counts.trace,
                "tokens": counts.side,
                "bin_start": start,
                "bin_end": start + counts.width,
                "share_of_requests": share,
            }


def _shares(study: Study) -> Iterator[dict[str, object]]:
    for outcome in study.islands:
        for shares in outcome.shares:
            for (start, end, p), share, rate in zip(outcome.ranges, shares.time_shares, shares.rates_rps, strict=True):
                yield {
                    "case": outcome.case.label,
                    "phase": shares.phase.value,
                    "gpu": shares.island.gpu,
                    "size": shares.island.size,
                    "islands": shares.count,
                    "range_start": start,
                    "range_end": end,
                    "probability": p,
                    "share_of_time_of_each": share,
                    "rate_rps": rate,
                }


def _lengths(study: Study) -> Iterator[dict[str, object]]:
    for outcome in study.islands:
        rate_rps = outcome.rate_rps
        for curve in outcome.curves:
            columns = zip(outcome.lengths, outcome.probabilities, curve.evaluated_rps, curve.model_rps, strict=True)
            for length, q, evaluated, model in columns:
                yield {
                    "case": outcome.case.label,
                    "phase": curve.phase.value,
                    "input_tokens": length,
                    "trace_rps": q * rate_rps,
                    "evaluated_rps": evaluated,
                    "model_rps": model,
                }
