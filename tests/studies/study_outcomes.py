"""Studies whose numbers are made up, so that means, spreads and verdicts can be told by hand."""

from collections.abc import Mapping, Sequence

from planner.domain import CostMode
from planner.studies.chapter5.experiments import Request, experiments
from planner.studies.chapter5.findings import findings
from planner.studies.chapter5.records import CaseOutcome, Experiment, ExperimentOutcome, Optimum, Study, TrialOutcome

Rates = Mapping[float, Sequence[Sequence[float]]]
"""Value -> per trial the best rate after each round."""


def experiment(name: str, request: Request | None = None) -> Experiment:
    """One of the paper's experiments."""
    return next(one for one in experiments(request or Request()) if one.name == name)


def outcome(
    name: str,
    rates: Rates,
    *,
    cpu_s: Mapping[float, float] | None = None,
    optimum: float | Mapping[float, float] = 1000.0,
) -> ExperimentOutcome:
    """An experiment that found `rates`, each round of each value taking `cpu_s`, a quarter of it for judging."""
    asked = experiment(name)
    return ExperimentOutcome(
        experiment=asked,
        cases=tuple(
            CaseOutcome(
                case=case,
                trials=tuple(_trial(seed, row, (cpu_s or {}).get(case.value, 1.0)) for seed, row in enumerate(rows)),
                optimum=_optimum(optimum if isinstance(optimum, float) else optimum[case.value]),
            )
            for case in asked.cases
            if (rows := rates.get(case.value))
        ),
    )


def _trial(seed: int, row: Sequence[float], cpu_s: float) -> TrialOutcome:
    return TrialOutcome(
        seed=seed,
        best_rps=tuple(row),
        generation_cpu_s=(0.75 * cpu_s,) * len(row),
        evaluation_cpu_s=(0.25 * cpu_s,) * len(row),
        deviation_rps=3.0,
        layout="H200 2x64",
    )


def study(figures: Sequence[str], *outcomes: ExperimentOutcome) -> Study:
    """These outcomes as a study of `figures`."""
    return Study(
        name="chapter5",
        mode=CostMode.REFERENCE,
        seed=0,
        small=False,
        figures=tuple(figures),
        experiments=outcomes,
        islands=(),
        findings=findings(figures, outcomes, ()),
    )


def _optimum(rate_rps: float) -> Optimum:
    return Optimum(rate_rps=rate_rps, bound_rps=rate_rps, proven=True, layout="H200 2x64")
