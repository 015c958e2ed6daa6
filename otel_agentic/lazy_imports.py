"""Packages that import each of their public names on first use (PEP 562), so that importing the package is fast."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_imports(package: str, names: Mapping[str, str]) -> tuple[list[str], Callable[[str], Any]]:
    """Return the `__all__` and the `__getattr__` of a package.

    Type checkers do not know them: the package also imports the names `if TYPE_CHECKING`.

    Args:
        package: the package's `__name__`.
        names: the public names of each module of the package, separated by spaces.

    >>> names, _ = lazy_imports("shop", {"orders": "Order MAX_ORDERS", "tax": "tax_of Tax"})
    >>> names
    ['MAX_ORDERS', 'Order', 'Tax', 'tax_of']
    """
    modules = {name: f"{package}.{module}" for module, module_names in names.items() for name in module_names.split()}

    def attribute(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    constants_classes_functions = sorted(modules, key=lambda name: (not name.isupper(), name[:1].islower(), name))
    return constants_classes_functions, attribute
