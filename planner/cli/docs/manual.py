"""The manual page (`man -l planner.1`): commands, and what it has beside them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import typer

from planner.cli.program.listing import HELP
from planner.plans.provenance import planner_version


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part: paragraphs (Markdown), then terms with their meanings, then lines that are typed. `below`: a part of the
    one before."""

    title: str
    text: tuple[str, ...] = ()
    terms: tuple[tuple[str, str], ...] = ()
    typed: tuple[str, ...] = ()
    below: bool = False


ABOUT = (
    "Plans which GPUs serve which requests: a scenario (a fleet, a model, a workload) goes in, and out comes a plan: "
    "pools of servers, their parallel degrees, who serves prompts of which length, what rate and latency that gives, "
    "what it costs, and how far from the best it can be at most. Plans are placed on clusters, replayed, compared, and "
    "written as manifests.",
    "Names of GPU types, models and workloads mean the same in any case and with any separators: `h100`, "
    "`DeepSeek V3`.",
    "Results go to standard output, progress, warnings and errors to standard error. A terminal gets tables that fit "
    "its width and laid-out text; a pipe gets all columns and Markdown as it is; `--json` prints one JSON document. "
    "Errors are text in either case.",
)
EXIT_STATUSES = (
    ("0", "Done."),
    (
        "1",
        "Anything else than what follows: a defect, or something that `planner doctor` sees broken.",
    ),
    ("2", "Bad input: a file, a key, a value, an option. All mistakes of a file are told at once, with their lines."),
    ("3", "Infeasible: the question is well put and has no answer; the closest that has one is named."),
    ("130", "Interrupted (Ctrl-C); what the search had is kept, and the way on is told."),
    ("143", "Terminated (SIGTERM), as above."),
)
ENVIRONMENT = (
    ("NO_COLOR", "Where it is set and not empty, nothing is coloured."),
    ("FORCE_COLOR", "Where it is set and not empty, errors and help are coloured in a pipe too."),
    ("TERM", "Where it is `dumb`, nothing is coloured and no bar is drawn."),
    ("COLUMNS", "Width of the terminal, instead of what the terminal says."),
    ("PLANNER_DEBUG", "Where it is set, a defect of the planner is told with where it arose."),
    (
        "OMP_NUM_THREADS, OPENBLAS_NUM_THREADS, MKL_NUM_THREADS",
        "Threads of the numeric libraries; 1 unless set, as matrices are small.",
    ),
    ("TMPDIR", "Where temporary files are."),
    ("_PLANNER_COMPLETE", "`source_bash`, `source_zsh` or `source_fish`: print the completion of that shell."),
)
FILES = (
    ("SCENARIO.yaml", "The question; every key stands in the page of keys (`planner docs`)."),
    ("CLUSTER.yaml", "Nodes, GPUs, pods and switches, as `planner cluster import` writes them."),
    ("TRACE.csv, TRACE.jsonl", "Requests: when they came, tokens in, tokens out."),
    ("NAME.calibration.yaml", "Factors fitted to measurements (`planner cost calibrate`)."),
    ("runs/NAME/", "A run folder: what `planner plan` writes, and `planner report`, `export` and others read."),
    ("runs/NAME/plan.json", "The plan, with all that it was made from."),
    ("runs/NAME/summary.md", "The same for people; figures and manifests lie beside it."),
)
EXAMPLES = (
    "planner doctor",
    "planner check SCENARIO.yaml",
    "planner plan SCENARIO.yaml --out runs/mine",
    "planner report runs/mine",
    "planner replay runs/mine --rate promise",
    "planner export runs/mine --target llm-d --out manifests",
    "planner gpus H200 --json",
    "planner --install-completion",
)

_MARKS = re.compile(r"`(?P<code>[^`]+)`|\*\*(?P<strong>[^*]+)\*\*|\[(?P<words>[^\]]+)\]\([^)]*\)")


def manual_parts(program: typer.Context) -> tuple[Part, ...]:
    """All parts in order; the commands from the program itself."""
    return (
        Part(title="Description", text=ABOUT),
        Part(title="Commands"),
        *_commands(program),
        Part(title="Files", terms=FILES),
        Part(title="Exit status", terms=EXIT_STATUSES),
        Part(title="Environment", terms=ENVIRONMENT),
        Part(title="Examples", typed=EXAMPLES),
    )


def _commands(context: typer.Context) -> Iterator[Part]:
    """A part for each command, those of groups among them."""
    yield _command(context)
    for name, command in getattr(context.command, "commands", {}).items():
        yield from _commands(typer.Context(command, info_name=name, parent=context))


def _command(context: typer.Context) -> Part:
    records = [parameter.get_help_record(context) for parameter in context.command.params]
    usage = " ".join(context.command.get_usage(context).removeprefix("Usage: ").split())
    text = (context.command.help or "").split("\n\nBegin with")[0]
    paragraphs = tuple(" ".join(part.split()) for part in text.split("\n\n") if part)
    terms = tuple(record for record in records if record)
    return Part(title=context.command_path, text=paragraphs, typed=(usage,), terms=terms, below=True)


def manual_roff(program: typer.Context) -> str:
    """The manual page, section 1."""
    lines = [
        f'.TH PLANNER 1 "" "planner {planner_version()}" "User Commands"',
        ".SH NAME",
        f"planner \\- {_escaped(HELP[0].lower() + HELP[1:].rstrip('.'))}",
        ".SH SYNOPSIS",
        ".B planner",
        "[OPTIONS] COMMAND [ARGUMENTS]",
    ]
    for part in manual_parts(program):
        lines += _roff(part)
    return "\n".join(lines) + "\n"


def _roff(part: Part) -> list[str]:
    heading = f'.SS "{_escaped(part.title)}"' if part.below else f'.SH "{_escaped(part.title.upper())}"'
    lines = [heading]
    for paragraph in part.text:
        lines += [".PP", _styled(paragraph)]
    if part.typed:
        lines += [".PP", ".nf", *(f".RS 4\n\\fB{_escaped(line)}\\fP\n.RE" for line in part.typed), ".fi"]
    for term, meaning in part.terms:
        lines += [".TP", f"\\fB{_escaped(term)}\\fP", _styled(meaning)]
    return lines


def _styled(text: str) -> str:
    """One line, code and strong words bold."""
    line, end = "", 0
    for match in _MARKS.finditer(text):
        inner = match["code"] or match["strong"] or match["words"]
        line += _escaped(text[end : match.start()]) + f"\\fB{_escaped(inner)}\\fP"
        end = match.end()
    line += _escaped(text[end:])
    return _guarded(" ".join(line.split()))


def _escaped(text: str) -> str:
    """For roff: backslashes and hyphens as they are, quotes that end no argument, no line that begins a request."""
    return _guarded(text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq"))


def _guarded(line: str) -> str:
    return f"\\&{line}" if line.startswith((".", "'")) else line
