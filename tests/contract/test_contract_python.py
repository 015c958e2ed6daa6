"""The Python API: the public names of `otel_agentic`, and the plug-in groups with the protocols of their classes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Final

from inline_snapshot import external_file

import otel_agentic
from otel_agentic import dialects, evaluators, judges, plugins, spans, stats
from otel_agentic.commands.registry import registered

#: The class, or classes, that a plug-in of a group satisfies.
_PROTOCOLS: Final[dict[str, tuple[type, ...]]] = {
    "collectors": (spans.Collector, spans.Sink),
    "dialects": (dialects.Dialect,),
    "judges": (judges.Judge,),
    "evaluators": (evaluators.Evaluator,),
    "estimators": (stats.Estimator,),
}
#: Settings have a golden file of their own; the members of a pydantic model or an exception are not ours.
_WITHOUT_MEMBERS: Final = {"Settings", "OtelAgenticError", "Case"}


def test_the_public_names_are_the_golden_ones() -> None:
    lines = [line for name in sorted(otel_agentic.__all__) for line in _described(name, getattr(otel_agentic, name))]
    assert "\n".join([*lines, ""]) == external_file("golden/python.txt")


def test_the_plugin_protocols_are_the_golden_ones() -> None:
    lines = []
    for group in plugins.GROUPS:
        lines += [f"group otel_agentic.{group}: {', '.join(plugins.find(group))}"]
        lines += [line for protocol in _PROTOCOLS[group] for line in _described(protocol.__name__, protocol)]
    assert "\n".join([*lines, ""]) == external_file("golden/plugins.txt")


def test_the_commands_of_a_running_collector_are_the_golden_ones() -> None:
    lines = [
        f"{name}{command.signature}{', streamed' if command.streams else ''}{', role query' if command.role == 'query' else ''}"
        for name, command in sorted(registered().items())
    ]
    assert "\n".join([*lines, ""]) == external_file("golden/server_commands.txt")


def _described(name: str, value: object) -> Iterator[str]:
    """Yield the signature of a function, or of a class with its public members."""
    if not isinstance(value, type):
        yield f"{name}{_signature(value)}"
        return
    is_protocol = getattr(value, "_is_protocol", False)
    yield f"class {name}" if name in _WITHOUT_MEMBERS or is_protocol else f"class {name}{_signature(value)}"
    if name in _WITHOUT_MEMBERS:
        return
    for member in sorted({*dir(value), *inspect.get_annotations(value)}):
        if not member.startswith("_") and not hasattr(object, member):
            yield f"  .{member}{_member(inspect.getattr_static(value, member, None))}"


def _member(value: object) -> str:
    if isinstance(value, classmethod | staticmethod):
        return _signature(value.__func__)
    return _signature(value) if inspect.isfunction(value) else ""


def _signature(value: object) -> str:
    try:
        text = str(inspect.signature(value))  # type: ignore[arg-type]  # a value without a signature raises
    except (TypeError, ValueError):
        return ""
    # A default that is an object of ours is printed with its module, or with its address.
    return re.sub(r"\b(?:otel_agentic|collectors)\.[a-z_.]*\b(?=[A-Z])| at 0x[0-9a-f]+", "", text)
