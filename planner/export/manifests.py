"""The door: a plan becomes files, and no file leaves unchecked."""

from planner.domain import Plan
from planner.export.checks import check_manifests
from planner.export.engines import engine_named
from planner.export.islands import serving_islands
from planner.export.names import ROUTING, plan_slug
from planner.export.options import ExportOptions, check_options
from planner.export.seams import Deployment
from planner.export.targets import target_named


def render(
    plan: Plan, *, target: str = "lws", engine: str = "vllm", options: ExportOptions | None = None
) -> dict[str, str]:
    """Manifests that deploy `plan`: file name -> YAML text. The same plan gives the same bytes.

    Raises:
        InputError: no such target or engine, an option, a name, a label or a model location that cannot be
            used.
        ExportError: the target or the engine cannot express an island; the message names it.
        InconsistentPlanError: the plan, or what was rendered from it, breaks an invariant.
    """
    chosen_target, chosen_engine = target_named(target), engine_named(engine)
    chosen_options = options or ExportOptions()
    check_options(chosen_options)
    name = plan_slug(chosen_options.name or plan.scenario.name, (*(island.id for island in plan.islands), ROUTING))
    deployment = Deployment(
        name=name,
        plan=plan,
        islands=serving_islands(plan, name),
        engine=chosen_engine,
        options=chosen_options,
    )
    files = chosen_target.manifests(deployment)
    check_manifests(files, plan)
    return files
