"""`planner cost`: steps explained, configurations compared, measurements fitted, and what is refused."""

import re
from pathlib import Path

import pytest
from command_line import Command

from planner.errors import EXIT_BAD_INPUT, EXIT_DONE, EXIT_INFEASIBLE

EXPLAIN = (
    *("cost", "explain", "--gpu", "H20", "--model", "deepseek-v3", "--phase", "decode"),
    *("--tp", "1", "--devices", "32", "--length", "4096"),
)
MEASURED = """\
gpu,model,phase,tp,dp,ep,length,batch,ms
H200,deepseek-v3,decode,1,16,16,1024,64,48
H200,deepseek-v3,decode,1,16,16,4096,64,61
H200,deepseek-v3,decode,1,16,16,4096,128,95
H200,deepseek-v3,prefill,1,16,16,4096,4,2500
"""


@pytest.fixture
def measured(planner: Command) -> Path:
    path = Path("measured.csv")
    path.write_text(MEASURED, encoding="utf-8")
    return path


def test_explain_tells_parts_bounds_memory_and_origin(planner: Command) -> None:
    answer = planner(*EXPLAIN)
    assert answer.status == EXIT_DONE
    for word in ("attention", "routed experts", "dispatch", "combine", "projections", "bound by", "KV cache"):
        assert word in answer.out
    origin = answer.out.partition("origin of the estimate: ")[2]
    assert origin.startswith("published measurement (deepseek-r1 on H20: published measurements ")


def test_explain_tells_the_band_and_the_digits_that_it_allows(planner: Command) -> None:
    explained = planner(*EXPLAIN, "--json").json
    band, exact = explained["band"], explained["tokens_per_s_per_gpu"]
    assert 0 < band["low"] < band["high"]
    said = re.search(r"about ([\d,]+) tokens/s per GPU \(([\d,]+)–([\d,]+): ([^)]+)\)", planner(*EXPLAIN).out)
    assert said[4] == band["basis"]
    rate, low, high = (float(figure.replace(",", "")) for figure in said.groups()[:3])
    half_of_the_last_digit = 50
    assert abs(rate - exact) <= half_of_the_last_digit
    assert abs(low - exact * band["low"]) <= half_of_the_last_digit
    assert abs(high - exact * band["high"]) <= half_of_the_last_digit
    assert rate % half_of_the_last_digit == 0


def test_a_calibration_tells_how_far_it_was_off_what_it_did_not_see(planner: Command) -> None:
    rows = "".join(f"H20,deepseek-v3,decode,1,32,32,4096,{batch},{ms}\n" for batch, ms in ((8, 30), (32, 41), (64, 55)))
    Path("three.csv").write_text("gpu,model,phase,tp,dp,ep,length,batch,ms\n" + rows, encoding="utf-8")
    assert planner("cost", "calibrate", "three.csv", "--engine", "vllm", "--out", "mine.yaml").status == EXIT_DONE
    calibrated = ("--engine", "vllm", "--calibration", "mine.yaml")
    explained = planner(*EXPLAIN, *calibrated, "--json").json
    assert explained["band"]["basis"] == "3 left-out points of deepseek-v3 on H20 in decode, the user's own"
    text = Path("mine.yaml").read_text(encoding="utf-8")
    low = re.search(r"low: ([\d.]+)", text)
    assert low is not None
    Path("odd.yaml").write_text(text.replace(low[0], "low: 99.0"), encoding="utf-8")
    refused = planner(*EXPLAIN, "--calibration", "odd.yaml")
    assert refused.status == 2
    assert "odd.yaml: bands.H20 deepseek-v3 decode.low must be at most high" in refused.err


def test_only_what_was_measured_is_called_so(planner: Command) -> None:
    options = ("--phase", "prefill", "--tp", 8, "--devices", 8, "--length", 4096)
    mixtral = planner("cost", "explain", "--gpu", "H100", "--model", "mixtral-8x7b", *options)
    assert "origin of the estimate: carried over (no measurement of this model)" in mixtral.out
    assert "mixtral" not in mixtral.out.partition("origin")[2]
    assert "published measurement" not in mixtral.out
    options = ("--phase", "prefill", "--tp", 1, "--devices", 32, "--length", 4096)
    deepseek = planner("cost", "explain", "--gpu", "H100", "--model", "deepseek-v3", *options)
    assert "origin of the estimate: published measurement (deepseek-r1 on H100: published " in deepseek.out


