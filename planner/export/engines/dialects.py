"""The engines by name. A new one is a module beside `vllm` and `sglang`, and a row here."""

from collections.abc import Mapping
from types import MappingProxyType

from planner.errors import InputError
from planner.export.engines.sglang import SGLANG
from planner.export.engines.vllm import VLLM
from planner.export.seams import Engine

ENGINES: Mapping[str, Engine] = MappingProxyType({engine.name: engine for engine in (VLLM, SGLANG)})


def engine_named(name: str) -> Engine:
    """The engine called `name`.

    Raises:
        InputError: there is no such engine.
    """
    if name not in ENGINES:
        raise InputError(f"Engine {name!r}: must be one of {', '.join(ENGINES)}.", hint="Choose one of them.")
    return ENGINES[name]
