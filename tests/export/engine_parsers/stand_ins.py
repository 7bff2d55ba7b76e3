"""What engines import that needs a GPU, or that no parser asks: stood in for, so that their parsers run without it.

A stand-in takes any attribute and any call. Only what `names` lists is stood in for, and only where it is not
installed: whatever else is missing ends the import with its own name.
"""

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import pydantic


class StandIn(MagicMock):
    """A module, a class or a function of it. As a decorator it leaves what it decorates alone."""

    def _get_child_mock(self, **keys: Any) -> MagicMock:
        return MagicMock(**keys)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The last of all finders."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)

    def find_spec(self, name: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        """A spec where the name, or a package around it, is to be stood in for."""
        if not any(name == known or name.startswith(f"{known}.") for known in self.names):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """A mock that looks like a package."""
        module = StandIn(name=spec.name)
        module.__name__, module.__path__, module.__spec__, module.__version__ = spec.name, [], spec, "9.9.9"
        module.__file__ = f"<stand-in of {spec.name}>"
        if spec.name == "xgrammar":  # pydantic validates a field of this type
            module.StructuralTag = pydantic.create_model("StructuralTag")
        if spec.name == "tvm_ffi":  # classes derive from it
            module.Object = type("Object", (), {})
        return module  # type: ignore[return-value]

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: the mock is there already."""


def stand_in(names: Iterable[str]) -> None:
    """From now on the modules `names` and all below them import."""
    sys.meta_path.append(Finder(names))
