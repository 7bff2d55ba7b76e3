"""Step times of servers from a profile: what was measured, and never less than a step beside it takes."""

from collections.abc import Sequence

import numpy as np
import pytest

from planner.cost.backend import TabulatedBackend
from planner.cost.step import Steps
from planner.domain import Measurement, Phase


def backend(phase: Phase) -> TabulatedBackend:
    """Two lengths and two batches: 10 ms, and 1 ms for each hundred tokens and each sequence."""
    rows = [
        Measurement(
            gpu="H20",
            model="m",
            phase=phase,
            tp=1,
            dp=1,
            ep=1,
            length=length,
            batch=batch,
            ms=10 + length / 100 + batch,
        )
        for length in (1000, 3000)
        for batch in (2, 6)
    ]
    return TabulatedBackend("H20", "m", rows)


def times(phase: Phase, lengths: Sequence[float], batch: float, tp: float = 1.0) -> list[float]:
    one = np.array(1.0)
    steps = Steps(phase=phase, tp=np.array(tp), dp=one, pp=one, length=np.array(lengths), batch=np.array(batch))
    return [float(ms) for ms in backend(phase).server_ms(steps)]


@pytest.mark.parametrize("phase", [Phase.PREFILL, Phase.DECODE])
def test_what_was_measured_is_interpolated(phase: Phase) -> None:
    assert times(phase, [1000, 2000, 3000], 4) == pytest.approx([24, 34, 44])


@pytest.mark.parametrize("phase", [Phase.PREFILL, Phase.DECODE])
def test_less_than_was_measured_takes_as_long_as_the_least(phase: Phase) -> None:
    assert times(phase, [10, 1000, 2000], 0.1) == pytest.approx([22, 22, 32])


def test_more_prompts_than_were_measured_are_several_steps() -> None:
    assert times(Phase.PREFILL, [1000, 2000], 9) == pytest.approx([1.5 * 26, 1.5 * 36])


def test_a_larger_batch_of_decode_is_not_known() -> None:
    assert times(Phase.DECODE, [1000, 2000], 7) == [np.inf, np.inf]


@pytest.mark.parametrize("phase", [Phase.PREFILL, Phase.DECODE])
def test_longer_sequences_and_other_shapes_are_not_known(phase: Phase) -> None:
    assert times(phase, [3001], 4) == [np.inf]
    assert times(phase, [2000], 4, tp=2.0) == [np.inf]
