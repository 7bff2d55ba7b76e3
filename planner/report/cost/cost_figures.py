"""The cost stage's figures, from its records. matplotlib is loaded with the first figure, not with this file."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from planner.domain import Accuracy, CalibrationFit, ConfigurationRates, StepExplanation
from planner.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUANTITIES = ("requests", "requests_per_gpu", "prompt_tokens", "batch")
"""What `configurations_figure` can show: requests/s, the same per GPU, prompt tokens/s, sequences per group."""


def roofline_figure(explanations: Sequence[StepExplanation]) -> "Figure":
    """Each step's parts under the data-sheet roofs of its GPU: FLOP/byte against attained TFLOP/s per GPU, log-log.

    One panel an explanation, on the same axes. A marker's area is the part's share of the time, its shape what bounds
    it. Raises InputError where there is none.
    """
    _require(explanations, "explanations", "planner.cost.explain")
    from planner.report.cost import roofline  # noqa: PLC0415  # matplotlib takes a second to load
    from planner.report.kit import style  # noqa: PLC0415  # matplotlib takes a second to load

    with style.look():
        return roofline.draw(explanations)


def breakdown_figure(explanations: Sequence[StepExplanation]) -> "Figure":
    """The parts' ms side by side, one bar a step, coloured by part and hatched by what bounds it.

    Communication that computation hides lies under the bar, since it adds no time. Raises InputError where there is
    no explanation.
    """
    _require(explanations, "explanations", "planner.cost.explain")
    from planner.report.cost import breakdown  # noqa: PLC0415  # matplotlib takes a second to load
    from planner.report.kit import style  # noqa: PLC0415  # matplotlib takes a second to load

    with style.look():
        return breakdown.draw(explanations)


def configurations_figure(
    rates: Sequence[ConfigurationRates], quantity: str = "requests", *, note: str = ""
) -> "Figure":
    """An island's parallel configurations over prompt lengths, one panel a GPU type and phase (figures 4.3, 4.4).

    The best few are drawn in strong colours, by their mean deviation from the best at each length (section 4.6.1); a
    line ends where the configuration cannot serve. `quantity` is one of QUANTITIES; `note` goes into the title.
    Raises InputError where there is nothing to draw, or for another quantity.
    """
    _require(rates, "rates", "planner.cost.compare_configurations")
    if quantity not in QUANTITIES:
        raise InputError(
            f"quantity: must be one of {', '.join(QUANTITIES)}, got {quantity!r}.", hint="Choose one of these names."
        )
    from planner.report.cost import configurations  # noqa: PLC0415  # matplotlib takes a second to load
    from planner.report.kit import style  # noqa: PLC0415  # matplotlib takes a second to load

    with style.look():
        return configurations.draw(rates, quantity, note)


def accuracy_figure(fit: CalibrationFit) -> "Figure":
    """Predicted against measured tokens/s per GPU, log-log, with the diagonal and a band of 10 %.

    Full markers: predicted by the fit; hollow ones: by a fit without that measurement; diamonds: only compared with.
    Raises InputError where nothing was measured.
    """
    _require(fit.points, "fit.points", "planner.cost.fit_calibration")
    from planner.report.cost import accuracy  # noqa: PLC0415  # matplotlib takes a second to load
    from planner.report.kit import style  # noqa: PLC0415  # matplotlib takes a second to load

    with style.look():
        return accuracy.draw(fit)


def judged_figure(judged: Accuracy) -> "Figure":
    """Predicted over measured rates of benchmark figures, a row a kind, coloured by GPU type.

    Raises InputError where nothing was measured.
    """
    _require(judged.figures, "judged.figures", "planner.cost.accuracy")
    from planner.report.cost import judged as judged_panels  # noqa: PLC0415  # matplotlib takes a second to load
    from planner.report.kit import style  # noqa: PLC0415  # matplotlib takes a second to load

    with style.look():
        return judged_panels.draw(judged)


def _require(entries: Sequence[object], name: str, source: str) -> None:
    if not entries:
        raise InputError(f"{name}: must hold at least one entry, got none.", hint=f"{source} gives them.")


def encode_figure(figure: "Figure", kind: Literal["png", "svg"] = "png") -> bytes:
    """A figure as the bytes of a file; equal figures give equal bytes."""
    from planner.report.kit import style  # noqa: PLC0415  # matplotlib takes a second to load

    return style.encoded(figure, kind)
