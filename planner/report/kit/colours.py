"""Colours of pages and figures alike: the palette of series, and the one colour that a GPU type has everywhere.

Pure arithmetic on hex colours: pages are made without matplotlib, figures look here too (`style.py`).
"""

import zlib
from collections.abc import Sequence
from types import MappingProxyType

# after Okabe and Ito, the yellow left out and two made darker, so that neighbours differ in lightness as well
PALETTE = ("#0072B2", "#E69F00", "#003D33", "#56B4E9", "#882255", "#CC79A7", "#A63D00", "#009E73")
INK, PAPER = "#1F2933", "#FFFFFF"

# hue (a place in the palette) and shade; types that are often planned together differ in hue. A new type needs no row
_OF_TYPES = MappingProxyType(
    {
        gpu: (hue, shade)
        for shade, row in enumerate(
            (
                ("H200", "H20", "H800", "H100", "A100", "MI300X", "L40S", "DGX-B200"),
                ("GB200-NVL72", "H20-3E", "MI308X", "H100-NVL", "A10", "MI325X", "L4", "DGX-B300"),
                ("GB300-NVL72", "RTX-PRO-6000", "Rubin-NVL144", "A10G", "RubinU-NVL576", "MI355X"),
            )
        )
        for hue, gpu in enumerate(row)
    }
)
_SHADES = ((0.0, INK), (0.4, INK), (0.45, PAPER))
"""Of a hue: how much of what is in it, row by row."""
_SHADES_BY_NAME = 4096

PHASES = MappingProxyType({"prefill": "#882255", "decode": "#56B4E9", "mixed": "#009E73", "idle": "#D9E0E6"})
"""Of phases, told apart by lightness in grey."""


def gpu_colour(gpu: str, palette: Sequence[str] = PALETTE, ink: str = INK, paper: str = PAPER) -> str:
    """The colour of a GPU type on every page and figure, whatever else is drawn beside it.

    `palette`, `ink`, `paper`: the user's own, where a figure has them. A type that has no row gets a hue by its name,
    in a shade between those of the rows.
    """
    hue, (share, other) = _look(gpu)
    return blended(palette[hue % len(palette)], ink if other == INK else paper, share)


def _look(gpu: str) -> tuple[int, tuple[float, str]]:
    if gpu in _OF_TYPES:
        hue, shade = _OF_TYPES[gpu]
        return hue, _SHADES[shade]
    drawn = zlib.crc32(gpu.encode())
    turn = (drawn // len(PALETTE)) % _SHADES_BY_NAME / _SHADES_BY_NAME
    return drawn % len(PALETTE), (0.1 + 0.25 * turn, INK) if drawn % 2 else (0.1 + 0.3 * turn, PAPER)


def blended(colour: str, other: str, share: float) -> str:
    """`colour` with `share` of `other` in it; both and the answer as #RRGGBB."""
    pairs = zip(_channels(colour), _channels(other), strict=True)
    return "#" + "".join(f"{round((1 - share) * a + share * b):02x}" for a, b in pairs)


def _channels(colour: str) -> list[int]:
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]


def contrast(colour: str, other: str) -> float:
    """The ratio of contrast of two colours, from 1 to 21 (WCAG 2.2)."""
    lighter, darker = sorted((_luminance(colour), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in _channels(colour))]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def legible(colour: str, paper: str = PAPER, ratio: float = 4.5) -> str:
    """The colour, made as dark as text of it has to be on `paper`."""
    shades = (blended(colour, INK, tenths / 10) for tenths in range(11))
    return next(shade for shade in shades if contrast(shade, paper) >= ratio)
