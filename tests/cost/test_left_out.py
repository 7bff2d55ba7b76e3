"""What is left out of a fit at once, by protocol: everything once, and nothing of it on the other side."""

from dataclasses import replace

import pytest
from benchmark_evidence import all_evidence
from make_left_out import PARTS, PROTOCOLS, by_formulas, carried, folds, left_out, places_of, shape_of

from planner.cost.benchmarks.engines import habits
from planner.domain import NamedRun


def what(entry: NamedRun, by: str) -> object:
    """What of a run no fit may have seen, told anew."""
    run, pools = entry.run, (entry.run.prefill, entry.run.decode)
    assert entry.model is not None
    setting = (run.gpu, shape_of(entry.model), habits(run.engine).name, run.input_tokens, run.output_tokens, pools)
    if by in PARTS:
        bytes_of = (run.precision.expert_bytes, run.precision.kv_bytes, run.precision.mtp_tokens)
        return (*setting, *bytes_of, run.load, *((run.concurrency,) if by == "row" else ()))
    return {"model": shape_of(entry.model), "gpu": run.gpu, "engine": habits(run.engine).name}[by]


@pytest.mark.parametrize("by", PROTOCOLS)
def test_everything_is_left_out_once_and_unseen(by: str) -> None:
    usable = [entry for entry in all_evidence().runs if not entry.reason]
    left_by_run = {id(entry): what(entry, by) for entry in usable}
    left_rows, steps = [], []
    for seen, left in folds(all_evidence(), by):
        assert len(seen.runs) + len(left.runs) + sum(not e.run.engine for e in usable if by == "engine") == len(usable)
        assert {left_by_run[id(e)] for e in left.runs}.isdisjoint(left_by_run[id(e)] for e in seen.runs if e.run.engine)
        left_rows += [(entry.run.file, entry.run.row) for entry in left.runs]
        steps += [m.row for m in left.measurements]
    named = [entry for entry in usable if by != "engine" or entry.run.engine]
    assert sorted(left_rows) == sorted((entry.run.file, entry.run.row) for entry in named)
    assert sorted(steps) == ([] if by == "engine" else [m.row for m in all_evidence().measurements])


def test_deepseeks_two_models_are_left_out_together() -> None:
    parts = [{entry.run.model for entry in left.runs} for _, left in folds(all_evidence(), "model")]
    assert {"deepseek-r1", "deepseek-v3"} in parts
    assert {"kimi-k2", "kimi-k2.5", "kimi-k2.5-nvfp4"} <= set().union(*parts)
    assert len(parts) >= 10


def test_only_what_is_carried_over_is_told() -> None:
    """vLLM alone ran MiniMax; gpt-oss on H200 ran under TensorRT-LLM, too."""
    for seen, left in folds(all_evidence(), "engine"):
        if {habits(entry.run.engine).name for entry in left.runs} == {"vllm"}:
            places = places_of(seen)
            carried_over = {(e.run.model, e.run.gpu): carried(places, e, "engine") for e in left.runs}
            assert not carried_over["minimax-m2.5", "DGX-B200"]
            assert carried_over["gpt-oss-120b", "H200"]
    alone = {
        (entry.run.model, entry.run.gpu)
        for places, left in ((places_of(seen), left) for seen, left in folds(all_evidence(), "gpu"))
        for entry in left.runs
        if not carried(places, entry, "gpu")
    }
    runs = [entry.run for entry in all_evidence().runs if not entry.reason]
    assert ("glm-5", "H200") not in alone
    assert alone
    for model, gpu in alone:
        assert {run.gpu for run in runs if run.model == model} == {gpu}


def test_paces_that_saw_nothing_of_a_figure_predict_it() -> None:
    """And step times stay on record as fits of the formulas left them out."""
    few = replace(all_evidence(), runs=all_evidence().runs[:60])
    predicted = dict(left_out(few, "gpu"))
    assert len(predicted) >= 40
    assert all(value > 0 for value in predicted.values())
    stays = by_formulas(few)
    assert ("published.csv", 1, "step_ms", "step time") in stays
    assert not {place for place in predicted if place[2] == "step_ms"}
