"""Left-out residuals of the cost model, one row a slice of the measurements: what bands are made of.

A residual is ln(measured rate / predicted rate) of a measurement that the prediction was not fitted to. A row holds P10
and P90 of the residuals of its slice: positive means that the machine was faster than predicted.

| left out | a residual's prediction comes from a fit without | what the row stands for                          |
|----------|--------------------------------------------------|--------------------------------------------------|
| run      | that run alone                                   | GPU type and model were measured                 |
| group    | every run of its GPU type and model              | another type or model of this family was         |
| group,   | every run of its whole GPU family                | nothing of this family, or no model of this kind |
| family   |                                                  |                                                  |
| any      |                                                  |                                                  |

`run` rows are the slices; a slice may have a `group` row beside it; each kind of model and phase has a `group` row of
family any.

PLACEHOLDERS: these rows come from mean absolute errors and biases of 119 published points and 66 runs of DeepSeek-R1
that an earlier fit had not seen, taken as lognormal (ln(1/(1 + bias)) +- 1.28 standard deviations); most are not split
by phase. They are to be replaced by the quantiles of the left-out residuals when the factors are fitted anew.
"""

from dataclasses import dataclass
from enum import StrEnum

from planner.domain import Phase
from planner.domain.efficiency import ANY_FAMILY

DENSE, MOE = "dense", "moe"
KINDS = (DENSE, MOE)


class LeftOut(StrEnum):
    """What the fit behind a residual did not see."""

    RUN = "run"
    GROUP = "group"


@dataclass(frozen=True, slots=True, kw_only=True)
class BandRow:
    """P10 and P90 of ln(measured / predicted) over `points` residuals of one slice (log_low <= log_high)."""

    family: str
    kind: str
    phase: Phase
    log_low: float
    log_high: float
    points: int
    left_out: LeftOut = LeftOut.RUN


def _both(family: str, kind: str, low: float, high: float, points: int) -> tuple[BandRow, ...]:
    """A slice that was not split by phase."""
    left_out = LeftOut.GROUP if family == ANY_FAMILY else LeftOut.RUN
    return tuple(
        BandRow(family=family, kind=kind, phase=phase, log_low=low, log_high=high, points=points, left_out=left_out)
        for phase in Phase
    )


_HOPPER_MOE = (
    BandRow(family="hopper", kind=MOE, phase=Phase.PREFILL, log_low=-0.46, log_high=0.08, points=28),
    BandRow(family="hopper", kind=MOE, phase=Phase.DECODE, log_low=-0.24, log_high=0.24, points=66),
    BandRow(
        family="hopper",
        kind=MOE,
        phase=Phase.DECODE,
        log_low=-0.46,
        log_high=0.08,
        points=28,
        left_out=LeftOut.GROUP,
    ),
)

BAND_TABLE: tuple[BandRow, ...] = (
    *_HOPPER_MOE,
    *_both("hopper", DENSE, -0.22, 0.45, 26),
    *_both("blackwell", MOE, -0.43, 0.33, 19),
    *_both("blackwell", DENSE, 0.04, 0.31, 15),
    *_both("ampere", DENSE, -0.41, 0.38, 9),
    *_both("cdna3", DENSE, -0.52, -0.02, 20),
    *_both(ANY_FAMILY, DENSE, -0.39, 0.39, 119),
    *_both(ANY_FAMILY, MOE, -0.39, 0.39, 119),
)
