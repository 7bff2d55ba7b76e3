"""Names of a package that load on first use: what is not asked for costs nothing.

A package's `__init__` imports its public names under `if TYPE_CHECKING:`, where editors and mypy see them, and says

    if not TYPE_CHECKING:
        __getattr__, __dir__ = door(__name__)

which type checkers do not see: to them a module with a `__getattr__` would have every name there is.

Names that are also those of a module or folder of the package are imported above, as ever: importing the module would
otherwise put it in the place of the name.
"""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any


def door(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose `__init__` imports its names for type checkers alone."""
    homes: dict[str, tuple[str, str]] = {}

    def load(name: str) -> Any:
        if not homes:
            homes.update(_homes(package))
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, attribute = homes[name]
        value = getattr(import_module(module), attribute)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *vars(sys.modules[package]).get("__all__", ())})

    return load, names


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


def _homes(package: str) -> dict[str, tuple[str, str]]:
    """Name -> its module, and its name there: the imports for type checkers in the package's `__init__`."""
    spec = find_spec(package)
    assert spec is not None, "the package is being imported"
    tree = ast.parse(spec.loader.get_source(package))  # type: ignore[union-attr]
    blocks = [node.body for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [node for block in blocks for node in block if isinstance(node, ast.ImportFrom) and node.module]
    return {alias.asname or alias.name: (node.module or "", alias.name) for node in imports for alias in node.names}
