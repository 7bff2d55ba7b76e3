"""Plans of a schedule as manifests: to go from one to the next leaves the pods of servers that stay alone."""

import copy
from itertools import permutations
from typing import Any

import yaml
from small_schedules import small_schedule

from planner import export
from planner.runs.deployments import render_plan
from planner.runs.replanning.manifests import in_turns


def engines(files: dict[str, str]) -> dict[str, Any]:
    """What a controller makes pods of, by name."""
    bodies = (body for name, text in files.items() if name.endswith(".yaml") for body in yaml.safe_load_all(text))
    sets = (copy.deepcopy(body) for body in bodies if body and body["kind"] == "LeaderWorkerSet")
    return {body["metadata"]["name"]: body["spec"]["leaderWorkerTemplate"] for body in sets}


def test_servers_that_stay_have_the_same_pods_in_every_plan() -> None:
    plans = [level.plan for level in small_schedule().levels]
    rendered = [dict(render_plan(plan, target="lws").files) for plan in plans]
    alike = in_turns(plans, rendered)
    decode = "small-fleet-h20-4g-decode-1"
    seconds = [engines(files)[decode]["workerTemplate"]["spec"]["terminationGracePeriodSeconds"] for files in rendered]
    assert len(set(seconds)) > 1  # one by one each plan gives its pods another time
    for first, other in permutations(map(engines, alike), 2):
        assert {name: first[name] for name in first.keys() & other.keys()} == {
            name: other[name] for name in first.keys() & other.keys()
        }
    assert engines(alike[0])[decode]["workerTemplate"]["spec"]["terminationGracePeriodSeconds"] == max(seconds)
    for plan, files in zip(plans, alike, strict=True):
        export.check_manifests(files, plan)
