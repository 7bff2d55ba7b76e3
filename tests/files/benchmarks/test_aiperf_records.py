"""Records of aiperf: which requests count, their units, and what the run makes of them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planner.domain import Load, Metric
from planner.errors import InputError
from planner.files import Conditions, load_benchmarks
from planner.files.benchmarks.aiperf_records import read_aiperf_requests

SAID = Conditions(gpu="H200", model="llama-3.1-70b", tp=2, dp=1, ep=1, gpus=2, precision="FP8")
START = 1_759_813_207_000_000_000
Records = Callable[..., Path]


def record(start_s: float = 0.0, ttft_ms: float = 200.0, itl_ms: float = 20.0, **metrics: Any) -> dict[str, Any]:
    """A request of 1000 tokens in and 51 out: 200 + 50 x 20 ms."""
    return {
        "metadata": {"request_start_ns": START + int(start_s * 1e9), "benchmark_phase": "profiling"},
        "metrics": {
            "input_sequence_length": {"value": 1000, "unit": "tokens"},
            "output_sequence_length": {"value": 51, "unit": "tokens"},
            "time_to_first_token": {"value": ttft_ms, "unit": "ms"},
            "inter_token_latency": {"value": itl_ms, "unit": "ms"},
        }
        | metrics,
        "error": None,
    }


@pytest.fixture
def records(tmp_path: Path) -> Records:
    def write(*lines: dict[str, Any] | str) -> Path:
        path = tmp_path / "export"
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        path.write_text("\n".join(texts) + "\n", encoding="utf-8")
        return path

    return write


def test_a_run_of_three_requests(records: Records) -> None:
    (run,) = load_benchmarks([records(record(0), record(0.8, ttft_ms=300), record(1.2, itl_ms=30))], SAID)
    # they last 1.2, 1.3 and 1.7 s, the last ends 2.9 s after the first began
    assert (run.load, run.input_tokens, run.output_tokens, run.year) == (Load.CLOSED_LOOP, 1000, 51, 2025)
    assert run.concurrency == pytest.approx((1.2 + 1.3 + 1.7) / 2.9, rel=1e-6)
    assert dict(run.measured) == {
        Metric.INPUT_RATE: pytest.approx(3000 / 2.9 / 2, rel=1e-6),
        Metric.OUTPUT_RATE: pytest.approx(153 / 2.9 / 2, rel=1e-6),
        Metric.TTFT: 200,
        Metric.TPOT: 20,
    }
    assert run.source == "aiperf"


def test_one_request_is_a_run(records: Records) -> None:
    (run,) = load_benchmarks([records(record())], SAID)
    assert run.concurrency == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize(
    ("value", "unit"), [(0.2, "s"), (0.2, "sec"), (200, "ms"), (200_000, "us"), (200_000_000, "ns")]
)
def test_units_of_time(records: Records, value: float, unit: str) -> None:
    (run,) = load_benchmarks([records(record(time_to_first_token={"value": value, "unit": unit}))], SAID)
    assert dict(run.measured)[Metric.TTFT] == pytest.approx(200)


def test_plain_numbers_are_in_ms(records: Records) -> None:
    plain = record(time_to_first_token=200.0, inter_token_latency=20, input_sequence_length=1000)
    assert load_benchmarks([records(plain)], SAID) == load_benchmarks([records(record())], SAID)


def test_the_latency_that_was_measured_goes_first(records: Records) -> None:
    (run,) = load_benchmarks([records(record(), record(request_latency={"value": 2400, "unit": "ms"}))], SAID)
    assert run.concurrency == pytest.approx((1.2 + 2.4) / 2.4, rel=1e-6)
    clocked = record()
    clocked["metadata"]["request_end_ns"] = START + 2_400_000_000
    (run,) = load_benchmarks([records(record(), clocked)], SAID)
    assert run.concurrency == pytest.approx((1.2 + 2.4) / 2.4, rel=1e-6)


def test_failed_cancelled_and_warm_up_requests_do_not_count(records: Records) -> None:
    failed = record(5) | {"error": {"code": 500}, "metrics": {"error_isl": {"value": 550, "unit": "tokens"}}}
    cancelled, warm_up = record(6), record(7)
    cancelled["metadata"]["was_cancelled"] = True
    warm_up["metadata"]["benchmark_phase"] = "warmup"
    (run,) = load_benchmarks([records(failed, record(), cancelled, "", warm_up)], SAID)
    assert run.concurrency == pytest.approx(1, rel=1e-6)
    with pytest.raises(InputError, match="must hold at least one request that was answered"):
        load_benchmarks([records(failed, cancelled)], SAID)


def test_an_answer_of_one_token_has_no_time_between_tokens(records: Records) -> None:
    single = record(output_sequence_length={"value": 1, "unit": "tokens"})
    del single["metrics"]["inter_token_latency"]
    (run,) = load_benchmarks([records(single)], SAID)
    assert [metric for metric, _ in run.measured] == [Metric.INPUT_RATE, Metric.OUTPUT_RATE, Metric.TTFT]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"metadata": {"request_start_ns": 1', "line 2, column 36: is not readable JSON"),
        (record(input_sequence_length={"value": 0}), "line 2: metrics.input_sequence_length.value must be a number of"),
        (record(input_sequence_length="long"), "line 2: metrics.input_sequence_length must be a number"),
        (record(itl_ms=-1), "line 2: metrics.inter_token_latency.value must be a number of at least 0"),
        (
            record(time_to_first_token={"value": 1, "unit": "h"}),
            "line 2: metrics.time_to_first_token.unit must be one of",
        ),
        (record() | {"metrics": None}, "line 2: metrics must be a mapping"),
        (record() | {"metadata": {}}, "line 2: metadata.request_start_ns must be a number"),
        ({}, "line 2: metadata must be a mapping"),
        ("7", "line 2: the top level must be a mapping"),
    ],
)
def test_a_faulty_line_is_named(records: Records, line: dict[str, Any] | str, message: str) -> None:
    with pytest.raises(InputError, match=message) as refusal:
        load_benchmarks([records(record(), line)], SAID)
    assert "/export: line 2" in refusal.value.message


def test_a_damaged_first_line_is_named(records: Records) -> None:
    with pytest.raises(InputError, match=r"export: line 1, column \d+: is not readable JSON"):
        load_benchmarks([records('{"metadata": {"request_start_ns": 17, "metrics"', record())], SAID)


def test_times_without_a_latency_are_asked_for(records: Records) -> None:
    bare = record()
    del bare["metrics"]["time_to_first_token"]
    with pytest.raises(InputError, match="request_end_ns must be given where metrics have no request_latency"):
        load_benchmarks([records(bare)], SAID)


def test_every_request_is_told_answered_or_not(records: Records) -> None:
    counted = {"usage_prompt_tokens": {"value": 990, "unit": "tokens"}, "usage_completion_tokens": 51}
    lasted = {"request_latency": {"value": 1.2, "unit": "sec"}}
    first, second, third = (record(at_s, **counted, **lasted) for at_s in (0, 1, 2))
    second |= {"error": {"code": 503, "type": "x", "message": "busy\n  now"}, "metrics": {}}
    third["metadata"]["was_cancelled"] = True
    for number, line in enumerate((first, second, third)):
        line["metadata"]["conversation_id"] = f"r{number}"
    rows = read_aiperf_requests(records(first, second, third))
    assert [row.name for row in rows] == ["r0", "r1", "r2"]
    assert [row.failure for row in rows] == ["", "503: busy now", "not answered in time"]
    assert [row.start_ms - rows[0].start_ms for row in rows] == pytest.approx([0, 1000, 2000], abs=0.01)
    assert (rows[0].ttft_ms, rows[0].latency_ms) == (200, 1200)
    assert (rows[0].input_tokens, rows[0].output_tokens) == (990, 51)
    assert (rows[1].ttft_ms, rows[1].input_tokens) == (None, None)


def test_a_request_without_a_name_is_refused_by_its_line(records: Records) -> None:
    with pytest.raises(InputError, match="line 1"):
        read_aiperf_requests(records(record()))
