"""How far an estimate may be off: a band around a rate."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """P10 and P90 of a measured rate over the predicted one (low <= high, both positive).

    `basis` says in words which left-out measurements it comes from, `points` how many they are; 0: it is a prior.
    """

    low: float
    high: float
    basis: str = ""
    points: int = 0
