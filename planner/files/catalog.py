"""Shipped records by name: the one bridge between the public cost functions and the files of facts."""

from functools import cache

from planner.domain import EngineProfile, GpuSpec, ModelSpec


@cache
def gpu(name: str) -> GpuSpec:
    """The shipped GPU type `name`. Raises InputError with the nearest names."""
    from planner.files import load_gpu_spec  # noqa: PLC0415  (pandas and yaml only when a name is asked for)

    return load_gpu_spec(name)


@cache
def model(name: str) -> ModelSpec:
    """The shipped model `name`. Raises InputError with the nearest names."""
    from planner.files import load_model  # noqa: PLC0415  (as above)

    return load_model(name)


@cache
def engine(name: str, version: str = "") -> EngineProfile:
    """The shipped profile of an engine, of its standard version unless one is named. Raises InputError with the nearest
    names."""
    from planner.files import load_engine  # noqa: PLC0415  (as above)

    return load_engine(name, version)
