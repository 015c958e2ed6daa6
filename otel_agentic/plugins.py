"""Finds plug-ins by entry point; built-in and third-party plug-ins use the same groups."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, EntryPoint, entry_points
from typing import Any, Literal, get_args

from otel_agentic.errors import PluginError

Group = Literal["collectors", "dialects", "judges", "evaluators", "estimators"]
GROUPS: tuple[Group, ...] = get_args(Group)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """A plug-in of an installed distribution."""

    group: Group
    name: str
    value: str
    distribution: str
    version: str
    _entry_point: EntryPoint

    def load(self) -> Any:
        """Return the object that the entry point refers to.

        Raises:
            PluginError: the import failed; the message contains plug-in, distribution and reason.
        """
        try:
            return self._entry_point.load()
        except Exception as error:
            raise PluginError(
                f"{self.group} plug-in {self.name!r} of {self.distribution} {self.version} does not load "
                f"({self.value}): {type(error).__name__}: {error}{self._location(error)}"
            ) from error

    def _location(self, error: Exception) -> str:
        """Return where the package was loaded from if a module of it is missing: another package may have its name."""
        name = self.value.partition(":")[0].partition(".")[0]
        folders = list(getattr(sys.modules.get(name), "__path__", ()))
        missing = error.name or "" if isinstance(error, ModuleNotFoundError) else ""
        if not folders or not missing.startswith(f"{name}."):
            return ""
        return (
            f"; the package {name!r} was loaded from {folders[0]}: if it is another package with this name, remove its parent "
            "folder from PYTHONPATH, or run the command in another folder"
        )


@cache
def find(group: Group) -> dict[str, Plugin]:
    """Return the plug-ins of a group by name, sorted.

    Raises:
        PluginError: two distributions offer the same name; the message contains both.
    """
    plugins: dict[str, Plugin] = {}
    for point in entry_points(group=f"otel_agentic.{group}"):
        plugin = _plugin_of(group, point)
        existing = plugins.get(plugin.name)
        if existing is not None and existing.value == plugin.value and existing.distribution == plugin.distribution:
            continue  # the same distribution twice on sys.path (an editable install and a wheel)
        if existing is not None:
            raise PluginError(
                f"{group} plug-in {plugin.name!r} is offered by {existing.distribution} and by {plugin.distribution}; "
                "uninstall one of them"
            )
        plugins[plugin.name] = plugin
    return dict(sorted(plugins.items()))


def get(group: Group, name: str) -> Plugin:
    """Return one plug-in.

    Raises:
            PluginError: the plug-in is not installed; the message lists the installed ones.
    """
    plugins = find(group)
    if name not in plugins:
        raise PluginError(f"no {group} plug-in {name!r}; installed: {', '.join(plugins) or 'none'}")
    return plugins[name]


def _plugin_of(group: Group, point: EntryPoint) -> Plugin:
    distribution, version = _release_of(point.dist)
    return Plugin(
        group=group,
        name=point.name,
        value=point.value,
        distribution=distribution,
        version=version,
        _entry_point=point,
    )


@cache
def _release_of(distribution: Distribution | None) -> tuple[str, str]:
    """Return the name and the version of a distribution, which parses all its metadata for each of them."""
    return (distribution.name, distribution.version) if distribution else ("unknown", "unknown")
