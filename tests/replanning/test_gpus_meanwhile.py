"""GPUs that are there while a change lasts, and engines that other GPUs join: who is lost, who runs on."""

from dataclasses import replace

import pytest
from changed_plans import small_plan
from drawn_changes import deployed

from planner.domain import BucketPool, Plan, Scenario
from planner.domain.changes import ChangeKind, ChangeSettings, LostServers
from planner.domain.engine.profile import common_reader, own_reader
from planner.errors import InfeasibleError, InputError
from planner.files import load_gpu_specs, load_model
from planner.files.scenario.settings import Setting
from planner.replanning.changes import changes_to, readers_of
from planner.replanning.losses import with_shortfall, without_lost
from planner.replanning.rollouts.interim import InterimFleet
from planner.runs.replanning.asking import ChangeQuestion, change_plan
from planner.runs.replanning.inputs import new_scenario


def pools_of(plan: Plan) -> tuple[BucketPool, ...]:
    return plan.buckets.pools


def servers(plan: Plan) -> dict[str, int]:
    pools = pools_of(plan)
    return {gpu: sum(pool.gpus for pool in pools if pool.gpu == gpu) for gpu in {pool.gpu for pool in pools}}


def test_servers_beyond_the_inventory_are_lost_unless_they_are_there_meanwhile() -> None:
    saved = deployed()
    assert servers(saved) == {"A100": 6, "L40S": 6}
    inventory = new_scenario(saved, inventory={"A100": 4, "L40S": 6}).inventory
    lost, more = with_shortfall(saved, inventory, LostServers(), {})
    assert (dict(lost.gpus), more) == ({"A100": 2}, {"A100": 2})
    assert servers(without_lost(saved, lost)) == {"A100": 4, "L40S": 6}
    assert with_shortfall(saved, inventory, LostServers(), {"A100": 6}) == (LostServers(), {})
    said = LostServers(gpus=(("A100", 2),))
    before_the_loss = new_scenario(saved, inventory={"A100": 6, "L40S": 6}).inventory
    assert with_shortfall(saved, before_the_loss, said, {}) == (said, {})


def test_types_of_which_none_are_left_can_be_said() -> None:
    saved = deployed()
    for scenario in (
        new_scenario(saved, inventory={"A100": 0, "L40S": 6}),
        new_scenario(saved, settings=(Setting("inventory.A100", 0),)),
    ):
        assert {item.gpu.name: item.count for item in scenario.inventory.items} == {"A100": 0, "L40S": 6}


def test_what_cannot_be_meanwhile_is_refused_with_what_to_do() -> None:
    saved = deployed()
    scenario = new_scenario(saved, inventory={"A100": 8, "L40S": 6})
    with pytest.raises(InputError, match="A100: must be at least the inventory's 8") as bad:
        change_plan(saved, ChangeQuestion(scenario=scenario, meanwhile={"A100": 6}))
    assert "Leave A100 out of it" in bad.value.hint
    gone = new_scenario(saved, inventory={"A100": 0, "L40S": 0, "H100": 4})
    with pytest.raises(InfeasibleError, match="must have servers that are left") as nothing:
        change_plan(saved, ChangeQuestion(scenario=gone))
    assert "--meanwhile A100=6,L40S=6" in nothing.value.hint


def test_servers_without_the_other_phase_serve_nothing() -> None:
    saved = small_plan()
    assert saved.buckets is not None
    prefill = tuple(pool for pool in saved.buckets.pools if pool.server.tokens_per_step)
    fleet = InterimFleet(replace(saved, buckets=replace(saved.buckets, pools=prefill)), saved)
    counts = {pool.island: pool.count for pool in prefill}
    assert fleet.exact_rps(counts, new_table=False) == fleet.rate_rps(counts, new_table=False) == 0


@pytest.mark.parametrize(
    ("model", "old", "joined", "runs_on"),
    [
        ("llama-3.1-8b", "A100", "H100", True),  # both take FLASH_ATTN by themselves
        ("llama-3.1-8b", "A100", "L40S", True),  # one generation: nothing is told
        ("llama-3.1-8b", "DGX-B200", "H100", False),  # Blackwell takes another
        ("gpt-oss-20b", "H100", "A100", False),  # windows: TRITON_ATTN on both
    ],
)
def test_engines_run_on_where_they_read_caches_as_those_that_join(
    model: str, old: str, joined: str, runs_on: bool
) -> None:
    specs, saved = load_gpu_specs(), small_plan()
    both = replace(saved.scenario, model=load_model(model), inventory=_inventory(saved.scenario, old, joined))
    alone = tuple(replace(pool, gpu=old) for pool in pools_of(saved)[-2:])
    after = (*alone, replace(alone[0], gpu=joined, island="joined-1"))
    before = replace(saved, scenario=both, buckets=replace(saved.buckets, pools=alone))
    change = changes_to(before, after, both, ChangeSettings())
    kinds = {row.kind for row in change.changes if row.before is not None}
    assert kinds == {ChangeKind.KEEP if runs_on else ChangeKind.RESTART}
    spans = int(specs[old].compute_capability) != int(specs[joined].compute_capability)
    assert [bool(reader) for reader in readers_of(both, after)] == [spans] * 3
    common = common_reader("vllm", both.model, (specs[old], specs[joined]))
    assert runs_on is (common in ("", own_reader("vllm", both.model, specs[old])))


def _inventory(scenario: Scenario, *gpus: str) -> object:
    specs, item = load_gpu_specs(), scenario.inventory.items[0]
    return replace(scenario.inventory, items=tuple(replace(item, gpu=specs[gpu], count=64) for gpu in gpus))
