"""The chapter's statements held against raw results: searches from their rounds, islands from the study's findings."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise

from planner.studies.chapter5.experiments import SIZES, paper
from planner.studies.chapter5.findings import findings
from planner.studies.chapter5.records import CaseOutcome, Experiment, ExperimentOutcome, Optimum, TrialOutcome
from planner.studies.chapter5.table_claims import table_claims
from planner.studies.papers.records import Claim, Results, Run, Verdict

DIRECT = "direct"
SEARCHES = ("inventories", "divider", DIRECT)
"""Raw tables: the searches of table 5.1, of figures 5.5 to 5.8, and of 5.9 to 5.12."""
ISLANDS = "islands"
"""What the study itself finds of figures 5.1 to 5.4, whose problems are solved, not searched."""

STEPS = ", ".join(f"{later[0] / earlier[0]:.2f}" for earlier, later in pairwise(SIZES.values()))
EXPLAINED: Mapping[str, str] = {
    "5.8": f"Nor does it in the thesis's own runs, where each doubling leaves {STEPS} of it."
}
"""By figure, why a statement holds neither here nor there."""
REASONS: Mapping[str, str] = {
    "5.4": "Islands of (b) come in four sizes, which is enough for the phases to align here.",
    "5.7": "Within what two short searches differ by.",
}
"""By figure, what is known of why a statement does not hold here; none of it is proven, so they stay open."""


def claims(results: Results) -> Iterator[Claim]:
    """Table 5.1, then the statements of sections 5.1 to 5.4, in order of their figures."""
    yield from table_claims(results)
    for row in results.table(ISLANDS):
        holds = row["holds"] == "True"
        yield _claim(row["figure"], row["claim"], holds, row["numbers"], results.run(ISLANDS), "in words")
    tables = {name: outcomes_of(results.table(name)) for name in SEARCHES}
    every = [outcome for outcomes in tables.values() for outcome in outcomes]
    for name, outcomes in tables.items():
        figures = [figure for outcome in outcomes for figure in outcome.experiment.figures]
        for finding in findings(figures, every, ()):
            claim = _claim(
                finding.figure, finding.claim, finding.holds, finding.numbers, results.run(name),
                reached(finding.figure),
            )  # fmt: skip
            yield _doubted(claim, next(each for each in outcomes if finding.figure in each.experiment.figures))
    yield _direct_rate(every, results.run(DIRECT))


def _doubted(claim: Claim, outcome: ExperimentOutcome) -> Claim:
    """The claim, no more than close where fewer searches ran than the thesis has, or shorter ones."""
    case = outcome.cases[0]
    full = next(each for each in paper() if each.name == outcome.experiment.name)
    done = (len(case.trials), len(case.trials[0].best_rps))
    planned = (full.trials, full.cases[0].search.iterations)
    if done == planned:
        return claim
    words = f"From {done[0]} searches of {done[1]} rounds a case; the thesis has {planned[0]} of {planned[1]}."
    verdict = Verdict.CLOSE if claim.verdict is Verdict.HOLDS else claim.verdict
    return replace(claim, verdict=verdict, reason=f"{claim.reason} {words}".strip())


def _direct_rate(outcomes: Sequence[ExperimentOutcome], run: Run) -> Claim:
    rate_rps = max(outcome.highest_rps for outcome in outcomes if outcome.experiment.name.startswith(DIRECT))
    return Claim(
        place="section 5.4.1",
        words="The direct encoding reaches 300 requests/s at most.",
        published="300 requests/s",
        ours=f"{rate_rps:.0f} requests/s",
        verdict=Verdict.OPEN,
        run=run,
        reason="Its direct runs are of an older state of its code, whose reading is not published.",
    )


def reached(figure: str) -> str:
    """What the thesis's runs of a figure ended with, by value swept (requests/s)."""
    levels = [
        f"{experiment.name}: "
        + ", ".join(
            f"{case.label}: {case.published.rate_rps:g} ± {case.published.rate_spread_rps:g}"
            for case in experiment.cases
            if case.published
        )
        for experiment in paper()
        if figure in experiment.figures
    ]
    return "; ".join(levels)


def _claim(figure: str, words: str, holds: bool | None, numbers: str, run: Run, published: str) -> Claim:
    otherwise = Verdict.EXPLAINED if figure in EXPLAINED else Verdict.OPEN
    return Claim(
        place=f"table {figure.removeprefix('table')}" if figure.startswith("table") else f"figure {figure}",
        words=words,
        published=published,
        ours=numbers,
        verdict=Verdict.HOLDS if holds else otherwise,
        run=run,
        reason="" if holds else EXPLAINED.get(figure) or REASONS.get(figure, "Not known."),
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
