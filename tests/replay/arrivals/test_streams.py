"""Streams of known length, rate and order, of the trace's requests alone, the same every time."""

import math
import time
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from arrival_traces import STEPS, azure, settings_of, trace_of
from hypothesis import given
from hypothesis import strategies as st

from planner.domain.arrivals import ArrivalProcess, ArrivalSettings, LeftOut
from planner.errors import InputError
from planner.replay.arrivals import requests_of, require_longer_than

AS_IT_CAME = ArrivalSettings()

traces = st.lists(st.floats(0, 1000), min_size=2, max_size=40).filter(lambda t: max(t) - min(t) > 1).map(sorted)
settings = st.builds(
    settings_of,
    st.sampled_from(ArrivalProcess),
    variation=st.sampled_from([0.0, 0.5, 1.0, 20.0]),
    compress=st.booleans(),
    curve_start_s=st.floats(0, 50),
)


def columns(requests):
    return [bytes(column) for column in (requests.arrival_ms, requests.prompt_tokens, requests.answer_tokens)]


@given(traces, settings, st.floats(0.05, 20), st.integers(1, 300), st.integers(0, 5))
def test_a_count_is_met_in_order_and_nothing_is_invented(arrival_s, asked, rate, count, seed) -> None:
    trace = trace_of(arrival_s)
    requests = requests_of(trace, asked, rate_rps=rate, count=count, seed=seed)
    arrivals = np.asarray(requests.arrival_ms)
    assert len(requests) == len(arrivals) == len(requests.prompt_tokens) == len(requests.answer_tokens) == count
    assert arrivals[0] >= 0
    assert (np.diff(arrivals) >= 0).all()
    assert set(zip(requests.prompt_tokens, requests.answer_tokens, strict=True)) <= set(
        zip(trace.input_tokens, trace.output_tokens, strict=True)
    )
    again = requests_of(trace, asked, rate_rps=rate, count=count, seed=seed)
    assert columns(again) == columns(requests)


@given(traces, st.floats(0.6, 30), st.integers(1, 3), st.booleans(), st.integers(0, 5))
def test_a_replayed_trace_meets_the_rate_to_a_request_a_copy(arrival_s, times, passes, compress, seed) -> None:
    """Over whole passes each copy has all its requests, and of the last one the share that is due."""
    n = len(arrival_s)
    period = (arrival_s[-1] - arrival_s[0]) * n / (n - 1)
    seconds = passes * period / (times if compress else 1)
    settings = ArrivalSettings(compress=compress)
    requests = requests_of(trace_of(arrival_s), settings, rate_rps=times * n / period, seconds=seconds, seed=seed)
    expected = passes * n * (1 if compress else times)
    assert abs(len(requests) - expected) <= 1 + (math.ceil(times) + 1)  # where rounding moves an edge
    assert requests.arrival_ms[-1] <= seconds * 1000 * (1 + 1e-9)


@given(traces, st.floats(0.1, 4), st.floats(1.0, 3), st.integers(0, 5))
def test_a_lower_rates_stream_is_part_of_a_higher_ones(arrival_s, times, higher, seed) -> None:
    trace, n = trace_of(arrival_s), len(arrival_s)
    rate = times * (n - 1) / (arrival_s[-1] - arrival_s[0])
    streams = []
    for rps in (rate, rate * higher):
        try:
            requests = requests_of(trace, AS_IT_CAME, rate_rps=rps, seconds=700.0, seed=seed)
        except InputError:
            return  # none came
        streams.append(Counter(zip(requests.arrival_ms, requests.prompt_tokens, strict=True)))
    assert streams[0] <= streams[1]


def test_another_seed_is_another_stream() -> None:
    for process in ArrivalProcess:
        asked = settings_of(process, variation=2.0)
        streams = {b"".join(columns(requests_of(azure(), asked, rate_rps=9, count=500, seed=s))) for s in range(3)}
        assert len(streams) == 3


def test_the_rate_of_the_trace_is_that_of_its_summary() -> None:
    requests = requests_of(azure(), AS_IT_CAME, count=len(azure().arrival_s), seed=0)
    assert requests.rate_rps == pytest.approx(2.5663950258507633)
    poisson = ArrivalSettings(process=ArrivalProcess.POISSON)
    assert requests_of(azure(), poisson, count=100_000, seed=0).rate_rps == pytest.approx(2.5663950, rel=0.02)


