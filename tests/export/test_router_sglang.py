"""SGLang's buckets: what its own start-up checks accept, figures of the plan, whom its rule picks, and hand edits."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from contract_plans import beside_plan
from quick_yaml import load_documents
from routed_plans import bucketed_plan
from router_reading.comparing import router_faults
from test_router_llm_d import torn_plan

from planner.domain import Phase, Plan
from planner.errors import ExportError
from planner.export import render

SPLIT, TOGETHER = bucketed_plan(3), bucketed_plan(3, mixed=True)
ANSWER = 2000  # the plans' longest
KEYS = {"id", "stage", "rank", "worker_ids", "max_context_tokens"} | {
    f"{side}_{kind}_tokens" for side in ("min", "max") for kind in ("extend", "sequence")
}
FIGURES = {"ttft_p95_at_capacity_ms", "tps_p05_at_capacity", "max_pending_prefill_tokens"}


def config_of(plan: Plan, target: str = "lws") -> dict[str, Any]:
    """What the router reads."""
    files = render(plan, target=target, engine="sglang", router="sglang")
    if target == "script":
        return dict(json.loads(files["sglang-buckets.json"]))
    (body,) = load_documents(files["sglang-router.yaml"])
    return dict(json.loads(body["data"]["sglang-buckets.json"]))


def start_up_refusals(config: Mapping[str, Any]) -> list[str]:
    """What `validate_bucket_config` of experimental/sgl-router (src/config/types.rs) refuses, written anew."""
    refused: list[str] = []
    rows = config["buckets"]
    ids, ranks = [row["id"] for row in rows], [(row["stage"], row["rank"]) for row in rows]
    workers = [(row["stage"], worker) for row in rows for worker in row["worker_ids"]]
    refused += ["given twice" for keys in (ids, ranks, workers) if len(set(keys)) < len(keys)]
    refused += ["no prefill bucket"] * all(row["stage"] != "prefill" for row in rows)
    for row in rows:
        refused += [f"unknown {key}" for key in row.keys() - KEYS - FIGURES]
        foreign = ("sequence", "tps") if row["stage"] == "prefill" else ("extend", "ttft", "prefill")
        refused += [f"{key} of the other stage" for key in row if any(word in key for word in foreign)]
        for kind in ("extend", "sequence"):
            low, high = row.get(f"min_{kind}_tokens"), row.get(f"max_{kind}_tokens")
            refused += ["min above max"] * (low is not None and high is not None and low > high)
        refused += [f"{key} not above 0" for key in FIGURES & row.keys() if not row[key] > 0]
    return refused


def picked(config: Mapping[str, Any], stage: str, tokens: int) -> set[str]:
    """Workers that the router begins with: those of the bucket that fits with the smallest rank."""
    kind = "extend" if stage == "prefill" else "sequence"
    for row in sorted((row for row in config["buckets"] if row["stage"] == stage), key=lambda row: row["rank"]):
        low, high = row.get(f"min_{kind}_tokens", 0), row.get(f"max_{kind}_tokens", 2**63)
        if low <= tokens <= min(high, row["max_context_tokens"]):
            return set(row["worker_ids"])
    return set()


def islands_of(urls: set[str], plan: Plan) -> set[str]:
    """Islands whose leaders these are."""
    names = sorted((island.id for island in plan.islands), key=len, reverse=True)
    return {next(name for name in names if f"-{name}-" in url) for url in urls}


@pytest.mark.parametrize("target", ["lws", "script"])
@pytest.mark.parametrize("seed", range(4))
def test_the_routers_start_up_accepts_it(target: str, seed: int) -> None:
    assert start_up_refusals(config_of(bucketed_plan(seed, mixed=seed % 2 == 1), target)) == []


@pytest.mark.parametrize("plan", [SPLIT, TOGETHER], ids=["split", "aggregated"])
def test_a_prompt_that_asks_for_the_longest_answer_comes_to_the_plans_bucket(plan: Plan) -> None:
    config = config_of(plan)
    for row in plan.routing:
        if plan is TOGETHER and row.phase is Phase.DECODE:
            continue  # a worker of both phases answers what it takes in
        for length in (row.range_start, row.range_end - 1):
            asked = ANSWER if row.phase is Phase.DECODE else 0
            due = {r.island for r in plan.routing if r.phase is row.phase and r.range_start <= length < r.range_end}
            assert islands_of(picked(config, row.phase.value, length + asked), plan) == due


def test_no_request_comes_to_a_decode_bucket_that_cannot_hold_it() -> None:
    """One that asks for less may come to a bucket of shorter prompts: its engines hold prompt and answer."""
    config = config_of(SPLIT)
    holds = {island.id: island.longest_prompt + ANSWER for island in SPLIT.islands}
    for prompt in range(0, 16_384, 97):
        for answer in (1, 500, ANSWER):
            chosen = islands_of(picked(config, "decode", prompt + answer), SPLIT)
            assert chosen
            assert all(prompt + answer <= holds[name] for name in chosen)


def test_an_unknown_answer_has_a_bucket() -> None:
    """The router gives such requests to buckets without bounds on the sequence alone."""
    rows = [row for row in config_of(SPLIT)["buckets"] if row["stage"] == "decode"]
    open_ended = [row for row in rows if not {"min_sequence_tokens", "max_sequence_tokens"} & row.keys()]
    assert [row["rank"] for row in open_ended] == [max(row["rank"] for row in rows)]


def test_figures_are_the_plans() -> None:
    assert SPLIT.buckets is not None
    for row in config_of(SPLIT)["buckets"]:
        if row["stage"] == "prefill":
            assert row["ttft_p95_at_capacity_ms"] == 900
            assert row["max_pending_prefill_tokens"] >= min(
                row.get("max_extend_tokens", 0), row["max_context_tokens"] - ANSWER
            )
        else:
            assert row["tps_p05_at_capacity"] == 25.0


def test_pending_tokens_are_what_a_server_takes_in_within_the_bound() -> None:
    """5 requests/s of the mean prompt for 2 s."""
    plan = bucketed_plan(3, most=1)
    mean = plan.scenario.workload.mean_input_tokens
    (row,) = (row for row in config_of(plan)["buckets"] if row["stage"] == "prefill")
    assert row["max_pending_prefill_tokens"] == int(5.0 * mean * 2.0)


def test_a_plan_without_figures_goes_without() -> None:
    assert SPLIT.buckets is not None
    scenario = replace(SPLIT.scenario, slo=replace(SPLIT.scenario.slo, ttft_ms=None))
    plan = replace(SPLIT, scenario=scenario, buckets=replace(SPLIT.buckets, latencies=()))
    assert not any(FIGURES & row.keys() for row in config_of(plan)["buckets"])


@pytest.mark.parametrize(
    ("plan", "words"),
    [(torn_plan(), "belongs to one bucket"), (beside_plan(), "pairs or by single workers")],
)
def test_what_it_cannot_do_is_refused_in_words(plan: Plan, words: str) -> None:
    with pytest.raises(ExportError, match=words) as refusal:
        render(plan, target="lws", engine="sglang", router="sglang")
    assert refusal.value.hint


def test_leaders_without_names_and_other_engines_are_refused() -> None:
    with pytest.raises(ExportError, match="must be lws or script"):
        render(SPLIT, target="kubernetes", engine="sglang", router="sglang")
    with pytest.raises(ExportError, match="engine: must be sglang"):
        render(SPLIT, target="lws", engine="vllm", router="sglang")


def test_edits_of_the_file_beside_scripts_are_found_too() -> None:
    files = render(SPLIT, target="script", engine="sglang", router="sglang")
    assert not router_faults(files, SPLIT)
    wrong = {
        **files,
        "sglang-buckets.json": files["sglang-buckets.json"].replace('"max_extend_tokens": ', '"max_extend_tokens": 1'),
    }
    assert any("Router sglang" in str(fault) for fault in router_faults(wrong, SPLIT))
