"""A matplotlib figure as an inline SVG: small, accessible, and in the colours and the font of the page."""

from __future__ import annotations

import re
from io import StringIO
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

from otel_agentic.cli.html.markup import Html, markup
from otel_agentic.cli.html.theme import BAND, MARKS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAMESPACE: Final = re.compile(r"\{[^}]*\}")
_FONT: Final = re.compile(r"font-family: [^;]*;? ?")
_LONG: Final = re.compile(r"(\d+\.\d)\d{2,}")
_REFERENCE: Final = re.compile(r"#([mp][0-9a-f]{10})")
_NO_TURN: Final = re.compile(r"rotate\(-?0(\.0)? .*")
_COLOURS: Final = re.compile("|".join(MARKS.values()))
_ROLES: Final = {mark: f"var(--{role})" for role, mark in MARKS.items()}
_BAND: Final = f"fill-opacity: {BAND:g}"
_WHOLE: Final = re.compile(r"\s+")


def inline_svg(figure: Figure, *, name: str, title: str, description: str, extra: str = "") -> Html:
    """Return a figure as an `svg` element for a page.

    Args:
        figure: drawn in the marks of `theme.MARKS`, without any text of strangers.
        name: unique in the page; ids in the drawing begin with it.
        title: what it shows, in a few words; for those who do not see it.
        description: what is to be seen, in a sentence.
        extra: a class of the element beside `plot`.
    """
    from matplotlib.backends.backend_svg import FigureCanvasSVG  # noqa: PLC0415 — only pictures pay for it

    text = StringIO()
    FigureCanvasSVG(figure).print_svg(  # type: ignore[no-untyped-call]
        text, metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
    )
    root = ET.fromstring(text.getvalue())  # noqa: S314 — our own drawing, made a line ago
    _clean(root, name)
    view = root.get("viewBox", "")
    inner = "".join(ET.tostring(child, encoding="unicode") for child in root)
    told = Html(f'<title id="{name}-t">{markup(title)}</title><desc id="{name}-d">{markup(description)}</desc>{inner}')
    classes = f"plot {extra}".strip()
    return Html(
        f'<svg class="{classes}" role="img" aria-labelledby="{name}-t {name}-d" viewBox="{view}">{_coloured(told)}</svg>'
    )


def _clean(root: ET.Element, name: str) -> None:
    """Take out what a page has no use for, and give ids that no other drawing of the page has."""
    for parent in list(root.iter()):
        for child in list(parent):
            if _local(child) in {"metadata", "style"}:
                parent.remove(child)
    for element in root.iter():
        element.tag = _local(element)
        for key, value in list(element.attrib.items()):
            del element.attrib[key]
            kept = _attribute(element.tag, _NAMESPACE.sub("", key), value, name)
            if kept is not None:
                element.set(_NAMESPACE.sub("", key), kept)
    for element in root.iter():
        element.tail = None
        if element.tag != "text":
            element.text = None


def _attribute(element: str, key: str, value: str, name: str) -> str | None:
    """Return the value that an attribute has in a page, None for one that it has no use for."""
    if key == "id":
        # Groups are named, too, but nothing refers to them.
        return f"{name}-{value}" if _REFERENCE.fullmatch(f"#{value}") else None
    if key == "transform" and _NO_TURN.fullmatch(value):
        return None
    if key == "style":
        return _FONT.sub("", value).strip("; ") or None
    if key in {"href", "clip-path"}:
        return _REFERENCE.sub(rf"#{name}-\1", value)
    if key == "d":
        return _WHOLE.sub(" ", _LONG.sub(r"\1", value)).strip()
    return _LONG.sub(r"\1", value) if element != "svg" else value


def _coloured(text: str) -> str:
    return _COLOURS.sub(lambda found: _ROLES[found.group()], text.replace(_BAND, "fill-opacity: var(--band)"))


def _local(element: ET.Element) -> str:
    return _NAMESPACE.sub("", str(element.tag))
