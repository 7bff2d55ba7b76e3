"""Plans of a schedule as manifests: to go from one to the next leaves the pods of servers that stay alone."""

import copy
from itertools import permutations
from typing import Any

import yaml
from small_schedules import small_schedule

from planner import export, files
from planner.runs.deployments import render_plan
from planner.runs.exports import MANIFESTS, with_carried, written_again
from planner.runs.replanning.steps import in_turns


def engines(texts: dict[str, str]) -> dict[str, Any]:
    """What a controller makes pods of, by name."""
    bodies = (body for name, text in texts.items() if name.endswith(".yaml") for body in yaml.safe_load_all(text))
    sets = (copy.deepcopy(body) for body in bodies if body and body["kind"] == "LeaderWorkerSet")
    return {body["metadata"]["name"]: body["spec"]["leaderWorkerTemplate"] for body in sets}


def test_servers_that_stay_have_the_same_pods_in_every_plan() -> None:
    plans = [level.plan for level in small_schedule().levels]
    rendered = [dict(render_plan(plan, target="lws").files) for plan in plans]
    alike = in_turns(plans, rendered)
    decode = "small-fleet-h20-1g-decode-1"
    seconds = [engines(texts)[decode]["workerTemplate"]["spec"]["terminationGracePeriodSeconds"] for texts in rendered]
    assert len(set(seconds)) > 1  # one by one each plan gives its pods another time
    for first, other in permutations(map(engines, alike), 2):
        assert {name: first[name] for name in first.keys() & other.keys()} == {
            name: other[name] for name in first.keys() & other.keys()
        }
    assert engines(alike[0])[decode]["workerTemplate"]["spec"]["terminationGracePeriodSeconds"] == max(seconds)
    for plan, texts in zip(plans, alike, strict=True):
        export.check_manifests(texts, plan)


def test_their_records_know_what_runs_on() -> None:
    """What is carried over from another plan is in no plan's own export, and is written again all the same."""
    plans = [level.plan for level in small_schedule().levels]
    made = [render_plan(plan, target="lws") for plan in plans]
    alike = in_turns(plans, [rendered.files for rendered in made])
    carried = 0
    for plan, rendered, texts in zip(plans, made, alike, strict=True):
        contents = {f"{MANIFESTS}{name}": content for name, content in rendered.folder.items()}
        contents |= with_carried(contents, {f"{MANIFESTS}{name}": text for name, text in texts.items()})
        record = files.export_record_of(contents[f"{MANIFESTS}{files.EXPORT_RECORD_FILE}"].decode(), "record")
        planned = written_again(record, plan, "folder")
        waves = {"kustomization.yaml": contents[f"{MANIFESTS}kustomization.yaml"].decode()}
        assert export.compare({**texts, **waves, **rendered.images}, planned).faults == ()
        carried += bool(record.carried)
        if record.carried:
            assert export.compare(rendered.files, planned).faults, "the plan's own would start pods anew"
    assert 0 < carried < len(plans)
