"""Steps as manifests: applied in order they lead from the deployed objects to the new plan's, and touch only what they
name; what stands at any time is sound and within the inventory."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from changed_plans import restarted, small_plan, split, with_longer_answers

from planner import export
from planner.domain import Plan
from planner.domain.changes import ChangeSettings
from planner.domain.rollouts import RollOut
from planner.errors import ExportError
from planner.export.checking.carrying import carried_over, standing
from planner.files import EXPORT_RECORD_FILE, write_folder
from planner.replanning.changes import changes_between
from planner.replanning.rollouts.interim import InterimPlans
from planner.replanning.rollouts.rolling import roll_out
from planner.runs.deployments import render_plan
from planner.runs.exports import check_export
from planner.runs.replanning.steps import RolledOut, rolled_out

INVENTORY = {"H20": 64, "H200": 32, "H800": 32}
INVENTORIES = {"restarted": INVENTORY, "split": INVENTORY, "answers": {**INVENTORY, "H20": 80}}
SHARES = {"restarted": 0.5, "split": 0.5, "answers": 0.5}
Objects = dict[tuple[str, str], dict[str, Any]]


def changed(name: str) -> Plan:
    match name:
        case "restarted":
            return restarted(small_plan())
        case "split":
            return split(small_plan(), 3072)
        case _:
            return with_longer_answers(small_plan())


@cache
def steps_of(name: str, target: str = "lws") -> tuple[Mapping[str, str], RollOut, RolledOut]:
    before, after = small_plan(), changed(name)
    change = changes_between(before, after, ChangeSettings())
    steps = roll_out(before, after, change, least_share=SHARES[name], inventory=INVENTORIES[name])
    deployed = render_plan(before, target=target).files
    return deployed, steps, rolled_out(before, after, steps, deployed=deployed, target=target, engine="")


def objects(files: Mapping[str, str]) -> Objects:
    bodies = (body for name, text in files.items() if name.endswith(".yaml") for body in yaml.safe_load_all(text))
    return {(body["kind"].lower(), body["metadata"]["name"]): body for body in bodies if body}


def carried(name: str, target: str = "lws") -> Iterator[tuple[str, Objects]]:
    """What stands after every command of every step, as kubectl would leave it."""
    deployed, _, rolled = steps_of(name, target)
    there = objects(deployed)
    for step in rolled.steps:
        for group in step.commands:
            for command in group.commands:
                words = command.split()
                if words[1] == "apply":
                    there = there | objects({words[-1]: step.files[words[-1]]})
                else:
                    assert words[:2] == ["kubectl", "delete"]
                    there.pop((words[-2], words[-1]))
                yield f"{step.name} {command}", there


def gpus(there: Objects) -> dict[str, int]:
    """Of the LeaderWorkerSets, by type, from their annotations and their pods alike."""
    counts: dict[str, int] = {}
    for (kind, _), body in there.items():
        if kind != "leaderworkerset":
            continue
        template = body["spec"]["leaderWorkerTemplate"]
        pod = template["leaderTemplate"] if "leaderTemplate" in template else template["workerTemplate"]
        limits = pod["spec"]["containers"][0]["resources"]["limits"]
        gpu = body["metadata"]["annotations"]["planner/gpu-type"]
        counts[gpu] = counts.get(gpu, 0) + body["spec"]["replicas"] * template["size"] * limits["nvidia.com/gpu"]
    return counts


@pytest.mark.parametrize("name", SHARES)
def test_the_last_step_leaves_exactly_the_new_plans_manifests(name: str) -> None:
    *_, (_, there) = carried(name)
    _, _, rolled = steps_of(name)
    assert there == objects(rolled.manifests)
    assert export.find_faults(dict(rolled.manifests), changed(name)) == ()


@pytest.mark.parametrize("name", SHARES)
def test_every_step_is_held_against_its_record(name: str, tmp_path: Path) -> None:
    for step in steps_of(name)[2].steps:
        folder = tmp_path / step.name
        write_folder(folder, {file: text.encode() for file, text in step.files.items()})
        if EXPORT_RECORD_FILE not in step.files:
            continue
        assert check_export(folder, None).compared.faults == ()
        file = next(path for path in sorted(folder.glob("*.yaml")))
        file.write_text(file.read_text().replace("app.kubernetes.io/managed-by: planner", "ours: '1'", 1))
        assert [fault.where for fault in check_export(folder, None).compared.faults if file.name in fault.where]


@pytest.mark.parametrize("name", SHARES)
def test_no_command_asks_for_more_gpus_than_there_are(name: str) -> None:
    for command, there in carried(name):
        assert all(count <= INVENTORIES[name][gpu] for gpu, count in gpus(there).items()), command


@pytest.mark.parametrize("name", ["restarted", "split"])
def test_engines_that_run_on_keep_their_pods(name: str) -> None:
    deployed, steps, _ = steps_of(name)
    first = objects(deployed)
    touched = {item.before.island for step in steps.steps for item in step.stops if item.before is not None}
    stay = [
        key for key, body in first.items() if body["metadata"].get("labels", {}).get("planner/island") not in touched
    ]
    sets = [key for key in stay if key[0] == "leaderworkerset"]
    assert sets
    for command, there in carried(name):
        assert all(there[key]["spec"] == first[key]["spec"] for key in sets), command


@pytest.mark.parametrize("name", SHARES)
def test_the_router_knows_only_servers_that_serve(name: str) -> None:
    """Before anything stops the table names no more copies than stay; after a step all that run."""
    deployed, _, rolled = steps_of(name)
    there = objects(deployed)
    for step in rolled.steps:
        if "1-route.yaml" in step.files and "2-stop.yaml" in step.files:
            there |= objects({"r": ""} | {"1-route.yaml": step.files["1-route.yaml"]})
            table = json.loads(there["configmap", "small-routing"]["data"]["routing.json"])
            copies = {row["island"]: len(row["leaders"]) for row in table["services"]}
            stopped = objects({"2-stop.yaml": step.files["2-stop.yaml"]})
            for (kind, _), body in stopped.items():
                island = body["metadata"]["labels"]["planner/island"]
                assert kind == "leaderworkerset"
                assert copies.get(island, 0) <= body["spec"]["replicas"]


def test_what_stands_between_steps_passes_the_checks_of_any_export() -> None:
    """Of every state as a whole, against its own plan."""
    before, after = small_plan(), changed("split")
    deployed, steps, rolled = steps_of("split")
    plans = InterimPlans(before, after)
    for step in steps.steps[:-1]:
        plan = plans.plan(step.after, new_table=step.new_table)
        files = carried_over(render_plan(plan).files, deployed, rolled.manifests)
        assert export.find_faults(files, plan) == ()


def test_pods_are_carried_over_and_their_number_is_not() -> None:
    deployed, _, rolled = steps_of("split")
    key = ("leaderworkerset", "small-h200-16g-prefill-1")
    old, new = objects(deployed)[key], objects(rolled.manifests)[key]
    assert old["spec"] == new["spec"]
    assert old["metadata"]["annotations"] != new["metadata"]["annotations"]  # rates of the new plan


def test_pages_name_what_happens_and_say_what_serves_meanwhile() -> None:
    _, steps, rolled = steps_of("restarted")
    page = rolled.steps[0].files["README.md"]
    assert page.startswith(f"# Step 1 of {len(steps.steps)}\n")
    assert "kubectl apply --namespace NAMESPACE -f 1-route.yaml" in page
    assert f"{steps.steps[0].during_rps / steps.current_rps:.1%}" in page
    assert [step.name for step in rolled.steps] == sorted(step.name for step in rolled.steps)
    stopped = objects({"2-stop.yaml": rolled.steps[0].files["2-stop.yaml"]}).values()
    templates = [body["spec"]["leaderWorkerTemplate"]["workerTemplate"] for body in stopped]
    grace_s = max(template["spec"]["terminationGracePeriodSeconds"] for template in templates)
    assert f"pods have {grace_s} s. GPUs are free when the pods are gone" in page
    for pod in (template["metadata"]["labels"] for template in templates):
        selector = (
            f"app.kubernetes.io/part-of={pod['app.kubernetes.io/part-of']},planner/island={pod['planner/island']}"
        )
        assert f"kubectl get pods --namespace NAMESPACE -l {selector}\n" in page


def test_a_target_that_puts_islands_into_one_object_is_refused() -> None:
    with pytest.raises(ExportError, match="starts several islands at once"):
        carried_over(render_plan(small_plan(), target="dynamo").files, render_plan(small_plan(), target="dynamo").files)


def test_equal_manifests_are_left_as_they_are() -> None:
    deployed, _, _ = steps_of("split")
    assert carried_over(deployed, deployed) == deployed
    assert len(standing(deployed)) == len(objects(deployed))
