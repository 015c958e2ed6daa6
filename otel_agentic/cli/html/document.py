"""The page: what a report says, in sections, as one file that needs no other."""

from __future__ import annotations

from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.cli.html.markup import Html, markup, stranger, tag
from otel_agentic.cli.html.names import time_of
from otel_agentic.cli.html.sections import empty_state, sections
from otel_agentic.cli.html.theme import drawing
from otel_agentic.cli.report_table import NOTHING_FOUND
from otel_agentic.cli.text import plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.cli.html.markup import Child
    from otel_agentic.cli.html.names import Group

#: What a browser may load for this page: nothing, and its own style.
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def page(found: Mapping[str, Any], drawn: Mapping[str, Any], about: str) -> str:
    """Return a report as an HTML page, in ASCII.

    Args:
        found: the report, in the shape of the contract.
        drawn: what the pictures are drawn from: the answer of `report_pictures`.
        about: what time the report is about.
    """
    groups: Sequence[Group] = found["groups"]
    with drawing():
        parts = dict(sections(found, drawn)) if groups else {}
    content = [_section(name, part) for name, part in parts.items()]
    heading = _heading(groups)
    body = (
        tag("header", tag("h1", heading), tag("p", _facts(groups, drawn, about), class_="facts"), _contents(parts)),
        tag("main", *(content or [empty_state(NOTHING_FOUND)])),
        tag("footer", tag("p", f"otel-agentic {version('otel-agentic')}. All times are UTC.")),
    )
    text = f"<!DOCTYPE html>\n{tag('html', _head('Reliability report'), tag('body', *body), lang='en')}\n"
    # Signs by their numbers: whatever the encoding of the terminal, the page arrives as it is.
    return text.encode("ascii", "xmlcharrefreplace").decode("ascii")


def _head(title: str) -> Html:
    style = files("otel_agentic.cli.html").joinpath("style.css").read_text(encoding="utf-8")
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", Html(style)),
    )


def _heading(groups: Sequence[Group]) -> Html:
    agents = {group["agent"] for group in groups}
    if not agents:
        return markup("Reliability")
    of = stranger(*agents) if len(agents) == 1 and None not in agents else plural(len(agents), "agent")
    return markup(("Reliability of ", of))


def _facts(groups: Sequence[Group], drawn: Mapping[str, Any], about: str) -> Child:
    facts = [about[:1].upper() + about[1:]]
    if drawn["first_ns"] is not None:
        facts.append(f"conversations that ended from {time_of(drawn['first_ns'])} to {time_of(drawn['last_ns'])} UTC")
    if groups:
        evaluated = sum(group["n"] for group in groups)
        facts.append(f"{plural(len(groups), 'group')}, {plural(evaluated, 'evaluated conversation')}")
    return [tag("span", fact) for fact in facts]


def _contents(names: Mapping[str, Html]) -> Html | None:
    if not names:
        return None
    return tag("nav", *(tag("a", name, href=f"#{_id(name)}") for name in names), aria_label="Sections")


def _section(name: str, part: Html) -> Html:
    return tag("section", tag("h2", name), part, id=_id(name))


def _id(name: str) -> str:
    return name.lower().replace(" ", "-")
