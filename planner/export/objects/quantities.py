"""Amounts of Kubernetes as numbers, so that 512Gi and 524288Mi are the same.

suffix          factor                source
m, u, n         10^-3, 10^-6, 10^-9   Kubernetes' resource.Quantity, decimal SI
k M G T P E     10^3 to 10^18
Ki Mi Gi ... Ei 2^10 to 2^60          binary SI
e3, E3          10^3                  decimal exponent
"""

import re
from collections.abc import Mapping
from fractions import Fraction

_PATTERN = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?P<suffix>Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|)")
_EXPONENT = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[eE](?P<power>[+-]?[0-9]{1,2})")
_BINARY = {f"{letter}i": Fraction(1024) ** power for power, letter in enumerate("KMGTPE", start=1)}
_DECIMAL = {letter: Fraction(1000) ** power for power, letter in zip(range(-3, 7), "num kMGTPE", strict=True)}
_FACTORS = {"": Fraction(1)} | _BINARY | {letter: factor for letter, factor in _DECIMAL.items() if letter != " "}
_MOST_CHARACTERS = 40
MOST_OF_A_CONFIG_MAP = 2**20
"""Bytes of keys and values together (Kubernetes' limit on a ConfigMap's data)."""


def amount(value: object) -> Fraction | None:
    """The number that a quantity stands for (bytes, cores, pieces); None where it is no quantity, or below 0."""
    text = str(value)
    if isinstance(value, bool) or len(text) > _MOST_CHARACTERS:
        return None
    if match := _PATTERN.fullmatch(text):
        return _number(match["number"]) * _FACTORS[match["suffix"]]
    if match := _EXPONENT.fullmatch(text):
        return _number(match["number"]) * Fraction(10) ** int(match["power"])
    return None


def _number(text: str) -> Fraction:
    return Fraction(text if text.strip(".") == text else f"0{text}0")


def config_map_bytes(data: Mapping[str, str]) -> int:
    """What counts against `MOST_OF_A_CONFIG_MAP`."""
    return sum(len(text.encode(errors="replace")) for pair in data.items() for text in pair)