def test_explained_parts_add_up(planner: Command) -> None:
    found = planner(*EXPLAIN, "--batch", "64", "--json").json
    assert sum(part["ms"] for part in found["parts"]) - found["hidden_ms"] == pytest.approx(found["total_ms"])
    assert {part["bound"] for part in found["parts"]} <= {"compute", "memory", "network", "latency"}
    assert found["batch"] == 64
    assert found["tokens_per_s_per_gpu"] == pytest.approx(64 / found["total_ms"] * 1000)
    assert found["tokens_per_s_per_gpu"] < found["roofline_tokens_per_s_per_gpu"]
    assert {factor["name"] for factor in found["factors"]} >= {"memory", "gemm", "kernels_decode"}


def test_no_part_is_told_below_what_the_data_sheet_leaves_it(planner: Command) -> None:
    explained = planner(*EXPLAIN, "--batch", "64", "--json").json
    limits = {part["name"]: part["limit_ms"] for part in explained["parts"]}
    assert all(limits[part["name"]] <= part["ms"] for part in explained["parts"])
    assert limits["head"] == pytest.approx(2 * 64 * 129280 * 7168 / 148e9)  # an H20 has 148 TFLOP/s
    assert limits["scheduling"] == limits["small kernels"] == 0
    text = planner(*EXPLAIN, "--batch", "64").out
    row = next(line for line in text.splitlines() if "head" in line)
    assert f"{limits['head']:.6g}" in row
    least_ms = 64 / explained["roofline_tokens_per_s_per_gpu"] * 1000
    assert f"the roofline, a step: {least_ms:,.2f} ms" in text


def test_measured_kernels_stand_beside_formulas_and_limits(planner: Command) -> None:
    options = ("--gpu", "H200", "--model", "llama-3.1-70b", "--phase", "decode", "--tp", 8, "--devices", 8)
    words = ("cost", "explain", *options, "--length", 4096, "--batch", 32)
    plain, measured = planner(*words, "--json").json, planner(*words, "--engine", "vllm", "--json").json
    formulas = {part["name"]: part["ms"] for part in plain["parts"]}
    assert all(part["measured_ms"] is None and part["basis"] == "formula" for part in plain["parts"])
    for part in measured["parts"]:
        assert part["formula_ms"] == pytest.approx(formulas[part["name"]])
        assert part["ms"] == part["measured_ms"]
        assert part["basis"] in {"measured", "interpolated", "scaled"}
    text = planner(*words, "--engine", "vllm").out
    assert "formula" in text
    assert "interpolated" in text
    assert "formula" not in planner(*words).out
    refused = planner(*words, "--engine", "other")
    assert (refused.status, "other" in refused.err) == (EXIT_BAD_INPUT, True)


MIXED = (
    *("cost", "explain", "--gpu", "H200", "--model", "deepseek-v3", "--phase", "mixed"),
    *("--tp", "1", "--devices", "8", "--length", "4096"),
)


def test_a_mixed_pass_is_explained_part_by_part(planner: Command) -> None:
    answer = planner(*MIXED, "--batch", "32", "--chunk", "2048")
    assert answer.status == EXIT_DONE
    assert "mixed, 4096 tokens, batch 32, chunk 2048 of prompts of 4096 (ms)" in answer.out
    for word in ("attention of sequences", "routed experts", "dispatch", "bound by", "KV cache", "origin of the estim"):
        assert word in answer.out
    explained = planner(*MIXED, "--batch", "32", "--chunk", "2048", "--json").json
    assert (explained["phase"], explained["chunk"], explained["prompt"]) == ("mixed", 2048, 4096)
    assert sum(part["ms"] for part in explained["parts"]) * explained["waiting"] == pytest.approx(explained["total_ms"])
    assert explained["tokens_per_s_per_gpu"] == pytest.approx((2048 + 32) / explained["total_ms"] * 1000)
    assert explained["tokens_per_s_per_gpu"] < explained["roofline_tokens_per_s_per_gpu"]
    assert planner(*MIXED, "--figure", "mixed.png").status == EXIT_DONE


