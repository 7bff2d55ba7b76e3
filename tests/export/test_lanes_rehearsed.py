"""Two versions of an engine on the way from one to the other, behind the real HAProxy: no cache is handed across."""

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "replanning"))

from changed_plans import SMALL
from test_routers_rehearsed import programs

from planner import pipeline
from planner.files import scenario_from_document
from planner.files.scenario.settings import read_setting
from planner.replanning.rollouts.interim import InterimPlans
from planner.runs.rehearsal.rehearsing import _Rehearsing
from planner.runs.rehearsal.settings import RehearsalSettings
from planner.runs.replanning.asking import ChangeQuestion, change_plan
from planner.runs.replanning.inputs import new_scenario
from planner.workload import summarize

COUNT = 300


def test_every_pair_is_of_one_version() -> None:
    engine, inventory = {"name": "vllm", "version": "0.18.0"}, {"H20": 96, "H200": 64, "H800": 64}
    document = {**SMALL, "engine": engine, "inventory": inventory}
    before = pipeline.plan(scenario_from_document(document, origin="small", base=Path.cwd(), summarize=summarize))
    scenario = new_scenario(before, settings=(read_setting("engine.version=0.33.0"),))
    changed = change_plan(before, ChangeQuestion(scenario=scenario, least_share=0.7, replays=False))
    plans = InterimPlans(changed.before, changed.plan)
    step = next(s for s in changed.roll_out.steps if len(plans.serving(s.during, new_table=s.new_table)) > 1)
    plan, lanes = plans.plan(step.during, new_table=True), plans.serving(step.during, new_table=True)
    settings = RehearsalSettings(router="haproxy", rate_rps=30.0, requests=COUNT, slower=1.0, programs=programs())
    rehearsing = _Rehearsing(plan, plan.scenario.workload, settings)
    rehearsing.run(lambda _: None, lambda url: url)
    stations = rehearsing._stage.fleet.stations
    versions = {island.id: island.lane for island in plan.islands}
    of_pool = [versions[pool.island] for pool in stations.fleet.pools]
    pairs = Counter(
        (of_pool[first], of_pool[second])
        for first, second in zip(stations.log.prefill, stations.log.decode, strict=True)
        if first >= 0 and second >= 0
    )
    assert sum(pairs.values()) == COUNT
    assert {first == second for first, second in pairs} == {True}
    share = next(lane.share for lane in lanes if not lane.name)
    drawn = pairs["", ""] / COUNT
    assert abs(drawn - share) < 4 * (share * (1 - share) / COUNT) ** 0.5  # by chance, as the lane serves
