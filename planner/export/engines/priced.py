"""The engine that a plan's manifests are for: the one it was priced for, unless another is named that may stand in."""

from dataclasses import replace

from planner.domain import EngineProfile, Plan
from planner.errors import ExportError
from planner.export.engines.dialects import engine_named
from planner.export.seams import Engine
from planner.files import catalog


def priced_engine(plan: Plan, name: str = "") -> Engine:
    """The engine called `name`, with the images of the version that the plan was priced for, else of its standard one.
    The plan's own where no name is given, and the first where the plan names none, either.

    Raises:
        InputError: there is no such engine.
        ExportError: islands have budgets and overlap of their own, which were priced for another engine.
    """
    priced = plan.scenario.engine
    engine = engine_named(name or priced.name or standard_engine())
    if priced.name == engine.name:
        return _with_images(engine, priced)
    tuned = [island.id for island in plan.islands if island.tokens_per_step or island.overlapped is not None]
    if priced.name and tuned:
        raise ExportError(
            f"Engine {engine.name}: must be {priced.name}, which the servers of {tuned[0]} were priced for.",
            hint=f"Leave --engine out, or plan again with `engine: {{name: {engine.name}}}`.",
        )
    return _with_images(engine, catalog.engine(engine.name))


def standard_engine() -> str:
    """The engine of plans that name none."""
    return catalog.engine("").name


def _with_images(engine: Engine, profile: EngineProfile) -> Engine:
    return replace(engine, images=dict(profile.images))
