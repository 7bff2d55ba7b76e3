"""The engines by name. A new one is a module beside `vllm`, and a row here."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from planner.domain import EngineProfile, Phase, Plan, ServerConfig
from planner.errors import ExportError, InputError
from planner.export.engines.seam import Engine
from planner.export.engines.sglang import SGLANG
from planner.export.engines.trtllm import TRTLLM
from planner.export.engines.vllm import VLLM
from planner.files import catalog

ENGINES: Mapping[str, Engine] = MappingProxyType({engine.name: engine for engine in (VLLM, SGLANG, TRTLLM)})


def engine_named(name: str) -> Engine:
    """The engine called `name`.

    Raises:
        InputError: there is no such engine.
    """
    if name not in ENGINES:
        raise InputError(f"Engine {name!r}: must be one of {', '.join(ENGINES)}.", hint="Choose one of them.")
    return ENGINES[name]


def read_server(engine: str, arguments: Sequence[str], phase: Phase) -> ServerConfig:
    """What a command line of the engine starts: the degrees, budget, batch and overlap of one copy of the model.

    Raises:
        InputError: there is no such engine; a flag in another form than the planner writes, given twice, or without a
            number of its own; or attention groups that do not share out their stage.
    """
    return engine_named(engine).read_server(arguments, phase)


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
