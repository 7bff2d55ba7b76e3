"""What `planner --help` says of each command, by panel; a test holds that it is the first line of its help.

A command that stands in no panel is listed last, its help read from the command itself; a name that is no command is
passed over. Guests say the same of theirs.
"""

from planner.guests import guests

HELP = "Plan the serving of large language models on mixed GPU fleets."
FIRST_STEPS = (
    ("planner doctor", "does everything work here?"),
    ("planner plan quickstart", "plan a scenario, here one that is shipped"),
    ("planner report runs/quickstart", "look at the plan again"),
)
"""What a newcomer types first, and what it does."""

PANELS = {
    "Ask in one line": {
        "cheapest": "What does this rate cost? The cheapest fleet that promises it within the levels, proven.",
        "buy": "What does this money buy? The fleet that serves most requests/s for at most so much rent, proven.",
        "max": "What can these GPUs do? The most requests/s that they promise within the levels, proven.",
        "init": "Write a commented scenario to begin with; on a terminal what no flag says is asked for.",
    },
    "Plan": {
        "plan": "Plan one or several scenarios, a run folder each; or resume an interrupted search.",
        "check": "Read a scenario, resolve every name, and check that the model fits, without searching.",
        "replan": "Change a deployed plan as little as new load, GPUs or levels need, in steps that keep it serving.",
        "place": "Put the islands of a plan on nodes; its rates are then those of where they lie.",
        "replay": "Send requests through a plan one by one: TTFT, TPOT, goodput, and whether the promise holds.",
        "schedule": (
            "Plan for a day or a week of changing load: which plan stands when, its cost, and the bound of the day."
        ),
        "watch": "Follow load, prices, inventory and lost GPUs: re-plan where it is needed or pays, and never flap.",
        "report": (
            "Print the summary of a run, and write its page, report.html; with --out, write both and the figures anew."
        ),
    },
    "Compare": {
        "verify": (
            "Compute a run anew from its question: list every figure, line and file that differs from what is written."
        ),
        "explain": (
            "Say why a plan, or one of its pools, is what it is: rivals, limits, what binds, and what would change it."
        ),
        "doubt": (
            "What is a plan worth under doubt? How sure each rate is, the odds of the promise, what knowing would "
            "bring."
        ),
        "compare": "Hold runs beside each other: rates, prices, gaps, levels, pools, and what was asked of each.",
        "sweep": "Plan a scenario at every combination of values of its keys; one table and one page of all.",
        "batch": (
            "Plan many scenarios, each once: jobs of a file with grids, or every scenario of a folder; a table of all."
        ),
        "batch-manifests": (
            "Write Kubernetes manifests of a batch: an indexed Job, or a Dask cluster with its client; plain objects."
        ),
        "frontier": (
            "The best fleet for each of several budgets: rate against price, and the mix of GPUs at each point."
        ),
        "serving": (
            "From which bound on TPOT splitting prefill from decode pays: the best rate of each form of serving."
        ),
        "diff": (
            "Show what two runs serve, cost and promise, old against new, which is likely faster; then which islands "
            "start, stop, restart or stay, how many GPUs that takes, which requests move, and what changes of buckets "
            "and P99."
        ),
    },
    "Deploy": {
        "export": "Write deployment manifests for a plan; their GPUs sum to the plan's or nothing is written.",
        "tune": (
            "Turn the knobs of a plan's servers by replays: flags and weights, and what they gain on requests not seen."
        ),
        "routers": "Replay a plan's promise under every router: which can execute it, and what each gives up.",
        "rehearse": "Try a plan's routing on this machine: real routers before engines simulated at its step times.",
        "prove": "Load what serves a plan with its own mix, within bounds: which levels hold, and what to calibrate.",
        "import": "Show what a run or a folder of manifests deploys: islands, degrees, GPUs, routes.",
        "advise": (
            "Find engines that run without a plan: what they serve, waste and break, and the first three changes in "
            "USD."
        ),
        "observe": "Compare a running deployment's metrics with its plan, and fit a calibration to what they tell.",
    },
    "Look": {
        "doctor": (
            "Check the installation: Python, packages, shipped data, the solver, figures; a tiny plan in seconds."
        ),
        "mcp": "Serve cheapest, buy, max, plan, explain, compare, replay and model show to assistants, as MCP tools.",
        "scenarios": "List the shipped scenarios: wherever a scenario is named, such a name will do.",
        "gpus": "List GPU types, or show one.",
        "models": (
            "List the shipped models; a scenario may name one by its id on Hugging Face, too, or any config.json."
        ),
        "model": "One model: what it is made of, what it needs.",
        "engines": (
            "List the engine versions that a plan may be made for (`engine:` of a scenario), or tell what one accepts."
        ),
        "workloads": "List the shipped workloads; a scenario may also name a workload file or a trace CSV.",
        "workload": "Workloads from traces and from what engines tell.",
        "cost": "The cost model: explained, judged, calibrated.",
        "docs": "Write the reference of all commands and keys, and the guides; index.html is the first page.",
    },
    "Clusters": {
        "cluster": "Clusters: import, make up, show, diagnose.",
        "defrag": (
            "Plan moves that vacate nodes: ordered, make-before-break, replayed on the cluster before they are written."
        ),
    },
}
"""Panel -> command -> the first line of its help."""


def short_help(command: str) -> tuple[str, str] | None:
    """The panel of a command and the first line of its help; None where it stands in none."""
    for panel, helps in PANELS.items():
        if command in helps:
            return panel, helps[command]
    for guest in guests():
        if command in guest.commands:
            return guest.panel, guest.commands[command].help
    return None


def help_text() -> str:
    """The program's help: what it is for, and what to type first."""
    width = max(len(words) for words, _ in FIRST_STEPS)
    steps = "\n".join(f"  {words:{width}}  {meaning}" for words, meaning in FIRST_STEPS)
    return f"{HELP}\n\nBegin with\n\n{steps}"