def test_a_mixed_pass_has_more_to_do_than_either_of_its_halves(planner: Command) -> None:
    both = planner(*MIXED, "--batch", "32", "--json").json
    assert both["chunk"] == both["prompt"] == 4096
    alone = [word if word != "mixed" else "decode" for word in MIXED]
    decode = planner(*alone, "--batch", "32", "--no-two-micro-batches", "--json").json
    assert both["total_ms"] > decode["total_ms"]
    shorter = planner(*MIXED, "--batch", "32", "--prompt", "1024", "--json").json
    assert (shorter["chunk"], shorter["prompt"]) == (1024, 1024)
    assert decode["total_ms"] < shorter["total_ms"] < both["total_ms"]
    cached = planner(*MIXED, "--batch", "32", "--kv-cache-rate", "0.5", "--json").json
    assert cached["chunk"] == 2048
    assert planner(*MIXED, "--json").json["batch"] > 32


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--phase", "decode", "--chunk", "64"), EXIT_BAD_INPUT, "--chunk: belongs to mixed, got decode"),
        (("--phase", "prefill", "--prompt", "64"), EXIT_BAD_INPUT, "--prompt: belongs to mixed, got prefill"),
        (("--chunk", "0"), EXIT_BAD_INPUT, "--chunk: must be at least 1, got 0"),
        (("--prompt", "0"), EXIT_BAD_INPUT, "--prompt: must be at least 1, got 0"),
        (("--batch", "-1"), EXIT_BAD_INPUT, "--batch: must be at least 1, got -1"),
        (("--length", "0"), EXIT_BAD_INPUT, "--length: must be at least 1, got 0"),
        (("--chunk", "16385"), EXIT_BAD_INPUT, "--chunk: must be at most 16384, the budget of a step, got 16385"),
        (("--prompt", "999999"), EXIT_BAD_INPUT, "prompt: must be at most the 163840 tokens of context"),
        (("--pp", "2"), EXIT_BAD_INPUT, "--pp: must be 1 in a mixed pass, got 2"),
        (("--tp", "3"), EXIT_BAD_INPUT, "tp: must divide devices, 8, got 3"),
        (("--kv-cache-rate", "1"), EXIT_BAD_INPUT, "--kv-cache-rate: must lie in [0, 1), got 1.0"),
        (("--phase", "both"), EXIT_BAD_INPUT, "both"),
        (("--batch", "4000"), EXIT_INFEASIBLE, "4000 sequences of 4096 tokens and a chunk of 4096 must fit on 8 H200"),
        (("--devices", "2"), EXIT_INFEASIBLE, "must fit on 2 H200 (tp 1): memory holds 0 sequences"),
    ],
)
def test_a_mixed_pass_that_cannot_be_is_refused(
    planner: Command, words: tuple[str, ...], status: int, said: str
) -> None:
    answer = planner(*MIXED, *words)
    assert (answer.status, answer.out) == (status, "")
    assert said in " ".join(answer.err.split())


def test_explain_draws_a_roofline(planner: Command) -> None:
    assert planner(*EXPLAIN, "--figure", "roof.png").status == EXIT_DONE
    assert Path("roof.png").read_bytes().startswith(b"\x89PNG")
    again = planner(*EXPLAIN, "--figure", "roof.png")
    assert (again.status, "exists already" in again.err) == (EXIT_BAD_INPUT, True)
    assert planner(*EXPLAIN, "--figure", "roof.svg").status == EXIT_DONE


def test_configurations_side_by_side(planner: Command) -> None:
    asked = ("cost", "configurations", "--gpu", "H200", "--gpu", "H20", "--phase", "prefill", "--size", "16")
    found = planner(*asked, "--lengths", "512,4096", "--json").json
    assert {row["gpu"] for row in found} == {"H200", "H20"}
    for row in found:
        c = row["parallel"]
        assert c["tp"] * c["dp"] * c["pp"] * c["replicas"] == 16
        assert len(row["rates_rps"]) == 2
    assert planner(*asked, "--figure", "prefill.png").status == EXIT_DONE
    paper = planner(*asked, "--mode", "reference", "--json").json
    assert {row["parallel"]["tp"] for row in paper} == {1, 2, 4, 8, 16}


def test_calibrate_writes_a_file_that_a_scenario_can_name(planner: Command, measured: Path) -> None:
    answer = planner("cost", "calibrate", measured, "--engine", "vllm", "--json")
    assert answer.status == EXIT_DONE
    found = answer.json
    assert found["file"] == "measured.calibration.yaml"
    assert found["mean_absolute_error"]["after"] < found["mean_absolute_error"]["before"]
    assert [point["row"] for point in found["points"]] == [1, 2, 3, 4]
    Path("s.yaml").write_text(
        "name: s\nmodel: deepseek-v3\nworkload: azure-code-2023\ninventory: {H200: 32}\n"
        "cost: {calibration: measured.calibration.yaml}\n",
        encoding="utf-8",
    )
    assert planner("check", "s.yaml").status == EXIT_DONE
    command = (*(word if word != "H20" else "H200" for word in EXPLAIN), "--calibration", "measured.calibration.yaml")
    plain = planner(*command[:-2], "--engine", "vllm", "--json").json
    fitted = planner(*command, "--engine", "vllm", "--json").json
    assert fitted["total_ms"] != plain["total_ms"]
    assert (plain["origin"], fitted["origin"]) == ("carried over", "user's measurement")
    elsewhere = planner(*command, "--engine", "sglang")
    assert elsewhere.status == EXIT_DONE
    assert "measured.calibration.yaml tells nothing of H200 deepseek-r1 sglang" in elsewhere.err


