"""Tables of measured points: what a row says, the tables that come with the planner, and what is refused."""

import csv
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from planner.domain import BenchmarkRun, Load, Metric, Pool
from planner.errors import InputError
from planner.files.benchmarks.benchmark_files import (
    GIVEN_POINTS,
    load_given_benchmarks,
    read_point_table,
    require_names,
    resolve_names,
)

AGGREGATED = {
    **{"disaggregated": "False", "prefill_tp": "8", "decode_tp": "8", "prefill_ep": "1", "decode_ep": "1"},
    **{"prefill_dp_attention": "False", "decode_dp_attention": "False", "prefill_workers": "0"},
    **{"decode_workers": "0", "prefill_gpus": "8", "decode_gpus": "8"},
}
Writer = Callable[..., Path]
RATES_OF_TWO_GPUS = (("output tok/s of all GPUs", "200"), ("tok/s per GPU", "100"))
TIMES = (("s", "2"), ("ms", "2000"))


@pytest.fixture(scope="module")
def given() -> dict[str, tuple[BenchmarkRun, ...]]:
    runs = load_given_benchmarks()
    return {path.name.split(".")[0]: tuple(run for run in runs if run.file == str(path)) for path in GIVEN_POINTS}


class TestTheGivenTables:
    """Truths read by hand from the files; those of `silicon_points` stand in a module of their own."""

    def test_every_row_is_a_run_with_a_source(self, given: dict[str, tuple[BenchmarkRun, ...]]) -> None:
        counts = {"published_points": 51, "serving_points": 315, "silicon_points": 3175}
        assert {name: len(runs) for name, runs in given.items()} == counts
        assert all(run.source for runs in given.values() for run in runs)
        assert [run.row for run in given["serving_points"]] == list(range(1, 316))

    def test_loads_of_published_points(self, given: dict[str, tuple[BenchmarkRun, ...]]) -> None:
        assert Counter(run.load for run in given["published_points"]) == {
            Load.SATURATED: 34,
            Load.STATIC_BATCH: 9,
            Load.PROMPT_BATCH: 2,
            Load.DECODE_STEP: 4,
            Load.PREFILL_STEP: 2,
        }

    def test_a_cap_a_rank_is_kept_beside_that_of_all(self, given: dict[str, tuple[BenchmarkRun, ...]]) -> None:
        run = given["published_points"][4]
        assert (run.gpu, run.model, run.load) == ("DGX-B200", "deepseek-r1", Load.SATURATED)
        assert run.measured == ((Metric.OUTPUT_RATE, 36384 / 8),)
        assert (run.batch_per_rank, run.concurrency) == (384, 3072)
        assert (run.precision.weight_bytes, run.precision.expert_bytes, run.precision.kv_bytes) == (1, 0.5625, 2)

    def test_a_batch_latency_is_in_ms(self, given: dict[str, tuple[BenchmarkRun, ...]]) -> None:
        run = given["published_points"][43]
        assert (run.gpu, run.measured) == ("MI300X", ((Metric.LATENCY, pytest.approx(117030)),))
        assert (run.concurrency, run.year, run.engine) == (128, 2025, "vllm")

    def test_a_decode_step(self, given: dict[str, tuple[BenchmarkRun, ...]]) -> None:
        run = given["published_points"][28]
        assert (run.gpu, run.decode, run.batch_per_rank) == ("H20", Pool(tp=1, dp=16, ep=16), 56)
        assert (run.precision.mtp_tokens, run.precision.kv_bytes, run.concurrency) == (1, 1, None)
        assert run.measured == ((Metric.OUTPUT_RATE, 712.5),)

    def test_years(self, given: dict[str, tuple[BenchmarkRun, ...]]) -> None:
        assert Counter(run.year for run in given["published_points"]) == {2025: 44, 2023: 5, None: 2}
        assert {run.year for run in given["serving_points"]} == {2025, 2026}

    def test_a_disaggregated_run(self, given: dict[str, tuple[BenchmarkRun, ...]]) -> None:
        run = given["serving_points"][0]
        assert (run.gpu, run.engine, run.concurrency, run.precision.mtp_tokens) == (
            "DGX-B200",
            "dynamo-sglang",
            1024,
            3,
        )
        assert (run.prefill, run.decode) == (Pool(tp=1, dp=4, ep=4), Pool(tp=1, dp=8, ep=8))
        assert dict(run.measured) == {
            Metric.INPUT_RATE: 9172.43,
            Metric.OUTPUT_RATE: 4586.49,
            Metric.TTFT: 1015.588,
            Metric.TPOT: 25.134,
        }
        assert run.input_tokens == pytest.approx(0.9 * 1024)

    def test_pools_have_the_gpus_that_rates_are_told_by(self, given: dict[str, tuple[BenchmarkRun, ...]]) -> None:
        with GIVEN_POINTS[1].open(encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
        for row, run in zip(rows, given["serving_points"], strict=True):
            if row["disaggregated"] == "False":
                assert (run.prefill, run.decode.gpus) == (None, int(row["decode_tp"]))
            elif row["decode_workers"] != "0":
                assert [run.prefill.gpus, run.decode.gpus] == [int(row["prefill_gpus"]), int(row["decode_gpus"])]
                assert [run.prefill.workers, run.decode.workers] == [
                    int(row["prefill_workers"]),
                    int(row["decode_workers"]),
                ]

    def test_what_cannot_be_predicted_says_why(self, given: dict[str, tuple[BenchmarkRun, ...]]) -> None:
        reasons = Counter(item.reason for item in resolve_names(given["serving_points"]))
        assert reasons == {
            "": 312,
            "its degrees and workers do not make up the GPUs that it tells.": 3,
        }


class TestPublishedPoints:
    def test_rates_are_per_gpu(self, published: Writer) -> None:
        (run,) = read_point_table(published())
        assert run.measured == ((Metric.OUTPUT_RATE, 4000),)
        assert (run.load, run.decode, run.prefill, run.disaggregated) == (Load.SATURATED, Pool(tp=2), None, False)
        assert (run.concurrency, run.batch_per_rank, run.year) == (None, None, 2025)

    def test_workers_are_the_gpus_over_a_workers(self, published: Writer) -> None:
        (run,) = read_point_table(published({"tp": "2", "gpus": "8"}))
        assert run.decode == Pool(tp=2, workers=4)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"measured": "0"}, "row 1, column measured must be a number above 0 and at most 1e\\+09, got '0'"),
            ({"measured": "-5"}, "column measured must be a number above 0"),
            ({"measured": "nan"}, "column measured must be a number above 0"),
            ({"measured": ""}, "column measured must be a number above 0"),
            ({"tp": "0"}, "column tp must be a whole number"),
            ({"gpus": "3"}, r"column gpus must be a multiple of tp x dp \(2\), got '3'"),
            ({"ep": "3"}, r"column ep must divide tp x dp \(2\), got '3'"),
            ({"phase_or_metric": "speed"}, "column phase_or_metric must be one of throughput, static batch"),
            (
                {"unit": "s"},
                "column unit must be 'output tok/s of all GPUs' or 'tok/s per GPU' in a row of throughput, got 's'",
            ),
            ({"precision": ""}, "column precision must be formats .FP8, NVFP4.* got ''"),
            ({"phase_or_metric": "static batch"}, "column batch must be a number above 0"),
            ({"isl": "much"}, "column isl must be a number above 0"),
            ({"gpu": ""}, "column gpu must be a name"),
        ],
    )
    def test_a_faulty_cell_is_named(self, published: Writer, change: dict[str, str], message: str) -> None:
        with pytest.raises(InputError, match=message) as refusal:
            read_point_table(published(change))
        assert "published.csv: row 1" in refusal.value.message
        assert refusal.value.hint

    def test_five_faulty_rows_are_told_at_once(self, published: Writer) -> None:
        with pytest.raises(InputError) as refusal:
            read_point_table(published({}, *[{"measured": "0"}] * 7))
        assert [f"row {n}," in refusal.value.message for n in range(1, 9)] == [False, *[True] * 5, False, False]
        assert "And 2 more rows." in refusal.value.message
        assert refusal.value.message.count("published.csv") == 1


