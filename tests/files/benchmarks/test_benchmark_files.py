"""Results of benchmark tools: truths read by hand from their files, what is asked for and what is refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from reference_data import reference_path, reference_text

from planner.domain import BenchmarkRun, Load, Metric, Pool
from planner.errors import InputError
from planner.files import Conditions, load_benchmarks, load_given_benchmarks
from planner.files.benchmarks.benchmark_files import GIVEN_POINTS
from planner.files.benchmarks.conditions import gpu_type_of, plain_model_name

SAID = Conditions(gpu="H200", tp=8, dp=1, ep=8, gpus=8, precision="FP8", engine="vllm")
OF_A_MODEL = replace(SAID, model="llama-3.1-70b")
VLLM = "glm5_fp8_vllm_tp8_isl1024_osl128_conc4.json"
Json = Callable[[dict[str, Any]], Path]


def example(name: str) -> Path:
    return reference_path(f"benchmark_results/{name}")


def document_of(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(reference_text(f"benchmark_results/{name}"))
    return document


def only_run(path: Path, conditions: Conditions = OF_A_MODEL) -> BenchmarkRun:
    (run,) = load_benchmarks([path], conditions)
    return run


@pytest.fixture
def written(tmp_path: Path) -> Json:
    """A document as a file whose name says nothing."""

    def write(document: dict[str, Any]) -> Path:
        path = tmp_path / "result"
        path.write_text(json.dumps(document), encoding="utf-8")
        return path

    return write


class TestVllm:
    def test_a_closed_loop_in_seconds(self) -> None:
        run = only_run(example(VLLM), SAID)
        assert (run.load, run.concurrency) == (Load.CLOSED_LOOP, 4)
        assert (run.model, run.gpu, run.decode, run.prefill) == ("glm-5", "H200", Pool(tp=8, ep=8), None)
        assert (run.input_tokens, run.output_tokens, run.year) == (1024, 128, 2026)
        measured = dict(run.measured)
        assert measured[Metric.OUTPUT_RATE] == pytest.approx(164.7277 / 8, rel=1e-6)
        assert measured[Metric.INPUT_RATE] == pytest.approx(1317.8212 / 8, rel=1e-6)
        assert measured[Metric.TTFT] == pytest.approx(264.99967)
        assert measured[Metric.TPOT] == pytest.approx(21.372462)

    def test_rates_are_per_gpu_of_all_workers(self) -> None:
        run = only_run(example(VLLM), replace(SAID, tp=2, ep=1, gpus=4))
        assert run.decode == Pool(tp=2, workers=2)
        assert dict(run.measured)[Metric.OUTPUT_RATE] == pytest.approx(164.7277 / 4, rel=1e-6)

    def test_times_in_ms_as_the_tool_writes_them(self, written: Json) -> None:
        document = document_of(VLLM)
        for name in ("median_ttft", "median_tpot"):
            document[f"{name}_ms"] = document.pop(name) * 1000
        assert only_run(written(document), SAID).measured == only_run(example(VLLM), SAID).measured

    def test_requests_at_a_rate_have_a_mean_in_flight(self, written: Json) -> None:
        document = document_of(VLLM) | {"request_rate": 1.5, "mean_e2el_ms": 3000.0}
        assert only_run(written(document), SAID).concurrency == pytest.approx(1.2869348 * 3)
        del document["mean_e2el_ms"]
        document |= {"mean_ttft_ms": 300.0, "mean_tpot_ms": 20.0}
        assert only_run(written(document), SAID).concurrency == pytest.approx(1.2869348 * (0.3 + 0.02 * 127))
        del document["mean_tpot_ms"]
        with pytest.raises(InputError, match="mean_e2el_ms must be a number where requests come at a rate") as refusal:
            only_run(written(document), SAID)
        assert "--percentile-metrics" in refusal.value.hint

    @pytest.mark.parametrize("rate", ["inf", None, float("inf")])
    def test_all_prompts_at_once(self, written: Json, rate: object) -> None:
        run = only_run(written(document_of(VLLM) | {"max_concurrency": None, "request_rate": rate}), SAID)
        assert (run.load, run.concurrency) == (Load.SATURATED, 40)

    def test_drafted_tokens(self, written: Json) -> None:
        drafts = {"spec_decode_num_drafts": 100, "spec_decode_draft_tokens": 300, "spec_decode_acceptance_length": 2.4}
        run = only_run(written(document_of(VLLM) | drafts), SAID)
        assert (run.precision.mtp_tokens, run.mtp_gain) == (3, 2.4)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"completed": 0}, "completed must be a whole number of at least 1"),
            ({"output_throughput": 0}, "output_throughput must be a number of more than 0"),
            ({"output_throughput": -1}, "output_throughput must be a number of more than 0"),
            ({"output_throughput": float("nan")}, "output_throughput must be finite"),
            (
                {"output_throughput": 400.0},
                r"output_throughput must be total_output_tokens / duration \(164.7\), got 400",
            ),
            ({"median_tpot": 21.37}, "the requests in decode must be at most the 4 in flight, got 3520"),
            ({"median_ttft": "fast"}, "median_ttft must be a number"),
            ({"request_rate": "often"}, "request_rate must be one of inf"),
            ({"max_concurrency": 0}, "max_concurrency must be a whole number of at least 1"),
            ({"total_input_tokens": None}, "total_input_tokens must be a whole number"),
        ],
    )
    def test_what_cannot_be_is_named(self, written: Json, change: dict[str, object], message: str) -> None:
        with pytest.raises(InputError, match=message) as refusal:
            only_run(written(document_of(VLLM) | change), SAID)
        assert "/result: " in refusal.value.message


class TestLlmdReport:
    def test_the_example(self) -> None:
        run = only_run(example("br_v0_2_1_example.yaml"), Conditions(precision="BF16"))
        assert (run.gpu, run.model) == ("H100", "Qwen/Qwen3-0.6B")
        assert (run.prefill, run.decode) == (None, Pool(tp=8, workers=2))
        assert (run.load, run.year, run.precision.kv_bytes) == (Load.CLOSED_LOOP, 2025, 2)
        assert run.concurrency == pytest.approx(2262.448 * 0.0368578234128654)
        assert dict(run.measured) == {
            Metric.INPUT_RATE: pytest.approx(2262.448 / 16),
            Metric.OUTPUT_RATE: pytest.approx(2262.448 / 16),
            Metric.TTFT: pytest.approx(36.22930939309299),
        }
        assert run.source == "llm-d Benchmark Report 0.2.1 of inference-perf 0.3.0"

    def test_another_version_is_refused_by_name(self) -> None:
        with pytest.raises(InputError) as refusal:
            only_run(example("br_v0_1_example.yaml"))
        message = refusal.value.message
        assert "br_v0_1_example.yaml: version must be 0.2 or 0.2.x, the llm-d Benchmark Report" in message
        assert "got '0.1'" in message

    def report(self, tmp_path: Path, *changes: tuple[str, str]) -> Path:
        text = reference_text("benchmark_results/br_v0_2_1_example.yaml")
        for before, after in changes:
            assert before in text
            text = text.replace(before, after, 1)
        path = tmp_path / "report"
        path.write_text(text, encoding="utf-8")
        return path

    @pytest.mark.parametrize(
        ("before", "after", "message"),
        [
            ("version: 0.2.1", "version: 0.3.0", "version must be 0.2 or 0.2.x.* got '0.3.0'"),
            ("version: 0.2.1", "version: 2", "version must be 0.2 or 0.2.x.* got 2"),
            ("total: 500", "total: many", "results.request_performance.aggregate.requests.total breaks the schema"),
            ("          pp: 1", "          pp: 2", "pp must be 1: engines with pipeline stages are not predicted"),
            ("          ep: 1", "          ep: 3", r"parallelism.ep must be a divisor of tp x dp \(8\), got 3"),
            ("        count: 8", "        count: 4", r"accelerator.count must be tp x dp \(8\), or that of all 2"),
            (
                "role: decode\n      tool: llm-d",
                "role: prefill\n      tool: llm-d",
                "must have engines for decode beside those for prefill",
            ),
            ("start: '2025-11-05T18:00:42Z'", "start: 'soon'", "run.time.start must be a date"),
            ("rate_qps: 10.0", "rate_qps: -1.0", "rate_qps breaks the schema"),
        ],
    )
    def test_what_cannot_be_is_named(self, tmp_path: Path, before: str, after: str, message: str) -> None:
        with pytest.raises(InputError, match=message) as refusal:
            only_run(self.report(tmp_path, (before, after)), Conditions(precision="FP8"))
        assert f"{tmp_path}/report: " in refusal.value.message

    def test_a_closed_loop(self, tmp_path: Path) -> None:
        path = self.report(tmp_path, ("concurrency: .inf", "concurrency: 96"), ("      rate_qps: 10.0\n", ""))
        assert only_run(path, Conditions(precision="FP8")).concurrency == 96

    def test_a_disaggregated_stack(self, tmp_path: Path) -> None:
        text = reference_text("benchmark_results/br_v0_2_1_example.yaml")
        begin, end = text.index("  stack:\n") + len("  stack:\n"), text.index("  - metadata:\n      cfg_id: 47000e")
        engine = text[begin:end]
        prefill = engine.replace("role: decode", "role: prefill").replace("replicas: 2", "replicas: 3")
        path = self.report(tmp_path, (engine, engine + prefill))
        run = only_run(path, Conditions(precision="FP8"))
        assert (run.prefill, run.decode) == (Pool(tp=8, workers=3), Pool(tp=8, workers=2))
        assert dict(run.measured)[Metric.INPUT_RATE] == pytest.approx(2262.448 / 24)
        assert only_run(path, Conditions(precision="FP8", tp=8, gpus=40)).decode.tp == 8
        with pytest.raises(InputError, match="gpus is 40 there, --gpus must say the same, got 16"):
            only_run(path, Conditions(precision="FP8", gpus=16))


class TestGuidellm:
    NAME = "guidellm_report_v2.json"

    def test_each_benchmark_is_a_run(self) -> None:
        runs = load_benchmarks([example(self.NAME)], replace(SAID, model="mine"))
        assert [(run.row, run.input_tokens, run.output_tokens) for run in runs] == [(1, 71.5, 8), (2, 65.5, 8)]
        assert [run.concurrency for run in runs] == pytest.approx(
            [0.3984343 * 0.0197891, 0.7940882 * 0.0176339], rel=1e-5
        )
        assert dict(runs[0].measured) == {
            Metric.INPUT_RATE: pytest.approx(28.606128 / 8),
            Metric.OUTPUT_RATE: pytest.approx(3.1950676 / 8),
            Metric.TTFT: pytest.approx(11.2760067),
            Metric.TPOT: pytest.approx(1.0459764),
        }
        assert {(run.model, run.year, run.source) for run in runs} == {("mine", 2026, "guidellm 0.8.0.dev18")}

    @pytest.mark.parametrize(
        ("strategy", "load", "concurrency"),
        [
            ({"type_": "concurrent", "streams": 12}, Load.CLOSED_LOOP, 12),
            ({"type_": "synchronous"}, Load.CLOSED_LOOP, 1),
            ({"type_": "throughput", "max_concurrency": 512}, Load.SATURATED, 512),
            ({"type_": "throughput", "max_concurrency": None}, Load.SATURATED, None),
        ],
    )
    def test_strategies(self, written: Json, strategy: dict[str, object], load: Load, concurrency: float) -> None:
        document = document_of(self.NAME)
        document["benchmarks"][0]["config"]["strategy"] = strategy
        run = load_benchmarks([written(document)], OF_A_MODEL)[0]
        assert (run.load, run.concurrency) == (load, concurrency)

    def test_another_version_is_refused_by_name(self, written: Json) -> None:
        document = document_of(self.NAME)
        document["metadata"]["version"] = 1
        with pytest.raises(InputError, match=r"metadata\.version must be 2, the guidellm report that is read, got 1"):
            load_benchmarks([written(document)], OF_A_MODEL)

    @pytest.mark.parametrize(
        ("path", "value", "message"),
        [
            (("metrics", "request_totals", "successful"), 0, r"benchmarks\[1\].metrics.request_totals.successful"),
            (
                ("metrics", "output_tokens_per_second", "successful", "mean"),
                0.0,
                "successful.mean must be a number of more",
            ),
            (
                ("metrics", "inter_token_latency_ms", "successful", "median"),
                900.0,
                r"benchmarks\[1\]: the requests in decode",
            ),
            (("metrics",), [], r"benchmarks\[1\].metrics must be a mapping"),
            (("config", "strategy"), {"type_": "concurrent", "streams": 0}, "streams must be a whole number"),
        ],
    )
    def test_a_faulty_benchmark_is_named(
        self, written: Json, path: tuple[str, ...], value: object, message: str
    ) -> None:
        document = document_of(self.NAME)
        section = document["benchmarks"][1]
        for key in path[:-1]:
            section = section[key]
        section[path[-1]] = value
        with pytest.raises(InputError, match=message):
            load_benchmarks([written(document)], OF_A_MODEL)


class TestInferencePerf:
    def test_a_stage(self) -> None:
        run = only_run(example("stage_3_lifecycle_metrics.json"))
        assert run.concurrency == pytest.approx(188.06393)
        assert dict(run.measured)[Metric.TTFT] == pytest.approx(105.48265)
        assert dict(run.measured)[Metric.TPOT] == pytest.approx(12.626599)
        assert dict(run.measured)[Metric.OUTPUT_RATE] == pytest.approx(869.46634)

    def test_stages_stay_in_order(self) -> None:
        paths = [example(f"stage_{stage}_lifecycle_metrics.json") for stage in (6, 0)]
        assert [run.concurrency for run in load_benchmarks(paths, OF_A_MODEL)] == pytest.approx([431.57154, 0.48170636])

    def test_the_summary_of_all_stages_is_refused(self) -> None:
        with pytest.raises(InputError, match="must be of one stage, got the summary of all") as refusal:
            only_run(example("summary_lifecycle_metrics.json"))
        assert "stage_N_lifecycle_metrics.json" in refusal.value.hint

    @pytest.mark.parametrize(("median_s", "message"), [(0.02, ""), (12.6, "the requests in decode must be at most")])
    def test_a_median_may_be_above_the_mean_but_not_in_ms(self, written: Json, median_s: float, message: str) -> None:
        document = document_of("stage_3_lifecycle_metrics.json")
        document["successes"]["latency"]["time_per_output_token"]["median"] = median_s
        if not message:
            assert dict(only_run(written(document)).measured)[Metric.TPOT] == 20
            return
        with pytest.raises(InputError, match=message):
            only_run(written(document))

    def test_a_stage_without_answers_is_refused(self, written: Json) -> None:
        document = document_of("stage_0_lifecycle_metrics.json")
        document["successes"]["count"] = 0
        with pytest.raises(InputError, match=r"successes\.count must be a whole number of at least 1"):
            only_run(written(document))

    def test_a_stage_that_was_not_streamed_has_no_first_token(self, written: Json) -> None:
        document = document_of("stage_0_lifecycle_metrics.json")
        document["successes"]["latency"] |= {"time_to_first_token": None, "time_per_output_token": None}
        metrics = [metric for metric, _ in only_run(written(document)).measured]
        assert metrics == [Metric.INPUT_RATE, Metric.OUTPUT_RATE]


class TestConditions:
    def test_all_that_is_missing_is_asked_for_at_once(self) -> None:
        with pytest.raises(InputError, match="missing: gpu, model, tp, dp, ep, gpus, precision") as refusal:
            load_benchmarks([example("stage_0_lifecycle_metrics.json")])
        assert refusal.value.hint.startswith("Give --gpu, --model, --tp, --dp, --ep, --gpus, --precision.")
        assert "--engine" in refusal.value.hint

    def test_of_several_files_too(self) -> None:
        paths = [example("br_v0_2_1_example.yaml"), example(VLLM)]
        with pytest.raises(InputError, match="missing: gpu, tp, dp, ep, gpus, precision"):
            load_benchmarks(paths)

    def test_what_a_file_says_is_not_asked_for(self) -> None:
        with pytest.raises(InputError, match="missing: precision"):
            load_benchmarks([example("br_v0_2_1_example.yaml")])

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"gpu": "H200"}, "gpu is 'NVIDIA-H100-80GB-HBM3' there, --gpu must say the same, got 'H200'"),
            ({"model": "llama-3.1-70b"}, "model is 'Qwen/Qwen3-0.6B' there, --model must say the same"),
            ({"tp": 4}, "tp is 8 there, --tp must say the same, got 4"),
            ({"dp": 2}, "dp is 1 there"),
            ({"ep": 8}, "ep is 1 there"),
            ({"gpus": 8}, "gpus is 16 there"),
        ],
    )
    def test_contradictions(self, change: dict[str, Any], message: str) -> None:
        path = example("br_v0_2_1_example.yaml")
        assert only_run(path, Conditions(precision="FP8", gpu="H100", tp=8, dp=1, ep=1, gpus=16, model="qwen3-0.6b"))
        with pytest.raises(InputError, match=message):
            only_run(path, Conditions(precision="FP8", **change))

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"gpus": 12}, r"--gpus must be a multiple of --tp x --dp \(8\), got 12"),
            ({"ep": 3}, r"--ep must divide --tp x --dp \(8\), got 3"),
            ({"precision": "INT4"}, "--precision must be formats"),
        ],
    )
    def test_flags_that_do_not_fit_each_other(self, change: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            only_run(example(VLLM), replace(SAID, **change))

    def test_a_flag_below_one(self) -> None:
        with pytest.raises(InputError, match="--tp must be a whole number of at least 1, got 0"):
            Conditions(tp=0)

    def test_a_table_of_points_says_all_itself(self) -> None:
        assert len(load_benchmarks(GIVEN_POINTS)) == len(load_given_benchmarks())
        with pytest.raises(
            InputError, match=r"published_points\.csv: row 1: gpu is 'A100' there, --gpu must say the same"
        ):
            load_benchmarks(GIVEN_POINTS, Conditions(gpu="H100"))
        with pytest.raises(InputError, match="row 1: precision is 'BF16, MXFP4 experts' there, --precision must say"):
            load_benchmarks(GIVEN_POINTS, Conditions(precision="FP8"))

    @pytest.mark.parametrize(
        ("product", "name"),
        [
            ("NVIDIA-H100-80GB-HBM3", "H100"),
            ("NVIDIA H200", "H200"),
            ("NVIDIA-B200", "DGX-B200"),
            ("NVIDIA GB200", "GB200-NVL72"),
            ("AMD_Instinct_MI300X_OAM", "MI300X"),
            ("NVIDIA-H20-3e", "H20-3E"),
            ("NVIDIA-H100-PCIe", ""),
            ("NVIDIA-L40S", "L40S"),
            ("NVIDIA-L40", ""),
            ("NVIDIA H100 NVL", "H100-NVL"),
            ("NVIDIA-H200-NVL", ""),
            ("AMD Instinct MI355 OAM", "MI355X"),
            ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000"),
            ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", ""),
            ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", ""),
            ("NVIDIA-A40", ""),
            ("AMD_Instinct_MI355X_OAM", "MI355X"),
        ],
    )
    def test_gpu_types_by_what_drivers_write(self, product: str, name: str) -> None:
        assert gpu_type_of(product) == name

    @pytest.mark.parametrize(
        ("written", "plain"),
        [
            ("deepseek-ai/DeepSeek-R1-0528", "deepseek-r1"),
            ("nvidia/DeepSeek-R1-FP4-v2", "deepseek-r1"),
            ("meta-llama/Meta-Llama-3.1-70B-Instruct", "llama-3.1-70b"),
            ("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", "qwen3-235b-a22b"),
            ("llama-3.1-70b", "llama-3.1-70b"),
        ],
    )
    def test_models_by_what_servers_write(self, written: str, plain: str) -> None:
        assert plain_model_name(written) == plain

    def test_a_model_that_is_shipped_takes_our_name(self, written: Json) -> None:
        document = document_of(VLLM) | {"model_id": "deepseek-ai/DeepSeek-R1-0528"}
        assert only_run(written(document), SAID).model == "deepseek-r1"
        assert only_run(written(document), replace(SAID, model="deepseek-r1")).model == "deepseek-r1"
        with pytest.raises(InputError, match="model is 'deepseek-ai/DeepSeek-R1-0528' there"):
            only_run(written(document), replace(SAID, model="deepseek-v3"))


class TestRecognition:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "must be a mapping of keys to values, got an empty file"),
            ("{}", "must be a benchmark result in a format that is read, got the keys"),
            ("{", "is not readable JSON"),
            ("[1, 2]", "must be a mapping"),
            ("a: 1\nb: 2\n", "must be a benchmark result in a format that is read, got the keys a, b"),
            ("a: [", "result"),
            ('{"request_throughput": {"unit": "requests/sec", "avg": 3}}', "must be a benchmark result"),
        ],
    )
    def test_what_is_no_result_is_refused(self, tmp_path: Path, text: str, message: str) -> None:
        path = tmp_path / "result"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=message):
            load_benchmarks([path], OF_A_MODEL)

    def test_a_missing_file_and_a_folder(self, tmp_path: Path) -> None:
        for path in (tmp_path / "none.json", tmp_path):
            with pytest.raises(InputError, match=r"there is no such file|it is a folder"):
                load_benchmarks([path], OF_A_MODEL)

    def test_a_table_whose_header_is_quoted(self, tmp_path: Path) -> None:
        header, *rows = GIVEN_POINTS[0].read_text(encoding="utf-8").splitlines()
        path = tmp_path / "result"
        text = "\n".join([",".join(f'"{name}"' for name in header.split(",")), *rows])
        path.write_bytes(b"\xef\xbb\xbf" + text.encode())
        assert len(load_benchmarks([path])) == 51

    def test_nothing_is_nothing(self) -> None:
        assert load_benchmarks([]) == ()
