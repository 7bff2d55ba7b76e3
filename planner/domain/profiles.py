"""Length profiles given by a formula instead of a trace."""

import math

from planner.domain.workload import LengthProfile
from planner.errors import InputError


def truncated_normal(
    *,
    name: str,
    mean: float,
    standard_deviation: float,
    low: int,
    high: int,
    mean_output_tokens: float,
    max_output_tokens: int,
    licence: str = "",
    citation: str = "",
) -> LengthProfile:
    """A normal distribution of input lengths (tokens), cut to low..high and normalised there.

    Length s takes the mass of the cell from s - 1/2 to s + 1/2. `mean` and `standard_deviation` are those of
    the uncut distribution. Lengths without any mass in floating point are left out; InputError where none
    is left.
    """
    masses = [(s, _cell_mass((s - mean) / standard_deviation, 0.5 / standard_deviation)) for s in range(low, high + 1)]
    total = math.fsum(mass for _, mass in masses)
    cells = [(s, mass / total) for s, mass in masses if mass > 0.0 and mass / total > 0.0]
    if not cells:
        raise InputError(
            f"Workload {name}: a normal distribution of mean {mean:g} and standard_deviation "
            f"{standard_deviation:g} must have mass between low {low} and high {high}; it has none.",
            hint="Bring low and high nearer to the mean.",
        )
    return LengthProfile(
        name=name,
        input_tokens=tuple(s for s, _ in cells),
        probabilities=tuple(p for _, p in cells),
        output_tokens=(),
        mean_output_tokens=mean_output_tokens,
        max_output_tokens=max_output_tokens,
        licence=licence,
        citation=citation,
    )


def _cell_mass(z: float, half_width: float) -> float:
    # on the side of the smaller tail, where differences of erfc keep their digits
    near = abs(z)
    return 0.5 * (math.erfc((near - half_width) / math.sqrt(2.0)) - math.erfc((near + half_width) / math.sqrt(2.0)))
