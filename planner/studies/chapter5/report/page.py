"""A study in Markdown: what the paper says, what came out here, and with which settings."""

from collections.abc import Iterator

from planner.domain import CostMode, Encoding, Phase
from planner.report.kit.markdown import bullets, escaped, table
from planner.report.kit.quantities import NONE, counted, rate, significant
from planner.studies.chapter5.records import CaseOutcome, ExperimentOutcome, Optimum, Spread, Study
from planner.studies.chapter5.report.frames import TABLE

VERDICTS = {True: "holds", False: "does not hold", None: "not decided"}


def study_page(study: Study) -> str:
    """The study as Markdown, ending in a newline."""
    parts = [
        "# Chapter 5 of the paper, on this model",
        _how(study),
        *_reference(study),
        "## What holds",
        *_doubt(study),
        _findings(study),
        *(_table_5_1(study) if TABLE in study.figures else []),
        *(_islands(study) if study.islands else []),
        *(part for outcome in study.experiments for part in _experiment(study, outcome)),
        *_figures(study),
    ]
    return "\n\n".join(parts) + "\n"


def _how(study: Study) -> str:
    form = " This is the small form: fewer trials, rounds and values than the paper's." if study.small else ""
    return (
        f"Rignall 2025, chapter 5, done again with DeepSeek-V3, cost mode `{study.mode.value}`, "
        f"seeds from {study.seed}.{form} Each search maximises the rate of the whole mix; the paper's maximises "
        "throughput less weighted deviation. ± is the standard deviation over the trials of a case. The exact optimum "
        "is the fleet's best layout in whatever encoding, solved for to 1 %. CPU-seconds differ from run to run, all "
        "else follows from settings and seed."
    )


def _reference(study: Study) -> list[str]:
    if study.mode is not CostMode.REFERENCE:
        return []
    return ["> **Warning: reference mode.** The rates follow the published paper and simulator and are not physical."]


def _doubt(study: Study) -> list[str]:
    if not study.small or not study.experiments:
        return []
    return ["With so few trials and rounds, what is said of searches here is mostly chance; the optima are not."]


def _findings(study: Study) -> str:
    rows = [
        [_name(one.figure), escaped(one.claim), f"**{VERDICTS[one.holds]}**", escaped(one.numbers)]
        for one in study.findings
    ]
    return table(["Of", "The paper says", "Here", "Numbers"], rows, "llll")


def _name(figure: str) -> str:
    return f"Table {figure.removeprefix('table')}" if figure == TABLE else f"Figure {figure}"


def _table_5_1(study: Study) -> list[str]:
    header = [
        "Fleet",
        "GPUs",
        "Trace",
        "Ours",
        "Min–max",
        "Deviation of the best",
        "Exact optimum",
        "Paper",
        "Paper's D",
    ]
    rows = [
        [
            escaped(one.case.label.split(", ")[0]),
            ", ".join(f"{count} {escaped(gpu)}" for gpu, count in one.case.setup.gpus),
            escaped(one.case.setup.workload),
            _around(one.final),
            f"{rate(one.final.low)}–{rate(one.final.high)}",
            NONE if one.best.deviation_rps is None else significant(one.best.deviation_rps),
            _optimum(one.optimum),
            *_published(one),
        ]
        for one in study.experiment(TABLE).cases
    ]
    return ["## Table 5.1: fleets of one price (requests/s)", table(header, rows, "lllrrrrrr")]


def _published(one: CaseOutcome) -> list[str]:
    level = one.case.published
    if level is None:
        return [NONE, NONE]
    return [
        f"{level.rate_rps:g} ± {level.rate_spread_rps:g}",
        f"{level.deviation_rps:g} ± {level.deviation_spread_rps:g}",
    ]


def _around(spread: Spread) -> str:
    if spread.deviation is None:
        return rate(spread.mean)
    return f"{rate(spread.mean)} ± {significant(spread.deviation, 2)}"


def _optimum(found: Optimum | None) -> str:
    if found is None:
        return "not found in time"
    return rate(found.rate_rps) if found.proven else f"{rate(found.rate_rps)}, at most {rate(found.bound_rps)}"


def _islands(study: Study) -> list[str]:
    header = ["Case", "Islands", "Prefill", "Decode", "Deviation", "Whole mix at best"]
    rows = [
        [
            one.case.label,
            escaped(one.case.layout.label),
            *(rate(one.phase_rps(phase)) for phase in Phase),
            significant(one.deviation_rps) if one.deviation_rps > 1e-6 else "0",
            rate(one.mix_rps),
        ]
        for one in study.islands
    ]
    told = (
        "Islands of table 5.2, assigned by the paper's formulation: throughput less weighted deviation. The last "
        "column is what the planner's own formulation serves of the whole mix on the same islands."
    )
    return ["## Given islands (requests/s)", told, table(header, rows, "llrrrr")]


def _experiment(study: Study, outcome: ExperimentOutcome) -> Iterator[str]:
    experiment = outcome.experiment
    if TABLE in experiment.figures:
        return
    shown = [figure for figure in experiment.figures if figure in study.figures]
    yield f"## {_plural(shown)}: {experiment.name} (requests/s)"
    yield _settings(outcome)
    header = [escaped(experiment.parameter), "Ours", "Min–max", "Exact optimum", "CPU-seconds a trial"]
    yield table(header, [_row(one) for one in outcome.cases], "rrrrr")


def _plural(figures: list[str]) -> str:
    return f"Figure {figures[0]}" if len(figures) == 1 else f"Figures {' and '.join(figures)}"


def _row(one: CaseOutcome) -> list[str]:
    return [
        one.case.label,
        _around(one.final),
        f"{rate(one.final.low)}–{rate(one.final.high)}",
        _optimum(one.optimum),
        significant(one.cpu_s.mean),
    ]


def _settings(outcome: ExperimentOutcome) -> str:
    """What does not vary within the experiment."""
    experiment = outcome.experiment
    search, gpus = experiment.cases[0].search, experiment.cases[0].setup.gpus
    fixed = {
        "batch size": str(search.batch_size),
        "least island size": str(search.min_island_size),
        "skew range": f"±{search.skew:g}",
        "slots": str(search.slots),
    }
    fixed.pop("slots" if search.encoded is Encoding.DIVIDER else "skew range")
    said = ", ".join(f"{name} {value}" for name, value in fixed.items() if not experiment.parameter.startswith(name))
    fleet = ", ".join(f"{count} {escaped(gpu)}" for gpu, count in gpus)
    ours = " The paper does not print the values swept; these are ours." if experiment.values_are_ours else ""
    return (
        f"{fleet}; {escaped(experiment.cases[0].setup.workload)}; {counted(experiment.trials, 'trial')}, "
        f"{counted(search.iterations, 'iteration')}, {said}.{ours}"
    )


def _figures(study: Study) -> list[str]:
    named = [figure for figure in study.figures if figure != TABLE]
    if not named:
        return []
    links = [f"[{_name(one)}](figure_{one.replace('.', '_')}.png)" for one in named]
    return ["## Figures", bullets(links)]
