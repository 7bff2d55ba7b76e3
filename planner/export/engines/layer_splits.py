"""What cannot be loaded, in the words of an engine's flags (`domain.engine.layers` has the rules)."""

from collections.abc import Iterable, Iterator, Mapping

from planner.domain import EngineProfile, ModelSpec
from planner.domain.engine import Loading, Over, layer_faults
from planner.errors import ExportError
from planner.export.islands import ServingIsland

Breach = tuple[str, str]
"""What must hold, the flag first, and what came."""


def loading_faults(
    model: ModelSpec, loading: Loading, profile: EngineProfile, flag_of: Mapping[Over, str]
) -> Iterator[Breach]:
    """What of the model cannot be loaded so; `flag_of` names the flag of each degree."""
    for fault in layer_faults(model, loading, profile.layers):
        came = f"{fault.degree}, {fault.came}" if fault.came else str(fault.degree)
        yield f"--{flag_of[fault.over]} must {fault.rule}", came


def require_loadable(island: ServingIsland, engine: str, faults: Iterable[Breach], remedy: str) -> None:
    """Raises ExportError for the first of `faults`, as an engine that cannot load the model is no deployment."""
    breach = next(iter(faults), None)
    if breach is not None:
        expected, came = breach
        raise ExportError(
            f"Island {island.id}: {engine} cannot load {island.model.name} on its {island.parallel.devices} GPUs: "
            f"{expected}, got {came}.",
            hint=remedy,
        )
