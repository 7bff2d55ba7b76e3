"""A scenario with a network, one with a profile's step times: planned, written, checked, replayed like any other."""

import json
from pathlib import Path

import pytest
from command_line import Command

SCENARIO = """\
name: small
model: qwen3-30b-a3b
workload: azure-code-2023
inventory: {H20: 3, H200: 2}
ranges: {width: 4096}
routing: {most: 1}
serving: split
slo: {ttft_ms: 4000, tpot_ms: 60, percentile: 95}
search: {method: exact, timings: false}
"""
NETWORK = SCENARIO + "network: {nic_share: 0.5, uplinks_gb_s: {H20: 2}}\n"
PROFILE = SCENARIO + "cost: {source: tabulated, profile: profile.csv}\n"
HEAD = "gpu,model,phase,tp,dp,ep,length,batch,ms\n"


def profile() -> str:
    """A prompt of 1,000 tokens takes 100 ms, a token 10 to 42 ms; H200 are twice as fast."""
    rows = [
        f"{gpu},qwen3-30b-a3b,{phase},1,1,1,{length},{batch},{times * ms}"
        for gpu, times in (("H20", 1.0), ("H200", 0.5))
        for phase, length, batch, ms in (
            *(("prefill", length, batch, length * batch / 10) for length in (256, 8192) for batch in (1, 2)),
            *(("decode", length, batch, 10 + batch / 2) for length in (256, 9000) for batch in (1, 64)),
        )
    ]
    return HEAD + "\n".join(rows) + "\n"


@pytest.mark.parametrize("scenario", [NETWORK, PROFILE], ids=["network", "profile"])
def test_it_has_buckets_a_promise_a_certificate_manifests_and_a_replay(
    planner: Command, here: Path, scenario: str
) -> None:
    Path("profile.csv").write_text(profile())
    Path("small.yaml").write_text(scenario)
    assert planner("plan", "small.yaml", "--out", "run", "--quiet").status == 0
    made = json.loads(Path("run/plan.json").read_text())
    buckets = made["buckets"]
    assert {pool["phase"] for pool in buckets["pools"]} == {"prefill", "decode"}
    assert buckets["promise_rps"] == pytest.approx(0.9 * made["throughput_rps"])
    assert made["objective"]["bound"] >= made["throughput_rps"]
    assert made["objective"]["gap"] <= 0.3
    assert bool(made["flows"]) is ("network" in scenario)
    assert planner("export", "run", "--out", "manifests").status == 0
    assert planner("export", "run", "--check", "manifests").status == 0
    replayed = planner("replay", "run", "--requests", "400", "--json")
    assert replayed.status == 0
    assert planner("verify", "run").status == 0
