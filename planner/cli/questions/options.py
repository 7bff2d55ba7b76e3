"""Options that the questions share, and what they make of a scenario."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.errors import InputError
from planner.files.scenario.offers import duration_ms, prices_of

if TYPE_CHECKING:
    from planner.domain.frontier import GpuOffer
    from planner.runs.questions import Demand

Model = Annotated[str, typer.Option(help="A shipped name (`planner models`) or a config.json.", show_default=False)]
Workload = Annotated[
    str, typer.Option(help="A shipped name (`planner workloads`), a workload file or a trace.", show_default=False)
]
Ttft = Annotated[str | None, typer.Option(help="Bound on the time to the first token, as 4s.", show_default=False)]
Tpot = Annotated[str | None, typer.Option(help="Bound on the time for each further one, as 60ms.", show_default=False)]
Percentile = Annotated[float, typer.Option(help="Of how many requests the bounds hold.")]
Survive = Annotated[
    int, typer.Option(min=0, max=100, help="Nodes that may be lost, whichever they are, and the promise still holds.")
]
Share = Annotated[
    float | None,
    typer.Option(help="Of the capacity that a loss must leave. [default: what is promised]", show_default=False),
]
Engine = Annotated[
    str | None,
    typer.Option(help="Engine whose rules servers keep: vllm, sglang, trtllm, or vllm:0.33.0.", show_default=False),
]
Serving = Annotated[str | None, typer.Option(help="split, aggregated or auto. [default: auto]", show_default=False)]
OfferFile = Annotated[
    Path | None,
    typer.Option(
        help="GPU types for rent, with prices and counts. [default: all with a list price]", show_default=False
    ),
]
Prices = Annotated[
    str | None, typer.Option(help="USD per GPU and hour: a file, or H100=2.2,A100=1.1.", show_default=False)
]
Sure = Annotated[
    float | None,
    typer.Option(help="Promise what holds with this probability, as 0.8. [default: as predicted]", show_default=False),
]
Name = Annotated[str, typer.Option(help="Of the plan. [default: by the question]", show_default=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where the answer goes."""

    scenario: Annotated[
        Path | None, typer.Option("--scenario", help="Write the scenario here as well.", show_default=False)
    ] = None
    out: Annotated[
        Path | None, typer.Option(help="Write the run folder, as `planner plan` would.", show_default=False)
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Replace a scenario or a run that exists.")] = False
    json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON, and no progress.")] = False
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """What a question's line says of the demand."""

    model: Model = ""
    workload: Workload = ""
    ttft: Ttft = None
    tpot: Tpot = None
    percentile: Percentile = 99.0
    survive: Survive = 0
    share: Share = None
    engine: Engine = None
    serving: Serving = None
    sure: Sure = None
    name: Name = ""

    def demand(self) -> "Demand":
        """As a scenario's sections. InputError for times, engines and shares that are none."""
        from planner.runs.questions import Demand

        for flag, value in (("--model", self.model), ("--workload", self.workload)):
            if not value:
                raise typer.BadParameter("must be given.", param_hint=flag)

        return Demand(model=self.model, workload=self.workload, sections=self.sections(), name=self.name)

    def sections(self) -> dict[str, object]:
        """What holds of any model and workload. InputError for times, engines and shares that are none."""
        from planner.runs.questions.doubts import require_sure

        sections: dict[str, object] = {}
        if levels := levels_of(self.ttft, self.tpot, self.percentile):
            sections["slo"] = levels
        if self.engine:
            name, _, version = self.engine.partition(":")
            sections["engine"] = {"name": name, "version": version} if version else {"name": name}
        if self.serving:
            sections["serving"] = self.serving
        if self.sure is not None:
            require_sure("--sure", self.sure)
            sections["promise"] = {"sure": self.sure}
        if self.survive:
            sections["survive"] = {"nodes": self.survive, "share": self.share or _promised()}
        elif self.share is not None:
            raise InputError("--share: goes with --survive alone.", hint="Add --survive 1, or leave it out.")
        return sections

    def flags(self, **more: object) -> str:
        """As they were typed, for the next question."""
        percentile = None if self.percentile == 99 or not (self.ttft or self.tpot) else f"{self.percentile:g}"
        words = {
            "model": self.model or None, "workload": self.workload or None, "ttft": self.ttft, "tpot": self.tpot,
            "percentile": percentile, "survive": self.survive or None, "share": self.share,
            "engine": self.engine, "serving": self.serving, "sure": self.sure, **more,
        }  # fmt: skip
        return " ".join(f"--{key} {shlex.quote(str(value))}" for key, value in words.items() if value is not None)


def _promised() -> float:
    from planner.domain import RoutingSettings

    return RoutingSettings().margin


def levels_of(ttft: str | None, tpot: str | None, percentile: float) -> dict[str, float]:
    """The section `slo`."""
    bounds = {
        **({"ttft_ms": duration_ms("--ttft", ttft)} if ttft is not None else {}),
        **({"tpot_ms": duration_ms("--tpot", tpot)} if tpot is not None else {}),
    }
    return {**bounds, "percentile": percentile} if bounds else {}


def offer_of(offer: Path | None, prices: str | None) -> "GpuOffer":
    """What is for rent. InputError where both say what it costs."""
    from planner import files

    if offer is not None and prices is not None:
        raise InputError("--prices: goes without --offer, which has prices.", hint="Write the prices into the offer.")
    if offer is not None:
        return files.load_offer(offer)
    changed: Mapping[str, float] = {} if prices is None else prices_of("--prices", prices)
    return files.listed_offer(changed, source="--prices")