class TestServingPoints:
    def test_pools(self, serving: Writer) -> None:
        (run,) = read_point_table(serving())
        assert run.prefill == Pool(tp=8, workers=2)
        assert run.decode == Pool(tp=1, dp=16, ep=16)
        assert (run.load, run.concurrency, run.year) == (Load.CLOSED_LOOP, 512, 2026)

    def test_an_aggregated_row_has_one_pool(self, serving: Writer) -> None:
        (run,) = read_point_table(serving(AGGREGATED))
        assert (run.prefill, run.decode) == (None, Pool(tp=8))

    @pytest.mark.parametrize(
        ("model", "dense_bytes"), [("deepseek-r1", 1.0), ("kimi-k2", 1.0), ("llama-3.1-405b", 0.5625)]
    )
    def test_fp4_is_the_experts_where_attention_stays_in_8_bits(
        self, serving: Writer, model: str, dense_bytes: float
    ) -> None:
        (run,) = read_point_table(serving({"precision": "fp4", "model": model, "mtp": "True"}))
        assert (run.precision.weight_bytes, run.precision.expert_bytes, run.precision.kv_bytes) == (
            dense_bytes,
            0.5625,
            1,
        )
        assert run.precision.mtp_tokens == 3

    def test_degrees_beside_each_other_and_degrees_that_say_nothing(self, serving: Writer) -> None:
        beside = {"decode_tp": "1", "decode_ep": "16"}
        unstated = {"decode_tp": "1", "decode_ep": "1"}
        apart = {"decode_tp": "1", "decode_ep": "16", "decode_dp_attention": "False"}
        assert [run.decode for run in read_point_table(serving(beside, unstated, apart))] == [
            Pool(tp=1, dp=16, ep=16),
            Pool(tp=1, dp=16, ep=16),
            Pool(tp=16, dp=1, ep=16),
        ]

    @pytest.mark.parametrize(
        "change",
        [
            {"decode_gpus": "15"},
            {"prefill_workers": "3"},
            {"decode_ep": "5"},
            {"prefill_workers": "0", "decode_workers": "0"},
            {**AGGREGATED, "decode_ep": "3", "prefill_ep": "3"},
        ],
    )
    def test_degrees_that_do_not_make_up_the_gpus_are_a_reason(self, serving: Writer, change: dict[str, str]) -> None:
        runs = read_point_table(serving({}, change))
        reasons = [item.reason for item in resolve_names(runs)]
        assert reasons == ["", "its degrees and workers do not make up the GPUs that it tells."]
        with pytest.raises(InputError, match=r"serving\.csv: row 2: its degrees and workers"):
            require_names(runs)

    def test_an_aggregated_worker_has_tp_gpus_however_they_are_counted(self, serving: Writer) -> None:
        spread = {"decode_ep": "8", "prefill_ep": "8", "decode_dp_attention": "True", "prefill_dp_attention": "True"}
        counted = {"decode_gpus": "64", "prefill_gpus": "64", "prefill_workers": "1", "decode_workers": "1"}
        (run,) = read_point_table(serving(AGGREGATED | spread | counted))
        assert run.decode == Pool(tp=1, dp=8, ep=8)

    def test_a_rate_may_be_missing_and_times_too(self, serving: Writer) -> None:
        missing = {"input_tokens_per_s_per_gpu": "", "ttft_p50_ms": "", "ttft_p99_ms": ""}
        (run,) = read_point_table(serving(missing))
        assert [metric for metric, _ in run.measured] == [Metric.OUTPUT_RATE, Metric.TPOT]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"output_tokens_per_s_per_gpu": "0"}, "column output_tokens_per_s_per_gpu must be a number above 0"),
            ({"input_tokens_per_s_per_gpu": "-1"}, "column input_tokens_per_s_per_gpu must be a number above 0"),
            (
                {"output_tokens_per_s_per_gpu": "", "input_tokens_per_s_per_gpu": ""},
                "column output_tokens_per_s_per_gpu or input_tokens_per_s_per_gpu must be given",
            ),
            (
                {"concurrency": "256"},
                "row 1: the requests in decode must be at most the 256 in flight, got 480: 1200 output tokens/s per "
                "GPU x 16 GPUs x 25 ms a token",
            ),
            ({"tpot_p50_ms": "0"}, "column tpot_p50_ms must be a number above 0"),
            ({"tpot_p99_ms": "20"}, "column tpot_p99_ms must be at least tpot_p50_ms, got '20'"),
            ({"mtp": "maybe"}, "column mtp must be True or False, got 'maybe'"),
            ({"precision": ""}, "column precision must be formats"),
            ({"date": "May 2026"}, "column date must be a date like 2026-06-11, or empty, got 'May 2026'"),
            ({"decode_gpus": "0"}, "column decode_gpus must be a whole number, at least 1"),
            ({"prefill_workers": "-3"}, "column prefill_workers must be a whole number, at least 0"),
            ({**AGGREGATED, "prefill_tp": "4"}, "column prefill_tp must be as decode_tp in a row that is not"),
            ({"isl": "0"}, "column isl must be a whole number"),
        ],
    )
    def test_a_faulty_row_is_named(self, serving: Writer, change: dict[str, str], message: str) -> None:
        with pytest.raises(InputError, match=message) as refusal:
            read_point_table(serving(change))
        assert "serving.csv: row 1" in refusal.value.message
        assert refusal.value.hint

    def test_five_percent_more_than_in_flight_may_be_the_medians(self, serving: Writer) -> None:
        assert len(read_point_table(serving({"concurrency": "458"}))) == 1
        with pytest.raises(InputError, match="must be at most the 457 in flight"):
            read_point_table(serving({"concurrency": "457"}))


