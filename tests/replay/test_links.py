"""KV caches on their way: one after the other over a NIC and over the uplinks, as long as the cost model says alone."""

from dataclasses import replace

import numpy as np
import pytest
from fleets import LENGTHS, decode_pool, fleet, prefill_pool, run, table
from published import model_of
from small_plans import small_plan

from planner.cost import CostContext
from planner.cost.attention import block_tokens
from planner.cost.grid import Degrees
from planner.cost.service_levels import transfer_ms
from planner.domain import CostSettings, NetworkSettings, ParallelConfig, kv_gb
from planner.evaluation.replay.curves import ServerCurves
from planner.evaluation.replay.fleet import replay_fleet
from planner.files import load_gpu_spec, load_model
from planner.proposing.feasibility import posed
from planner.replay.curves import between
from planner.replay.engine import Network

LLAMA = "dense, with levels"


def test_a_nic_carries_one_cache_after_the_other() -> None:
    network = Network(fleet([prefill_pool(), decode_pool()]))
    nic, other = (0, 0), (0, 1)
    assert network.sent(10.0, nic, 5.0, (0, 1), 100) == 15.0
    assert network.sent(12.0, nic, 5.0, (0, 1), 100) == 20.0
    assert network.sent(12.0, other, 5.0, (0, 1), 100) == 17.0
    assert network.sent(30.0, nic, 5.0, (0, 1), 100) == 35.0


def test_uplinks_are_shared_by_all_servers_of_a_type() -> None:
    """1 000 tokens of a MB each: 1 GB, 20 ms out at 50 GB/s and 50 ms in at 20 GB/s."""
    uplinks = [("P", 50.0), ("D", 20.0)]
    network = Network(fleet([prefill_pool(), decode_pool()], kv_gb_per_token=0.001, uplinks=uplinks))
    assert network.sent(0.0, (0, 0), 1.0, (0, 1), 1000) == pytest.approx(50)
    assert network.sent(0.0, (1, 0), 1.0, (0, 1), 1000) == pytest.approx(100)
    assert network.sent(0.0, (2, 0), 300.0, (0, 1), 1000) == pytest.approx(300)


def test_caches_within_a_type_take_no_uplink() -> None:
    uplinks = [("P", 0.001)]
    network = Network(fleet([prefill_pool(), decode_pool(gpu="P")], kv_gb_per_token=1.0, uplinks=uplinks))
    assert network.sent(0.0, (0, 0), 7.0, (0, 1), 1000) == 7.0


def test_a_saturated_uplink_is_a_queue() -> None:
    """Caches that come faster than they leave wait for all that came before."""
    uplinks = [("D", 1.0)]
    pools = [prefill_pool(base_ms=0.001, ms_per_token=0.0, budget=10), decode_pool(batch=100)]
    of = fleet(pools, kv_gb_per_token=0.001, uplinks=uplinks)
    log = run(of, table([5.0 * k for k in range(50)], [10] * 50, [1] * 50)).log
    arrived = np.array(log.arrived)
    assert np.diff(arrived) == pytest.approx(np.full(49, 10.0))


def test_without_others_a_transfer_takes_what_the_cost_model_says() -> None:
    from test_closed_loop import WORKLOAD

    context = CostContext(gpu=load_gpu_spec("H200"), model=load_model("deepseek-v3"), settings=CostSettings())
    shape = ParallelConfig(tp=2, dp=4)
    curves = ServerCurves(context=context, shape=shape, overlapped=False, workload=WORKLOAD, replay_prefixes=False)
    from planner.domain import Phase

    pool = curves.pool(Phase.PREFILL, 8192, 0)
    assert pool.prompts is not None
    for tokens in (40, 333, 1234):
        expected = transfer_ms(context, np.array([[float(tokens)]]), Degrees.of([shape]))
        assert between(pool.prompts.lengths, pool.sent_ms, tokens) == pytest.approx(expected[0, 0], rel=1e-3)


def test_uplinks_carry_what_each_prompt_hands_over() -> None:
    """A state once, and of windows what they still see; hits are found at the ends of blocks as large as a state."""
    uplinks = NetworkSettings(switch_gb_s=(("H20", 9.0),))
    scenario = replace(small_plan(LLAMA).scenario, model=model_of("qwen/qwen3.5-27b"), network=uplinks)
    case = replace(small_plan(LLAMA), scenario=scenario)
    of = replay_fleet(case, posed(case.scenario).workload, replay_prefixes=False, storage_gb_s=1.0)
    assert of.kv_gb == pytest.approx([kv_gb(scenario.model, tokens) for tokens in of.lengths])
    assert of.kv_gb[0] > scenario.model.state_bytes / 1e9
    blocks = {
        pool.hit_tokens: int(block_tokens(scenario.model, np.array(float(island.parallel.tp))))
        for pool, island in zip(of.pools, case.islands, strict=True)
    }
    assert all(told == expected > 1 for told, expected in blocks.items())


def test_transfer_times_of_requests_are_those_of_their_nics() -> None:
    pools = [prefill_pool(sent_ms=4.0, base_ms=10.0, ms_per_token=0.0), decode_pool(batch=100)]
    log = run(fleet(pools), table([0.0, 100.0, 100.0, 100.0], [int(LENGTHS[1])] * 4, [1] * 4)).log
    sent = np.array(log.arrived) - np.array(log.prefilled)
    assert sent == pytest.approx([4.0, 4.0, 8.0, 12.0])
