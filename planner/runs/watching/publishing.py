"""What a watch writes of a plan: its run folder, with the steps that lead there from the plan before, and stages."""

from dataclasses import replace
from pathlib import Path

from planner.domain import Plan
from planner.runs import publication
from planner.runs.deployments import render_plan
from planner.runs.replanning.asking import ChangedPlan, publish_change
from planner.runs.replanning.inputs import deployed_manifests
from planner.runs.replanning.stages import FOLDER, Gates, first_stand, stage_files
from planner.runs.replanning.steps import FOLDER as STEPS
from planner.runs.replanning.steps import NOT_WRITTEN


def plan_files(plan: Plan, engine: str, gates: Gates | None) -> dict[str, bytes]:
    """Path -> content of a plan that nothing runs before; `gates`: with itself as its one stage."""
    contents = publication.publish(plan, engine=engine).files
    if gates is None:
        return contents
    written = stage_files(first_stand(plan, render_plan(plan, engine=engine).files), gates)
    return contents | {f"{FOLDER}/00/{name}": content for name, content in written.items()}


def change_files(
    changed: ChangedPlan | str, standing: Plan, folder: Path, engine: str, plan: Plan, gates: Gates | None
) -> dict[str, bytes]:
    """The same of a plan that takes the place of `standing`, whose run is in `folder`; where there are no steps, why
    not."""
    if isinstance(changed, str):
        unwritten = f"no steps were written: {changed}\n".encode()
        return plan_files(plan, engine, gates) | {f"{STEPS}/{NOT_WRITTEN}": unwritten}
    deployed = deployed_manifests(standing, folder, engine=engine)
    return publish_change(changed, deployed=deployed.files, target=deployed.target, engine=engine, gates=gates).files


def without_times(plan: Plan) -> Plan:
    """The plan without the CPU-seconds that its search took: made again, it is the same to the byte."""
    rounds = tuple(replace(row, generation_cpu_s=None, evaluation_cpu_s=None) for row in plan.search.rounds)
    return replace(plan, search=replace(plan.search, rounds=rounds))