class TestForms:
    @pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "gpu,model\nH200,x\n", "phase_or_metric,disaggregated\n1,2\n"])
    def test_a_table_of_neither_form_is_refused(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "points.csv"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match="the header must name the columns of one form of measured points"):
            read_point_table(path)

    def test_a_missing_column_is_named(self, published: Writer) -> None:
        path = published()
        path.write_text(path.read_text().replace("precision", "accuracy"), encoding="utf-8")
        with pytest.raises(InputError, match="missing: precision"):
            read_point_table(path)

    def test_a_header_alone_is_refused(self, published: Writer) -> None:
        path = published()
        path.write_text(path.read_text().splitlines()[0], encoding="utf-8")
        with pytest.raises(InputError, match="only a header came"):
            read_point_table(path)


class TestNames:
    def test_records_of_names(self, published: Writer) -> None:
        (item,) = resolve_names(read_point_table(published()))
        assert not item.reason
        assert (item.gpu.name, item.model.name) == ("H200", "llama-3.1-70b")

    @pytest.mark.parametrize(
        ("change", "reason", "nearest"),
        [
            ({"gpu": "H200x"}, "there is no GPU type 'H200x'.", "Did you mean H200"),
            ({"model": "llama-3.1-70"}, "there is no model 'llama-3.1-70'.", "Did you mean llama-3.1-70b"),
        ],
    )
    def test_an_unknown_name_is_a_reason_or_an_error(
        self, published: Writer, change: dict[str, str], reason: str, nearest: str
    ) -> None:
        runs = read_point_table(published({}, change))
        items = resolve_names(runs)
        assert [item.reason for item in items] == ["", reason]
        assert items[1].hint.startswith(nearest)
        with pytest.raises(InputError, match=r"published\.csv: row 2: there is no") as refusal:
            require_names(runs)
        assert refusal.value.hint.startswith(nearest)

    def test_further_models_stand_beside_the_shipped_ones(self, published: Writer) -> None:
        runs = read_point_table(published({"model": "nobody-ships-it"}, {}))
        (shipped,) = [item.model for item in resolve_names(runs) if item.model]
        assert [item.model for item in resolve_names(runs, models={"nobody-ships-it": shipped})] == [shipped, shipped]


def test_a_precision_that_is_not_understood_is_a_reason(serving: Writer, published: Writer) -> None:
    for write, text in ((serving, "int8"), (published, "INT3")):
        runs = read_point_table(write({"precision": text}))
        (named,) = resolve_names(runs)
        assert "precision must be formats" in named.reason
        assert f"got {text!r}"[:8] in named.reason
        assert "NVFP4" in named.hint


def test_a_figure_may_be_told_per_gpu_or_in_milliseconds(published: Writer) -> None:
    rates = [read_point_table(published({"unit": unit, "measured": m}))[0] for unit, m in RATES_OF_TWO_GPUS]
    assert {dict(run.measured)[Metric.OUTPUT_RATE] for run in rates} == {100.0}
    assert [run.file_scale for run in rates] == [2.0, 1.0]
    batch = {"phase_or_metric": "batch latency", "batch": "4"}
    latencies = [read_point_table(published({**batch, "unit": unit, "measured": m}))[0] for unit, m in TIMES]
    assert {dict(run.measured)[Metric.LATENCY] for run in latencies} == {2000.0}
    assert {run.file_metric for run in latencies} == {"batch latency"}