def test_the_engine_of_a_step_is_asked_for(planner: Command, measured: Path) -> None:
    answer = planner("cost", "calibrate", measured)
    assert answer.status == EXIT_BAD_INPUT
    assert "engine: must be told of every measurement, is not of row 1, row 2, row 3 and 1 more." in answer.err
    assert "--engine vllm" in answer.err
    odd = planner("cost", "calibrate", measured, "--engine", "ollama")
    assert (odd.status, "--engine: must be one of vllm, sglang, trt, atom" in odd.err) == (EXIT_BAD_INPUT, True)
    lines = MEASURED.splitlines()
    measured.write_text("\n".join([f"{lines[0]},engine", *(f"{line},SGLang" for line in lines[1:])]), encoding="utf-8")
    factors = planner("cost", "calibrate", measured, "--json").json["factors"]
    assert set(factors) == {f"pace_{phase}.H200 deepseek-r1 sglang" for phase in ("prefill", "decode")}
    measured.write_text(measured.read_text(encoding="utf-8").replace("SGLang", "ollama"), encoding="utf-8")
    assert "row 1: engine must be vllm, sglang, trt, atom, or empty" in planner("cost", "accuracy", measured).err


def test_calibrate_does_not_overwrite(planner: Command, measured: Path) -> None:
    assert planner("cost", "calibrate", measured, "--engine", "vllm").status == EXIT_DONE
    again = planner("cost", "calibrate", measured, "--engine", "vllm")
    assert (again.status, "exists already" in again.err) == (EXIT_BAD_INPUT, True)
    assert planner("cost", "calibrate", measured, "--engine", "vllm", "--force").status == EXIT_DONE


@pytest.mark.usefixtures("few_points")
def test_accuracy_of_the_built_in_factors(planner: Command) -> None:
    rows = planner("cost", "accuracy", "--seen", "--json").json
    steps = [abs(row["rate_error"]) for row in rows if row["metric"] == "step_ms"]
    assert len(steps) == 12
    assert sorted(steps)[5] <= 0.10
    assert all(row["left_out"] is None for row in rows)


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"--tp": "3"}, EXIT_BAD_INPUT, "tp"),
        ({"--tp": "3", "--devices": "48"}, EXIT_BAD_INPUT, "must divide the 128 attention heads"),
        ({"--tp": "16"}, EXIT_BAD_INPUT, "host"),
        ({"--devices": "320"}, EXIT_BAD_INPUT, "must be at most the 256 experts"),
        ({"--devices": "0"}, EXIT_BAD_INPUT, "devices"),
        ({"--length": "0"}, EXIT_BAD_INPUT, "length"),
        ({"--length": "999999"}, EXIT_BAD_INPUT, "163840 tokens of context"),
        ({"--batch": "0"}, EXIT_BAD_INPUT, "--batch"),
        ({"--gpu": "H2000"}, EXIT_BAD_INPUT, "Did you mean"),
        ({"--model": "deepseek-v9"}, EXIT_BAD_INPUT, "Did you mean"),
        ({"--devices": "2"}, EXIT_INFEASIBLE, "must fit on 2 H20"),
        ({"--calibration": "none.yaml"}, EXIT_BAD_INPUT, "none.yaml"),
        ({"--figure": "roof.pdf"}, EXIT_BAD_INPUT, "--figure"),
    ],
)
def test_what_cannot_be_is_refused(planner: Command, change: dict[str, str], status: int, said: str) -> None:
    options = dict(zip(EXPLAIN[2::2], EXPLAIN[3::2], strict=True)) | change
    answer = planner("cost", "explain", *(word for pair in options.items() for word in pair))
    assert (answer.status, answer.out) == (status, "")
    assert said in answer.err


def test_faulty_measurements_name_rows_and_leave_nothing(planner: Command) -> None:
    Path("bad.csv").write_text(MEASURED.replace(",61", ",nan").replace(",95", ",-95"), encoding="utf-8")
    answer = planner("cost", "calibrate", "bad.csv", "--engine", "vllm")
    assert answer.status == EXIT_BAD_INPUT
    assert "row 2" in answer.err
    assert "row 3" in answer.err
    assert sorted(path.name for path in Path().iterdir()) == ["bad.csv"]


def test_prefill_tells_what_a_pool_keeps_of_the_pace(planner: Command) -> None:
    options = ("--phase", "prefill", "--tp", 8, "--devices", 8, "--length", 4096)
    explained = planner("cost", "explain", "--gpu", "H200", "--model", "deepseek-v3", *options)
    plain = planner("cost", "explain", "--gpu", "H200", "--model", "deepseek-v3", *options, "--json").json
    share = next(factor["value"] for factor in plain["factors"] if factor["name"] == "prefill_pool")
    assert f"as plans count it: {share * plain['tokens_per_s_per_gpu']:,.0f} tokens/s per GPU" in explained.out
