"""HTML that is safe by construction: text is escaped wherever it goes in, only `Html` is taken as it is."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Final

from otel_agentic.cli.render.text import printable, safe

if TYPE_CHECKING:
    from collections.abc import Iterable

if TYPE_CHECKING:
    Child = str | int | None | Iterable["Child"]

#: Elements that have no content and no end tag.
_VOID: Final = frozenset({"meta", "link", "br", "hr"})
#: A stretch of a word that stays on one line: up to a blank or a sign that joins words, and no longer than this.
_PIECE: Final = re.compile(r"[^-_/:@ ]{0,17}[-_/:@ ]+|[^-_/:@ ]{1,18}")
#: A name of a stranger is cut after so many characters; the whole of it is in the report as JSON.
NAME_LIMIT: Final = 80


class Html(str):
    """Markup that was made here. Any other text is a stranger's."""

    __slots__ = ()


def tag(name: str, /, *children: Child, **attributes: str | int | bool | None) -> Html:
    """Return an element; text in it and in its attributes is escaped, None is left out.

    Attribute names are written with `_` for `-`, and end with `_` where they are words of Python.

    >>> tag("p", "1 < 2 ", tag("b", "now"), class_="x", data_of='"')
    '<p class="x" data-of="&quot;">1 &lt; 2 <b>now</b></p>'
    """
    told = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Html(f"<{name}{told}>")
    return Html(f"<{name}{told}>{markup(children)}</{name}>")


def markup(child: Child) -> Html:
    """Return content as markup: text escaped, `Html` as it is, several one after the other."""
    if isinstance(child, Html):
        return child
    if child is None:
        return Html("")
    if isinstance(child, (str, int)):
        return Html(escape(printable(str(child))))
    return Html("".join(markup(each) for each in child))


def stranger(value: object, limit: int = NAME_LIMIT) -> Html:
    """Return a stranger's word as an element of its own: cut when it is long, and written in its own direction.

    It may break into lines after signs that join words, and anywhere where it has none for long.

    >>> stranger("look_up<b"), stranger("x" * 9, limit=4)
    ('<bdi>look_<wbr>up&lt;b</bdi>', '<bdi title="xxxxxxxxx">xxx…</bdi>')
    """
    text = " ".join(safe(value).split())
    if len(text) <= limit:
        return tag("bdi", breakable(text))
    return tag("bdi", breakable(text[: limit - 1] + "…"), title=text[: 10 * limit])


def breakable(text: str) -> Html:
    """Return text in which long words may break into lines; a blank is a place to break already."""
    return Html("<wbr>".join(markup(piece) for piece in _PIECE.findall(text)).replace(" <wbr>", " "))


def _attribute(key: str, value: str | int | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = key.removesuffix("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(printable(str(value)))}"'
