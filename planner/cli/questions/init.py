"""`planner init`: a commented scenario, from flags or from answers."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from planner.cli import screen
from planner.cli.questions import options
from planner.cli.questions.services import Services, begin_fleet
from planner.errors import InputError, PlannerError
from planner.files.scenario.offers import inventory_of, positive, prices_of

if TYPE_CHECKING:
    from planner.runs.questions import Draft

_Read = TypeVar("_Read")
DEFAULT = Path("scenario.yaml")


def command(
    file: Annotated[Path, typer.Argument(help="The scenario file to write.")] = DEFAULT,
    model: Annotated[str | None, typer.Option(help="A shipped name or a config.json.", show_default=False)] = None,
    workload: Annotated[
        str | None, typer.Option(help="A shipped name, a workload file or a trace.", show_default=False)
    ] = None,
    inventory: Annotated[str | None, typer.Option(help="GPUs, as H100=40,A100=24.", show_default=False)] = None,
    prices: options.Prices = None,
    ttft: options.Ttft = None,
    tpot: options.Tpot = None,
    percentile: options.Percentile = 99.0,
    rps: Annotated[float | None, typer.Option(help="Requests/s that are expected.", show_default=False)] = None,
    usd: Annotated[
        float | None, typer.Option(help="Budget, USD/hour: the inventory is then an offer.", show_default=False)
    ] = None,
    survive: options.Survive = 0,
    share: options.Share = None,
    engine: options.Engine = None,
    serving: options.Serving = None,
    services: Annotated[bool, typer.Option("--services", help="Of several services, each a --service.")] = False,
    service: Services = None,
    name: Annotated[str, typer.Option(help="Of the plan. [default: the file's]", show_default=False)] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
) -> None:
    """Write a commented scenario to begin with; on a terminal what no flag says is asked for."""
    from planner import files

    for flag, value in (("--rps", rps), ("--usd", usd)):
        if value is not None:
            positive(flag, value)
    files.refuse_existing(file, force=force)
    typed = _Answers(
        model=model, workload=workload, inventory=inventory, prices=prices, ttft=ttft, tpot=tpot, rps=rps,
    )  # fmt: skip
    if services or service:
        demand_flags = options.Typed(
            model=model or "", workload=workload or "", ttft=ttft, tpot=tpot, percentile=percentile, survive=survive,
            share=share, engine=engine, serving=serving, name=name or file.stem,
        )  # fmt: skip
        begin_fleet(
            file, service or [], demand_flags, inventory, prices, unfit={"--rps": rps, "--usd": usd}, force=force
        )
        return
    if typed.missing():
        if not sys.stdin.isatty():
            raise InputError(
                f"init: {', '.join(typed.missing())} must be given where nobody can be asked.",
                hint="For example: planner init scenario.yaml --model deepseek-v3 --workload azure-code-2023 "
                "--inventory H200=64,H20=128 --ttft 4s --tpot 60ms",
            )
        typed.ask()
    demand_flags = options.Typed(
        model="", workload="", ttft=None, tpot=None, percentile=percentile, survive=survive, share=share,
        engine=engine, serving=serving, name=name or file.stem,
    )  # fmt: skip
    draft = _checked(typed, demand_flags, usd or 0.0, file.parent)
    _write(draft, file, force=force)


class _Answers:
    """What flags say, and what was answered."""

    def __init__(
        self,
        *,
        model: str | None,
        workload: str | None,
        inventory: str | None,
        prices: str | None,
        ttft: str | None,
        tpot: str | None,
        rps: float | None,
    ) -> None:
        self.model, self.workload, self.inventory = model, workload, inventory
        self.prices, self.ttft, self.tpot, self.rps = prices, ttft, tpot, rps
        self.answered = False

    def missing(self) -> list[str]:
        """Flags without which there is no scenario."""
        flags = {"--model": self.model, "--workload": self.workload, "--inventory": self.inventory}
        return [flag for flag, value in flags.items() if value is None]

    def ask(self) -> None:
        """Ask for what no flag says; each question comes again until its answer will do."""
        from planner import files

        self.answered = True
        if self.model is None:
            self.model = _answer_to("Model (planner models lists names; or a config.json)", "deepseek-v3", _model)
        if self.inventory is None:
            self.inventory = _answer_to("GPUs (planner gpus lists types)", "H200=64,H20=128", _inventory)
        if self.workload is None:
            names = ", ".join(files.shipped_workloads())
            self.workload = _answer_to(f"Workload ({names}; or a file or trace)", "azure-code-2023", _workload)
        if self.ttft is None and self.tpot is None:
            self._ask_levels()
        if self.prices is None:
            self.prices = (
                _answer_to("Prices, USD per GPU and hour, as H200=4 (Enter: list prices)", "", _prices) or None
            )
        if self.rps is None:
            self.rps = (
                float(_answer_to("Requests/s that are expected (Enter: the trace's own)", "", _rate) or 0) or None
            )

    def ask_again(self) -> None:
        """For what does not fit together: the fleet and the levels."""
        self.inventory = _answer_to("GPUs", self.inventory or "", _inventory)
        self._ask_levels()

    def _ask_levels(self) -> None:
        self.ttft = _answer_to("Bound on the time to the first token (Enter: none)", "", _time("--ttft")) or None
        self.tpot = _answer_to("Bound on the time for each further token (Enter: none)", "", _time("--tpot")) or None

    def draft(self, demand_flags: options.Typed, usd: float) -> "Draft":
        """The scenario of the answers."""
        from planner.runs.questions import Draft

        return Draft(
            name=demand_flags.name,
            model=self.model or "",
            workload=self.workload or "",
            inventory=inventory_of("--inventory", self.inventory or ""),
            prices={} if self.prices is None else prices_of("--prices", self.prices),
            slo=options.levels_of(self.ttft, self.tpot, demand_flags.percentile),
            demand_rps=self.rps or 0.0,
            budget_usd_per_hour=usd,
            sections=demand_flags.sections(),
        )


def _checked(answers: _Answers, demand_flags: options.Typed, usd: float, folder: Path) -> "Draft":
    """A draft that `planner check` takes; on a terminal the fleet and the levels are asked for until it does."""
    from planner import files, pipeline
    from planner.workload import summarize

    while True:
        try:
            draft = answers.draft(demand_flags, usd)
            document = draft.document(folder)
            pipeline.check(files.scenario_from_document(document, origin="init", base=folder, summarize=summarize))
        except PlannerError as error:
            if not answers.answered:
                raise
            screen.show_error(error)
            answers.ask_again()
        else:
            return draft


def _write(draft: "Draft", file: Path, *, force: bool) -> None:
    import shlex

    from planner import files
    from planner.runs.questions import draft_text

    files.write_file(file, draft_text(draft, file.parent).encode(), force=force)
    path = shlex.quote(str(file))
    screen.show_text(f"Written to {file}. What to do next:\n  planner check {path}\n  planner plan {path}")


def _answer_to(question: str, default: str, read: Callable[[str], object]) -> str:
    """An answer that can be read; Enter takes the default."""
    while True:
        answer: str = typer.prompt(question, default=default, show_default=bool(default)).strip()
        if not answer and not default:
            return ""
        try:
            read(answer)
        except PlannerError as error:
            screen.show_error(error)
        else:
            return answer


def _model(answer: str) -> object:
    from planner import files

    return files.load_model(answer)


def _workload(answer: str) -> object:
    from planner import files

    return files.load_workload(answer)


def _inventory(answer: str) -> object:
    return inventory_of("GPUs", answer)


def _prices(answer: str) -> object:
    return prices_of("prices", answer)


def _time(flag: str) -> Callable[[str], object]:
    from planner.files.scenario.offers import duration_ms

    return lambda answer: duration_ms(flag, answer)


def _rate(answer: str) -> object:
    try:
        return positive("requests/s", float(answer))
    except ValueError:
        raise InputError(
            f"requests/s: must be a number above 0, got {answer!r}.", hint="Write a number such as 50."
        ) from None
