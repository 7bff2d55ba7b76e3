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

Made from planner/files/measurement_sets/left_out.csv and the step times (a test holds them together): decode of MoE
models from TPOT of disaggregated pools and decode steps (of families with fewer than eight of these from aggregated
pools, too), prefill from saturated pools and prefill steps; dense models from saturated throughput and static batches,
which tell no phase apart. Engines of before 2025 are left aside.
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


def _row(
    family: str, kind: str, phase: Phase, log_low: float, log_high: float, points: int, left_out: LeftOut
) -> BandRow:
    return BandRow(
        family=family, kind=kind, phase=phase, log_low=log_low, log_high=log_high, points=points, left_out=left_out
    )


BAND_TABLE: tuple[BandRow, ...] = (
    _row("blackwell", MOE, Phase.PREFILL, -0.172, 0.538, 14, LeftOut.RUN),
    _row("cdna4", MOE, Phase.PREFILL, -0.897, 0.272, 7, LeftOut.RUN),
    _row("hopper", MOE, Phase.PREFILL, -0.507, 0.252, 13, LeftOut.RUN),
    _row("blackwell", MOE, Phase.DECODE, -0.142, 0.227, 78, LeftOut.RUN),
    _row("cdna3", MOE, Phase.DECODE, -0.095, 0.275, 5, LeftOut.RUN),
    _row("cdna4", MOE, Phase.DECODE, -0.295, 0.129, 53, LeftOut.RUN),
    _row("hopper", MOE, Phase.DECODE, -0.371, 0.148, 36, LeftOut.RUN),
    _row("blackwell", DENSE, Phase.PREFILL, -0.182, 0.181, 6, LeftOut.RUN),
    _row("cdna3", DENSE, Phase.PREFILL, -0.116, 0.118, 10, LeftOut.RUN),
    _row("hopper", DENSE, Phase.PREFILL, -0.117, 0.113, 8, LeftOut.RUN),
    _row("blackwell", DENSE, Phase.DECODE, -0.182, 0.181, 6, LeftOut.RUN),
    _row("cdna3", DENSE, Phase.DECODE, -0.116, 0.118, 10, LeftOut.RUN),
    _row("hopper", DENSE, Phase.DECODE, -0.117, 0.113, 8, LeftOut.RUN),
    _row("blackwell", MOE, Phase.PREFILL, -0.127, 0.594, 14, LeftOut.GROUP),
    _row("cdna4", MOE, Phase.PREFILL, -1.223, -0.035, 7, LeftOut.GROUP),
    _row("hopper", MOE, Phase.PREFILL, -0.572, 0.253, 13, LeftOut.GROUP),
    _row(ANY_FAMILY, MOE, Phase.PREFILL, -0.571, 0.451, 35, LeftOut.GROUP),
    _row("blackwell", MOE, Phase.DECODE, -0.131, 0.263, 78, LeftOut.GROUP),
    _row("cdna3", MOE, Phase.DECODE, -0.096, 0.271, 5, LeftOut.GROUP),
    _row("cdna4", MOE, Phase.DECODE, -0.309, 0.131, 53, LeftOut.GROUP),
    _row("hopper", MOE, Phase.DECODE, -0.396, 0.133, 36, LeftOut.GROUP),
    _row(ANY_FAMILY, MOE, Phase.DECODE, -0.277, 0.202, 169, LeftOut.GROUP),
    _row("blackwell", DENSE, Phase.PREFILL, -0.167, 0.127, 6, LeftOut.GROUP),
    _row("cdna3", DENSE, Phase.PREFILL, -0.144, 0.141, 10, LeftOut.GROUP),
    _row("hopper", DENSE, Phase.PREFILL, -0.128, 0.11, 8, LeftOut.GROUP),
    _row(ANY_FAMILY, DENSE, Phase.PREFILL, -0.144, 0.15, 24, LeftOut.GROUP),
    _row("blackwell", DENSE, Phase.DECODE, -0.167, 0.127, 6, LeftOut.GROUP),
    _row("cdna3", DENSE, Phase.DECODE, -0.144, 0.141, 10, LeftOut.GROUP),
    _row("hopper", DENSE, Phase.DECODE, -0.128, 0.11, 8, LeftOut.GROUP),
    _row(ANY_FAMILY, DENSE, Phase.DECODE, -0.144, 0.15, 24, LeftOut.GROUP),
)
