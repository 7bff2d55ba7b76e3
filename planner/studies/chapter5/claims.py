"""The chapter's statements held against raw results: searches from their rounds, islands from the study's findings."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from planner.studies.chapter5.experiments import paper
from planner.studies.chapter5.findings import findings
from planner.studies.chapter5.records import CaseOutcome, Experiment, ExperimentOutcome, Optimum, TrialOutcome
from planner.studies.papers.records import Claim, Results, Run, Verdict

SEARCHES = ("inventories", "divider", "direct")
"""Raw tables: the searches of table 5.1, of figures 5.5 to 5.8, and of 5.9 to 5.12."""
ISLANDS = "islands"
"""What the study itself finds of figures 5.1 to 5.4, whose problems are solved, not searched."""

REASONS: Mapping[str, str] = {}
"""By figure, why a statement does not hold here."""


def claims(results: Results) -> Iterator[Claim]:
    """The statements of sections 5.1 to 5.4, in order of their figures."""
    for row in results.table(ISLANDS):
        yield _claim(row["figure"], row["claim"], row["holds"] == "True", row["numbers"], results.run(ISLANDS))
    for name in SEARCHES:
        outcomes = outcomes_of(results.table(name))
        figures = [figure for outcome in outcomes for figure in outcome.experiment.figures]
        for finding in findings(figures, outcomes, ()):
            yield _claim(finding.figure, finding.claim, finding.holds, finding.numbers, results.run(name))


def _claim(figure: str, words: str, holds: bool | None, numbers: str, run: Run) -> Claim:
    reason = "" if holds else REASONS.get(figure, "")
    verdict = Verdict.HOLDS if holds else Verdict.EXPLAINED if reason else Verdict.OPEN
    place = figure if figure.startswith("table") else f"figure {figure}"
    return Claim(
        place=place,
        words=words,
        published="",
        ours=numbers,
        verdict=verdict,
        run=run,
        reason=reason or ("" if holds else "The chapter does not print enough to tell."),
    )


def outcomes_of(rows: Sequence[Mapping[str, str]]) -> tuple[ExperimentOutcome, ...]:
    """Experiments as `rounds.csv` of the study has them, rows of a search together."""
    experiments = {experiment.name: experiment for experiment in paper()}
    return tuple(
        _outcome(experiments[name], list(group)) for name, group in groupby(rows, lambda row: row["experiment"])
    )


def _outcome(experiment: Experiment, rows: Sequence[Mapping[str, str]]) -> ExperimentOutcome:
    values = {case.value: case for case in experiment.cases}
    cases = tuple(
        CaseOutcome(
            case=values[value],
            trials=tuple(_trial(list(trial)) for _, trial in groupby(group, lambda row: row["seed"])),
            optimum=_optimum(group[0]["optimum_rps"]),
        )
        for value, group in ((value, list(rows)) for value, rows in groupby(rows, lambda row: float(row["value"])))
    )
    return ExperimentOutcome(
        experiment=replace(experiment, trials=max(len(case.trials) for case in cases)), cases=cases
    )


def _trial(rounds: Sequence[Mapping[str, str]]) -> TrialOutcome:
    def column(name: str) -> tuple[float, ...]:
        return tuple(float(row[name]) for row in rounds)

    return TrialOutcome(
        seed=int(rounds[0]["seed"]),
        best_rps=column("best_rps"),
        generation_cpu_s=column("generation_cpu_s"),
        evaluation_cpu_s=column("evaluation_cpu_s"),
        deviation_rps=None,
        layout="",
    )


def _optimum(cell: str) -> Optimum | None:
    return Optimum(rate_rps=float(cell), bound_rps=float(cell), proven=True, layout="") if cell else None