def test_halves_of_a_trace_share_no_request() -> None:
    trace = trace_of(range(100))
    halves = [
        set(requests_of(trace, ArrivalSettings(between=between), count=50, seed=0).prompt_tokens)
        for between in ((0.0, 50.0), (50.0, 1e9))
    ]
    assert halves == [set(range(1, 51)), set(range(51, 101))]
    poisson = ArrivalSettings(process=ArrivalProcess.POISSON, between=(50.0, 100.0))
    drawn = requests_of(trace, poisson, count=1000, rate_rps=3.0, seed=0)
    assert set(drawn.prompt_tokens) == set(range(51, 101))


def test_a_part_has_a_rate_of_its_own_and_starts_at_its_start() -> None:
    requests = requests_of(trace_of([0, 1, 2, 10, 12, 14]), ArrivalSettings(between=(9.0, 15.0)), seconds=6.0, seed=0)
    assert list(requests.arrival_ms) == [1000, 3000, 5000]


def test_what_no_engine_takes_is_left_out_and_counted() -> None:
    trace = trace_of([0, 1, 2, 3, 4, 5], [0, 5, 8193, 8000, 8000, 0], [1, 0, 5, 193, 192, 0])
    requests = requests_of(trace, AS_IT_CAME, count=1, seed=0, most_tokens=8192)
    assert requests.left_out == LeftOut(empty_prompts=2, empty_answers=1, long_prompts=1, long_answers=1)
    assert requests.left_out.total == 5
    assert list(requests.prompt_tokens) == [8000]
    assert "Left out of 6 requests of the trace: 2 without a prompt, 1 without an answer" in requests.notes[0]
    assert requests_of(trace, AS_IT_CAME, count=3, seed=0).left_out.total == 3


def test_requests_out_of_order_are_sorted_and_a_note_says_so() -> None:
    requests = requests_of(trace_of([5.0, 1.0, 3.0, 3.0]), AS_IT_CAME, count=4, seed=0)
    assert list(requests.prompt_tokens) == [2, 3, 4, 1]
    assert list(requests.arrival_ms) == [0, 2000, 2000, 4000]
    assert requests.notes[0] == "Requests are sorted by time: 1 of 4 stood behind a later one."
    assert requests.same_instant == 1


def test_notes_tell_how_another_rate_was_met() -> None:
    def notes(times, **settings):
        asked = ArrivalSettings(**settings)
        return requests_of(trace_of(range(100)), asked, rate_rps=times, count=100, seed=0).notes

    assert notes(1.0) == ()
    assert "thinned: 40.0% of its requests" in notes(0.4)[0]
    assert "begins anew: the stream is 2." in notes(0.4)[1]
    assert notes(2.5)[0].startswith("2.5 copies of the trace")
    assert notes(2.5, compress=True)[0].startswith("The trace runs 2.5 times as fast")


