"""The serving points of aiconfigurator-core as we read them, and that none of them is one that is kept aside."""

import csv
import hashlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from reference_data import FOLDER

from planner.domain import BenchmarkRun, Metric, Pool
from planner.files import load_given_benchmarks, resolve_names
from planner.files.benchmarks.benchmark_files import GIVEN_POINTS
from planner.files.disk.opening import text_lines

POINTS = GIVEN_POINTS[-1]
RESERVED = "012345"
RULE = (
    *("model_path", "system", "backend", "backend_version", "precision", "mode", "isl", "osl"),
    *("gemm_quant_mode", "moe_quant_mode", "tp_size", "pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size"),
    *("prefill_num_workers", "prefill_tp_size", "prefill_attention_dp_size"),
    *("decode_num_workers", "decode_tp_size", "decode_attention_dp_size", "decode_moe_ep_size"),
)
"""What decides whether a row is kept aside for acceptance."""


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(text_lines(path)))


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    return rows_of(POINTS)


@pytest.fixture(scope="module")
def runs() -> tuple[BenchmarkRun, ...]:
    return tuple(run for run in load_given_benchmarks() if run.file == str(POINTS))


def tpot(run: BenchmarkRun) -> float:
    return dict(run.measured)[Metric.TPOT]


def setting(run: BenchmarkRun, *, pool: object = None) -> tuple[object, ...]:
    """All that was set, but for the engine's version and the drafts."""
    sizes = (run.precision.weight_bytes, run.precision.expert_bytes)
    return (run.gpu, run.model, run.input_tokens, run.output_tokens, run.concurrency, sizes, pool or run.decode)


def test_no_row_of_any_file_is_one_that_is_kept_aside() -> None:
    tables = (*POINTS.parent.rglob("*.csv*"), *FOLDER.rglob("*.csv*"))
    of_this_form = [path for path in tables if set(RULE) <= set(next(text_lines(path), "").strip().split(","))]
    assert POINTS in of_this_form
    for path in of_this_form:
        for row in rows_of(path):
            digest = hashlib.sha256("|".join(row[column] for column in RULE).encode()).hexdigest()
            assert digest[0] not in RESERVED, (path, row["id"])


def test_every_row_names_a_gpu_and_a_model_that_we_know(runs: tuple[BenchmarkRun, ...]) -> None:
    assert [run.row for run in runs] == list(range(1, 3176))
    assert {entry.reason for entry in resolve_names(runs) if entry.gpu is None or entry.model is None} == set()
    assert all(bool(entry.reason) == bool(run.doubt) for entry, run in zip(resolve_names(runs), runs, strict=True))


def test_what_is_in_doubt(runs: tuple[BenchmarkRun, ...]) -> None:
    doubts = Counter(run.doubt.partition(" row ")[0] for run in runs)
    assert doubts == {
        "": 1907,
        "it does not tell how many workers its pools have.": 809,
        "it is the measurement of": 308,
        "it does not tell whether drafts were on.": 81,
        "its degrees look like those of a pool of split serving.": 37,
        "its batch size and concurrency do not agree.": 23,
        "it does not tell its concurrency.": 10,
    }


def test_an_aggregated_run_by_hand(runs: tuple[BenchmarkRun, ...]) -> None:
    """The second row: 256 in flight, 921.6 tokens in and out, TTFT 362.27 and TPOT 23.393 ms, on four GPUs."""
    run = runs[1]
    assert (run.gpu, run.model, run.engine, run.engine_version) == ("DGX-B300", "minimax-m2.5", "vllm", "0.19.0")
    assert (run.prefill, run.decode, run.concurrency) == (None, Pool(tp=4, ep=4), 256)
    seconds = (362.26821922969066 + 921.6 * 23.392508817238788) / 1000
    assert dict(run.measured)[Metric.OUTPUT_RATE] == pytest.approx(256 / seconds * 921.6 / 4)
    assert (run.precision.weight_bytes, run.precision.kv_bytes, run.year) == (1, 1, 2026)


def test_a_split_run_by_hand(rows: list[dict[str, str]], runs: tuple[BenchmarkRun, ...]) -> None:
    place = next(n for n, row in enumerate(rows) if row["id"] == "kimik2_5_gb200_trtllm_fp4_disagg_1024x1024_c4_cfg759")
    run = runs[place]
    assert (run.prefill, run.decode) == (Pool(tp=1, dp=4, ep=4), Pool(tp=8, ep=8, workers=4))
    requests_per_s = 4 / ((195.51323120103916 + 921.6 * 5.316830920749418) / 1000)
    measured = dict(run.measured)
    assert measured[Metric.OUTPUT_RATE] == pytest.approx(requests_per_s * 921.6 / 32)
    assert measured[Metric.INPUT_RATE] == pytest.approx(requests_per_s * 921.6 / 4)
    assert (run.precision.weight_bytes, run.precision.expert_bytes, run.model) == (2, 0.5625, "kimi-k2.5-nvfp4")


