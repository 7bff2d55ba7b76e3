"""A study in Markdown: what the paper says, what came out here, and with which settings."""

from collections.abc import Iterator

from planner.domain import PHASES, Candidates, CostMode, Encoding
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
        *_tokens(study),
        *(part for outcome in study.experiments for part in _experiment(study, outcome)),
        *_figures(study),
    ]
    return "\n\n".join(parts) + "\n"


def _how(study: Study) -> str:
    form = " This is the small form: fewer trials, rounds and values than the paper's." if study.small else ""
    searches = [case.search for outcome in study.experiments for case in outcome.experiment.cases]
    if any(search.candidates is Candidates.NEIGHBOURS for search in searches):
        form += " Searches seek layouts near good ones, as the planner does; the paper's where acquisition is highest."
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
        [_name(finding.figure), escaped(finding.claim), f"**{VERDICTS[finding.holds]}**", escaped(finding.numbers)]
        for finding in study.findings
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
            escaped(outcome.case.label.split(", ")[0]),
            ", ".join(f"{count} {escaped(gpu)}" for gpu, count in outcome.case.setup.gpus),
            escaped(outcome.case.setup.workload),
            _around(outcome.final),
            f"{rate(outcome.final.low)}–{rate(outcome.final.high)}",
            NONE if outcome.best.deviation_rps is None else significant(outcome.best.deviation_rps),
            _optimum(outcome.optimum),
            *_published(outcome),
        ]
        for outcome in study.experiment(TABLE).cases
    ]
    return ["## Table 5.1: fleets of one price (requests/s)", table(header, rows, "lllrrrrrr")]


def _published(outcome: CaseOutcome) -> list[str]:
    level = outcome.case.published
    if level is None:
        return [NONE, NONE]
    deviation = NONE if level.deviation_rps is None else f"{level.deviation_rps:g} ± {level.deviation_spread_rps:g}"
    return [f"{level.rate_rps:g} ± {level.rate_spread_rps:g}", deviation]


def _around(spread: Spread) -> str:
    if spread.deviation is None:
        return rate(spread.mean)
    return f"{rate(spread.mean)} ± {significant(spread.deviation, 2)}"


def _optimum(optimum: Optimum | None) -> str:
    if optimum is None:
        return "not found in time"
    return rate(optimum.rate_rps) if optimum.proven else f"{rate(optimum.rate_rps)}, at most {rate(optimum.bound_rps)}"


def _islands(study: Study) -> list[str]:
    header = ["Case", "Islands", "Prefill", "Decode", "Deviation", "Whole mix at best"]
    rows = [
        [
            outcome.case.label,
            escaped(outcome.case.layout.label),
            *(rate(outcome.phase_rps(phase)) for phase in PHASES),
            significant(outcome.deviation_rps) if outcome.deviation_rps > 1e-6 else "0",
            rate(outcome.mix_rps),
        ]
        for outcome in study.islands
    ]
    note = (
        "Islands of table 5.2, assigned by the paper's formulation: throughput less weighted deviation. The last "
        "column is what the planner's own formulation serves of the whole mix on the same islands."
    )
    return ["## Given islands (requests/s)", note, table(header, rows, "llrrrr")]


def _tokens(study: Study) -> list[str]:
    if not study.tokens:
        return []
    rows = [
        [escaped(row.trace), row.side, f"{row.mean:,.1f}", f"{row.starts[-1] + row.width:,}"] for row in study.tokens
    ]
    sides = {row.side for row in study.tokens}
    note = "" if len(sides) > 1 else "Workloads keep means alone of their answers: `--trace` shows a trace's own."
    header = ["Trace", "Tokens", "Mean", "All below"]
    return ["## Tokens of the requests", *filter(None, [note]), table(header, rows, "llrr")]


def _experiment(study: Study, outcome: ExperimentOutcome) -> Iterator[str]:
    experiment = outcome.experiment
    if TABLE in experiment.figures:
        return
    shown = [figure for figure in experiment.figures if figure in study.figures]
    yield f"## {_plural(shown)}: {experiment.name} (requests/s)"
    yield _settings(outcome)
    header = [escaped(experiment.parameter), "Ours", "Min–max", "Exact optimum", "Paper", "CPU-seconds a trial"]
    yield table(header, [_row(case_outcome) for case_outcome in outcome.cases], "rrrrrr")


def _plural(figures: list[str]) -> str:
    return f"Figure {figures[0]}" if len(figures) == 1 else f"Figures {' and '.join(figures)}"


def _row(outcome: CaseOutcome) -> list[str]:
    return [
        outcome.case.label,
        _around(outcome.final),
        f"{rate(outcome.final.low)}–{rate(outcome.final.high)}",
        _optimum(outcome.optimum),
        _published(outcome)[0],
        significant(outcome.cpu_s.mean),
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
    settings = ", ".join(
        f"{name} {value}" for name, value in fixed.items() if not experiment.parameter.startswith(name)
    )
    fleet = ", ".join(f"{count} {escaped(gpu)}" for gpu, count in gpus)
    return (
        f"{fleet}; {escaped(experiment.cases[0].setup.workload)}; {counted(experiment.trials, 'trial')}, "
        f"{counted(search.iterations, 'iteration')}, {settings}."
    )


def _figures(study: Study) -> list[str]:
    figures = [figure for figure in study.figures if figure != TABLE]
    if not figures:
        return []
    links = [f"[{_name(figure)}](figure_{figure.replace('.', '_')}.png)" for figure in figures]
    return ["## Figures", bullets(links)]