REFUSED = [
    (trace_of([]), {}, "Trace made: must hold at least one request; it is empty"),
    (trace_of([0, 1], [1]), {}, "columns of one length, got 2 arrivals, 1 prompts and 2 answers"),
    (trace_of([0, math.nan]), {}, "request 2, arrival_s must be finite, got nan"),
    (trace_of([0, 1], [1, -4]), {}, "request 2, input_tokens must be 0 or more, got -4"),
    (trace_of([0, 1], answers=[-1, 1]), {}, "request 1, output_tokens must be 0 or more"),
    (trace_of([4, 4, 4]), {}, "must span some time to have a rate; its requests, 3, all came at once"),
    (trace_of([4]), {}, "must span some time"),
    (trace_of([0, 1], [0, 0]), {}, "must hold a request that can be served; of 2 none is left: 2 without a prompt"),
    (trace_of([0, 1], [9, 9]), {"most_tokens": 8}, "2 with prompts beyond the context"),
    (trace_of([0, 1]), {"rate_rps": 0.0}, "rate_rps must be above 0 and finite, got 0"),
    (trace_of([0, 1]), {"rate_rps": -1.0}, "rate_rps must be above 0 and finite, got -1"),
    (trace_of([0, 1]), {"rate_rps": math.nan}, "rate_rps must be above 0 and finite, got nan"),
    (trace_of([0, 1]), {"rate_rps": math.inf}, "rate_rps must be above 0 and finite, got inf"),
    (trace_of([0, 1e6]), {"rate_rps": 1e6}, "rate of at least 1 requests/s to be laid over itself"),
    (trace_of([0, 1]), {"rate_rps": 1e-8}, "must take at most 20,000,000 requests of the trace"),
    (trace_of([0, 1]), {"count": 0}, "count must be at least 1, got 0"),
    (trace_of([0, 1]), {"count": 10**9}, "must take at most 20,000,000"),
    (trace_of([0, 1]), {"count": None}, "either a count or seconds"),
    (trace_of([0, 1]), {"seconds": 4.0}, "either a count or seconds"),
    (trace_of([0, 1]), {"count": None, "seconds": 0.0}, "seconds must be above 0 and finite"),
    (trace_of([0, 1]), {"count": None, "seconds": math.nan}, "seconds must be above 0 and finite"),
    (trace_of([0, 1]), {"count": None, "seconds": 1e12}, "must take at most 20,000,000"),
    (trace_of([0, 1]), {"count": None, "seconds": 1.0, "rate_rps": 0.01}, "none came in 1 s"),
    (trace_of([0, 1]), {"seed": -1}, "seed must be a whole number of at least 0"),
]


@pytest.mark.parametrize(("trace", "asked", "words"), REFUSED)
def test_what_makes_no_stream_is_refused(trace, asked, words) -> None:
    with pytest.raises(InputError) as refusal:
        requests_of(trace, AS_IT_CAME, **{"count": 5, "seed": 0, **asked})
    assert words in refusal.value.message
    assert refusal.value.hint


@pytest.mark.parametrize(
    "between", [(5.0, 5.0), (7.0, 2.0), (-1.0, 4.0), (math.nan, 4.0), (1.0, math.nan), (99.0, 100.0)]
)
def test_parts_that_are_none_are_refused(between) -> None:
    with pytest.raises(InputError, match="Trace made: between must be two seconds of it"):
        requests_of(trace_of(range(10)), ArrivalSettings(between=between), count=5, seed=0)
    with pytest.raises(InputError, match=r"none came in seconds 1\.2 to 1\.8"):
        requests_of(trace_of(range(10)), ArrivalSettings(between=(1.2, 1.8)), count=5, seed=0)


@pytest.mark.parametrize(
    ("process", "settings", "key"),
    [
        ("poisson", {"compress": True}, "compress"),
        ("poisson", {"variation": 4.0}, "variation"),
        ("trace", {"variation": 0.0}, "variation"),
        ("gamma", {"curve": STEPS}, "curve"),
        ("trace", {"curve_start_s": 1.0}, "curve_start_s"),
    ],
)
def test_a_setting_that_its_process_does_not_heed_is_refused(process, settings, key) -> None:
    with pytest.raises(InputError, match=f"{key} must be left out for the process {process}"):
        requests_of(trace_of(range(9)), ArrivalSettings(process=ArrivalProcess(process), **settings), count=5, seed=0)


def test_a_stream_is_longer_than_its_warmup() -> None:
    requests = requests_of(trace_of(range(10)), AS_IT_CAME, count=10, seed=0)
    require_longer_than(requests, 8.9)
    with pytest.raises(InputError, match="longer than the warm-up of 9 s; its last request comes at 9 s"):
        require_longer_than(requests, 9.0)


@pytest.mark.parametrize(("process", "rate"), [("trace", 1.0), ("trace", 500.0), ("gamma", 500.0), ("diurnal", 500.0)])
def test_a_million_requests_take_two_seconds_and_200_mb_at_most(process, rate) -> None:
    """Measured: 0.1 to 0.7 CPU-s, 45 to 82 MB."""
    asked = settings_of(process, variation=4.0)
    began = time.process_time()
    tracemalloc.start()
    requests = requests_of(azure(), asked, rate_rps=rate, count=1_000_000, seed=0)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert time.process_time() - began < 2
    assert (len(requests), most < 200e6) == (1_000_000, True)
