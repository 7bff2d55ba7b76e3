"""`planner models` lists, `planner model show` and `planner model add` tell of one."""

import json
from pathlib import Path

import pytest
from called_program import Command

from planner.cost import model_fits
from planner.files import load_engine, load_gpu_spec, load_model, shipped_models


def test_the_list_has_every_model_with_its_precision(planner: Command) -> None:
    rows = {row["name"]: row for row in planner("models", "--json").json}
    assert list(rows) == list(shipped_models())
    table = planner("models", "--wide").out
    assert "BF16, experts INT4" in table
    assert "FP8, experts MXFP4" in table


def test_a_model_is_shown_with_what_holds_it(planner: Command) -> None:
    """Published: 671 B parameters, 37 B of a token; 70 KB a token in 16 bits, 35 in 8; one node of 8 H200."""
    shown = planner("model", "show", "DeepSeek-AI/deepseek-v3").out
    for words in ("671.0 billion parameters", "58 | MLA", "35,136 bytes a token", "| H200 | 8 |", "vllm 0.33.0"):
        assert words in shown
    told = planner("model", "show", "deepseek-v3", "--json").json
    assert told["cached_bytes"] == {"1K": 1024 * 35136, "32K": 32768 * 35136}
    assert told["parameters"] == load_model("deepseek-v3").parameters
    by_gpu = {fit["gpu"]: fit for fit in told["fits"]}
    assert (by_gpu["H200"]["gpus"], by_gpu["H100"]["gpus"], by_gpu["A100"]["gpus"]) == (8, 16, 0)
    assert "FP8 cache" in by_gpu["A100"]["refusal"]


@pytest.mark.parametrize("name", ["llama-3.1-70b", "deepseek-v3", "qwen3.5-397b-a17b", "gpt-oss-20b"])
def test_what_fits_is_fewest(name: str) -> None:
    """Weights and one sequence are within memory on so many GPUs, and would not be on half of them."""
    model, engine = load_model(name), load_engine("vllm")
    for gpu in ("H200", "H100", "L40S"):
        spec = load_gpu_spec(gpu)
        (fit,) = model_fits(model, [spec], engine)
        needed_gb = model.weights_gb + model.cached_bytes(fit.tokens) / 1e9
        assert needed_gb < fit.gpus * spec.device_gb
        assert fit.gpus == 1 or model.weights_gb > fit.gpus / 2 * spec.device_gb * 0.6
        assert all(parallel.devices == fit.gpus and held >= 1 for parallel, held in fit.degrees)


def test_a_model_of_any_architecture_is_added(planner: Command, tmp_path: Path) -> None:
    from transformers import AutoConfig

    config = AutoConfig.for_model("seed_oss").to_dict() | {"dtype": "bfloat16"}
    (tmp_path / "Seed-OSS").mkdir()
    (tmp_path / "Seed-OSS" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    out = tmp_path / "seed.json"
    added = planner("model", "add", str(tmp_path / "Seed-OSS"), "--out", str(out))
    assert added.status == 0, added.err
    assert "grouped, 80/8 heads of 128" in added.out
    assert load_model(str(out)).name == "Seed-OSS"
    assert planner("model", "show", str(out)).status == 0
    again = planner("model", "add", str(tmp_path / "Seed-OSS"), "--out", str(out))
    assert (again.status, "exists already" in again.err) == (2, True)
    absent = planner("model", "add", "ByteDance-Seed/Seed-OSS-36B-Instruct")
    assert (absent.status, "--download" in absent.err) == (2, True)
