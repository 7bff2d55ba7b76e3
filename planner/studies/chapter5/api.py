"""The evaluation of Rignall 2025, chapter 5, on this model."""

from collections.abc import Sequence
from functools import partial

from planner.studies.front import StudyAtHand


def chapter5_study(
    *,
    figures: Sequence[str] = ("5.2", "5.3", "5.4"),
    trials: int = 1,
    iterations: int = 2,
    batch_size: int = 4,
    seed: int = 0,
    physical: bool = False,
) -> StudyAtHand:
    """`figures` of the chapter; 5.2 to 5.4 take a second or two, those of searches longer. `trials`, `iterations`
    (rounds of a search) and `batch_size` (layouts a round) count for searches. `physical`: our own cost model, where
    the paper's is repeated otherwise."""
    from planner.domain import CostMode
    from planner.studies.chapter5.experiments import Request
    from planner.studies.chapter5.report.frames import TABLE, study_frame
    from planner.studies.chapter5.report.page import VERDICTS, study_page
    from planner.studies.chapter5.report.plots import study_figure
    from planner.studies.chapter5.study import run, scenario_reader

    mode = CostMode.DEFAULT if physical else CostMode.REFERENCE
    request = Request(
        figures=tuple(figures), trials=trials, iterations=iterations, batch_size=batch_size, seed=seed, mode=mode,
        small=True,
    )  # fmt: skip
    outcome = run(request, scenario_reader(mode))
    findings = [
        {
            "figure": finding.figure,
            "claim": finding.claim,
            "verdict": VERDICTS[finding.holds],
            "numbers": finding.numbers,
        }
        for finding in outcome.findings
    ]
    study = StudyAtHand(
        "chapter5",
        findings,
        records={"study": outcome},
        draw={name: partial(study_figure, outcome, name) for name in outcome.figures if name != TABLE},
        summary=partial(study_page, outcome),
    )
    study.tables = {name: study_frame(outcome, name) for name in outcome.figures}
    return study