class TestDegrees:
    def test_one_measurement_has_one_pool_however_it_is_told(
        self, rows: list[dict[str, str]], runs: tuple[BenchmarkRun, ...]
    ) -> None:
        """Aggregated rows of equal times: the squares of one export are the degrees of the other."""
        pools: dict[tuple[str, ...], set[Pool]] = {}
        labels: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
        for row, run in zip(rows, runs, strict=True):
            key = (row["system"], row["isl"], row["osl"], row["silicon_ttft_ms"], row["silicon_tpot_ms"])
            if row["mode"] == "agg":
                pools.setdefault(key, set()).add(run.decode)
                names = ("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
                labels.setdefault(key, set()).add(tuple(row[name] for name in names))
        assert sum(len(told) > 1 for told in labels.values()) >= 20
        assert {key: told for key, told in pools.items() if len(told) > 1} == {}

    def test_groups_that_were_told_of_vllm_are_none(
        self, rows: list[dict[str, str]], runs: tuple[BenchmarkRun, ...]
    ) -> None:
        """tp n, dp n is as fast as tp n, ep n of the same GPU, lengths and load."""
        alike: dict[tuple[object, ...], dict[bool, float]] = {}
        for row, run in zip(rows, runs, strict=True):
            if run.engine == "vllm" and run.decode.ep > 1 and not run.doubt and not run.disaggregated:
                told_groups = row["attention_dp_size"] not in ("", "1")
                alike.setdefault((*setting(run), run.engine_version), {})[told_groups] = tpot(run)
        ratios = [both[True] / both[False] for both in alike.values() if len(both) == 2]
        assert len(ratios) >= 20
        assert np.median(np.abs(np.log(ratios))) < 0.01
        assert np.mean(np.abs(np.log(ratios)) < 0.03) >= 0.9  # two of H100 wait for room in the cache


class TestDrafts:
    def test_they_are_as_in_our_own_rows_of_the_same_setting(self, runs: tuple[BenchmarkRun, ...]) -> None:
        """Aggregated rows of DeepSeek beside ours of InferenceX, which say it: near the one, apart from the other."""
        own: dict[tuple[object, ...], dict[bool, float]] = {}
        for run in load_given_benchmarks():
            if run.file == str(GIVEN_POINTS[1]) and not run.disaggregated:
                own.setdefault(self.work(run), {})[run.precision.mtp_tokens > 0] = tpot(run)
        same, other = [], []
        for run in runs:
            if run.model.startswith("deepseek") and not run.doubt:
                for drafted, theirs in own.get(self.work(run), {}).items():
                    told_alike = drafted == (run.precision.mtp_tokens > 0)
                    (same if told_alike else other).append(abs(np.log(tpot(run) / theirs)))
        assert (len(same), len(other)) == (57, 34)
        assert np.median(same) < 0.02
        assert np.min(other) > 0.08

    @staticmethod
    def work(run: BenchmarkRun) -> tuple[object, ...]:
        return (
            run.gpu,
            "trt" if run.engine.startswith("trt") else run.engine,
            run.precision.text,
            *(run.input_tokens, run.output_tokens, run.concurrency, run.decode.dp, run.decode.gpus, run.decode.ep),
        )


def test_copies_of_a_measurement_count_once(runs: tuple[BenchmarkRun, ...]) -> None:
    seen = Counter(
        (run.gpu, run.engine, run.input_tokens, run.output_tokens, run.concurrency, *map(round_of, run.measured))
        for run in runs
        if not run.doubt
    )
    assert max(seen.values()) == 1
    for run in runs:
        if run.doubt.startswith("it is the measurement"):
            original = runs[int(run.doubt.rstrip(".").rpartition(" ")[2]) - 1]
            assert original.doubt == ""
            assert (original.gpu, original.concurrency, round(tpot(original), 2)) == (
                run.gpu,
                run.concurrency,
                round(tpot(run), 2),
            )


def round_of(pair: tuple[Metric, float]) -> float:
    return round(pair[1], 2) if pair[0].is_time else 0.0
