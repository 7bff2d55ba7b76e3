"""Traces whose bursts are known: published ones, and a Poisson process whose rate switches at random."""

from functools import cache

import numpy as np
from reference_data import reference_path

from planner.domain import PromptBlocks, RequestTrace
from planner.domain.arrivals import ArrivalProcess, ArrivalSettings, RateCurve
from planner.files import read_trace


def trace_of(arrival_s, prompts=None, answers=None, *, name="made", blocks=None):
    n = len(arrival_s)
    return RequestTrace(
        name=name,
        arrival_s=list(arrival_s),
        input_tokens=list(range(1, n + 1)) if prompts is None else list(prompts),
        output_tokens=[7] * n if answers is None else list(answers),
        blocks=blocks,
    )


@cache
def azure(name="code"):
    return read_trace(reference_path(f"azure_llm_2023/{name}.csv"))


@cache
def mooncake():
    return read_trace(reference_path("mooncake/conversation_1500.jsonl.gz"), time_unit="ms")


BUSY_RPS, QUIET_RPS = 40.0, 2.0
BUSY_ENDS, QUIET_ENDS = 1 / 10.0, 1 / 30.0
"""Per second: busy for 10 s, quiet for 30 s on average."""


@cache
def switching(seed=0, span_s=40_000.0):
    """A Poisson process that is busy and quiet in turn."""
    random = np.random.default_rng(seed)
    pairs = int(span_s / 40 * 2) + 100
    stays = np.stack((random.exponential(1 / BUSY_ENDS, pairs), random.exponential(1 / QUIET_ENDS, pairs)), 1).ravel()
    ends = np.cumsum(stays)
    counts = random.poisson(stays * np.tile((BUSY_RPS, QUIET_RPS), pairs))
    arrival_s = np.sort(np.repeat(ends - stays, counts) + random.random(counts.sum()) * np.repeat(stays, counts))
    return trace_of(arrival_s[arrival_s < span_s])


def switching_dispersion(window_s):
    """I(t) of `switching` in closed form (Fischer and Meier-Hellstern, The MMPP cookbook, 1993)."""
    both = BUSY_ENDS + QUIET_ENDS
    busy = QUIET_ENDS / both
    mean = busy * BUSY_RPS + (1 - busy) * QUIET_RPS
    variance = busy * (1 - busy) * (BUSY_RPS - QUIET_RPS) ** 2
    return 1 + 2 * variance / (mean * both) * (1 - (1 - np.exp(-both * window_s)) / (both * window_s))


STEPS = RateCurve(name="steps", starts_s=(0.0, 3.0), rates=(1.0, 5.0), span_s=10.0)


def settings_of(process, *, variation=1.0, compress=False, curve_start_s=0.0):
    """Settings of a process with those of these that it heeds."""
    process = ArrivalProcess(process)
    diurnal = process is ArrivalProcess.DIURNAL
    return ArrivalSettings(
        process=process,
        variation=variation if diurnal or process is ArrivalProcess.GAMMA else 1.0,
        compress=compress and process is ArrivalProcess.TRACE,
        curve=STEPS if diurnal else None,
        curve_start_s=curve_start_s if diurnal else 0.0,
    )


def two_turns(block_tokens=512):
    """Three requests: the second goes on where the first ended, the third is somebody else's."""
    blocks = PromptBlocks(block_tokens=block_tokens, ids=[0, 1, 0, 1, 2, 9], ends=[2, 5, 6])
    return trace_of([0.0, 4.0, 6.0], [1000, 1500, 300], blocks=blocks)
