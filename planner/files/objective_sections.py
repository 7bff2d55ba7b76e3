"""The `objective:` section of a scenario."""

from planner.domain import ObjectiveKind, ObjectiveSettings, SearchMethod, SearchSettings
from planner.errors import InputError
from planner.files.sections import Section

_NEEDS = {
    ObjectiveKind.RATE: (),
    ObjectiveKind.BUDGET: ("budget_usd_per_hour",),
    ObjectiveKind.TARGET: ("target_rps",),
    ObjectiveKind.PER_DOLLAR: (),
    ObjectiveKind.WATTS: ("target_rps",),
}
_MAY = {ObjectiveKind.PER_DOLLAR: ("target_rps",)}
_FIGURES = ("budget_usd_per_hour", "target_rps")


def read_objective(section: Section) -> ObjectiveSettings:
    """The objective with its own figure. InputError where one is missing, or belongs to another objective."""
    section.allow_only("kind", *_FIGURES)
    kind = section.choice("kind", ObjectiveKind, default=ObjectiveKind.RATE)
    for key in _FIGURES:
        if key in section and key not in (*_NEEDS[kind], *_MAY.get(kind, ())):
            raise section.fault(key, f"left out where objective.kind is {kind.value}", hint="Choose one objective.")
    figures = {
        key: section.number(key, above=0, high=1e12) for key in _FIGURES if key in _NEEDS[kind] or key in section
    }
    return ObjectiveSettings(kind=kind, **figures)


def objective_document(settings: ObjectiveSettings) -> dict[str, object]:
    """The section that `read_objective` reads back as the same settings."""
    document: dict[str, object] = {"kind": settings.kind.value}
    for key in _FIGURES:
        if getattr(settings, key):
            document[key] = getattr(settings, key)
    return document


def require_method(file: str, objective: ObjectiveSettings, search: SearchSettings) -> None:
    """InputError where the number of GPUs is to be chosen by a search that uses all of them."""
    if objective.rents and search.method is not SearchMethod.EXACT:
        raise InputError(
            f"{file}: search.method must be exact where objective.kind is {objective.kind.value}, as the other methods "
            f"use every GPU of the inventory; came {search.method.value}.",
            hint="Set search.method to exact.",
        )
