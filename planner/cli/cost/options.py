"""Options that the commands of `planner cost` share, and what becomes of them."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.errors import InputError

if TYPE_CHECKING:
    from planner.domain import CostSettings, ModelSpec

Calibration = Annotated[Path | None, typer.Option(help="A calibration file. [default: the built-in factors]")]
Json = Annotated[bool, typer.Option("--json", help="Print as JSON.")]
FigureFile = Annotated[Path | None, typer.Option("--figure", help="Draw into this .png or .svg file.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
Model = Annotated[str, typer.Option(help="Shipped model, or the path of a config.json.")]
Models = Annotated[
    list[Path] | None, typer.Option("--model", help="A config.json that the CSV names, beside the shipped models.")
]


def settings(calibration: Path | None) -> "CostSettings":
    """Cost settings with the calibration of a file."""
    from planner import files
    from planner.domain import CostSettings

    return CostSettings(calibration=files.load_calibration(calibration) if calibration else None)


def models(paths: list[Path] | None) -> "dict[str, ModelSpec]":
    """The user's own models by name."""
    from planner import files

    loaded = [files.load_model(str(path)) for path in paths or []]
    return {model.name: model for model in loaded}


def draw(path: Path | None, figure: Callable[[], Any], *, force: bool) -> None:
    """Write a figure where one is asked for; its kind follows the file's ending."""
    if path is None:
        return
    from planner import files, report

    kind = path.suffix.removeprefix(".")
    if kind not in ("png", "svg"):
        raise InputError(f"--figure: must end in .png or .svg, got {str(path)!r}.", hint="Rename the file.")
    files.refuse_existing(path, force=force)
    files.write_file(path, report.encode_figure(figure(), "png" if kind == "png" else "svg"), force=force)


def lengths(text: str) -> list[int]:
    """`128,1024` as numbers."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            f"--lengths: must be whole numbers separated by commas, got {text!r}.", hint="For example 128,1024,4096."
        ) from None


def share(value: float, flag: str) -> float:
    """A share in [0, 1)."""
    if not 0 <= value < 1:
        raise InputError(f"{flag}: must lie in [0, 1), got {value}.", hint="Give a share.")
    return value


def at_least_one(value: int, flag: str) -> int:
    """A count."""
    if value < 1:
        raise InputError(f"{flag}: must be at least 1, got {value}.", hint="Give 1 or more.")
    return value
