"""Manifests of plans that take turns: what runs on from one to the next is started as in the other, to the letter."""

from collections.abc import Iterator, Mapping, Sequence

from planner import export
from planner.domain import BucketPool, Plan
from planner.errors import ExportError
from planner.export.checking.carrying import engines_of, with_engines
from planner.export.found import FoundWorkload

Files = Mapping[str, str]

EngineKind = tuple[str, str, object, object, int, int, int]
"""What engines are started for: island, GPU type, phase, server, bucket and context."""


def in_turns(plans: Sequence[Plan], manifests: Sequence[Files]) -> list[dict[str, str]]:
    """Each plan's manifests (name -> text), with engines of equal servers of an island alike: those of the plan that
    gives pods the longest time at their end. A controller would start pods anew for another number of seconds.

    Manifests whose objects run several islands, and those of plans on nodes of their own, stay as they are.
    """
    if any(plan.placement is not None for plan in plans):
        return [dict(files) for files in manifests]
    try:
        engines = [engines_of(files) for files in manifests]
        patient: dict[EngineKind, FoundWorkload] = {}
        for plan, by_island in zip(plans, engines, strict=True):
            for kind in _kinds(plan):
                workload = by_island.get(kind[0])
                if workload is not None and (kind not in patient or _grace_of(workload) > _grace_of(patient[kind])):
                    patient[kind] = workload
        sources = [{kind[0]: patient[kind] for kind in _kinds(plan) if kind in patient} for plan in plans]
        return [with_engines(files, of_plan) for files, of_plan in zip(manifests, sources, strict=True)]
    except ExportError:
        return [dict(files) for files in manifests]


def _kinds(plan: Plan) -> Iterator[EngineKind]:
    pools: tuple[BucketPool, ...] = plan.outlook.pools
    for pool in pools:
        yield pool.island, pool.gpu, pool.phase, pool.server, pool.start, pool.end, pool.context


def _grace_of(workload: FoundWorkload) -> int:
    return grace_seconds(workload.manifest)


def grace_seconds(manifest: export.Manifest) -> int:
    """Seconds that the pods of an object are given at their end."""
    return max(_values(manifest.body, "terminationGracePeriodSeconds"), default=0)


def _values(node: object, key: str) -> Iterator[int]:
    """All values of a key, wherever it stands."""
    if isinstance(node, Mapping):
        for name, value in node.items():
            yield from [value] if name == key else _values(value, key)
    elif isinstance(node, list):
        for item in node:
            yield from _values(item, key)
