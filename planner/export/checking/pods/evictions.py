"""Evictions beside the manifests: those of the plan's placement, in its order."""

from collections.abc import Iterator, Sequence

from planner.errors import PlannerError
from planner.export.checking.expectation import Expectation
from planner.export.found import Fault, Manifest
from planner.export.objects.evictions.victims import FILE, KIND, Eviction, evictions_of


def eviction_faults(manifests: Sequence[Manifest], expected: Expectation) -> Iterator[Fault]:
    """A script that is missing, or evicts others than the plan does, or in another order; nothing without a plan."""
    if expected.planned is None:
        return
    wanted, scripts = _wanted(expected), [manifest for manifest in manifests if manifest.kind == KIND]
    if wanted and not scripts:
        yield Fault(where=FILE, expected=f"must evict the {len(wanted)} victims of the plan", got="no such file")
    for manifest in scripts:
        scripted = [(row["namespace"], row["pod"], row["node"]) for row in manifest.body["evictions"]]
        for number, (came, eviction) in enumerate(zip(scripted, wanted, strict=False), start=1):
            if came != eviction:
                yield manifest.fault(
                    f"eviction {number}", f"must be `{_words(eviction)}`, as in the plan", _words(came)
                )
                return
        if len(scripted) != len(wanted):
            yield manifest.fault("evictions", f"must be the {len(wanted)} of the plan", len(scripted))


def _wanted(expected: Expectation) -> tuple[Eviction, ...]:
    """A plan whose victims have no names to evict them by cannot be exported: the export reports that."""
    placement = expected.planned.placement if expected.planned else None
    try:
        return evictions_of(placement) if placement else ()
    except PlannerError:
        return ()


def _words(eviction: Eviction) -> str:
    return " ".join(eviction)
