"""What the manual has beside the commands: files, exit statuses, the environment, examples."""

from dataclasses import dataclass


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
