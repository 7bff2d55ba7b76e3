"""Names of a package that load on first use (PEP 562): what is not asked for costs nothing.

A package's `__init__` imports its public names under `if TYPE_CHECKING:`, where editors and mypy see them, and says

    if not TYPE_CHECKING:
        __getattr__, __dir__ = door(__name__, _HOMES)

which type checkers do not see: to them a module with a `__getattr__` would have every name there is. Few packages are
worth it, those of which a plan needs little; a test holds that both lists are the same.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


def door(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package. `homes`: module -> those of its names that are the package's too."""
    home_of = {name: module for module, names in homes.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted({*vars(sys.modules[package]), *home_of})


class _CallablePackage(ModuleType):
    """A package whose name is also that of a function for notebooks: `planner.workload(...)`."""

    home: str

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Calls the function of the package's name in its `home`, which the package itself does not know."""
        return getattr(import_module(self.home), self.__name__.rpartition(".")[2])(*arguments, **options)


def make_callable(package: str, home: str) -> None:
    """Let a package be called as the function of its name in the module `home`, loaded with the first call."""
    module = sys.modules[package]
    module.__class__ = _CallablePackage
    assert isinstance(module, _CallablePackage)
    module.home = home
